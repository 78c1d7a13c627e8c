"""xarray: the engine `tiffjet`, `open_geotiff` and the accessor `da.tiffjet`."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from . import _devices
from ._files import File, Held, is_remote, name_file
from ._read import _bands, _ends, _whole
from ._tiffjet import Image, Tensor, UnavailableError, Written
from ._write import to_geotiff
from .dask import preferred

__all__ = ["Accessor", "Backend", "open_geotiff"]



# ---------------------------------------------------------------------------------------------- pixels


class Pixels(BackendArray):
    """Pixels that are still in the file: axes (band, y, x) of one level, read when they are indexed.

    It holds the name of the file (or a mosaic) and what is wanted of it, so it can be pickled and used from many
    threads; each process parses the header once.
    """

    def __init__(self, file: Any, *, level: int = 0, bands: Sequence[int] | None = None, window: Any = None,
                 device: Any = "auto", masked: bool = False, scaled: bool = False, dtype: Any = None,
                 fallback: str = "allow", io: str = "auto") -> None:
        image = file.image()
        if not 0 <= level < len(image.levels):
            raise IndexError(f"{image.name}: level {level}, there are levels 0 to {len(image.levels) - 1}")
        self.file = file
        self.level = level
        self.bands = tuple(range(1, image.shape[0] + 1) if bands is None else bands)
        _, height, width = image.levels[level].shape
        self.window = _checked_window(image, window, height, width)
        (y0, y1), (x0, x1) = self.window
        self.shape = (len(self.bands), y1 - y0, x1 - x0)
        self.tile = image.levels[level].tile
        self.device = _devices.parse(device)
        self.masked = masked or scaled
        self.scaled = scaled
        self.fallback = fallback
        self.io = io
        self.dtype = _promoted(image.dtype) if self.masked else image.dtype
        if dtype is not None:
            dtype = numpy.dtype(dtype)
            if not numpy.can_cast(self.dtype, dtype, "same_kind"):
                raise ValueError(f"dtype: {self.dtype} does not become {dtype} without loss of kind")
            self.dtype = dtype
        for band in self.bands:
            if not 1 <= band <= image.shape[0]:
                raise IndexError(f"{image.name}: there is no band {band}, the image has {image.shape[0]}")

    @property
    def ndim(self) -> int:
        return 3

    def token(self) -> tuple[Any, ...]:
        """What tells these pixels from all others."""
        if isinstance(self.file, File):
            file: Any = self.file
        else:
            file = id(self.file.held) if isinstance(self.file, Held) else self.file.token()
        return (file, self.level, self.bands, self.window, str(self.device), self.masked, self.scaled, str(self.dtype))

    def meta(self) -> Any:
        """An empty array of the kind that indexing gives."""
        return _empty((0, 0, 0), self.dtype, _wants_cuda(self.device))

    @property
    def is_uniform(self) -> bool:
        """Whether all chunks are told the same: one device, and one file."""
        return not isinstance(self.device, _devices.Spread) and isinstance(self.file, (File, Held))

    def chunk(self, index: tuple[int, ...], number: int, spans: Sequence[tuple[int, int]]) -> Pixels:
        """The same for one chunk alone: with its device, and the files that it needs."""
        part = copy.copy(self)
        if isinstance(self.device, _devices.Spread):
            part.device = self.device.of(index, number)
        if not isinstance(self.file, (File, Held)):
            rows, columns = ((start + low, stop + low) for (start, stop), (low, _) in zip(spans[1:], self.window))
            part.file = self.file.cut((rows, columns))
        return part

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, indexing.ExplicitIndexer):
            return self._getitem(_whole_key(key))  # dask's chunks
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._getitem)

    async def async_getitem(self, key: Any) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)

    def _getitem(self, key: tuple[Any, ...]) -> Any:
        (y0, _), (x0, _) = self.window
        spans = [_span(part, size) for part, size in zip(key, self.shape)]
        if None not in spans:
            # Neighbours, as in all chunks of dask: nothing to pick, and little time with the interpreter, which one
            # thread has at a time.
            (first, last), (top, bottom), (left, right) = spans  # type: ignore[misc]
            return self._read(list(self.bands[first:last]), ((top + y0, bottom + y0), (left + x0, right + x0)))
        axes = [_positions(part, size) for part, size in zip(key, self.shape)]
        bands = [self.bands[i] for i in axes[0]]
        out = self._outer(bands, axes[1] + y0, axes[2] + x0)
        # A number takes its axis away.
        return out[tuple(0 if _is_number(part) else slice(None) for part in key)]

    def _outer(self, bands: list[int], ys: numpy.ndarray, xs: numpy.ndarray) -> Any:
        """The pixels at the crossings of some rows and some columns; tiles without any of them are not read."""
        shape = (len(bands), len(ys), len(xs))
        if 0 in shape:
            return _empty(shape, self.dtype, _wants_cuda(self.device))
        rows, columns = _stretches(ys, self.tile[0]), _stretches(xs, self.tile[1])
        if len(rows) == len(columns) == 1:
            return self._stretch(bands, ys, xs)
        out = None
        for row in rows:
            for column in columns:
                part = self._stretch(bands, ys[row], xs[column])
                with on_device_of(part):
                    if out is None:
                        out = _empty(shape, self.dtype, not isinstance(part, numpy.ndarray))
                    out[:, row[:, None], column[None, :]] = part
        return out

    def _stretch(self, bands: list[int], ys: numpy.ndarray, xs: numpy.ndarray) -> Any:
        """Reads the rectangle around some rows and columns, and picks them."""
        top, left = int(ys.min()), int(xs.min())
        window = ((top, int(ys.max()) + 1), (left, int(xs.max()) + 1))
        data = self._read(bands, window)
        rows, columns = _as_slice(ys - top), _as_slice(xs - left)
        if isinstance(rows, slice) and isinstance(columns, slice):
            return data[:, rows, columns]
        return data[:, ys - top][:, :, xs - left]

    def _read(self, bands: list[int], window: Any) -> Any:
        image = self.file.image()
        device = _devices.resolve(self.device)
        data = _array(image.read(window, bands, self.level, device, fallback=self.fallback, io=self.io), device)
        with on_device_of(data):
            if self.masked:
                data = self._mask(image, data, bands, window)
            if self.scaled:
                for index, band in enumerate(bands):
                    scale, offset = image.scales[band - 1], image.offsets[band - 1]
                    if (scale, offset) != (1.0, 0.0):
                        data[index] = data[index] * scale + offset
            return data.astype(self.dtype, copy=False)

    def _mask(self, image: Image, data: Any, bands: list[int], window: Any) -> Any:
        """NaN where there are no data: by the file's mask, else by nodata, else by the alpha band, as GDAL has it."""
        promoted = data.astype(_promoted(image.dtype), copy=not getattr(data.flags, "writeable", True))
        if image.levels[self.level].has_mask:
            promoted[:, self._invalid(image, window, data)] = numpy.nan
            return promoted
        if any(value is not None for value in image.nodata_values):
            for index, band in enumerate(bands):
                value = image.nodata_values[band - 1]
                if value is not None and not (isinstance(value, float) and math.isnan(value)):
                    promoted[index][data[index] == _as_pixel(value, image.dtype)] = numpy.nan
            return promoted
        if _alpha_masks(image):
            invalid = self._invalid(image, window, data)
            for index, band in enumerate(bands):
                if band != image.alpha_band:
                    promoted[index][invalid] = numpy.nan
        return promoted

    def _invalid(self, image: Image, window: Any, like: Any) -> Any:
        invalid = numpy.asarray(image.read_mask(window, self.level))[0] == 0
        return invalid if isinstance(like, numpy.ndarray) else _cupy().asarray(invalid)


def _alpha_masks(image: Image) -> bool:
    """Whether GDAL takes the alpha band for a mask: the last of two or four, of 8 or 16 bits."""
    bands = image.shape[0]
    return image.alpha_band == bands and bands in (2, 4) and image.dtype in (numpy.uint8, numpy.uint16)


def _promoted(dtype: numpy.dtype) -> numpy.dtype:
    """The type that holds the values and NaN, as xarray chooses it."""
    if dtype.kind in "iu":
        return numpy.dtype("float32" if dtype.itemsize <= 2 else "float64")
    return dtype


def _as_pixel(value: Any, dtype: numpy.dtype) -> Any:
    """A nodata value as pixels have it: rounded where they are."""
    if dtype.kind in "iu":
        return value if float(value).is_integer() else numpy.nan
    with numpy.errstate(over="ignore"):
        return dtype.type(value)


def _whole_key(key: Any) -> tuple[Any, ...]:
    key = key if isinstance(key, tuple) else (key,)
    return (*key, *([slice(None)] * (3 - len(key))))


def _span(part: Any, size: int) -> tuple[int, int] | None:
    """First and end of a slice without gaps that has something; None for all else."""
    if not isinstance(part, slice):
        return None
    start, stop, step = part.indices(size)
    return (start, stop) if step == 1 and start < stop else None


def _is_number(part: Any) -> bool:
    return isinstance(part, (int, numpy.integer))


def _positions(part: Any, size: int) -> numpy.ndarray:
    if isinstance(part, slice):
        return numpy.arange(*part.indices(size))
    return numpy.atleast_1d(numpy.asarray(part, dtype="int64"))


def _stretches(positions: numpy.ndarray, tile: int) -> list[numpy.ndarray]:
    """Places of positions that are at most a tile apart: between two stretches lie tiles that are not wanted."""
    order = numpy.argsort(positions, kind="stable")
    cuts = numpy.flatnonzero(numpy.diff(positions[order] // tile) > 1) + 1
    return list(numpy.split(order, cuts))


def _as_slice(positions: numpy.ndarray) -> slice | numpy.ndarray:
    """Equidistant growing positions as a slice: a view rather than a copy."""
    steps = numpy.diff(positions)
    if len(positions) == 1 or (steps[0] > 0 and (steps == steps[0]).all()):
        step = 1 if len(positions) == 1 else int(steps[0])
        return slice(int(positions[0]), int(positions[-1]) + 1, step)
    return positions


def _wants_cuda(device: Any) -> bool:
    return _devices.is_cuda(device)


def on_device_of(array: Any) -> Any:
    """CuPy works on the device of a thread, which need not be the one that an array is on."""
    return contextlib.nullcontext() if isinstance(array, numpy.ndarray) else array.device


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise UnavailableError("DataArrays on CUDA need CuPy (pip install 'tiffjet[cuda12]' or 'tiffjet[cuda13]')") from error
    return cupy


def _empty(shape: tuple[int, ...], dtype: numpy.dtype, cuda: bool) -> Any:
    return (_cupy() if cuda else numpy).empty(shape, dtype)


def _array(tensor: Tensor, device: Any) -> Any:
    """The array that DataArrays hold: CuPy where the pixels are on CUDA, else NumPy."""
    if not isinstance(tensor, Tensor):
        return tensor  # a mosaic gives such arrays
    if tensor.device == "cpu":
        return numpy.asarray(tensor)
    if device == "auto":
        try:
            import cupy
        except ImportError:
            return numpy.asarray(tensor.cpu())
        return cupy.from_dlpack(tensor)
    return _cupy().from_dlpack(tensor)


def _checked_window(image: Image, window: Any, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    if window is None:
        return ((0, height), (0, width))
    if hasattr(window, "row_off"):
        y0, x0 = _whole(window.row_off), _whole(window.col_off)
        window = ((y0, y0 + _whole(window.height)), (x0, x0 + _whole(window.width)))
    rows, columns = window

    def side(part: Any, size: int) -> tuple[int, int]:
        if isinstance(part, slice):
            part = slice(part.start or 0, size if part.stop is None else part.stop, part.step)
        return _ends(part)

    (y0, y1), (x0, x1) = side(rows, height), side(columns, width)
    if not (0 <= y0 < y1 <= height and 0 <= x0 < x1 <= width):
        raise IndexError(f"{image.name}: the window {window} is outside the image of {height} rows, {width} columns")
    return ((y0, y1), (x0, x1))


# ---------------------------------------------------------------------------------------------- coordinates


class Centres(BackendArray):
    """Map coordinates of pixel centres of a rotated grid, computed where they are indexed."""

    def __init__(self, coefficients: tuple[float, float, float], shape: tuple[int, int]) -> None:
        self.coefficients = coefficients
        self.shape = shape
        self.dtype = numpy.dtype("float64")

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._getitem)

    def _getitem(self, key: tuple[Any, ...]) -> Any:
        per_column, per_row, origin = self.coefficients
        rows, columns = (_positions(part, size) for part, size in zip(key, self.shape))
        values = origin + per_column * (columns + 0.5)[None, :] + per_row * (rows + 0.5)[:, None]
        return values[tuple(0 if _is_number(part) else slice(None) for part in key)]


def moved(transform: Sequence[float], top: int, left: int) -> tuple[float, ...]:
    """The transform of a window that begins at some row and column."""
    a, b, c, d, e, f = transform
    return a, b, a * left + b * top + c, d, e, d * left + e * top + f


def _coordinates(transform: tuple[float, ...], shape: Sequence[int], crs: Any) -> xarray.Coordinates | dict[str, Any]:
    """Pixel centres: origin + (i + 0.5) × step, so that no error adds up; lazily where rasterix is installed."""
    _, height, width = shape
    a, b, c, d, e, f = transform
    index = _raster_index(transform, height, width, crs)
    if index is not None:
        return index
    if b == 0 and d == 0:
        return {
            "y": ("y", f + (numpy.arange(height) + 0.5) * e, {"axis": "Y"}),
            "x": ("x", c + (numpy.arange(width) + 0.5) * a, {"axis": "X"}),
        }
    lazy = {"xc": Centres((a, b, c), (height, width)), "yc": Centres((d, e, f), (height, width))}
    return {name: (("y", "x"), indexing.LazilyIndexedArray(values)) for name, values in lazy.items()}


def _raster_index(transform: tuple[float, ...], height: int, width: int, crs: Any) -> xarray.Coordinates | None:
    try:
        from affine import Affine
        from rasterix import RasterIndex
    except ImportError:
        return None
    if transform[0] * transform[4] == transform[1] * transform[3]:
        return None  # all pixels on a line: there is no way back
    known = None if crs is None else _flat(_known_crs(crs.epsg, crs.to_wkt()))
    index = RasterIndex.from_transform(Affine(*transform), width=width, height=height, crs=known)
    return xarray.Coordinates.from_xindex(index)


def _flat(crs: Any) -> Any:
    """The CRS of the plane: an index of x and y knows no heights."""
    if crs is not None and len(crs.axis_info) != 2:
        crs = crs.to_2d()
    return crs if crs is not None and len(crs.axis_info) == 2 else None


def _spatial_ref(image: Image, transform: tuple[float, ...]) -> xarray.Variable:
    """The coordinate in which rioxarray and CF keep the place of the grid."""
    a, b, c, d, e, f = transform
    crs = image.crs or image.gcp_crs
    attrs = {} if crs is None else _crs_attrs(crs)
    attrs["GeoTransform"] = " ".join(str(float(value)) for value in (c, a, b, f, d, e))
    if image.gcps:
        attrs["gcps"] = json.dumps(_gcps_as_json(image))
    return xarray.Variable((), numpy.array(0), attrs)


def _crs_attrs(crs: Any) -> dict[str, Any]:
    known = _known_crs(crs.epsg, crs.to_wkt())
    if known is None:
        wkt = crs.to_wkt()
        return {"crs_wkt": wkt, "spatial_ref": wkt}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what CF can't say is in the WKT
        attrs = known.to_cf()
    attrs["spatial_ref"] = attrs.setdefault("crs_wkt", known.to_wkt())
    return attrs


@functools.lru_cache(64)
def _known_crs(epsg: int | None, wkt: str) -> Any:
    """The CRS as pyproj has it; None without pyproj, and where it does not know it."""
    try:
        import pyproj
    except ImportError:
        return None
    try:
        return pyproj.CRS.from_wkt(wkt) if epsg is None else pyproj.CRS.from_epsg(epsg)
    except pyproj.exceptions.CRSError:
        return None


def _gcps_as_json(image: Image) -> dict[str, Any]:
    def feature(point: tuple[float, float, float, float, float, str]) -> dict[str, Any]:
        column, row, x, y, z, name = point
        said = {"id": name, "info": "", "row": row, "col": column}
        where = {"type": "Point", "coordinates": [x, y, z]}
        return {"type": "Feature", "properties": said, "geometry": where}

    return {"type": "FeatureCollection", "features": [feature(point) for point in image.gcps]}


# ---------------------------------------------------------------------------------------------- attributes


def _attributes(image: Image, bands: Sequence[int], dtype: numpy.dtype) -> dict[str, Any]:
    """What the file says of its values, under the names that rioxarray gives."""
    chosen = [band - 1 for band in bands]
    items = {**image.metadata.get("", {}), **image.band_metadata[chosen[0]].get("", {})}
    for tag, name in (("DocumentName", "TIFFTAG_DOCUMENTNAME"), ("ImageDescription", "TIFFTAG_IMAGEDESCRIPTION"),
                      ("Software", "TIFFTAG_SOFTWARE"), ("DateTime", "TIFFTAG_DATETIME"), ("Artist", "TIFFTAG_ARTIST"),
                      ("HostComputer", "TIFFTAG_HOSTCOMPUTER"), ("Copyright", "TIFFTAG_COPYRIGHT")):
        if isinstance(image.tags.get(tag), str):
            items.setdefault(name, image.tags[tag])
    attrs: dict[str, Any] = {name: _number(value) for name, value in items.items()}
    for name in ("_FillValue", "missing_value", "scale_factor", "add_offset"):
        attrs.pop(name, None)
    nodata = image.nodata_values[chosen[0]]
    if nodata is not None and (dtype.kind in "fc" or float(nodata).is_integer()):
        try:
            attrs["_FillValue"] = dtype.type(nodata)
        except OverflowError:
            pass  # no pixel can have it
    for one, many, values in (("scale_factor", "scales", image.scales), ("add_offset", "offsets", image.offsets)):
        values = [values[band] for band in chosen]
        if len(set(values)) > 1:
            attrs[many] = tuple(values)
        else:
            attrs[one] = values[0]
    names = tuple(image.descriptions[band] for band in chosen)
    if any(names):
        attrs["long_name"] = names[0] if len(set(names)) == 1 else names
    units = tuple(image.units[band] for band in chosen)
    if any(units):
        attrs["units"] = units[0] if len(units) == 1 else units
    return attrs


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# ---------------------------------------------------------------------------------------------- opening


def _dataset(file: File | Held, pixels: Pixels, data: Any, name: Any) -> xarray.Dataset:
    image = file.image()
    (top, _), (left, _) = pixels.window
    transform = image.levels[pixels.level].transform or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    transform = moved(transform, top, left)
    attrs = _attributes(image, pixels.bands, image.dtype)
    encoding: dict[str, Any] = {
        "source": _source_name(file, image),
        "rasterio_dtype": image.sample_type,
        "grid_mapping": "spatial_ref",
    }
    _, down, across = preferred(pixels.shape, pixels.dtype.itemsize, pixels.tile)
    encoding["preferred_chunks"] = {"band": len(pixels.bands), "y": down, "x": across}
    if pixels.masked:
        encoding["dtype"] = str(image.dtype)
        _move(attrs, encoding, "_FillValue")
    if pixels.scaled:
        for key in ("scale_factor", "add_offset", "scales", "offsets"):
            _move(attrs, encoding, key)
    variable = xarray.Variable(("band", "y", "x"), data, attrs, encoding)
    dataset = xarray.Dataset({name: variable}, coords={"band": numpy.asarray(pixels.bands)})
    if not image.gcps:
        dataset = dataset.assign_coords(_coordinates(transform, pixels.shape, image.crs))
    return dataset.assign_coords(spatial_ref=_spatial_ref(image, transform))


def _source_name(file: File | Held, image: Image) -> str:
    """The path; of a URL what can be shown."""
    if isinstance(file, File) and isinstance(file.place, str) and not is_remote(file.place):
        return file.place
    return image.name


def _move(attrs: dict[str, Any], encoding: dict[str, Any], key: str) -> None:
    if key in attrs:
        encoding[key] = attrs.pop(key)


def _bbox_window(image: Any, level: int, bbox: Sequence[float]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The pixels that a rectangle of the map touches."""
    transform = image.levels[level].transform
    if transform is None or transform[1] or transform[3]:
        raise ValueError(f"{image.name}: bbox needs a transform without rotation")
    left, bottom, right, top = (float(side) for side in bbox)
    if not (left < right and bottom < top):
        raise ValueError(f"bbox: (left, bottom, right, top) is meant, not {tuple(bbox)}")
    a, _, c, _, e, f = transform
    _, height, width = image.levels[level].shape

    def pixels(low: float, high: float, origin: float, step: float, size: int) -> tuple[int, int]:
        ends = sorted(((low - origin) / step, (high - origin) / step))
        # A side on the edge of a pixel does not touch the next one, whatever the last bit says.
        first, last = math.floor(ends[0] + 1e-9), math.ceil(ends[1] - 1e-9)
        return max(first, 0), min(last, size)

    rows, columns = pixels(bottom, top, f, e, height), pixels(left, right, c, a, width)
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        raise IndexError(f"{image.name}: the image is not inside the bbox {tuple(bbox)}")
    return rows, columns


def _choose_level(image: Image, level: int, resolution: Any, max_size: int | None) -> int:
    if resolution is None and max_size is None:
        return level
    if level != 0 or (resolution is not None and max_size is not None):
        raise ValueError("level, resolution, max_size: one of them at most")
    levels = image.levels
    if max_size is not None:
        fitting = [this.level for this in levels if max(this.shape[1:]) <= max_size]
        smallest = min(levels, key=lambda this: max(this.shape[1:])).level
        return min(fitting, key=lambda i: -max(levels[i].shape[1:])) if fitting else smallest
    wanted = min(resolution) if isinstance(resolution, Iterable) else resolution
    if image.transform is None:
        raise ValueError(f"{image.name}: resolution needs a transform")

    def pixel(i: int) -> float:
        a, b, _, d, e, _ = levels[i].transform or (1, 0, 0, 0, 1, 0)
        return max(math.hypot(a, d), math.hypot(b, e))

    # The coarsest level that is at least as fine as asked.
    fine = [i for i in range(len(levels)) if pixel(i) <= float(wanted) * (1 + 1e-6)]
    return max(fine, key=pixel) if fine else 0


def open_geotiff(src: Any, *, chunks: Any = None, device: Any = "auto", window: Any = None, bbox: Any = None,
                 bands: Any = None, level: int = 0, resolution: Any = None, max_size: int | None = None,
                 masked: bool = False, mask_and_scale: bool = False, dtype: Any = None, name: Any = None,
                 fallback: str = "allow", io: str = "auto", page: int = 0, limits: dict[str, int] | None = None,
                 storage_options: Mapping[str, Any] | None = None) -> xarray.DataArray:
    """Opens a GeoTIFF as a DataArray of dims (band, y, x); pixels are read when they are used.

    Parameters
    ----------
    src
        What `open` takes, or an open `Image`.
    chunks
        For a dask array: `"auto"`, `{}` (chunks that suit the file), a number, `(y, x)`, `(band, y, x)`, or a dict.
    device
        `"auto"`, `"cpu"`, `"cuda"` (the one that the reading thread's other libraries use), `"cuda:N"` or N. With
        `chunks` also several: a list, `"cuda:all"`, which take turns, or a function of the index of a chunk that gives
        one. Which GPU a name means is known where a chunk is read: in the worker, under dask.distributed.
    window
        `((y0, y1), (x0, x1))` in pixels of the level.
    bbox
        `(left, bottom, right, top)` in the file's CRS.
    bands
        Bands, counted from 1, in the order they are wanted.
    level, resolution, max_size
        Which overview: by number (0 is full size), the coarsest that is at least so fine, or the largest with no side
        longer than this.
    masked
        NaN where there are no data; integers become floating point.
    mask_and_scale
        The same, and scale and offset applied.
    dtype
        Type of the pixels in the array; the file's by default, or one that NaN fits in.
    name
        Name of the DataArray.
    fallback
        `"forbid"` makes it an error when a GPU can't decode the file by itself; else the cores do, and the report says so.
    io
        How bytes get to a GPU: `"auto"`, `"pread"` (by way of the host) or `"cufile"` (GPUDirect Storage).
    page, limits, storage_options
        As for `open`.

    Examples
    --------
    >>> import numpy, tiffjet
    >>> grid = numpy.arange(12, dtype="int16").reshape(3, 4)
    >>> written = tiffjet.to_geotiff(grid, "grid.tif", crs=4326, transform=(0.5, 0, 10, 0, -0.5, 50), nodata=0)
    >>> da = tiffjet.open_geotiff("grid.tif", masked=True)
    >>> da.dims, da.dtype.name, da.x.values.tolist(), int(da.isnull().sum())
    (('band', 'y', 'x'), 'float32', [10.25, 10.75, 11.25, 11.75], 1)
    """
    file = name_file(src, page=page, limits=limits, storage_options=storage_options)
    image = file.image()
    if not 0 <= level < len(image.levels):
        raise IndexError(f"{image.name}: level {level}, there are levels 0 to {len(image.levels) - 1}")
    level = _choose_level(image, level, resolution, max_size)
    if bbox is not None:
        if window is not None:
            raise ValueError("window, bbox: one of them at most")
        window = _bbox_window(image, level, bbox)
    pixels = Pixels(
        file, level=level, bands=None if bands is None else _bands(bands), window=window, device=device, masked=masked,
        scaled=mask_and_scale, dtype=dtype, fallback=fallback, io=io,
    )
    return _data_array(file, pixels, chunks, name)


def _data_array(file: Any, pixels: Pixels, chunks: Any, name: Any) -> xarray.DataArray:
    if chunks is None:
        if isinstance(pixels.device, _devices.Spread):
            raise ValueError("device: several are for chunks, and chunks= is not given")
        _devices.check(pixels.device)
        lazy = indexing.CopyOnWriteArray(indexing.LazilyIndexedArray(pixels))
        data: Any = indexing.MemoryCachedArray(lazy)
    else:
        from .dask import from_pixels, has_client

        if not has_client():
            _devices.check(pixels.device)  # else it is the workers' that counts, and they say so
        data = from_pixels(pixels, chunks)
    label = "band_data" if name is None else name
    return _dataset(file, pixels, data, label)[label].rename(name)


class Backend(BackendEntrypoint):
    """`xarray.open_dataset(..., engine="tiffjet")` and its kin."""

    description = "GeoTIFF and COG, on the CPU or straight to the GPU"
    url = "https://github.com/tiffjet/tiffjet"
    supports_groups = True
    open_dataset_parameters = (
        "filename_or_obj", "drop_variables", "mask_and_scale", "masked", "device", "window", "bands", "level", "page",
        "dtype", "name", "fallback", "io", "limits", "storage_options",
    )

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None, mask_and_scale: bool = True,
                     masked: bool = False, device: Any = "auto", window: Any = None, bands: Any = None, level: int = 0,
                     page: int = 0, dtype: Any = None, name: Any = "band_data", fallback: str = "allow",
                     io: str = "auto", limits: dict[str, int] | None = None,
                     storage_options: Mapping[str, Any] | None = None) -> xarray.Dataset:
        file = name_file(filename_or_obj, page=page, limits=limits, storage_options=storage_options)
        if isinstance(_devices.parse(device), _devices.Spread):
            raise ValueError("device: an engine's chunks are all alike; open_geotiff(chunks=...) takes several")
        _devices.check(device)
        pixels = Pixels(
            file, level=level, bands=None if bands is None else _bands(bands), window=window, device=device,
            masked=masked, scaled=bool(mask_and_scale), dtype=dtype, fallback=fallback, io=io,
        )
        dataset = _dataset(file, pixels, indexing.LazilyIndexedArray(pixels), name)
        dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or [])
        return dataset.drop_vars(dropped, errors="ignore")

    def open_groups_as_dict(self, filename_or_obj: Any, **options: Any) -> dict[str, xarray.Dataset]:
        """Each level is a group: `/0` is full size, `/1` and up are overviews."""
        file = name_file(
            filename_or_obj, page=options.get("page", 0), limits=options.get("limits"),
            storage_options=options.get("storage_options"),
        )
        options.pop("level", None)
        levels = len(file.image().levels)
        groups = {f"/{level}": self.open_dataset(file, level=level, **options) for level in range(levels)}
        return {"/": xarray.Dataset(), **groups}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xarray.DataTree:
        return xarray.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        return False  # .tif is rioxarray's unless somebody asks for us


@xarray.register_dataarray_accessor("tiffjet")
class Accessor:
    """`da.tiffjet`."""

    def __init__(self, data: xarray.DataArray) -> None:
        self._data = data

    def to_geotiff(self, dst: Any, **options: Any) -> Written:
        """Writes the array; see `tiffjet.to_geotiff`."""
        return to_geotiff(self._data, dst, **options)
