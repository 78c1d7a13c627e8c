"""Reading windows of many files at once."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from . import _tiffjet
from ._files import is_remote, name_file
from ._tiffjet import Image, Tensor

# Files that are opened at the same time.
_MOST_WAITING = 32


def read_many(windows: Iterable[tuple[Any, Any]], *, bands: Any = None, level: int = 0, device: Any = "auto",
              pad: Any = None, on_error: str = "raise", limits: Mapping[str, int] | None = None,
              storage_options: Mapping[str, Any] | None = None) -> Tensor:
    """Reads windows of one shape from many files in one batch: a `Tensor` with axes (n, band, y, x).

    Parameters
    ----------
    windows
        Pairs of a source (as for `open`, or an open `Image`) and a window `((y0, y1), (x0, x1))`, or None for the
        whole image.
    bands
        Bands, counted from 1; all of them by default.
    level
        Overview level, 0 is full size.
    device
        `"auto"` (a GPU where one can be used, else the CPU), `"cpu"`, `"cuda"`, `"cuda:N"` or N.
    pad
        A value for pixels of windows that hang over an edge. Without it that is an error.
    on_error
        `"raise"`, or `"fill"`: a window that can't be read gets `pad` (or 0), and `report.failures` says why.
    limits, storage_options
        As for `open`. Remote files are opened many at once, each of them once.

    Examples
    --------
    >>> import numpy, tiffjet
    >>> written = tiffjet.to_geotiff(numpy.arange(100, dtype="uint8").reshape(10, 10), "hundred.tif")
    >>> batch = tiffjet.read_many([("hundred.tif", ((0, 2), (0, 2))), ("hundred.tif", ((9, 11), (8, 10)))], pad=255)
    >>> batch.shape
    (2, 1, 2, 2)
    >>> numpy.asarray(batch)[1, 0]
    array([[ 98,  99],
           [255, 255]], dtype=uint8)
    """
    if on_error not in ("raise", "fill"):
        raise ValueError(f"on_error: {on_error!r} is neither raise nor fill")
    fill = on_error == "fill"
    if bands is not None:
        bands = _bands(bands)
    wanted = [(src, window) for src, window in windows]
    options = {"limits": limits, "storage_options": storage_options}
    items = []
    for (_, window), opened in zip(wanted, _open_all([src for src, _ in wanted], options)):
        try:
            image: Any = opened.result()
        except (OSError, ValueError, NotImplementedError) as error:
            if not fill or window is None:
                raise
            image = str(error)
        if window is None:
            _, height, width = image.levels[level].shape
            window = ((0, height), (0, width))
        items.append((image, _rectangle(window)))
    if not items:
        raise ValueError("read_many: no window is asked for")
    return _tiffjet._read_many(items, bands, level, device, pad, fill)


def _open_all(sources: list[Any], options: dict[str, Any]) -> list[Future[Image]]:
    """Images to come, one for each file: remote ones are opened many at once, for they wait; the others here."""
    opened: dict[Any, Future[Image]] = {}
    far = [src for src in sources if is_remote(src)]
    with ThreadPoolExecutor(max(1, min(len(far), _MOST_WAITING))) as threads:
        for src in far:
            key = _key(src)
            if key not in opened:
                opened[key] = threads.submit(lambda src=src: name_file(src, **options).image())
    for src in sources:
        # What windows of one file share is decoded once: they must have one image.
        if _key(src) not in opened:
            opened[_key(src)] = _opened(src, options)
    return [opened[_key(src)] for src in sources]


def _key(src: Any) -> Any:
    """The same for the same file: stores need not be hashable."""
    return src if isinstance(src, str) else (id(src[0]), str(src[1])) if isinstance(src, tuple) else id(src)


def _opened(src: Any, options: dict[str, Any]) -> Future[Image]:
    future: Future[Image] = Future()
    try:
        future.set_result(src if isinstance(src, Image) else name_file(src, **options).image())
    except Exception as error:
        future.set_exception(error)
    return future


def _bands(bands: Any) -> list[int]:
    listed = list(bands) if isinstance(bands, Iterable) else [bands]
    if not listed:
        raise ValueError("bands: none are asked for")
    numbers = [operator.index(band) for band in listed]
    for band in numbers:
        if not 1 <= band <= 65535:
            raise IndexError(f"bands: there is no band {band}, they are counted from 1")
    return numbers


def _rectangle(window: Any) -> tuple[int, int, int, int]:
    """Row, column, height and width of a window that may hang over."""
    if hasattr(window, "row_off"):
        return _whole(window.row_off), _whole(window.col_off), _whole(window.height), _whole(window.width)
    (top, bottom), (left, right) = (_ends(side) for side in window)
    if bottom < top or right < left:
        raise ValueError(f"window: {window} ends before it begins")
    return top, left, bottom - top, right - left


def _ends(side: Any) -> tuple[int, int]:
    if isinstance(side, slice):
        if side.start is None or side.stop is None or side.step not in (None, 1):
            raise ValueError("window: slices have both ends here, and no step")
        return _whole(side.start), _whole(side.stop)
    start, stop = side
    return _whole(start), _whole(stop)


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"window: {value} is no whole number of pixels")
    return int(value)
