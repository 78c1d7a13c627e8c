"""Reading windows of many files at once."""

import operator
from collections.abc import Iterable
from typing import Any

from . import _tiffjet
from ._files import name_file
from ._tiffjet import Image, Tensor


def read_many(windows: Iterable[tuple[Any, Any]], *, bands: Any = None, level: int = 0, device: Any = "auto",
              pad: Any = None, on_error: str = "raise") -> Tensor:
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
    pad
        A value for pixels of windows that hang over an edge. Without it that is an error.
    on_error
        `"raise"`, or `"fill"`: a window that can't be read gets `pad` (or 0), and `report.failures` says why.

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
    items = []
    for src, window in windows:
        try:
            image: Any = src if isinstance(src, Image) else name_file(src).image()
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
