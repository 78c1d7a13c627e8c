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


def open_geotiff(src, **options):
    """Opens a GeoTIFF as an `xarray.DataArray`; see `tiffjet.xarray.open_geotiff` for the options."""
    from .xarray import open_geotiff

    return open_geotiff(src, **options)


def open_mosaic(files_or_vrt, **options):
    """Opens many files, or a virtual raster, as one `xarray.DataArray`; see `tiffjet.mosaic.open_mosaic`."""
    from .mosaic import open_mosaic

    return open_mosaic(files_or_vrt, **options)


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
