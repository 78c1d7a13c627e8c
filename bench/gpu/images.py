#!/usr/bin/env python3
"""Pictures on a GPU: JPEG and JPEG 2000 from a path to pixels in device memory, tiffjet and its rivals in one run; and the two
ways of bytes to the device, pread and cuFile, for every codec.

    images.py --data FOLDER --out RESULT.json --tiffjet READ_BENCH --check PICTURES [--size 16384] [--storage FOLDER]

READ_BENCH and PICTURES are examples of tiffjet-cuda (`cargo build --release -p tiffjet-cuda --examples`). Needs NumPy, CuPy, tifffile
and imagecodecs; rasterio for GDAL. nvJPEG, nvJPEG2000 and cuFile must be where the loader finds them.

Files: a raster of 8 bits and three bands in tiles of 512, of which 64 are different and stand again and again, as JPEG (YCbCr 4:2:0,
quality 85), JPEG 2000 lossless and lossy (43 dB, a seventeenth); a quarter of it for the codecs of the second table, in the folder of --storage, which
must be on a disk that cuFile takes. They are made once, then reused, and are in the page cache. Rivals decode with 16 threads and
upload what they have; the time is from the path to the pixels on the device. Pixels are compared with the CPU's in a file that has each
of the different tiles once. tiffjet asks the driver for 32 streams side by side; what it does with the driver's own 8 stands beside.
RESULT.json is written again after each step, so that a run cut short leaves what it had; tables lie beside it as RESULT.md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

WORKERS = 16
TILE = 512
DIFFERENT = 8
RUNS = 3
PICTURES = ("jpeg", "jpeg2000_lossless", "jpeg2000_lossy")
PLAIN = ("none", "packbits", "lzw", "deflate", "zstd")


def raster(size: int) -> np.ndarray:
    """Hills, texture and noise, by the GPU."""
    import cupy as cp

    random = cp.random.default_rng(1)
    out = cp.full((size, size, 3), 128, cp.float32)
    for cells, amplitude in ((size // 1024, 60), (size // 128, 40), (size // 16, 12)):
        nodes = random.standard_normal((cells + 2, cells + 2, 3), dtype=cp.float32)
        place = cp.linspace(0, cells, size, dtype=cp.float32)
        first = place.astype(cp.int32)
        part = (place - first)[:, None]
        for band in range(3):
            rows = nodes[:, :, band]
            rows = rows[first] * (1 - part) + rows[first + 1] * part
            out[:, :, band] += amplitude * (rows[:, first] * (1 - part.T) + rows[:, first + 1] * part.T)
    out += 2 * random.standard_normal(out.shape, dtype=cp.float32)
    return cp.asnumpy(cp.clip(out, 0, 255).astype(cp.uint8))


def encoder(name: str) -> Callable[[np.ndarray], bytes]:
    import imagecodecs as codecs

    return {
        "jpeg": lambda tile: codecs.jpeg8_encode(tile, level=85, subsampling="420", outcolorspace="ycbcr"),
        "jpeg2000_lossless": lambda tile: codecs.jpeg2k_encode(tile, level=0, reversible=True, codecformat="j2k"),
        "jpeg2000_lossy": lambda tile: codecs.jpeg2k_encode(tile, level=43, reversible=False, codecformat="j2k"),
        "none": lambda tile: tile.tobytes(),
        "packbits": lambda tile: b"".join(bytes(codecs.packbits_encode(row.tobytes())) for row in tile),
        "lzw": lambda tile: codecs.lzw_encode(tile.tobytes()),
        "deflate": lambda tile: codecs.zlib_encode(tile.tobytes(), level=6),
        "zstd": lambda tile: codecs.zstd_encode(tile.tobytes(), level=9),
    }[name]


def make(paths: dict[str, Path], size: int) -> None:
    import tifffile

    if all(path.exists() for path in paths.values()):
        return
    pixels = raster(DIFFERENT * TILE)
    tiles = [
        np.ascontiguousarray(pixels[y : y + TILE, x : x + TILE])
        for y in range(0, pixels.shape[0], TILE)
        for x in range(0, pixels.shape[1], TILE)
    ]
    for name, path in paths.items():
        begun = time.perf_counter()
        with ThreadPoolExecutor(WORKERS) as pool:
            encoded = [bytes(tile) for tile in pool.map(encoder(name), tiles)]
        side = size if name in PICTURES else size // 2
        count = (side // TILE) ** 2
        compression = name.split("_")[0] if name != "none" else None
        more = {"subsampling": (2, 2)} if name == "jpeg" else {}
        tifffile.imwrite(
            path, (encoded[i * 7 % len(encoded)] for i in range(count)), shape=(side, side, 3), dtype=np.uint8, tile=(TILE, TILE),
            compression=compression, photometric="ycbcr" if name == "jpeg" else "rgb", **more,
        )  # fmt: skip
        print(f"{name}: {path.stat().st_size / 1e6:.0f} MB in {time.perf_counter() - begun:.1f} s", flush=True)


def timed(work: Callable[[], object]) -> float:
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1e3)
    return min(times)


def by_tifffile(path: Path) -> float:
    import cupy as cp
    import tifffile

    def work() -> None:
        cp.asarray(tifffile.imread(path, maxworkers=WORKERS))
        cp.cuda.Device().synchronize()

    return timed(work)


def by_gdal(path: Path) -> float:
    import cupy as cp
    import rasterio

    def work() -> None:
        with rasterio.Env(GDAL_NUM_THREADS=str(WORKERS), GDAL_CACHEMAX=64), rasterio.open(path) as file:
            cp.asarray(file.read())
        cp.cuda.Device().synchronize()

    return timed(work)


def lines(command: list[str], **variables: str) -> list[dict]:
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, timeout=60)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def by_tiffjet(program: str, paths: list[Path], io: str = "auto", **variables: str) -> dict[str, dict]:
    found = lines([program, "--runs", str(RUNS), "--io", io, *map(str, paths)], **variables)
    return {Path(line["file"]).stem: line for line in found if "file" in line}


def show(value: object, form: str = "{:.1f} ms") -> str:
    return form.format(value) if isinstance(value, (int, float)) else "-"


def table(result: dict) -> str:
    out = ["| file | MB | tiffjet | with 8 streams | tifffile + upload | GDAL + upload | times as fast | pieces of memory | waits | "
           "largest difference | mean |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for name in PICTURES:
        row = result["pictures"].get(name, {})
        own, many, check = row.get("tiffjet", {}), row.get("tiffjet_8", {}), row.get("check", {})
        rivals = [row[key] for key in ("tifffile_ms", "gdal_ms") if key in row]
        times = min(rivals) / own["read_ms"] if rivals and "read_ms" in own else None
        out.append(f"| {name} | {show(row.get('bytes', 0) / 1e6, '{:.0f}')} | {show(own.get('read_ms'))} | "
                   f"{show(many.get('read_ms'))} | {show(row.get('tifffile_ms'))} | {show(row.get('gdal_ms'))} | "
                   f"{show(times, '{:.1f}')} | {own.get('takes', '-')} (libraries: {own.get('lent', '-')}) | {own.get('waits', '-')} | "
                   f"{check.get('largest', '-')} | {check.get('mean', '-')} |")
    out += ["", "| codec | pread | cuFile | auto | same pixels by cuFile | what it said |", "|---|---|---|---|---|---|"]
    for name, row in result["io"].items():
        notes = "; ".join(row.get("cufile", {}).get("notes", []))
        check = row.get("check", {})
        equal = check.get("FAILED", "yes" if check.get("largest") == 0 else f"differ by {check.get('largest', '-')}")
        out.append(f"| {name} | {show(row.get('pread', {}).get('read_ms'))} | {show(row.get('cufile', {}).get('read_ms'))} | "
                   f"{show(row.get('auto', {}).get('read_ms'))} | {equal} | {notes} |")
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiffjet", required=True)
    parser.add_argument("--check", required=True)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--storage", type=Path)
    chosen = parser.parse_args()
    storage = chosen.storage or chosen.data
    for folder in (chosen.data, storage):
        folder.mkdir(parents=True, exist_ok=True)
    paths = {name: chosen.data / f"{name}.tif" for name in PICTURES} | {name: storage / f"{name}.tif" for name in PLAIN}
    small = {name: chosen.data / "small" / f"{name}.tif" for name in PICTURES}
    small["jpeg"].parent.mkdir(exist_ok=True)
    make(paths, chosen.size)
    make(small, DIFFERENT * TILE)
    result: dict = {"size": chosen.size, "workers": WORKERS, "pictures": {name: {} for name in PICTURES}, "io": {}}

    def save() -> None:
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")
        chosen.out.with_suffix(".md").write_text(table(result))

    def step(name: str, work: Callable[[], object]) -> None:
        begun = time.perf_counter()
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- a rival that is missing is left out
            result.setdefault("left_out", {})[name] = repr(error)[:300]
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
        save()

    pictures = [paths[name] for name in PICTURES]
    plain = [paths[name] for name in PLAIN]
    for path in paths.values():
        path.read_bytes()

    def own(key: str, **variables: str) -> None:
        for name, line in by_tiffjet(chosen.tiffjet, pictures, **variables).items():
            result["pictures"][name][key] = line

    def check(files: list[Path], io: str, where: dict) -> None:
        listed = chosen.data / "list"
        listed.write_text("\n".join(map(str, files)) + "\n")
        for line in lines([chosen.check, str(listed), "0", io]):
            where.setdefault(Path(line["file"]).stem, {})["check"] = line

    def ways(io: str) -> None:
        for name, line in by_tiffjet(chosen.tiffjet, plain, io).items():
            result["io"].setdefault(name, {})[io] = line

    step("tiffjet", lambda: own("tiffjet"))
    step("tiffjet_8", lambda: own("tiffjet_8", CUDA_DEVICE_MAX_CONNECTIONS="8"))
    for name in PICTURES:
        row = result["pictures"][name]
        row["bytes"] = paths[name].stat().st_size
        step(f"tifffile {name}", lambda: row.update(tifffile_ms=by_tifffile(paths[name])))
        if name == "jpeg":
            step(f"GDAL {name}", lambda: row.update(gdal_ms=by_gdal(paths[name])))
    for io in ("pread", "cufile", "auto"):
        step(f"io {io}", lambda: ways(io))
    step("check of cuFile", lambda: check(plain, "cufile", result["io"]))
    step("check of pictures", lambda: check(list(small.values()), "auto", result["pictures"]))
    print(table(result))
    print(result.get("left_out", ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
