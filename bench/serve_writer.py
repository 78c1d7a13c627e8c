#!/usr/bin/env python3
"""Serves one rival that writes over a line protocol: a request a line on stdin, a JSON object a line on stdout.

    python bench/serve_writer.py WRITER

    versions                                    {"NAME": "VERSION", ...}
    load PATH HEADER BANDS HEIGHT WIDTH DTYPE   {}; keeps the pixels of a NumPy file in the order this writer likes best
    write OUT CODEC LEVEL PREDICTOR TILE LAYOUT {"wall": s, "cpu": s, "sync": s}; LAYOUT is tiled or cog, LEVEL may be -
    convert IN OUT CODEC LEVEL PREDICTOR TILE   {}; a COG of a file, for `write.py` to see the memory it takes

Anything that fails answers {"error": "..."}; the engine goes on. Arguments are separated by tabs. `sync` is what the disk
needs afterwards: rivals leave it to the system, tiffjet's wall time has it.
"""

import gc
import json
import os
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np

TRANSFORM = (10.0, 0.0, 500_000.0, 0.0, -10.0, 5_000_000.0)
LEVELS = {"deflate": "ZLEVEL", "zstd": "ZSTD_LEVEL"}


class Gdal:
    """GDAL's drivers GTiff and COG, from an array in memory, with all threads."""

    packages = ("rasterio",)

    def __init__(self):
        os.environ["GDAL_MEM_ENABLE_OPEN"] = "YES"
        import rasterio
        import rasterio.shutil

        self.rasterio = rasterio

    def arrange(self, pixels):
        return pixels

    def options(self, codec, level, predictor):
        chosen = {"compress": codec, "num_threads": "ALL_CPUS"}
        if level:
            chosen[LEVELS[codec]] = level
        if predictor != 1:
            chosen["predictor"] = predictor
        return chosen

    def tiled(self, pixels, out, codec, level, predictor, tile):
        bands, height, width = pixels.shape
        options = self.options(codec, level, predictor) | {"tiled": True, "blockxsize": tile, "blockysize": tile}
        shape = {"count": bands, "height": height, "width": width, "dtype": pixels.dtype}
        with self.rasterio.open(out, "w", driver="GTiff", interleave="pixel", **shape, **options) as image:
            image.write(pixels)

    def memory(self, pixels):
        """A dataset over the array, nothing copied."""
        bands, height, width = pixels.shape
        kind = {"uint8": "Byte", "uint16": "UInt16", "float32": "Float32"}[str(pixels.dtype)]
        where = f"DATAPOINTER={pixels.ctypes.data},PIXELS={width},LINES={height},BANDS={bands},DATATYPE={kind}"
        return self.rasterio.open(f"MEM:::{where}")

    def cog_options(self, codec, level, predictor, tile):
        options = {"compress": codec, "num_threads": "ALL_CPUS", "blocksize": tile, "resampling": "average"}
        if level:
            options["level"] = level
        if predictor != 1:
            options["predictor"] = {2: "STANDARD", 3: "FLOATING_POINT"}[predictor]
        return options

    def cog(self, pixels, out, codec, level, predictor, tile):
        with self.memory(pixels) as image:
            self.rasterio.shutil.copy(image, out, driver="COG", **self.cog_options(codec, level, predictor, tile))

    def convert(self, path, out, codec, level, predictor, tile):
        self.rasterio.shutil.copy(path, out, driver="COG", **self.cog_options(codec, level, predictor, tile))


class RioCogeo(Gdal):
    """rio-cogeo, which makes the overviews in memory and lets GDAL copy."""

    packages = ("rio-cogeo",)

    def tiled(self, *_):
        raise NotImplementedError("writes COGs only")

    def translate(self, image, out, codec, level, predictor, tile, in_memory=True):
        from rio_cogeo.cogeo import cog_translate

        options = self.options(codec, level, predictor)
        profile = {"driver": "GTiff", "tiled": True, "interleave": "pixel", "blockxsize": tile, "blockysize": tile}
        cog_translate(
            image,
            out,
            profile | options,
            in_memory=in_memory,
            overview_resampling="average",
            config={"GDAL_NUM_THREADS": "ALL_CPUS"},
            quiet=True,
        )

    def cog(self, pixels, out, *how):
        with self.memory(pixels) as image:
            self.translate(image, out, *how)

    def convert(self, path, out, *how):
        # Its way to need less memory.
        self.translate(path, out, *how, in_memory=False)


class TiffFile:
    """tifffile with imagecodecs, a worker for each core."""

    packages = ("tifffile", "imagecodecs")

    def __init__(self):
        import tifffile

        self.tifffile = tifffile

    def arrange(self, pixels):
        return pixels[0] if len(pixels) == 1 else np.ascontiguousarray(np.moveaxis(pixels, 0, -1))

    def tiled(self, pixels, out, codec, level, predictor, tile):
        self.tifffile.imwrite(
            out,
            pixels,
            tile=(tile, tile),
            compression=None if codec == "none" else codec,
            compressionargs={"level": level} if level else None,
            predictor=predictor if predictor != 1 else None,
            photometric="rgb" if pixels.dtype == np.uint8 else "minisblack",
            planarconfig="contig" if pixels.ndim == 3 else None,
            maxworkers=os.cpu_count(),
        )

    def cog(self, *_):
        raise NotImplementedError("writes no COGs")

    convert = cog


class XarraySpatial:
    """xarray-spatial on the CPU."""

    packages = ("xarray-spatial",)

    def __init__(self):
        if not hasattr(np, "row_stack"):  # gone since NumPy 2.5; xarray-spatial still asks for it
            np.row_stack = np.vstack
        from xrspatial import geotiff

        self.geotiff = geotiff

    def arrange(self, pixels):
        return pixels[0] if len(pixels) == 1 else np.ascontiguousarray(np.moveaxis(pixels, 0, -1))

    def write(self, pixels, out, codec, level, predictor, tile, **more):
        self.geotiff.to_geotiff(
            pixels,
            out,
            compression=codec,
            compression_level=level or None,
            predictor=predictor,
            tile_size=tile,
            gpu=False,
            **more,
        )

    def tiled(self, pixels, out, *how):
        self.write(pixels, out, *how)

    def cog(self, pixels, out, *how):
        self.write(pixels, out, *how, cog=True)

    def convert(self, path, out, *how):
        self.cog(self.geotiff.open_geotiff(path, gpu=False, max_pixels=4_000_000_000), out, *how)


WRITERS = {"gdal": Gdal, "rio-cogeo": RioCogeo, "tifffile": TiffFile, "xarray-spatial": XarraySpatial}


class Server:
    def __init__(self, writer):
        self.writer = writer
        self.pixels = None

    def versions(self):
        return {name: version(name) for name in self.writer.packages}

    def load(self, path, *_):
        self.pixels = self.writer.arrange(np.load(path))
        return {}

    def write(self, out, codec, level, predictor, tile, layout):
        write = self.writer.cog if layout == "cog" else self.writer.tiled
        how = (codec, 0 if level == "-" else int(level), int(predictor), int(tile))
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        write(self.pixels, out, *how)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"wall": wall, "cpu": cpu, "sync": sync(out)}

    def convert(self, path, out, codec, level, predictor, tile):
        self.writer.convert(path, out, codec, 0 if level == "-" else int(level), int(predictor), int(tile))
        return {}


def sync(path):
    """Seconds until the file is on the disk."""
    file = os.open(path, os.O_RDONLY)
    start = time.perf_counter()
    os.fsync(file)
    os.close(file)
    return time.perf_counter() - start


def main():
    warnings.simplefilter("ignore")
    server = Server(WRITERS[sys.argv[1]]())
    for line in sys.stdin:
        request, *arguments = line.rstrip("\n").split("\t")
        try:
            answer = getattr(server, request)(*arguments)
        except Exception as error:  # noqa: BLE001
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
