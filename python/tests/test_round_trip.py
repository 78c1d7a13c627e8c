"""Any options and any pixels: what is written is what is read, by ourselves, by GDAL and by tifffile, and the other way.

TIFFJET_TRIPS says how many images (40), TIFFJET_SEED from which number on; a number is always the same image.
"""

import logging
import os
import warnings

import numpy
import pytest

import tiffjet

FIRST = int(os.environ.get("TIFFJET_SEED", 1))
COUNT = int(os.environ.get("TIFFJET_TRIPS", 40))
DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64", "complex64", "complex128"]
# LERC holds no integers of 64 bits, and NaN in ways of its own.
LERC_DTYPES = DTYPES[:6]
CODECS = ["none", "packbits", "lzw", "deflate", "zstd", "lzma", "lerc", "lerc_deflate", "lerc_zstd", "webp"]


def of(dice, *choices):
    return choices[dice.integers(len(choices))]


def values(dice, shape, dtype):
    """Noise, a slope, a few values or one."""
    dtype = numpy.dtype(dtype)
    size = int(numpy.prod(shape))
    kind = dice.integers(4)
    if kind == 0:
        # Any bits there are, but no NaN: there are many, and who reads them may have one of his own.
        data = numpy.frombuffer(dice.bytes(size * dtype.itemsize), dtype).copy()
        if dtype.kind in "fc":
            data[~numpy.isfinite(data)] = 1
    elif kind == 1:
        data = (numpy.arange(size) // 3).astype(dtype)
    elif kind == 2:
        data = dice.integers(0, 4, size).astype(dtype) * dtype.type(7)
    else:
        data = numpy.zeros(size, dtype)
    if dtype.kind == "f" and dice.integers(3) == 0:
        data[dice.integers(0, size, size // 20)] = numpy.nan
        data[dice.integers(0, size, size // 30)] = -numpy.inf
    return data.reshape(shape)


def image(dice):
    """Pixels, and options for `to_geotiff`."""
    shape = (of(dice, 1, 1, 1, 2, 3, 4, 6), int(dice.integers(1, 140)), int(dice.integers(1, 140)))
    codec = of(dice, *CODECS)
    dtype = "uint8" if codec == "webp" else of(dice, *DTYPES)
    cog, strips = dice.integers(3) == 0, dice.integers(4) == 0
    options = {"compression": codec, "cog": bool(cog), "interleave": of(dice, "pixel", "pixel", "band"),
               "sparse": bool(dice.integers(4) == 0), "bigtiff": of(dice, "auto", True, False),
               "predictor": of(dice, "auto", "auto", "none", 2, 3), "overviews": of(dice, "auto", None, [2, 4]),
               "resampling": of(dice, "nearest", "average", "mode")}
    options |= {"strips": True} if strips and not cog else {"tile_size": (16 * int(dice.integers(1, 7)), 16 * int(dice.integers(1, 7)))}
    options |= {"quality": 100} if codec == "webp" else {}
    options |= {"nodata": 0, "nan_to_nodata": False} if dice.integers(4) == 0 else {}
    return values(dice, shape, dtype), options


def written(number, path):
    """An image, written; what can't go together is refused, and another takes its place."""
    for part in range(64):
        pixels, options = image(numpy.random.default_rng([number, part]))
        try:
            tiffjet.to_geotiff(pixels, path, device="cpu", **options)
        except (ValueError, NotImplementedError):
            assert not os.path.exists(path)
            continue
        return pixels, options
    raise AssertionError(f"no options of {number} can be written")


def same(number, what, expected, found, told):
    message = f"TIFFJET_SEED={number} TIFFJET_TRIPS=1, {what}: {told}"
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), message
    assert numpy.array_equal(found, expected, equal_nan=expected.dtype.kind in "fc"), message


def each(folder):
    for number in range(FIRST, FIRST + COUNT):
        path = str(folder / f"{number}.tif")
        yield number, path
        os.remove(path)


def test_we_read_what_we_write(folder):
    for number, path in each(folder):
        pixels, options = written(number, path)
        opened = tiffjet.open(path)
        same(number, "whole", pixels, numpy.asarray(opened.read(device="cpu")), options)
        dice = numpy.random.default_rng([number, 99])
        (y, x), (height, width) = (dice.integers(0, pixels.shape[1:])), pixels.shape[1:]
        rows, columns = slice(int(y), int(dice.integers(y, height)) + 1), slice(int(x), int(dice.integers(x, width)) + 1)
        part = numpy.asarray(opened.read((rows, columns), device="cpu"))
        same(number, f"rows {rows}, columns {columns}", pixels[:, rows, columns], part, options)


def test_gdal_reads_what_we_write(folder):
    rasterio = pytest.importorskip("rasterio")
    for number, path in each(folder):
        pixels, options = written(number, path)
        with rasterio.Env(GDAL_PAM_ENABLED="NO"), warnings.catch_warnings():
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            with rasterio.open(path) as file:
                same(number, "GDAL", pixels, file.read(), options)


def test_we_read_what_gdal_writes(folder):
    rasterio = pytest.importorskip("rasterio")
    for number, path in each(folder):
        dice = numpy.random.default_rng([number, 100])
        codec = of(dice, "NONE", "PACKBITS", "LZW", "DEFLATE", "ZSTD", "LZMA", "LERC", "LERC_ZSTD")
        bands, height, width = of(dice, 1, 1, 2, 3, 4), int(dice.integers(1, 140)), int(dice.integers(1, 140))
        pixels = values(dice, (bands, height, width), of(dice, *(LERC_DTYPES if codec.startswith("LERC") else DTYPES)))
        plain = pixels.dtype.kind != "c" and codec in ("LZW", "DEFLATE", "ZSTD")
        predictor = of(dice, *((1, 2, 3) if pixels.dtype.kind == "f" else (1, 2))) if plain else 1
        options = {"compress": codec, "interleave": of(dice, "pixel", "band"), "bigtiff": of(dice, "YES", "NO"),
                   "sparse_ok": bool(dice.integers(2)), "endianness": of(dice, "LITTLE", "BIG"),
                   "tiled": bool(dice.integers(3))}
        options |= {"predictor": predictor} if plain else {}
        options |= {"blockxsize": 16 * int(dice.integers(1, 7)), "blockysize": 16 * int(dice.integers(1, 7))} if options["tiled"] else {
            "blockysize": int(dice.integers(1, height + 1))}
        shape = {"count": bands, "height": height, "width": width, "dtype": pixels.dtype.name}
        with rasterio.Env(GDAL_PAM_ENABLED="NO"), warnings.catch_warnings():
            warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
            with rasterio.open(path, "w", driver="GTiff", **shape, **options) as file:
                file.write(pixels)
        same(number, "GDAL wrote", pixels, numpy.asarray(tiffjet.open(path).read(device="cpu")), options)


def planes(page):
    """Band, y, x."""
    pixels = page.asarray()
    if "S" in page.axes:
        pixels = numpy.moveaxis(pixels, page.axes.index("S"), 0)
    return pixels.reshape(-1, *pixels.shape[-2:])


def test_tifffile_reads_what_we_write(folder, monkeypatch):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    monkeypatch.setattr(logging.getLogger("tifffile"), "disabled", True)
    for number, path in each(folder):
        pixels, options = written(number, path)
        with tifffile.TiffFile(path) as file:
            found = planes(file.pages[0])
        if options["compression"].startswith("lerc"):
            # NaN is in LERC's mask, which tifffile passes over.
            found = numpy.where(numpy.isnan(pixels), pixels, found)
        same(number, "tifffile", pixels, found, options)


def test_we_read_what_tifffile_writes(folder):
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    for number, path in each(folder):
        dice = numpy.random.default_rng([number, 101])
        codec = of(dice, None, "packbits", "lzw", "zlib", "zstd", "lzma", "lerc")
        planar = dice.integers(2) == 0
        bands, height, width = of(dice, 1, 1, 2, 3, 4), int(dice.integers(1, 140)), int(dice.integers(1, 140))
        pixels = values(dice, (bands, height, width), of(dice, *(LERC_DTYPES if codec == "lerc" else DTYPES)))
        plain = codec in ("lzw", "zlib", "zstd") and pixels.dtype.kind != "c" and pixels.dtype not in ("uint64", "int64")
        options = {"compression": codec, "bigtiff": bool(dice.integers(2)), "byteorder": "<" if codec == "lerc" else of(dice, "<", ">"),
                   "predictor": plain and bool(dice.integers(2)), "photometric": "minisblack"}
        options |= {"planarconfig": "separate" if planar else "contig"} if bands > 1 else {}
        options |= {"tile": (16 * int(dice.integers(1, 7)), 16 * int(dice.integers(1, 7)))} if dice.integers(2) else {
            "rowsperstrip": int(dice.integers(1, height + 1))}
        data = pixels[0] if bands == 1 else pixels if planar else numpy.moveaxis(pixels, 0, -1)
        tifffile.imwrite(path, data, metadata=None, **options)
        same(number, "tifffile wrote", pixels, numpy.asarray(tiffjet.open(path).read(device="cpu")), options)
