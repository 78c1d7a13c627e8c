"""async-geotiff over obstore's local files."""

import asyncio
from importlib.metadata import version
from pathlib import Path

from async_geotiff import GeoTIFF, Window
from obstore.store import LocalStore

from .adapter import Adapter


class AsyncGeotiff(Adapter):
    def __init__(self):
        self.loop = asyncio.new_event_loop()

    def versions(self):
        return {name: version(name) for name in ("async-geotiff", "async-tiff", "obstore")}

    async def _open(self, path):
        path = Path(path)
        tiff = await GeoTIFF.open(path.name, store=LocalStore(path.parent))
        _ = tiff.shape, tiff.dtype, tiff.transform
        return tiff

    async def _read(self, path):
        return (await (await self._open(path)).read()).data

    async def _window(self, handle, row, col, side):
        return (await handle.read(window=Window(col_off=col, row_off=row, width=side, height=side))).data

    def read(self, path):
        return self.loop.run_until_complete(self._read(path))

    def open(self, path):
        return self.loop.run_until_complete(self._open(path))

    def window(self, handle, row, col, side):
        return self.loop.run_until_complete(self._window(handle, row, col, side))


def adapter():
    return AsyncGeotiff()
