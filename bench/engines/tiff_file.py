"""tifffile with imagecodecs. Its pixels keep the axes of the file: it never takes interleaved bands apart."""

import os

import imagecodecs
import numpy as np
import tifffile
import zarr

from .adapter import Adapter, Buffer


class TiffFile(Adapter):
    def __init__(self, workers):
        self.workers = workers or len(os.sched_getaffinity(0))
        self.buffer = Buffer()

    def versions(self):
        return {"tifffile": tifffile.__version__, "imagecodecs": imagecodecs.__version__, "zarr": zarr.__version__}

    def read(self, path):
        with tifffile.TiffFile(path) as tiff:
            page = tiff.pages[0]
            return page.asarray(out=self.buffer.array(page.shape, page.dtype), maxworkers=self.workers)

    def bands_first(self, pixels):
        if pixels.ndim == 2:
            return pixels[None]
        return np.moveaxis(pixels, -1, 0) if pixels.shape[-1] < min(pixels.shape[:2]) else pixels

    def open(self, path):
        tiff = tifffile.TiffFile(path)
        page = tiff.pages[0]
        _ = page.shape, page.dtype, page.tags.get("ModelPixelScaleTag"), page.tags.get("ModelTiepointTag")
        return [tiff, None]

    def close(self, handle):
        handle[0].close()

    def window(self, handle, row, col, side):
        if handle[1] is None:  # windows go through zarr, tifffile's own way
            handle[1] = zarr.open(handle[0].pages[0].aszarr(maxworkers=self.workers), mode="r")
        array = handle[1]
        rows, cols = slice(row, row + side), slice(col, col + side)
        planes_apart = array.ndim == 3 and array.shape[0] < min(array.shape[1:])
        return array[:, rows, cols] if planes_apart else array[rows, cols]


def adapter(workers):
    return TiffFile(int(workers))
