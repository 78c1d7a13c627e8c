"""xarray-spatial's GeoTIFF reader, on the CPU. It keeps no file open: a window opens it again."""

import warnings
from importlib.metadata import version

import numpy as np

if not hasattr(np, "row_stack"):  # gone since NumPy 2.5; xarray-spatial still asks for it
    np.row_stack = np.vstack

from xrspatial.geotiff import open_geotiff

from .adapter import Adapter

OPTIONS = {
    "gpu": False,
    "allow_experimental_codecs": True,
    "allow_internal_only_jpeg": True,
    "max_pixels": 4_000_000_000,
}


class XarraySpatial(Adapter):
    def __init__(self):
        warnings.simplefilter("ignore")

    def versions(self):
        return {name: version(name) for name in ("xarray-spatial", "xarray", "numba")}

    def read(self, path):
        return open_geotiff(path, **OPTIONS).data

    def bands_first(self, pixels):
        return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)

    def open(self, path):
        lazy = open_geotiff(path, chunks=8192, **OPTIONS)  # the public way to the metadata alone
        _ = lazy.shape, lazy.dtype, lazy.attrs.get("transform")
        return path

    def window(self, handle, row, col, side):
        return open_geotiff(handle, window=(row, col, row + side, col + side), **OPTIONS).data


def adapter():
    return XarraySpatial()
