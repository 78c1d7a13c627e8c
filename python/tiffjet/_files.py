"""Files: opening them, and naming them so that other processes open the same."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from . import _tiffjet
from ._objects import Ranges, flat_options, source
from ._tiffjet import Image

logger = logging.getLogger("tiffjet")

# Images that stay open in a process: enough for a mosaic, few enough for every limit on open files.
_MOST_OPEN = 128


def open(src: Any, *, page: int = 0, limits: Mapping[str, int] | None = None, sidecars: bool = True,
         storage_options: Mapping[str, Any] | None = None) -> Image:
    """Opens a TIFF; only its header is read.

    Parameters
    ----------
    src
        A path; a URL (`http`, `https`, `s3`, `gs`, `az`); the bytes of a file; a file of fsspec (`fsspec.open(...)`, or
        one that is open); a file system of fsspec or a store of obstore with a path, as a pair; any other binary file
        object with `read` and `seek`.
    page
        Which image of a file with several.
    limits
        What the file may ask for, by name: `output_bytes`, `tile_bytes`, `value_bytes`, `directories`, `fields`,
        `levels`, `sidecar_bytes`; and `private_hosts`: False refuses URLs, and redirects, that lead to addresses of
        this machine or its network.
    sidecars
        Look for `.ovr`, `.msk`, `.aux.xml` and world files beside it; not over the network.
    storage_options
        For URLs: `region`, `endpoint`, `anonymous`, `key`, `secret`, `token`, `account_name`, ... What is not given comes
        from the environment and the profile files, as other tools have it.

    Examples
    --------
    >>> import numpy, tiffjet
    >>> written = tiffjet.to_geotiff(numpy.ones((20, 30), "uint8"), "ones.tif")
    >>> tiffjet.open("ones.tif")
    Image("ones.tif", shape=(1, 20, 30), dtype=uint8, zstd)
    """
    return _open(source(src), page, dict(limits or {}), sidecars, flat_options(storage_options))


def _open(src: Any, page: int, limits: dict[str, int], sidecars: bool, options: tuple[tuple[str, str], ...]) -> Image:
    image = _tiffjet.open(src, page=page, limits=limits, sidecars=sidecars, storage_options=options)
    for warning in image.warnings:
        logger.warning("%s: %s", image.name, warning)
    return image


def validate(src: Any, *, storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What breaks the rules of TIFF, GeoTIFF and COG, and at which byte, as `tiffjet validate --json` says it."""
    return _tiffjet._validate(source(src), flat_options(storage_options))


@dataclass(frozen=True)
class File:
    """A file as it was when it was opened: small, and the same in every process.

    Of credentials it has those that were given with it, and no others: each process has its own environment.
    """

    place: str | Ranges  # an absolute path, a URL, or a file in a store of another library
    page: int
    limits: tuple[tuple[str, int], ...]
    sidecars: bool
    version: tuple[Any, ...]
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def image(self) -> Image:
        """The open image: its header is parsed once in a process."""
        return _images.get(self)


@dataclass(frozen=True)
class Held:
    """An open image of something that has no name for others."""

    held: Image

    def image(self) -> Image:
        return self.held


def name_file(src: Any, *, page: int = 0, limits: Mapping[str, int] | None = None, sidecars: bool = True,
              storage_options: Mapping[str, Any] | None = None) -> File | Held:
    """Opens a file and gives its name for other processes."""
    if isinstance(src, (File, Held)):
        return src
    if isinstance(src, Image):
        return Held(src)
    src = source(src)
    options = flat_options(storage_options)
    image = _open(src, page, dict(limits or {}), sidecars, options)
    place = _place(src)
    if place is None:
        return Held(image)
    file = File(place, page, tuple(sorted((limits or {}).items())), sidecars, image.version, options)
    _images.put(file, image)
    return file


def is_remote(src: Any) -> bool:
    """Whether opening it takes a way through the network."""
    return isinstance(src, (Ranges, tuple)) or (isinstance(src, str) and "://" in src and not src.startswith("file:"))


def _place(src: Any) -> str | Ranges | None:
    """What names it in every process; None for bytes and file objects."""
    if isinstance(src, Ranges):
        return src
    if not isinstance(src, str) and not hasattr(src, "__fspath__"):
        return None
    path = os.fsdecode(os.fspath(src))
    return path if "://" in path else os.path.abspath(path)


class Images:
    """Open images by file, the least used one goes first. Threads that ask for one at once share its opening."""

    def __init__(self, most: int = _MOST_OPEN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._open: OrderedDict[File, Future[Image]] = OrderedDict()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

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
                arguments = (file.place, file.page, dict(file.limits), file.sidecars, file.version)
                future.set_result(_tiffjet._reopen(*arguments, file.storage_options))
            except BaseException as error:
                future.set_exception(error)
                with self._lock:
                    self._open.pop(file, None)
        return future.result()

    def _keep(self, file: File, future: "Future[Image]") -> None:
        self._open[file] = future
        self._open.move_to_end(file)
        while len(self._open) > self._most:
            self._open.popitem(last=False)

    def forget(self) -> None:
        """In a fork: whoever was opening a file or held the lock is not there."""
        self._lock = threading.Lock()
        self._open = OrderedDict()


_images = Images()
