"""Compares what tiffjet and rioxarray say of every TIFF below a folder: `python parity.py FOLDER [PART OF A NAME]`.

Prints a line for each difference and the sum of all; exit 1 when there is one that is not meant. A file at a time in a
process of its own for GDAL's sake: not every file of a corpus is kind to every reader.
"""

import math
import pathlib
import resource
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool

# What is meant to differ: a part of the path, the property, and why (see docs/reference/rioxarray.md).
MEANT = [
    ("complex_int32.tif", "dtype", "complex_int32"),
    ("cint32_big_endian.tif", "dtype", "complex_int32"),
    *((name, what, "CMYK as stored") for name in ("CMYK", "cmyk", "separated") for what in ("pixels", "masked")),
    *((name, what, "YCbCr as stored") for name in ("ycbcr_11_lzw", "ycbcr-separate", "planar-yuv444") for what in ("pixels", "masked")),
    ("lab-green.tif", "shape", "CIELab as stored"),
    ("nodata_raw_comma.tif", "nodata", "nodata that no pixel has"),
    ("byte_rpc.tif", "crs", "CRS of a camera model"),
    ("unstable_rpc_with_dem_source.tif", "crs", "CRS of a camera model"),
    ("IMG_foo2_R2C1.TIF", "crs", "CRS of a camera model"),
    ("WGS_1984_Web_Mercator.tif", "crs", "codes of ESRI"),
    ("geos_vrtwarp.tif", "crs", "names of user-defined CRSs"),
    ("inconsistent_invflattening.tif", "crs", "an ellipsoid that contradicts its code"),
    ("no_uom.tif", "crs", "an ellipsoid that contradicts its code"),
    ("/merc.tif", "crs", "a projection that WKT 1 can't tell"),
    *(("salinity.tif", what, "grids turned by a right angle") for what in ("transform", "x", "y")),
    ("", "open: LimitError", "limits"),
    # Files that were damaged on purpose: we refuse what GDAL reads in part, or fill in otherwise.
    *((name, what, "damaged") for name in ("/h-", "fuzz_images", "crash-") for what in ("open", "read", "pixels", "masked")),
    ("size_of_stripbytecount_at_1_and_lower_than_stripcount.tif", "read", "damaged"),
    ("stripbytecounts_count_not_same_as_stripoffsets_count.tif", "read", "damaged"),
    *(("last_strip_overlong_deflate.tif", what, "damaged") for what in ("pixels", "masked")),
]

# Pixels are compared up to this size.
PIXELS = 1 << 22
# Bytes that a process may have: a corpus has files that ask for all there is.
MEMORY = 6 << 30


def begin() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def spell(value) -> str:
    """A value in a line; a CRS of rasterio may be one that PROJ can't put into words."""
    try:
        return " ".join(str(value).split())[:200]
    except Exception as error:
        return f"{type(value).__name__} without words ({error})"


def compare(path: str) -> tuple[str, list[str]]:
    """How it went, and the differences."""
    import logging

    import numpy
    import rioxarray
    import tiffjet

    logging.getLogger("rasterio").setLevel(logging.CRITICAL)
    logging.getLogger("tiffjet").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        theirs = rioxarray.open_rasterio(path)
    except Exception:
        return "rioxarray does not open it", []
    if isinstance(theirs, list) or hasattr(theirs, "data_vars"):
        return "rioxarray sees several images", []
    if theirs.rio._manager.acquire().driver not in ("GTiff", "COG"):
        return "no TIFF for GDAL", []
    try:
        ours = tiffjet.open_geotiff(path)
    except NotImplementedError:
        return "tiffjet says that it can't", []
    except Exception as error:
        return "tiffjet does not open it", [f"open: {type(error).__name__}: {error}"]
    found = []

    def check(what, mine, other, equal=lambda a, b: a == b):
        try:
            same = equal(mine, other)
        except Exception as error:
            same, mine = False, f"{mine!r} ({error})"
        if not same:
            found.append(f"{what}: tiffjet {spell(mine)}, rioxarray {spell(other)}")

    def number(a, b):
        if a is None or b is None:
            return a is None and b is None
        return a == b or (math.isnan(a) and math.isnan(b))

    def transform(a, b):
        scale = max(abs(value) for value in tuple(b)[:6])
        return all(math.isclose(x, y, rel_tol=1e-12, abs_tol=scale * 1e-15) for x, y in zip(a, b))

    def values(a, b):
        return a.shape == b.shape and numpy.array_equal(a, b, equal_nan=a.dtype.kind in "fc")

    check("shape", ours.shape, theirs.shape)
    check("dtype", ours.dtype, theirs.dtype)
    check("crs", ours.rio.crs, theirs.rio.crs)
    check("transform", ours.rio.transform(), theirs.rio.transform(), transform)
    check("nodata", ours.rio.nodata, theirs.rio.nodata, number)
    for name in ("scale_factor", "add_offset", "long_name", "units", "AREA_OR_POINT", "scales", "offsets"):
        check(name, ours.attrs.get(name), theirs.attrs.get(name))
    for axis in ("x", "y"):
        if axis in theirs.coords and theirs.coords[axis].ndim == 1:
            close = lambda a, b: numpy.allclose(a, b, rtol=1e-12, atol=1e-12 * (abs(b).max() or 1))  # noqa: E731
            check(axis, ours.coords[axis].values, theirs.coords[axis].values, close)
    if ours.shape == theirs.shape and ours.size <= PIXELS:
        for masked in (False, True):
            try:
                other = rioxarray.open_rasterio(path, masked=masked).values
            except Exception:
                return "rioxarray can't read its pixels", found
            try:
                mine = tiffjet.open_geotiff(path, masked=masked).values
            except NotImplementedError:
                return "tiffjet says that it can't", found
            except Exception as error:
                found.append(f"read: {type(error).__name__}: {error!s:.200}")
                break
            if not values(mine, other):
                alike = (mine == other) | ((mine != mine) & (other != other)) if mine.shape == other.shape else None
                how_many = "all" if alike is None else int((~alike).sum())
                found.append(f"{'masked' if masked else 'pixels'}: {how_many} of {mine.size} values differ")
    return "compared", found


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    names = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in (".tif", ".tiff", ".gtiff", ".btf") and part in str(path))
    outcomes: dict[str, int] = {}
    differing = meant = 0
    pool = ProcessPoolExecutor(1, initializer=begin)
    for name in names:
        try:
            outcome, found = pool.submit(compare, name).result(timeout=120)
        except (BrokenProcessPool, TimeoutError):
            outcome, found = "the process ended or hung", []
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            pool = ProcessPoolExecutor(1, initializer=begin)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        for difference in found:
            known = next((why for piece, what, why in MEANT if piece in name and difference.startswith(what)), None)
            differing, meant = differing + (known is None), meant + (known is not None)
            print(f"{name}: {difference}" + (f" [{known}]" if known else ""), flush=True)
    for outcome, count in sorted(outcomes.items(), key=lambda item: -item[1]):
        print(f"{count:6} {outcome}")
    print(f"{differing} differences, and {meant} that are meant")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
