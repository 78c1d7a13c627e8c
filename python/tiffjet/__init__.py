"""GeoTIFF and COG, straight to and from the GPU.

>>> import numpy, tiffjet
>>> written = tiffjet.to_geotiff(numpy.zeros((3, 100, 200), "uint16"), "zeros.tif", crs=32633, transform=(10, 0, 5e5, 0, -10, 6e6))
>>> image = tiffjet.open("zeros.tif")
>>> image.shape, image.dtype.name, image.crs
((3, 100, 200), 'uint16', Crs("EPSG:32633"))
>>> tensor = image.read(window=((0, 50), (100, 200)), bands=[1])
>>> tensor.shape, numpy.asarray(tensor).sum().item()
((1, 50, 100), 0)
"""

from ._doctor import doctor
from ._files import open, validate
from ._read import read_many
from ._tiffjet import (
    Crs,
    FormatError,
    Image,
    Level,
    LimitError,
    Report,
    Tensor,
    UnavailableError,
    Writer,
    Written,
    __version__,
)
from ._write import to_geotiff


def open_geotiff(src, *, chunks=None, device="auto", window=None, bbox=None, bands=None, level=0, resolution=None,
                 max_size=None, masked=False, mask_and_scale=False, dtype=None, name=None, fallback="allow", io="auto",
                 page=0, limits=None, storage_options=None):
    """Opens a GeoTIFF as an `xarray.DataArray` of dims (band, y, x); `tiffjet.xarray.open_geotiff` explains the options."""
    options = {key: value for key, value in locals().items() if key != "src"}
    return _with_xarray("xarray", "open_geotiff")(src, **options)


def open_mosaic(files_or_vrt, *, chunks=None, device="auto", window=None, bbox=None, bands=None, overlap="first_valid",
                nodata=None, missing="raise", root=None, masked=False, mask_and_scale=False, dtype=None, name=None,
                fallback="allow", io="auto", limits=None, storage_options=None):
    """Opens many files, or a virtual raster, as one `xarray.DataArray`; `tiffjet.mosaic.open_mosaic` explains the options."""
    options = {key: value for key, value in locals().items() if key != "files_or_vrt"}
    return _with_xarray("mosaic", "open_mosaic")(files_or_vrt, **options)


def _with_xarray(module, function):
    """A function of a module that needs xarray, which is not imported before it is used."""
    from importlib import import_module

    try:
        return getattr(import_module(f"{__name__}.{module}"), function)
    except ModuleNotFoundError as error:
        if error.name != "xarray":
            raise
        raise UnavailableError(f"{function} needs xarray (pip install 'tiffjet[xarray]')") from error


def _register_accessor() -> None:
    """`da.tiffjet` is there as soon as both xarray and tiffjet are imported, whichever comes first."""
    import sys

    from ._hook import when_imported

    if "xarray" in sys.modules:
        from . import xarray  # noqa: F401
    else:
        when_imported("xarray", "tiffjet.xarray")


_register_accessor()

__all__ = [
    "Crs",
    "FormatError",
    "Image",
    "Level",
    "LimitError",
    "Report",
    "Tensor",
    "UnavailableError",
    "Writer",
    "Written",
    "__version__",
    "doctor",
    "open",
    "open_geotiff",
    "open_mosaic",
    "read_many",
    "to_geotiff",
    "validate",
]
