#!/usr/bin/env python3
"""Chunks of one file by many threads at once, against one read of all of it: the same pixels, and how fast.

    chunks.py [--out RESULT.json] [--folder FOLDER] [--size 16384] [--codecs deflate,zstd]

Needs tiffjet, dask, xarray and CuPy. Two devices are named, both the first GPU, so that chunks take turns between two backends
of it; threads of dask read different chunks side by side (`persist`, which leaves them where they are: a list of single chunks
takes dask itself 3 ms longer for sixteen, and 10 ms for sixty-four). The file lies in /dev/shm: what is measured is not the disk.
"""

import argparse
import functools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROUNDS = 5


def timed(act) -> float:
    act()
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def measure(arguments: argparse.Namespace, codec: str, pixels: np.ndarray) -> dict:
    import cupy
    import dask

    import tiffjet

    path = str(arguments.folder / f"{codec}.tif")
    tiffjet.to_geotiff(pixels, path, compression=codec, tile_size=512, device="cpu")
    image = tiffjet.open(path)
    whole = timed(lambda: image.read(device="cuda:0"))
    due = cupy.from_dlpack(image.read(device="cuda:0"))
    result = {"codec": codec, "bytes": pixels.nbytes, "whole_ms": 1e3 * whole, "chunks": []}
    for side in (2048, 4096):
        array = tiffjet.open_geotiff(path, chunks=side, device=["cuda:0", 0]).data
        for threads in (8, 16):
            read = functools.partial(array.persist, scheduler="threads", num_workers=threads)
            seconds = timed(read)
            found = dask.compute(*read().to_delayed().ravel().tolist())
            rows, columns = array.numblocks[1:]
            same = all(
                bool((found[i * columns + j] == due[:, i * side : (i + 1) * side, j * side : (j + 1) * side]).all())
                for i in range(rows) for j in range(columns)
            )
            del found
            entry = {"side": side, "threads": threads, "ms": 1e3 * seconds, "ratio": whole / seconds, "same": same}
            result["chunks"].append(entry)
            print(codec, json.dumps(entry), flush=True)
    assert np.array_equal(cupy.asnumpy(due[:, 100:612, 200:712]), pixels[:, 100:612, 200:712])
    os.remove(path)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--codecs", default="deflate,zstd")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import tiffjet  # noqa: F401 -- before CuPy starts the driver: it asks for more streams
    import kernels

    base = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30 else None
    own = arguments.folder is None
    arguments.folder = Path(tempfile.mkdtemp(dir=base)) if own else arguments.folder
    results, lines = [], []
    try:
        part = kernels.make_raster("s2", 4096)
        times = -(-arguments.size // 4096)
        pixels = np.tile(part, (times, times))[None, : arguments.size, : arguments.size]
        pixels = np.ascontiguousarray(np.concatenate([pixels, pixels[:, ::-1]]))
        for codec in arguments.codecs.split(","):
            results.append(measure(arguments, codec, pixels))
            best = max((entry for entry in results[-1]["chunks"]), key=lambda entry: entry["ratio"])
            right = all(entry["same"] for entry in results[-1]["chunks"])
            lines.append(
                f"{codec}: one read {results[-1]['whole_ms']:.1f} ms; chunks of {best['side']} by {best['threads']} threads "
                f"{best['ms']:.1f} ms, {best['ratio']:.2f} of its speed, pixels {'right' if right else 'WRONG'} "
                f"({'PASS' if right and best['ratio'] >= 0.8 else 'FAIL'})"
            )
    finally:
        if own:
            shutil.rmtree(arguments.folder, ignore_errors=True)
        if arguments.out:
            arguments.out.write_text(json.dumps({"results": results, "lines": lines}, indent=1))
        print("\n".join(lines))


if __name__ == "__main__":
    main()
