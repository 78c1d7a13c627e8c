#!/usr/bin/env python3
"""Measures writing: tiffjet against GDAL's GTiff and COG drivers, rio-cogeo, tifffile and xarray-spatial.

    python bench/write.py --data build/bench-data --out build/bench-write.json [--sizes 4096] [--rounds 7]

Pixels are in memory; every engine writes them to a file with the same codec, level, predictor and tile, in turn, round
after round. Sizes must agree, and GDAL must read the pixels back. On the disk tiffjet's time has the fsync that a file
that is old or whole needs; rivals leave that to the system, so their time is given as it is and with an fsync behind it.
Memory is that of a process that makes a COG of an uncompressed file, less what it has before it begins.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rasterio

import machine
from engines import WORKER
from make_data import source

HERE = Path(__file__).resolve().parent
TIFFJET = Path(os.environ.get("TIFFJET", HERE.parent / "target" / "release" / "tiffjet"))
OURS = "tiffjet"
RIVALS = ("gdal", "rio-cogeo", "tifffile", "xarray-spatial")
SOURCES = ("dem", "s2", "rgb")
# Codec and level. GDAL's defaults.
CODECS = (("none", 0), ("lzw", 0), ("deflate", 6), ("zstd", 9))
TILE = 512
# Sizes further apart are not the same work.
SAME_SIZE = 1.03


def predictor(codec, dtype):
    if codec == "none":
        return 1
    return 3 if np.dtype(dtype).kind == "f" else 2


class Process:
    """One engine, asked over its pipes."""

    def __init__(self, name):
        command = [str(WORKER)] if name == OURS else [sys.executable, str(HERE / "serve_writer.py"), name]
        environment = os.environ | machine.WARM_MEMORY
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )

    def ask(self, *words):
        self.child.stdin.write("\t".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        return json.loads(line) if line else {"error": "died"}

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def load_words(path):
    """What the worker must know to read a NumPy file."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        assert not fortran
        return (path, file.tell(), *shape, dtype)


def measure(args, folder, name, size):
    """All codecs and layouts of one source."""
    root = args.data / str(size)
    (root / "source").mkdir(parents=True, exist_ok=True)
    pixels, facts = source(root, name, size)
    processes = {engine: Process(engine) for engine in (OURS, *RIVALS)}
    for process in processes.values():
        process.ask("load", *load_words(root / "source" / f"{name}.npy"))
    results = []
    for (codec, level), layout in itertools.product(CODECS, ("tiled", "cog")):
        if args.only and f"{name}-{codec}-{layout}" not in args.only:
            continue
        how = (codec, level or "-", predictor(codec, facts["dtype"]), TILE, layout)
        result = {"source": name, "size": size, "where": str(folder), "codec": codec, "layout": layout, "engines": {}}
        alive = dict(processes)
        for turn in range(args.rounds + 1):
            for engine in rotated(list(alive), turn):
                sample(alive, engine, folder, how, result, pixels if turn == 0 else None)
        results.append(result)
        show(result)
    for process in processes.values():
        process.close()
    return results


def rotated(items, turn):
    turn %= len(items)
    return items[turn:] + items[:turn]


def sample(alive, engine, folder, how, result, pixels):
    """One write. The first is judged and not counted."""
    out = folder / f"{engine}.tif"
    out.unlink(missing_ok=True)
    load = machine.ForeignLoad()
    answer = alive[engine].ask("write", out, *how)
    entry = result["engines"].setdefault(engine, {"wall": [], "cpu": [], "sync": [], "foreign": []})
    if "error" in answer:
        entry["error"] = answer["error"]
        del alive[engine]
    elif pixels is not None:
        entry["bytes"] = out.stat().st_size
        entry["judged"] = judged(out, pixels)
    else:
        entry["foreign"].append(load.stop(answer["cpu"]))
        for clock in ("wall", "cpu", "sync"):
            entry[clock].append(answer.get(clock, 0.0))
    out.unlink(missing_ok=True)


def judged(path, pixels):
    with rasterio.open(path) as image:
        same = all(np.array_equal(image.read(band + 1), pixels[band]) for band in range(image.count))
        return "same" if same and image.count == len(pixels) else "other pixels"


def quiet(entry, clock):
    """The median of the half that others disturbed least."""
    order = sorted(range(len(entry[clock])), key=lambda i: entry["foreign"][i])
    return statistics.median(entry[clock][i] for i in order[: len(order) // 2 + 1])


def show(result):
    print(f"{result['where']} {result['source']}-{result['size']} {result['codec']} {result['layout']}")
    for engine, entry in result["engines"].items():
        if not entry["wall"]:
            print(f"    {engine:15} {entry.get('error', '')[:80]}")
            continue
        wall, synced = quiet(entry, "wall"), quiet(entry, "wall") + quiet(entry, "sync")
        print(
            f"    {engine:15} {wall * 1e3:7.0f} ms, synced {synced * 1e3:7.0f}, cpu {quiet(entry, 'cpu') * 1e3:7.0f}, "
            f"{entry['bytes'] / 1e6:8.2f} MB, {entry['judged']}, least {min(entry['wall']) * 1e3:.0f}",
            flush=True,
        )


def memory(args, folder, size):
    """Peak memory of making a COG of a file, above that of the idle process."""
    results = []
    for name, (codec, level) in itertools.product(args.sources.split(","), CODECS):
        root = args.data / str(size)
        pixels, facts = source(root, name, size)
        plain = folder / "plain.tif"
        with rasterio.open(
            plain, "w", driver="GTiff", count=len(pixels), height=size, width=size, dtype=facts["dtype"],
            tiled=True, blockxsize=TILE, blockysize=TILE, interleave="pixel",
        ) as image:  # fmt: skip
            image.write(pixels)
        how = (codec, level or "-", predictor(codec, facts["dtype"]), TILE)
        result = {"source": name, "size": size, "codec": codec, "engines": {}}
        for engine in (OURS, *RIVALS):
            out = folder / f"{engine}.tif"
            idle, busy = peak(engine, ()), peak(engine, (plain, out, *how))
            if busy is not None:
                result["engines"][engine] = {"idle": idle, "peak": busy}
            out.unlink(missing_ok=True)
        plain.unlink()
        results.append(result)
        table = {e: f"{r['peak'] - r['idle']:.0f} ({r['peak']:.0f})" for e, r in result["engines"].items()}
        print(f"memory {name}-{size} {codec}: MiB above idle (whole) {table}", flush=True)
    return results


def peak(engine, words):
    """MiB that a fresh process had at most; `None` when it refused."""
    if engine == OURS:
        command, lines = [str(TIFFJET), "--version"], ""
        if words:
            path, out, codec, level, predict, tile = map(str, words)
            command = [str(TIFFJET), "convert", path, out, "--cog", "--compress", codec, "--tile", tile]
            command += ["--predictor", predict, *([] if level == "-" else ["--compression-level", level])]
    else:
        command = [sys.executable, str(HERE / "serve_writer.py"), engine]
        lines = "\t".join(map(str, ("convert", *words) if words else ("versions",))) + "\n"
    with tempfile.TemporaryFile("w+") as told:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=told, stderr=subprocess.DEVNULL, text=True)
        child.stdin.write(lines)
        child.stdin.close()
        most = 0.0
        # Not the rusage of the child: that begins with what its parent had when it was forked.
        while child.poll() is None:
            most = max(most, high_water(child.pid))
            time.sleep(0.002)
        told.seek(0)
        return None if child.returncode or "error" in told.read() else most


def high_water(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("build/bench-data"))
    parser.add_argument("--out", type=Path, default=Path("build/bench-write.json"))
    parser.add_argument("--sizes", default="4096")
    parser.add_argument("--sources", default=",".join(SOURCES))
    parser.add_argument("--folders", default="build,/dev/shm", help="where files are written: a disk, and memory")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="dem-zstd-cog,...")
    parser.add_argument("--memory", action="store_true", help="peak memory alone")
    args = parser.parse_args()
    args.only = set(filter(None, args.only.split(",")))
    record = {"facts": machine.facts(), "versions": versions(), "writes": [], "memory": []}
    begun = time.perf_counter()
    for size in map(int, args.sizes.split(",")):
        for folder in args.folders.split(","):
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                if args.memory:
                    record["memory"] += memory(args, Path(scratch), size)
                    break
                for name in args.sources.split(","):
                    record["writes"] += measure(args, Path(scratch), name, size)
    record["seconds"] = time.perf_counter() - begun
    for result in record["writes"]:
        result["where"] = "memory" if result["where"].startswith("/dev/shm") else "disk"
    args.out.write_text(json.dumps(record, indent=1), encoding="utf-8")


def versions():
    found = {"GDAL": rasterio.__gdal_version__}
    for engine in (OURS, *RIVALS):
        process = Process(engine)
        found |= process.ask("versions")
        process.close()
    return found


if __name__ == "__main__":
    main()
