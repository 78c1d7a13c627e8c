"""Writing what users have: arrays, DataArrays, dask arrays, as rows on their way to a `Writer`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from ._objects import destination, flat_options, is_object
from ._tiffjet import UnavailableError, Writer, Written

logger = logging.getLogger("tiffjet")

# Bytes of pixels that go to the writer at once: many tiles, so that all cores have work, and little beside the image.
_SLAB = 64 << 20
# The same of arrays on a GPU, whose rows are not copied.
_DEVICE_SLAB = 1 << 30
# Bytes of an image that is worth an upload in parts by many.
_SHARED = 32 << 20
# What a streamed write may use where nobody says.
_MEMORY = 256 << 20

_Y = ("y", "lat", "latitude", "row", "rows", "northing")
_X = ("x", "lon", "long", "longitude", "col", "column", "columns", "easting")

_PHOTOMETRIC = {"miniswhite": 0, "minisblack": 1, "rgb": 2, "palette": 3, "cmyk": 5, "separated": 5, "ycbcr": 6}

# Attributes that have a place of their own in the file, or speak of other pixels.
_KNOWN_ATTRS = {
    "_FillValue", "missing_value", "nodata", "nodatavals", "scale_factor", "add_offset", "scales", "offsets",
    "long_name", "descriptions", "units", "AREA_OR_POINT", "crs", "crs_wkt", "spatial_ref", "grid_mapping",
    "transform", "res", "bounds", "coordinates", "_Unsigned", "is_tiled",
}


def to_geotiff(
    data: Any,
    dst: Any,
    *,
    crs: Any = None,
    transform: Any = None,
    nodata: Any = None,
    nan_to_nodata: bool | str = "auto",
    mask: Any = None,
    compression: str = "zstd",
    compression_level: int | None = None,
    quality: int | None = None,
    max_z_error: float = 0,
    predictor: str | int = "auto",
    tile_size: int | tuple[int, int] | None = None,
    strips: bool = False,
    interleave: str = "pixel",
    sparse: bool = False,
    cog: bool = False,
    overviews: str | Sequence[int] | None = "auto",
    resampling: str = "average",
    bigtiff: str | bool = "auto",
    metadata: Mapping[str, Any] | None = None,
    descriptions: Sequence[str | None] | None = None,
    colormap: Mapping[int, Sequence[int]] | None = None,
    photometric: str | int = "auto",
    device: str | int = "auto",
    memory: int | str | None = None,
    fallback: str = "allow",
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | Callable[[int, int], Any] | None = None,
) -> Written:
    """Writes a GeoTIFF or a COG, and tells what was written.

    The file appears when it is whole; what stood there before stays until then. The bytes do not depend on how the
    data came: a dask array gives the same file as the array it computes to.

    Parameters
    ----------
    data
        An array of axes (y, x) or (band, y, x): NumPy, CuPy, torch, or anything with DLPack or
        `__cuda_array_interface__`, of any strides; a DataArray, whose dims say which axis is which; a dask array, or a
        DataArray of one, which is streamed. Where dask.distributed computes it, its workers encode, and only their tiles
        come here.
    dst
        A path; a URL of an object store (`s3`, `gs`, `az`), where the object appears when all of it is there; a file of
        fsspec, or a file system or store with a path, as a pair; any other binary file object.
    crs
        EPSG code, `"EPSG:32633"`, WKT, or an object of pyproj or rasterio; of a DataArray its own by default.
    transform
        Pixel to map, of pixel corners: an `Affine`, or its first six numbers.
    nodata
        The value that stands for no data; of a DataArray its own by default, `"none"` for no value.
    nan_to_nodata
        Writes `nodata` where a pixel is NaN: always, never, or where `nodata` is a number (`"auto"`).
    mask
        Which pixels are valid: axes (y, x), 0 or False where not.
    compression
        Codec: `"zstd"`, `"deflate"`, `"lzw"`, `"lerc"`, `"jpeg"`, `"webp"`, `"none"`, ...
    compression_level
        How hard the codec tries: 1 to 12 for Deflate, 1 to 22 for ZSTD.
    quality
        Of JPEG, WebP and JPEG 2000, 1 to 100.
    max_z_error
        How far LERC may be off.
    predictor
        `"auto"`, `"none"`, 2 (differences of neighbours) or 3 (byte planes of floats).
    tile_size
        Rows and columns of a tile, multiples of 16; one number for both. 512 by default.
    strips
        Strips instead of tiles.
    sparse
        Tiles that hold nothing but nodata (or 0) take no place in the file.
    interleave
        `"pixel"`, or `"band"` for each band in tiles of its own.
    cog
        Cloud-optimised order, with overviews.
    overviews
        `"auto"` (a COG has them), `"none"`, or factors like `[2, 4, 8]`.
    resampling
        How overviews are made: `"average"` (`"nearest"` for a colour map), `"mode"`, `"bilinear"`, `"cubic"`, ...
    bigtiff
        64-bit offsets: `"auto"` (where the file could grow past 4 GiB), True or False.
    metadata
        Items of GDAL's metadata, by name.
    descriptions
        A name for each band, or None.
    colormap
        Red, green, blue and perhaps alpha, 0 to 255, of values.
    photometric
        `"auto"`, `"rgb"`, `"minisblack"`, ..., or the number of TIFF.
    device
        Where tiles are encoded: `"auto"` (where the data are), `"cpu"`, `"cuda"`, `"cuda:N"` or N. What is on a GPU is
        encoded there without a copy of its pixels on the host, and rows of the host are uploaded where a GPU is named.
        Chunks of a dask array that are on several GPUs are encoded each on its own; a worker of dask.distributed takes
        the GPU of its own process.
    memory
        Bytes that a write may use, of the host and of a GPU each: a number, or `"64MiB"`. It needs one row of tiles of
        each level whatever this says; `Written.report` tells what it had.
    fallback
        `"forbid"` makes it an error when a GPU can't encode as asked; else the host does, and the report says so.
    storage_options
        For URLs, as for `open`.
    progress
        True for a bar of tqdm, or a function of the rows that are done and the rows there are.

    Examples
    --------
    >>> import numpy, tiffjet
    >>> ramp = numpy.arange(512 * 600, dtype="float32").reshape(512, 600)
    >>> tiffjet.to_geotiff(ramp, "ramp.tif", cog=True, nodata=-1).levels
    2
    """
    if fallback not in ("allow", "forbid"):
        raise ValueError(f"fallback: {fallback!r} is neither allow nor forbid")
    raster = _raster(data)
    place = raster.place
    if crs is not None:
        place.crs = crs
    if transform is not None:
        place.transform = tuple(float(v) for v in tuple(transform)[:6])
        if len(place.transform) != 6:
            raise ValueError("transform: six numbers are meant")
        place.gcps = []
    if place.transform == (1, 0, 0, 0, 1, 0):
        place.transform = None  # GDAL too takes it for none
    if nodata is not None:
        place.nodata = None if isinstance(nodata, str) and nodata.lower() == "none" else nodata
    if metadata is not None:
        place.metadata = _domains(metadata)
    if descriptions is not None:
        place.describe("description", descriptions, raster.shape[0])
    mask = None if mask is None else _mask_rows(mask, raster.shape)
    options = {
        "crs": _crs(place.crs),
        "transform": place.transform,
        "gcps": place.gcps or None,
        "area_or_point": place.area_or_point,
        "nodata": place.nodata,
        "nan_to_nodata": _fills_nan(nan_to_nodata, raster.dtype, place.nodata),
        "mask": mask is not None,
        "compression": compression,
        "compression_level": compression_level,
        "quality": quality,
        "max_z_error": max_z_error,
        "predictor": predictor,
        "tile": _tile(tile_size),
        "strips": strips,
        "planar": _choice("interleave", interleave, {"pixel": False, "band": True}),
        "sparse": sparse,
        "cog": cog,
        "overviews": "none" if overviews is None else overviews,
        # The writer's own default is the average, but nearest where an average makes no sense.
        "resampling": None if resampling == "average" else resampling,
        "bigtiff": bigtiff,
        "metadata": place.metadata or None,
        "bands": place.bands or None,
        "colormap": _colormap(colormap, raster.dtype),
        "photometric": _photometric(photometric),
        "device": _encoder(device, raster),
        "fallback": fallback,
        "storage_options": flat_options(storage_options),
    }
    if strips and tile_size is not None:
        raise ValueError("tile_size: strips have none")
    if strips and cog:
        raise ValueError("cog: it has tiles, not strips")
    raster.stays = raster.device is not None and options["device"] != "cpu"
    mask = _mask_beside(mask, raster)
    budget = raster.budget(memory)
    crew = raster.crew(options)
    with _report_progress(progress, raster.shape[1]) as done, destination(dst) as out:
        # Who is not in this process sends parts of an object himself. A COG begins with what is known last.
        large = raster.dtype.itemsize * math.prod(raster.shape) >= _SHARED
        target = out if crew is not None and crew.is_apart and large and not cog and is_object(out) else None
        writer = Writer(out, raster.shape, raster.dtype.name, memory=budget.writer, encoded=crew is not None,
                        shared=target is not None, **options)
        try:
            if crew is not None:
                return raster.collect(crew, writer, target, options, mask, done)
            row = 0
            for rows in raster.rows(budget, writer.tile_rows):
                count = rows.shape[1]
                writer.push(_lent(rows), None if mask is None else _lent(mask(row, row + count)))
                row += count
                done(row)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise


# ---------------------------------------------------------------------------------------------- options


def _encoder(device: Any, raster: Raster) -> str:
    """Where tiles are encoded: where the data are, unless somebody says otherwise."""
    if isinstance(device, int):
        return f"cuda:{device}"
    if device == "auto":
        return raster.device or "cpu"
    return raster.device or device if device == "cuda" else device


def _choice(name: str, value: Any, choices: Mapping[str, Any]) -> Any:
    if value not in choices:
        raise ValueError(f"{name}: {value!r} is none of {', '.join(choices)}")
    return choices[value]


def _tile(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, (int, numpy.integer)) else size
    for side in (height, width):
        if side <= 0 or side % 16 or side > 65536:
            raise ValueError(f"tile_size: {side} is no multiple of 16 up to 65536")
    return int(height), int(width)


def _crs(crs: Any) -> Any:
    """An EPSG code or a text that the writer knows."""
    if crs is None:
        return None
    if isinstance(crs, (int, numpy.integer)):
        return int(crs)
    if isinstance(crs, str):
        if crs.strip().upper().startswith("EPSG:") or "[" in crs:
            return crs
    elif hasattr(crs, "to_epsg") and hasattr(crs, "to_wkt"):
        # Only where it is that code without a doubt.
        code = crs.to_epsg(100)
        return crs.to_wkt() if code is None else int(code)
    try:
        import pyproj
    except ImportError as error:
        raise UnavailableError(f"crs: reading {crs!r} needs pyproj (pip install 'tiffjet[xarray]')") from error
    try:
        return _crs(pyproj.CRS.from_user_input(crs))
    except pyproj.exceptions.CRSError as error:
        raise ValueError(f"crs: {crs!r} can't be read: {error}") from error


def _photometric(value: Any) -> int | None:
    if isinstance(value, str):
        return None if value == "auto" else _choice("photometric", value.lower(), _PHOTOMETRIC)
    return int(value)


def _colormap(colormap: Mapping[int, Sequence[int]] | None, dtype: numpy.dtype) -> list[int] | None:
    """All red, all green, all blue, in 16 bits."""
    if colormap is None:
        return None
    if dtype not in (numpy.uint8, numpy.uint16):
        raise ValueError(f"colormap: {dtype} has none, uint8 and uint16 do")
    entries = numpy.zeros((3, 1 << (8 * dtype.itemsize)), "uint16")
    for value, colour in colormap.items():
        if not 0 <= value < entries.shape[1] or any(not 0 <= part <= 255 for part in colour[:3]) or len(colour) < 3:
            raise ValueError(f"colormap: {value}: {colour} is no value and its colour")
        entries[:, value] = [part * 257 for part in colour[:3]]
    return entries.ravel().tolist()


def _fills_nan(choice: Any, dtype: numpy.dtype, nodata: Any) -> bool:
    number = nodata is not None and not (isinstance(nodata, (float, numpy.floating)) and math.isnan(nodata))
    if choice == "auto":
        return dtype.kind == "f" and number
    if choice and not number:
        raise ValueError("nan_to_nodata: there is no nodata value")
    return bool(choice) and dtype.kind == "f"


def _domains(metadata: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """GDAL's metadata by domain; items that are no mapping are of the default domain."""
    domains: dict[str, dict[str, str]] = {}
    for name, value in metadata.items():
        if isinstance(value, Mapping):
            domains.setdefault(str(name), {}).update({str(k): str(v) for k, v in value.items()})
        else:
            domains.setdefault("", {})[str(name)] = str(value)
    return domains


class _report_progress:
    """Tells somebody how many rows are done."""

    def __init__(self, progress: Any, rows: int) -> None:
        self._rows = rows
        self._bar: Any = None
        self._call = progress if callable(progress) else None
        if progress is True:
            try:
                from tqdm.auto import tqdm
            except ImportError as error:
                raise UnavailableError("progress=True needs tqdm (pip install tqdm)") from error
            self._bar = tqdm(total=rows, unit="row")

    def __enter__(self) -> Callable[[int], None]:
        return self._done

    def _done(self, rows: int) -> None:
        if self._bar is not None:
            self._bar.update(rows - self._bar.n)
        if self._call is not None:
            self._call(rows, self._rows)

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.close()


# ---------------------------------------------------------------------------------------------- rows


@dataclass
class Budget:
    """Bytes for rows that wait, and for the writer."""

    rows: int
    writer: int | None


@dataclass
class Place:
    """Where an image lies and what its values mean."""

    crs: Any = None
    transform: tuple[float, ...] | None = None
    gcps: list[tuple[float, float, float, float, float, str]] = field(default_factory=list)
    nodata: Any = None
    area_or_point: str | None = None
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    bands: list[dict[str, Any]] = field(default_factory=list)

    def describe(self, what: str, values: Sequence[Any], count: int) -> None:
        """Says something of each band."""
        if len(values) != count:
            raise ValueError(f"{what}: {len(values)} of them for {count} bands")
        self.bands = self.bands or [{} for _ in range(count)]
        for band, value in zip(self.bands, values):
            if value is not None:
                band[what] = value


class Raster:
    """An image that gives its rows in order: (band, rows, x)."""

    shape: tuple[int, int, int]
    dtype: numpy.dtype
    place: Place
    # The GPU that its rows are on.
    device: str | None = None
    # They are encoded there.
    stays: bool = False

    def budget(self, memory: Any) -> Budget:
        """The rows of arrays in memory are views or small copies: all is for the writer, which chooses where nobody says."""
        size = None if memory is None else _positive(memory)
        if self.stays:
            return Budget(_DEVICE_SLAB, size)
        return Budget(min(_SLAB, max((size or _MEMORY) // 4, 1)), size)

    def rows(self, budget: Budget, tile_rows: int) -> Iterator[numpy.ndarray]:
        step = slab_rows(self, budget.rows, tile_rows)
        for start in range(0, self.shape[1], step):
            yield self.part(start, min(start + step, self.shape[1]))

    def part(self, start: int, stop: int) -> numpy.ndarray:
        raise NotImplementedError

    def crew(self, options: dict[str, Any]) -> Any:
        """Who encodes parts of it where they are; None where rows come here."""
        return None

    def collect(self, crew: Any, writer: Writer, target: str | None, options: dict[str, Any], mask: Any,
                done: Callable[[int], Any]) -> Written:
        """Lets them, and gives the writer the tiles, or only their lengths where they have a target for them."""
        raise NotImplementedError


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _positive(memory: Any) -> int:
    """Bytes, as a number or as text with a unit: 64MiB, 64MB and 64M are the same."""
    if isinstance(memory, str):
        text = memory.strip().lower().removesuffix("b").removesuffix("i")
        digits = text.rstrip("kmg").strip()
        unit = text[len(text.rstrip("kmg")) :]
        if unit not in _UNITS or not digits.isdigit():
            raise ValueError(f"memory: {memory!r} is no number of bytes, like 64MiB")
        memory = int(digits) * _UNITS[unit]
    if memory <= 0:
        raise ValueError(f"memory: {memory} bytes are none")
    return int(memory)


def slab_rows(raster: Raster, size: int, tile_rows: int) -> int:
    """Rows of whole tiles that fit into so many bytes, one row of tiles at least."""
    row = raster.shape[0] * raster.shape[2] * raster.dtype.itemsize
    return max(size // max(row * tile_rows, 1), 1) * tile_rows


class _Array(Raster):
    """An array in memory, seen as (band, y, x)."""

    def __init__(self, array: Any, place: Place) -> None:
        self.array = array
        self.place = place
        self.shape = tuple(int(n) for n in array.shape)  # type: ignore[assignment]
        self.dtype = written_dtype(numpy.dtype(str(array.dtype).removeprefix("torch.")))
        self.device = device_of(array)

    def part(self, start: int, stop: int) -> Any:
        rows = self.array[:, start:stop]
        return on_device(rows) if self.stays else to_host(rows)


class _Whole(Raster):
    """An array on a GPU that can't be cut, as tiffjet's own are."""

    def __init__(self, array: Any, place: Place) -> None:
        if len(array.shape) != 3 or 0 in tuple(array.shape):
            raise ValueError(f"data: axes (band, y, x) are meant, this has {tuple(array.shape)}")
        self.array = array
        self.place = place
        self.shape = tuple(int(n) for n in array.shape)  # type: ignore[assignment]
        self.dtype = written_dtype(numpy.dtype(str(array.dtype)))
        self.device = device_of(array)

    def rows(self, budget: Budget, tile_rows: int) -> Iterator[Any]:
        yield self.array if self.stays else to_host(self.array)


class _Lazy(Raster):
    """A variable of xarray that is still in its file: it is read as it is written."""

    def __init__(self, variable: Any, place: Place) -> None:
        self.variable = variable
        self.place = place
        self.shape = (1, *variable.shape) if variable.ndim == 2 else variable.shape
        self.dtype = written_dtype(numpy.dtype(variable.dtype))

    def part(self, start: int, stop: int) -> numpy.ndarray:
        rows = self.variable[..., start:stop, :].data
        return to_host(rows).reshape(self.shape[0], -1, self.shape[2])


def written_dtype(dtype: numpy.dtype) -> numpy.dtype:
    """The type in the file: native byte order, a byte for a truth value."""
    if dtype.kind == "b":
        return numpy.dtype("uint8")
    if dtype.kind not in "iufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise ValueError(f"data: {dtype} can't be written")
    return dtype.newbyteorder("=")


# DLPack's number of GPUs of NVIDIA.
_CUDA = 2


def device_of(array: Any) -> str | None:
    """The GPU that an array is on; None for the host."""
    if isinstance(array, numpy.ndarray):
        return None
    if hasattr(array, "__dlpack_device__"):
        kind, number = array.__dlpack_device__()
        return f"cuda:{int(number)}" if int(kind) == _CUDA else None
    return "cuda" if hasattr(array, "__cuda_array_interface__") else None


def on_device(rows: Any) -> Any:
    """Rows on a GPU as the writer takes them: truth values become bytes."""
    if hasattr(rows, "detach"):
        rows = rows.detach()  # torch lends no memory that it keeps a gradient for
    if str(rows.dtype).removeprefix("torch.") == "bool":
        rows = rows.view(dtype=_byte(rows))
    return rows


def _byte(array: Any) -> Any:
    """The type of bytes in the words of an array's library."""
    if type(array.dtype).__module__.startswith("torch"):
        import torch

        return torch.uint8
    return numpy.uint8


def to_host(array: Any) -> numpy.ndarray:
    """A NumPy array of any array; memory is shared where it can be."""
    if isinstance(array, numpy.ndarray):
        return array
    if hasattr(array, "__cuda_array_interface__"):
        return array.get() if hasattr(array, "get") else numpy.asarray(array.cpu())
    if hasattr(array, "__array__") and not hasattr(array, "__dlpack__"):
        return numpy.asarray(array)
    if hasattr(array, "detach"):
        array = array.detach()  # torch lends no memory that it keeps a gradient for
    return numpy.from_dlpack(array)


def _lent(rows: Any) -> Any:
    """Rows as the writer takes them: those of the host as bytes, those of a GPU as they are."""
    return _bytes(rows) if isinstance(rows, numpy.ndarray) else rows


def _bytes(rows: numpy.ndarray) -> numpy.ndarray:
    """The bytes of rows, one band after the other; copied only where they have gaps or another type."""
    rows = numpy.ascontiguousarray(rows, dtype=written_dtype(rows.dtype))
    return rows.reshape(-1).view("uint8")


def _mask_rows(mask: Any, shape: tuple[int, int, int]) -> Mask:
    mask = getattr(mask, "data", mask) if hasattr(mask, "dims") else mask
    if not hasattr(mask, "shape"):
        mask = numpy.asarray(mask)
    if tuple(mask.shape) == (1, *shape[1:]):
        mask = mask[0]
    if tuple(mask.shape) != shape[1:]:
        raise ValueError(f"mask: it is {tuple(mask.shape)}, the image {shape[1:]}")

    return Mask(mask)


class Mask:
    """Which pixels are valid, given row by row: bytes of axes (y, x)."""

    def __init__(self, mask: Any) -> None:
        self._mask = mask
        self.device = device_of(getattr(mask, "_meta", mask))
        self.stays = False

    def raw(self, start: int, stop: int) -> Any:
        """Rows of it as they are given."""
        return self._mask[start:stop]

    def __call__(self, start: int, stop: int) -> Any:
        part = self._mask[start:stop]
        part = part.compute() if hasattr(part, "compute") else part
        if self.stays:
            return on_device(part != 0)
        return (to_host(part) != 0).astype("uint8")


def _mask_beside(mask: Mask | None, raster: Raster) -> Mask | None:
    """Pixels and mask go the same way: where one of them is on the host, by the host."""
    if mask is not None:
        raster.stays = mask.stays = raster.stays and mask.device is not None
    return mask


# ---------------------------------------------------------------------------------------------- what users have


def _raster(data: Any) -> Raster:
    if hasattr(data, "data_vars"):
        if len(data.data_vars) != 1:
            names = ", ".join(str(name) for name in data.data_vars)
            raise ValueError(f"data: a Dataset with one variable is meant, this one has {names or 'none'}")
        data = data[next(iter(data.data_vars))]
    if hasattr(data, "dims") and hasattr(data, "coords"):
        return _of_data_array(data)
    if hasattr(data, "__dask_graph__"):
        from .dask import Chunked

        return Chunked(_three_axes(data), Place())
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        data = numpy.asarray(data)
    elif not hasattr(data, "__getitem__"):
        if device_of(data) is not None:
            return _Whole(data, Place())
        data = to_host(data)
    return _Array(_three_axes(data), Place())


def _three_axes(array: Any) -> Any:
    if len(array.shape) == 2:
        array = array[None]
    if len(array.shape) != 3:
        raise ValueError(f"data: axes (y, x) or (band, y, x) are meant, this has {len(array.shape)}")
    if 0 in tuple(array.shape):
        raise ValueError(f"data: {tuple(array.shape)} is empty")
    return array


def find_axes(dims: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Band, y and x among the names of axes; the first may be None."""
    if len(dims) not in (2, 3):
        raise ValueError(f"data: axes (y, x) and perhaps bands are meant, this has {tuple(dims)}")
    lower = {dim: str(dim).lower() for dim in dims}
    y = next((dim for dim in dims if lower[dim] in _Y), None)
    x = next((dim for dim in dims if lower[dim] in _X), None)
    if y is None and x is None:
        y, x = dims[-2], dims[-1]
    elif y is None or x is None:
        raise ValueError(f"data: one of the axes {tuple(dims)} is y or x, and no other is its partner")
    band = next((dim for dim in dims if dim not in (y, x)), None)
    return band, y, x


def _of_data_array(data: Any) -> Raster:
    from . import _place

    band, y, x = find_axes(data.dims)
    variable = data.variable.transpose(*(dim for dim in (band, y, x) if dim is not None))
    if 0 in variable.shape:
        raise ValueError(f"data: {variable.shape} is empty")
    place = _place.of_data_array(data, y, x, 1 if band is None else variable.shape[0])
    if hasattr(variable._data, "__dask_graph__"):
        from .dask import Chunked

        return Chunked(_three_axes(variable._data), place)
    if not variable._in_memory:
        return _Lazy(variable, place)
    return _Array(_three_axes(variable.data), place)
