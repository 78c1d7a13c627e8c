"""rioxarray: GDAL through rasterio, into a DataArray."""

import rioxarray

from .adapter import Adapter


class Rioxarray(Adapter):
    def versions(self):
        return {"rioxarray": rioxarray.__version__}

    def read(self, path):
        with rioxarray.open_rasterio(path) as array:
            return array.load().values

    def open(self, path):
        array = rioxarray.open_rasterio(path)
        _ = array.shape, array.dtype, array.rio.transform()
        return array

    def close(self, handle):
        handle.close()

    def window(self, handle, row, col, side):
        return handle[:, row : row + side, col : col + side].values


def adapter():
    return Rioxarray()
