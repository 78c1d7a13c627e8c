"""Many files as one array: `open_mosaic` over files on one grid, or over a virtual raster of GDAL.

A mosaic is a list of layers, painted in order. A chunk reads those that touch it, and its task holds those alone.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy
import xarray

from . import _vrt
from ._files import File, Held, name_file
from ._read import _bands
from ._tiffjet import Crs, Image
from ._vrt import Layer
from .xarray import Pixels, _array, _as_pixel, _bbox_window, _cupy, _data_array, _empty, _wants_cuda, on_device_of

__all__ = ["Mosaic", "open_mosaic"]

# Files that are opened at the same time.
_OPENERS = 16
# Pixels by which files may be off the grid: what is lost in the digits of a transform.
_OFF_GRID = 0.01

_OVERLAPS = ("first_valid", "last_valid", "first", "last")


@dataclass(frozen=True)
class Described:
    """What `Image.levels` tells of its one level."""

    shape: tuple[int, int, int]
    tile: tuple[int, int]
    transform: tuple[float, ...] | None
    level: int = 0
    has_mask: bool = False


@dataclass(frozen=True, eq=False)
class Mosaic:
    """Layers of files, in the words of `Image`: what xarray's side asks of an image, it can ask of this.

    It is small data, the same in every process.
    """

    name: str
    shape: tuple[int, int, int]
    dtype: numpy.dtype
    layers: tuple[Layer, ...]
    background: tuple[float | int, ...]
    transform: tuple[float, ...] | None
    crs: Crs | None
    tile: tuple[int, int]
    nodata_values: tuple[Any, ...]
    scales: tuple[float, ...]
    offsets: tuple[float, ...]
    descriptions: tuple[str | None, ...]
    units: tuple[str | None, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    band_metadata: tuple[Any, ...] = ()
    # Files that are not there are holes rather than errors.
    holes: bool = False
    limits: tuple[tuple[str, int], ...] = ()
    storage_options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    gcps = ()
    gcp_crs = None
    alpha_band = None
    tags: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def sample_type(self) -> str:
        return str(self.dtype)

    @property
    def levels(self) -> list[Described]:
        return [Described(self.shape, self.tile, self.transform)]

    def image(self) -> Mosaic:
        """As files are asked for theirs."""
        return self

    def token(self) -> tuple[Any, ...]:
        """What tells it from all others; files that have changed are other files."""
        layers = [(_identity(layer.place), layer) for layer in self.layers]
        return (self.shape, str(self.dtype), layers, self.background)

    def cut(self, window: tuple[tuple[int, int], tuple[int, int]]) -> Mosaic:
        """The same with the layers alone that some pixels need."""
        return dataclasses.replace(self, layers=tuple(self._touching(window)))

    def _touching(self, window: Any) -> list[Layer]:
        """Layers with pixels in a window, the lowest first; not those below one that hides them all."""
        touching: list[Layer] = []
        for layer in reversed(self.layers):
            inside = _common(layer, window)
            if inside is None:
                continue
            touching.append(layer)
            covers = inside == window and len(layer.bands) == self.shape[0] and not self.holes
            if covers and layer.is_opaque:
                break
        return touching[::-1]

    def read(self, window: Any, bands: Sequence[int], level: int = 0, device: Any = "auto", *, fallback: str = "allow",
             io: str = "auto") -> Any:
        """Reads and paints: an array of axes (band, y, x)."""
        (y0, y1), (x0, x1) = window
        out: Any = None
        layers = self._touching(window)
        for layer in layers:
            inside = _common(layer, window)
            chosen = [(bands.index(to), source, nodata) for (to, source), nodata in zip(layer.bands, layer.nodata)
                      if to in bands]
            if inside is None or not chosen:
                continue
            image = self._open(layer)
            if image is None:
                continue
            pixels, outside = self._pixels(image, layer, inside, chosen, (device, fallback, io))
            with on_device_of(pixels):
                alone = len(chosen) == len(bands) and [index for index, _, _ in chosen] == list(range(len(bands)))
                if out is None and outside is None and alone and inside == window and layer is layers[-1]:
                    return pixels  # nothing is below or above
                out = self._blank(bands, (y1 - y0, x1 - x0), pixels) if out is None else out
                (top, bottom), (left, right) = inside
                part = out[:, top - y0 : bottom - y0, left - x0 : right - x0]
                for place, (index, _, _) in enumerate(chosen):
                    if outside is None:
                        part[index] = pixels[place]
                    else:
                        valid = ~outside[place]
                        part[index][valid] = pixels[place][valid]
        # Nothing is there: an array of the kind that other chunks have.
        return self._blank(bands, (y1 - y0, x1 - x0), _kind(device)) if out is None else out

    def _blank(self, bands: Sequence[int], size: tuple[int, int], like: Any) -> Any:
        """Nothing painted yet: what GDAL has where no source is."""
        out = _module(like).zeros((len(bands), *size), self.dtype)
        for index, band in enumerate(bands):
            if self.background[band - 1] != 0:
                out[index] = self.dtype.type(self.background[band - 1])
        return out

    def _open(self, layer: Layer) -> Image | None:
        if isinstance(layer.place, (File, Held)):
            return layer.place.image()
        try:
            options = dict(self.storage_options) or None
            return _named(layer.place, self.limits, None if options is None else tuple(options.items())).image()
        except FileNotFoundError:
            if self.holes:
                return None
            raise

    def _pixels(self, image: Image, layer: Layer, inside: Any, chosen: list[tuple[int, int, Any]],
                how: tuple[Any, str, str]) -> tuple[Any, Any]:
        """Pixels of a layer as the mosaic has them, and which of them are left out (None for none)."""
        (top, bottom), (left, right) = inside
        y, x = layer.source[0] - layer.target[0], layer.source[1] - layer.target[1]
        window = ((top + y, bottom + y), (left + x, right + x))
        _, height, width = image.shape
        if window[0][1] > height or window[1][1] > width:
            asked = f"rows {window[0]}, columns {window[1]}"
            raise ValueError(f"{self.name}: {image.name} has {height} x {width} pixels, and {asked} are meant")
        device, fallback, io = how
        tensor = image.read(window, [source for _, source, _ in chosen], 0, device, fallback=fallback, io=io)
        pixels = _array(tensor, device)
        with on_device_of(pixels):
            outside = self._left_out(image, layer, pixels, chosen, window)
            if layer.scale is not None:
                pixels = _scaled(pixels, layer.scale, self.dtype)
            return _converted(pixels, self.dtype), outside

    def _left_out(self, image: Image, layer: Layer, pixels: Any, chosen: list[tuple[int, int, Any]],
                  window: Any) -> Any:
        if layer.is_opaque:
            return None
        module = _module(pixels)
        outside = module.zeros(pixels.shape, bool)
        for place, (_, _, nodata) in enumerate(chosen):
            if nodata is not None:
                outside[place] = _is(pixels[place], nodata)
        if layer.masked:
            outside |= module.asarray(numpy.asarray(image.read_mask(window, 0, "cpu"))[0] == 0)
        return outside


def _module(array: Any) -> Any:
    """The library of an array."""
    return numpy if isinstance(array, numpy.ndarray) else _cupy()


def _kind(device: Any) -> Any:
    """An empty array of the library that a device's pixels are in."""
    return _empty((0,), numpy.dtype("uint8"), _wants_cuda(device))


def _identity(place: Any) -> Any:
    if isinstance(place, Held):
        return id(place.held)
    if isinstance(place, File) or "://" in place:
        return place
    try:
        status = os.stat(place)
    except OSError:
        return place
    return place, status.st_size, status.st_mtime_ns


def _named(place: str, limits: tuple[tuple[str, int], ...], options: Any) -> File | Held:
    return _names.get(place, dict(limits), options)


class _Names:
    """Files of descriptions, which are opened when their pixels are asked for: each once in a process."""

    def __init__(self) -> None:
        self._known: dict[Any, File | Held] = {}

    def get(self, place: str, limits: dict[str, int], options: Any) -> File | Held:
        key = (place, _identity(place), tuple(sorted(limits.items())), options)
        if key not in self._known:
            if len(self._known) > 65536:
                self._known.clear()
            self._known[key] = name_file(place, limits=limits, storage_options=dict(options or ()) or None)
        return self._known[key]


_names = _Names()


def _common(layer: Layer, window: Any) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The part of a window that a layer covers."""
    sides = []
    for (start, stop), first, size in zip(window, layer.target, layer.size):
        low, high = max(start, first), min(stop, first + size)
        if low >= high:
            return None
        sides.append((low, high))
    return sides[0], sides[1]


# ---------------------------------------------------------------------------------------------- values


def _is(values: Any, nodata: float | int) -> Any:
    """Where pixels have a value, compared as pixels of their type have it."""
    if isinstance(nodata, float) and math.isnan(nodata):
        return values != values
    value = _as_pixel(nodata, values.dtype)
    return values == value if not (isinstance(value, float) and math.isnan(value)) else values != values


def _scaled(values: Any, scale: tuple[float, float], dtype: numpy.dtype) -> Any:
    """Values times a factor plus an offset, in the type that GDAL works in."""
    working = "float64" if dtype.itemsize >= 4 and dtype != numpy.float32 else "float32"
    values = values.astype(working, copy=False)
    return (values.astype("float64") * scale[0] + scale[1]).astype(working)


def _converted(values: Any, dtype: numpy.dtype) -> Any:
    """Values as another type has them, as GDAL does it: nearest, and no further than the type goes."""
    have = values.dtype
    if have == dtype:
        return values
    if dtype.kind not in "iu" or have.kind == "b":
        return values.astype(dtype)
    info = numpy.iinfo(dtype)
    if have.kind in "iu":
        own = numpy.iinfo(have)
        low, high = max(info.min, own.min), min(info.max, own.max)
        return values.clip(have.type(low), have.type(high)).astype(dtype)
    half = have.type(0.5)
    module = _module(values)
    rounded = module.trunc(module.where(values >= 0, values + half, values - half))
    rounded = module.where(values != values, have.type(0), rounded)
    end = have.type(info.max)
    if int(end) == info.max:
        return rounded.clip(have.type(info.min), end).astype(dtype)
    # The floating type has no such number: what is beyond the last one below it is the end itself.
    out = rounded.clip(have.type(info.min), numpy.nextafter(end, have.type(0))).astype(dtype)
    return module.where(rounded >= end, dtype.type(info.max), out)


# ---------------------------------------------------------------------------------------------- opening


def open_mosaic(files_or_vrt: Any, *, chunks: Any = None, device: Any = "auto", window: Any = None, bbox: Any = None,
                bands: Any = None, overlap: str = "first_valid", nodata: Any = None, missing: str = "raise",
                root: str | os.PathLike[str] | None = None, masked: bool = False, mask_and_scale: bool = False,
                dtype: Any = None, name: Any = None, fallback: str = "allow", io: str = "auto",
                limits: Mapping[str, int] | None = None,
                storage_options: Mapping[str, Any] | None = None) -> xarray.DataArray:
    """Opens many files as one DataArray of dims (band, y, x); each chunk reads the files that it needs.

    Parameters
    ----------
    files_or_vrt
        Files on one grid (what `open` takes, a list of it): one CRS, pixels of one size that lie on each other, the
        same type and bands. Or a virtual raster of GDAL: the path of a `.vrt`, or its XML.
    overlap
        Of files, whose pixels are seen where several have some: `"first_valid"` and `"last_valid"` look through pixels
        without data (nodata, or the file's mask), `"first"` and `"last"` do not. A virtual raster has rules of its own:
        sources are painted in order, a `ComplexSource` without its `NODATA`.
    nodata
        Of files: the value that stands for no data, where they do not say. Pixels that no file has get it, else 0.
    missing
        `"raise"`, or `"holes"`: files that are not there leave the background.
    root
        Of a virtual raster: the folder that its sources must be in, its own one by default; `"anywhere"` for all
        places, other machines among them.
    chunks, device, window, bbox, bands, masked, mask_and_scale, dtype, name, fallback, io, limits, storage_options
        As for `open_geotiff`.

    Examples
    --------
    >>> import numpy, tiffjet
    >>> for column in range(2):
    ...     grid = {"crs": 32633, "transform": (10, 0, 5e5 + 500 * column, 0, -10, 6e6)}
    ...     written = tiffjet.to_geotiff(numpy.full((40, 50), column + 1, "uint8"), f"tile{column}.tif", **grid)
    >>> mosaic = tiffjet.open_mosaic(["tile0.tif", "tile1.tif"])
    >>> mosaic.shape, mosaic.values[0, 0, [0, 49, 50, 99]].tolist()
    ((1, 40, 100), [1, 1, 2, 2])
    """
    if missing not in ("raise", "holes"):
        raise ValueError(f"missing: {missing!r} is neither raise nor holes")
    if overlap not in _OVERLAPS:
        raise ValueError(f"overlap: {overlap!r} is none of {', '.join(_OVERLAPS)}")
    settings = {
        "holes": missing == "holes", "limits": tuple(sorted((limits or {}).items())),
        "storage_options": tuple((storage_options or {}).items()),
    }
    if _is_vrt(files_or_vrt):
        chosen = None if bands is None else _bands(bands)
        mosaic = _of_vrt(files_or_vrt, None if root is None else os.fspath(root), settings, chosen)
    else:
        mosaic = _of_files(list(files_or_vrt), overlap, nodata, settings)
    if bbox is not None:
        if window is not None:
            raise ValueError("window, bbox: one of them at most")
        window = _bbox_window(mosaic, 0, bbox)
    pixels = Pixels(
        mosaic, bands=None if bands is None else _bands(bands), window=window, device=device, masked=masked,
        scaled=mask_and_scale, dtype=dtype, fallback=fallback, io=io,
    )
    return _data_array(mosaic, pixels, chunks, name)


def _is_vrt(given: Any) -> bool:
    if isinstance(given, (bytes, bytearray)):
        return True
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        text = os.fsdecode(os.fspath(given))
        if text.lstrip().startswith("<") or text.lower().endswith(".vrt"):
            return True
        raise ValueError(f"{text}: a list of files, or a .vrt is meant; open_geotiff opens one file")
    return False


def _of_vrt(given: Any, root: str | None, settings: dict[str, Any], chosen: list[int] | None) -> Mosaic:
    if isinstance(given, (bytes, bytearray)) or str(given).lstrip().startswith("<"):
        text = bytes(given) if isinstance(given, (bytes, bytearray)) else given.encode()
        label, folder = "VRT", None
    else:
        label = os.fsdecode(os.fspath(given))
        folder = os.path.dirname(os.path.abspath(label))
        with open(label, "rb") as file:
            text = file.read(_vrt.MOST_BYTES + 1)
    vrt = _vrt.parse(text, label, folder, root)
    count, height, width = vrt.shape
    for band in chosen or []:
        if band > count:
            raise IndexError(f"{label}: there is no band {band}, it has {count}")
    types = {vrt.bands[band - 1].dtype for band in chosen or range(1, count + 1)}
    if len(types) > 1:
        raise NotImplementedError(f"{label}: bands of types {sorted(map(str, types))}; bands= chooses those of one")
    layers = [cut for layer in vrt.layers if (cut := _clipped(layer, (height, width))) is not None]
    if not settings["holes"]:
        for place in {layer.place for layer in layers}:
            if "://" not in place and not os.path.exists(place):
                raise FileNotFoundError(f"{label}: the source {place} is not there (missing='holes' leaves it out)")
    bands = vrt.bands
    return Mosaic(
        name=label, shape=vrt.shape, dtype=types.pop(), layers=tuple(layers),
        background=tuple(band.background for band in bands), transform=vrt.transform,
        crs=None if vrt.crs is None else Crs(vrt.crs), tile=vrt.tile,
        nodata_values=tuple(band.nodata for band in bands), scales=tuple(band.scale for band in bands),
        offsets=tuple(band.offset for band in bands), descriptions=tuple(band.description for band in bands),
        units=tuple(band.unit for band in bands), metadata=vrt.metadata,
        band_metadata=tuple(band.metadata for band in bands), **settings,
    )


def _clipped(layer: Layer, size: tuple[int, int]) -> Layer | None:
    """The part of a layer that is in the mosaic, and in its file at its upper left."""
    first = [max(0, -target, -source) for target, source in zip(layer.target, layer.source)]
    last = [min(side, length - target) for side, length, target in zip(layer.size, size, layer.target)]
    if any(a >= b for a, b in zip(first, last)):
        return None
    return dataclasses.replace(
        layer, source=(layer.source[0] + first[0], layer.source[1] + first[1]),
        target=(layer.target[0] + first[0], layer.target[1] + first[1]), size=(last[0] - first[0], last[1] - first[1]),
    )


def _of_files(given: Sequence[Any], overlap: str, nodata: Any, settings: dict[str, Any]) -> Mosaic:
    options: dict[str, Any] = {"limits": dict(settings["limits"]), "storage_options": dict(settings["storage_options"]) or None}

    def named(src: Any) -> File | Held | None:
        try:
            return name_file(src, **options)
        except FileNotFoundError:
            if settings["holes"]:
                return None
            raise

    if not given:
        raise ValueError("files: there are none")
    with ThreadPoolExecutor(min(_OPENERS, len(given))) as threads:
        files = [file for file in threads.map(named, given) if file is not None]
    if not files:
        raise FileNotFoundError("files: none of them is there")
    images = [file.image() for file in files]
    first = images[0]
    for image in images:
        _check_alike(image, first)
    corners = [_corner(image, first) for image in images]
    top, left = min(row for row, _ in corners), min(column for _, column in corners)
    height = max(row + image.shape[1] for (row, _), image in zip(corners, images)) - top
    width = max(column + image.shape[2] for (_, column), image in zip(corners, images)) - left
    if max(height, width) >= 1 << 31:
        raise ValueError(f"files: they lie so far apart that the mosaic had {height} rows, {width} columns")
    count = first.shape[0]
    values = [nodata if nodata is not None else value for value in first.nodata_values]
    for value in values:
        if value is not None and first.dtype.kind in "iu":
            info = numpy.iinfo(first.dtype)
            if not float(value).is_integer() or not info.min <= value <= info.max:
                raise ValueError(f"nodata: {first.dtype} can't hold {value}")
    layers = []
    for file, image, (row, column) in zip(files, images, corners):
        looks_through = overlap.endswith("valid")
        empty = [nodata if nodata is not None else value for value in image.nodata_values]
        masked = looks_through and bool(image.levels[0].has_mask)
        layers.append(Layer(
            place=file, source=(0, 0), target=(row - top, column - left), size=image.shape[1:],
            bands=tuple((band, band) for band in range(1, count + 1)),
            nodata=tuple(empty) if looks_through and not masked else (None,) * count, masked=masked,
        ))
    if overlap.startswith("first"):
        layers.reverse()
    a, b, c, d, e, f = first.transform or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    transform = (a, b, c + left * a + top * b, d, e, f + left * d + top * e)
    return Mosaic(
        name=f"{first.name} and {len(images) - 1} more", shape=(count, height, width), dtype=first.dtype,
        layers=tuple(layers), background=tuple(0 if value is None else value for value in values),
        transform=transform, crs=first.crs, tile=first.levels[0].tile, nodata_values=tuple(values),
        scales=tuple(first.scales), offsets=tuple(first.offsets), descriptions=tuple(first.descriptions),
        units=tuple(first.units), metadata=dict(first.metadata),
        band_metadata=tuple({} for _ in range(count)), **settings,
    )


def _check_alike(image: Image, first: Image) -> None:
    """Files of one mosaic have one CRS, one type, one number of bands, and one meaning of their values."""
    if image.transform is None or image.gcps:
        raise ValueError(f"{image.name}: it has no transform, so it has no place in a mosaic")
    same = (
        ("CRS", image.crs, first.crs), ("type", image.dtype, first.dtype), ("bands", image.shape[0], first.shape[0]),
        ("scales", list(image.scales), list(first.scales)), ("offsets", list(image.offsets), list(first.offsets)),
    )
    for what, have, due in same:
        if have != due:
            raise ValueError(f"{image.name}: its {what} {have} is not {due}, that of {first.name}")


def _corner(image: Image, first: Image) -> tuple[int, int]:
    """Row and column of the upper left pixel on the grid of the first file."""
    due: tuple[float, ...] = first.transform or ()
    own: tuple[float, ...] = image.transform or ()
    a, b, c, d, e, f = due
    determinant = a * e - b * d
    if determinant == 0 or not all(math.isfinite(number) for number in (*due, *own)):
        raise ValueError(f"{image.name}: its transform gives pixels no area")
    sides = image.shape[2], image.shape[1]
    both = ((own[0], a, sides[0]), (own[1], b, sides[1]), (own[3], d, sides[0]), (own[4], e, sides[1]))
    drift = max(abs(one - other) * side for one, other, side in both)
    pixel = math.sqrt(abs(determinant))
    if drift > _OFF_GRID * pixel:
        raise ValueError(f"{image.name}: its pixels have another size or direction than those of {first.name}")
    x, y = own[2] - c, own[5] - f
    column, row = (x * e - y * b) / determinant, (y * a - x * d) / determinant
    if max(abs(row - round(row)), abs(column - round(column))) > _OFF_GRID:
        off = f"{row % 1:.3f} rows, {column % 1:.3f} columns"
        raise ValueError(f"{image.name}: its pixels lie between those of {first.name}, off by {off}")
    return round(row), round(column)
