"""Streamed writing: a dask array of 16384 x 16384 float32 to a tiled, ZSTD-compressed GeoTIFF, against every rival.

    python bench/stream_write.py [--size N] [--chunk N] [--rounds N] [--out RECORD.json]

Each write is a process of its own: its seconds are those of the write alone, its memory is the most that the process
ever had; what the imports and the array itself need is told beside it (a process that does all but the write). Of
several rounds the best counts, for every engine alike. Needs `pip install . dask rioxarray xarray-spatial odc-geo`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version


def make_array(size, chunk):
    """Terrain with noise, computed chunk by chunk."""
    import dask.array
    import numpy
    import xarray

    def block(block_info=None):
        (y0, y1), (x0, x1) = block_info[None]["array-location"]
        y, x = numpy.ogrid[y0:y1, x0:x1]
        values = numpy.random.default_rng([y0, x0]).random((y1 - y0, x1 - x0), "float32")
        numpy.round(values, 2, out=values)
        values += 100 * numpy.sin(y / 400).astype("float32")
        values += 80 * numpy.cos(x / 300).astype("float32")
        return values

    sizes = (tuple(min(chunk, size - i) for i in range(0, size, chunk)),) * 2
    data = dask.array.map_blocks(block, chunks=sizes, dtype="float32", meta=numpy.empty((0, 0), "float32"))
    y = 6e6 - 10 * (numpy.arange(size) + 0.5)
    x = 5e5 + 10 * (numpy.arange(size) + 0.5)
    return xarray.DataArray(data, dims=("y", "x"), coords={"y": y, "x": x})


def with_tiffjet(da, path, memory=None):
    import tiffjet

    tiffjet.to_geotiff(da, path, crs=32633, compression="zstd", compression_level=1, predictor=3, tile_size=512, memory=memory)


def with_tiffjet_64m(da, path):
    """Within 64 MiB: less than a row of chunks, which then waits on the disk."""
    with_tiffjet(da, path, 64 << 20)


def with_rioxarray(da, path, lock=None):
    """As most call it: the array is computed as a whole, and GDAL compresses with all cores."""
    import rioxarray  # noqa: F401

    da.rio.write_crs(32633).rio.to_raster(
        path, tiled=True, blockxsize=512, blockysize=512, compress="ZSTD", zstd_level=1, predictor=3,
        num_threads="ALL_CPUS", lock=lock, BIGTIFF="YES",
    )


def with_rioxarray_lock(da, path):
    """Chunk after chunk, under a lock."""
    import threading

    with_rioxarray(da, path, threading.Lock())


def with_xarray_spatial(da, path):
    from xrspatial.geotiff import to_geotiff

    to_geotiff(da, path, crs=32633, compression="zstd", compression_level=1, predictor=3, tile_size=512)


def with_odc_geo(da, path):
    """Always a COG with overviews: it can't do without."""
    import odc.geo.xr  # noqa: F401
    from odc.geo.cog import save_cog_with_dask

    save_cog_with_dask(
        da.odc.assign_crs("EPSG:32633"), path, compression="ZSTD", level=1, predictor=3, blocksize=512, stats=False,
    ).compute()


ENGINES = {"tiffjet": with_tiffjet, "tiffjet-64m": with_tiffjet_64m, "rioxarray": with_rioxarray, "rioxarray-lock": with_rioxarray_lock,
           "xarray-spatial": with_xarray_spatial, "odc-geo": with_odc_geo}


def one(engine, size, chunk, path):
    """In a process of its own: one write, or all but it."""
    import resource

    da = make_array(size, chunk)
    da.isel(y=slice(0, 8), x=slice(0, 8)).compute()
    seconds = 0.0
    if path:
        begun = time.perf_counter()
        ENGINES[engine](da, path)
        seconds = time.perf_counter() - begun
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "rss": rss, "bytes": os.path.getsize(path) if path else 0}))


def check(path, size, chunk):
    """A few tiles of the file are what the array is."""
    import numpy
    import tiffjet

    da = make_array(size, chunk)
    image = tiffjet.open(path)
    for y, x in ((0, 0), (size // 2 - 100, size // 3), (size - 256, size - 256)):
        got = numpy.asarray(image.read(window=((y, y + 256), (x, x + 256))))[0]
        assert (got == da[y : y + 256, x : x + 256].values).all(), f"{path} has other pixels"


def run(engine, arguments, path):
    command = [sys.executable, __file__, "--one", engine, "--size", str(arguments.size), "--chunk", str(arguments.chunk), "--path", path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--chunk", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--out")
    parser.add_argument("--one")
    parser.add_argument("--path", default="")
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one, arguments.size, arguments.chunk, arguments.path)
        return
    base = run("tiffjet", arguments, "")["rss"]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):  # in turn, so that all have the same neighbours
            for engine in arguments.engines.split(","):
                path = os.path.join(folder, "out.tif")
                outcome = run(engine, arguments, path)
                results.setdefault(engine, []).append(outcome)
                if "error" not in outcome:
                    check(path, arguments.size, arguments.chunk)
                    os.remove(path)
                print(engine, outcome, flush=True)
    record = {"what": f"{arguments.size} x {arguments.size} float32, chunks of {arguments.chunk}, ZSTD 1, predictor 3, tiles of 512",
              "machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version(), "base_rss": base, "engines": {}}
    for engine, outcomes in results.items():
        good = [outcome for outcome in outcomes if "error" not in outcome]
        if not good:
            record["engines"][engine] = outcomes[0]
            continue
        record["engines"][engine] = {
            "version": version(engine.removesuffix("-lock").removesuffix("-64m")), "seconds": round(min(o["seconds"] for o in good), 2),
            "rss": min(o["rss"] for o in good), "bytes": good[0]["bytes"],
        }
    rows = record["engines"]
    print(f"\n{record['what']}; {record['machine']}; the process without the write: {base >> 20} MiB\n")
    print("| engine | seconds | peak MiB | peak less base | file MiB |\n|---|---|---|---|---|")
    for engine, row in rows.items():
        if "error" in row:
            print(f"| {engine} | {row['error'][:80]} | | | |")
        else:
            print(f"| {engine} {row['version']} | {row['seconds']:.1f} | {row['rss'] >> 20} | {(row['rss'] - base) >> 20} | {row['bytes'] >> 20} |")
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
