"""Files: opening them, and naming them so that other processes open the same."""

import logging
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from . import _tiffjet
from ._tiffjet import Image

logger = logging.getLogger("tiffjet")

# Images that stay open in a process: enough for a mosaic, few enough for every limit on open files.
_MOST_OPEN = 128


def open(src: Any, *, page: int = 0, limits: dict[str, int] | None = None, sidecars: bool = True,
         storage_options: dict[str, Any] | None = None) -> Image:
    """Opens a TIFF; only its header is read.

    Parameters
    ----------
    src
        A path, the bytes of a file, or a binary file object with `read` and `seek` (of fsspec, obstore, ...).
    page
        Which image of a file with several.
    limits
        What the file may ask for, by name: `output_bytes`, `tile_bytes`, `value_bytes`, `directories`, `fields`,
        `levels`, `sidecar_bytes`.
    sidecars
        Look for `.ovr`, `.msk`, `.aux.xml` and world files beside it.
    storage_options
        For remote files, which are not built yet.

    Examples
    --------
    >>> import numpy, tiffjet
    >>> written = tiffjet.to_geotiff(numpy.ones((20, 30), "uint8"), "ones.tif")
    >>> tiffjet.open("ones.tif")
    Image("ones.tif", shape=(1, 20, 30), dtype=uint8, zstd)
    """
    if not hasattr(src, "read") and not hasattr(src, "__fspath__") and hasattr(src, "open"):
        src = src.open()  # fsspec's OpenFile
    image = _tiffjet.open(src, page=page, limits=limits, sidecars=sidecars)
    for warning in image.warnings:
        logger.warning("%s: %s", image.name, warning)
    return image


@dataclass(frozen=True)
class File:
    """A local file as it was when it was opened: small, and the same in every process."""

    path: str
    page: int
    limits: tuple[tuple[str, int], ...]
    sidecars: bool
    version: tuple[Any, ...]

    def image(self) -> Image:
        """The open image: its header is parsed once in a process."""
        return _images.get(self)


@dataclass(frozen=True)
class Held:
    """An open image of something that has no path."""

    held: Image

    def image(self) -> Image:
        return self.held


def name_file(src: Any, *, page: int = 0, limits: dict[str, int] | None = None, sidecars: bool = True,
              storage_options: dict[str, Any] | None = None) -> File | Held:
    """Opens a file and gives its name for other processes."""
    if isinstance(src, Image):
        return Held(src)
    image = open(src, page=page, limits=limits, sidecars=sidecars, storage_options=storage_options)
    if not isinstance(src, str) and not hasattr(src, "__fspath__"):
        return Held(image)
    path = os.path.abspath(os.fsdecode(os.fspath(src)))
    file = File(path, page, tuple(sorted((limits or {}).items())), sidecars, image.version)
    _images.put(file, image)
    return file


class _Images:
    """Open images by file, the least used one goes first. Threads that ask for one at once share its opening."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[File, Future[Image]] = OrderedDict()

    def put(self, file: File, image: Image) -> None:
        future: Future[Image] = Future()
        future.set_result(image)
        with self._lock:
            self._keep(file, future)

    def get(self, file: File) -> Image:
        with self._lock:
            future = self._open.get(file)
            mine = future is None
            if future is None:
                future = Future()
                self._keep(file, future)
            else:
                self._open.move_to_end(file)
        if mine:
            try:
                arguments = (file.path, file.page, dict(file.limits), file.sidecars, file.version)
                future.set_result(_tiffjet._reopen(*arguments))
            except BaseException as error:
                future.set_exception(error)
                with self._lock:
                    self._open.pop(file, None)
        return future.result()

    def _keep(self, file: File, future: "Future[Image]") -> None:
        self._open[file] = future
        self._open.move_to_end(file)
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)

    def forget(self) -> None:
        """In a fork: whoever was opening a file or held the lock is not there."""
        self.__init__()  # type: ignore[misc]


_images = _Images()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_images.forget)
