"""GDAL through rasterio: the GTiff and the LIBERTIFF driver."""

import numpy as np
import rasterio
from rasterio.windows import Window

from .adapter import Adapter, Buffer


class Gdal(Adapter):
    def __init__(self, driver, threads):
        self.driver = driver or None
        self.options = {"NUM_THREADS": threads} if threads else {}
        self.buffer = Buffer()
        # One environment for the life of the process, or rasterio makes one for every call.
        self.env = rasterio.Env()
        self.env.__enter__()
        if driver and driver not in self.env.drivers():
            raise SystemExit(f"GDAL {rasterio.__gdal_version__} has no driver {driver}")

    def versions(self):
        return {"rasterio": rasterio.__version__, "GDAL": rasterio.__gdal_version__}

    def read(self, path):
        with rasterio.open(path, driver=self.driver, **self.options) as dataset:
            return dataset.read(out=self.buffer.array((dataset.count, *dataset.shape), dataset.dtypes[0]))

    def open(self, path):
        dataset = rasterio.open(path, driver=self.driver, **self.options)
        _ = dataset.shape, dataset.dtypes, dataset.transform
        return dataset

    def close(self, handle):
        handle.close()

    def window(self, handle, row, col, side):
        out = self.buffer.array((handle.count, side, side), np.dtype(handle.dtypes[0]))
        return handle.read(window=Window(col, row, side, side), out=out)


def adapter(driver, threads):
    return Gdal(driver, threads)
