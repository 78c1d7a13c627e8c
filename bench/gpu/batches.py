#!/usr/bin/env python3
"""Batches for training: 64 windows of 512 x 512 x 4 bands, uint16, at any place of 200 COGs.

    batches.py [--out RESULT.json] [--folder FOLDER] [--device cuda] [--files 200] [--size 2048] [--codecs deflate,zstd]

Needs tiffjet, PyTorch and rasterio (for the rival: without it there is none, and the result says so). Files are made by
tiffjet's own writer, deflate and zstd, tiles of 512, and lie in FOLDER, /dev/shm by default: what is measured is not the disk.

For each codec, in one run:
- rival: a DataLoader with rasterio and 16 worker processes, datasets kept open, batches copied to the device;
- tiffjet: `tiffjet.torch.WindowDataset` in a DataLoader without workers, the same windows;
- floor: the decoding kernels alone over the tiles that a batch touches, and the phases before them;
- a model step of 20 ms beside it, one that leaves multiprocessors free and one that wants them all (matrix products): how long
  the stream of the model has nothing to do from the end of one step to the begin of the next.
"""

import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BATCH, SIDE, BANDS, WORKERS = 64, 512, 4, 16
STEP = 20e-3


def places(shape: tuple[int, int], files: int, count: int, seed: int) -> np.ndarray:
    """The windows that both sides read: file, row, column."""
    from tiffjet.windows import RandomWindows

    return RandomWindows(count, SIDE, seed=seed).windows(np.tile(np.array(shape), (files, 1)), 0)


# ---------------------------------------------------------------------------------------------- data


def make(arguments: argparse.Namespace, codec: str) -> list[str]:
    """The files: crops of one texture, each with values of its own."""
    import tiffjet

    sys.path.insert(0, str(Path(__file__).resolve().parent))
    folder = arguments.folder / codec
    folder.mkdir(parents=True)
    size = arguments.size
    texture = _texture(2 * size)
    paths = [str(folder / f"{i:04}.tif") for i in range(arguments.files)]

    def write(i: int) -> None:
        random = np.random.default_rng(i)
        corners = random.integers(0, size, (BANDS, 2))
        pixels = np.stack([texture[y : y + size, x : x + size] + np.uint16(random.integers(0, 500)) for y, x in corners])
        where = {"crs": 32633, "transform": (10, 0, 5e5, 0, -10, 6e6), "device": arguments.writer}
        tiffjet.to_geotiff(pixels, paths[i], compression=codec, tile_size=512, cog=True, **where)

    with ThreadPoolExecutor(arguments.writers) as threads:
        list(threads.map(write, range(arguments.files)))
    return paths


@functools.cache
def _texture(size: int) -> np.ndarray:
    """What a satellite sees: structure of all sizes, and noise."""
    import kernels

    return np.asarray(kernels.make_raster("s2", size))


# ---------------------------------------------------------------------------------------------- the rival


def rival(arguments: argparse.Namespace) -> dict:
    """Batches a second of a DataLoader with rasterio."""
    import rasterio
    import torch
    from rasterio.windows import Window
    from torch.utils.data import DataLoader, Dataset

    paths = sorted(str(path) for path in arguments.paths.glob("*.tif"))
    windows = places((arguments.size, arguments.size), len(paths), BATCH * 400, 1)

    class Windows(Dataset):
        def __init__(self) -> None:
            self.open: dict[int, rasterio.DatasetReader] = {}

        def __len__(self) -> int:
            return len(windows)

        def __getitem__(self, i: int) -> torch.Tensor:
            file, y, x = windows[i].tolist()
            if file not in self.open:
                self.open[file] = rasterio.open(paths[file])
            # int16 has the same bits, and all of torch takes it.
            return torch.from_numpy(self.open[file].read(window=Window(x, y, SIDE, SIDE)).view("int16"))

    cuda = arguments.device.startswith("cuda")
    loader = DataLoader(Windows(), batch_size=BATCH, num_workers=arguments.workers, pin_memory=cuda, prefetch_factor=2)
    batches = iter(loader)
    for _ in range(min(arguments.workers, 16)):  # every worker has begun, and its files are open
        next(batches).to(arguments.device)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < arguments.seconds:
        next(batches).to(arguments.device, non_blocking=True)
        count += 1
    if cuda:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    return {"batches": count, "seconds": seconds, "per_second": count / seconds}


# ---------------------------------------------------------------------------------------------- ourselves


def dataset(arguments: argparse.Namespace, paths: list[str], count: int, seed: int, **options):
    from tiffjet.torch import RandomWindows, WindowDataset

    return WindowDataset(paths, RandomWindows(BATCH * count, SIDE, seed=seed), batch_size=BATCH, device=arguments.device, **options)


def check(arguments: argparse.Namespace, paths: list[str]) -> None:
    """Some windows against the CPU's pixels."""
    import torch

    import tiffjet

    data = dataset(arguments, paths, 2, 5, with_windows=True)
    for batch, windows in data:
        host = batch.view(torch.int16).cpu().numpy()
        for i in (0, 17, BATCH - 1):
            path, window = windows[i]
            due = np.asarray(tiffjet.open(path).read(window, device="cpu"))
            assert np.array_equal(host[i].view("uint16"), due), (path, window)


def throughput(arguments: argparse.Namespace, paths: list[str], threads: int, prefetch: int, memory: str | None = None) -> dict:
    import torch
    from torch.utils.data import DataLoader

    warm, count = 12, 120
    data = dataset(arguments, paths, warm + count, 1, threads=threads, prefetch=prefetch, memory=memory)
    times = []
    for i, batch in enumerate(DataLoader(data, batch_size=None, num_workers=0)):
        assert batch.shape == (BATCH, BANDS, SIDE, SIDE)
        times.append(time.perf_counter())
        if i >= warm and times[-1] - times[warm - 1] > arguments.seconds:
            break
    if arguments.device.startswith("cuda"):
        torch.cuda.synchronize()
    steady = times[warm - 1 :]
    seconds = (steady[-1] - steady[0]) / (len(steady) - 1)
    return {"threads": threads, "prefetch": prefetch, "memory": memory, "batches": len(steady) - 1, "ms": 1e3 * seconds, "per_second": 1 / seconds}


def floor(arguments: argparse.Namespace, paths: list[str]) -> dict:
    """The kernels alone, and what comes before them, of some batches; and a batch that nothing overlaps with."""
    from tiffjet import _tiffjet

    data = dataset(arguments, paths, 10, 1).batches
    phases, alone, tiles = [], [], 0
    for windows in np.split(data.windows(0), 10):
        items = [(data.files.image(file), (y, x, SIDE, SIDE)) for file, y, x in windows.tolist()]
        begun = time.perf_counter()
        tensor = data.read(windows)
        alone.append(1e3 * (time.perf_counter() - begun))
        tiles = tensor.report.tiles
        told = [f"{name}: {count}" for name, count in tensor.report.routes]
        del tensor
        phases.append(_tiffjet._read_phases(items, None, 0, 0, None))
    fetch, copy, kernels = (statistics.median(column[2:]) for column in zip(*phases))
    return {"fetch_ms": fetch, "copy_ms": copy, "kernels_ms": kernels, "alone_ms": statistics.median(alone[2:]), "tiles": tiles, "routes": told}


def steps(arguments: argparse.Namespace, paths: list[str], kind: str, threads: int, prefetch: int) -> dict:
    """A step of 20 ms after every batch: how long its stream has nothing to do between two of them."""
    import torch

    stream = torch.cuda.current_stream()
    left = torch.randn(8192, 8192, device=arguments.device, dtype=torch.bfloat16)
    right = torch.randn(8192, 8192, device=arguments.device, dtype=torch.bfloat16)

    def run(amount: float, events) -> None:
        events[0].record(stream)
        if kind == "spin":
            torch.cuda._sleep(int(amount))
        else:
            for _ in range(round(amount)):
                torch.mm(left, right)
        events[1].record(stream)

    def events():
        return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def measured(amount: float) -> float:
        pair = events()
        run(amount, pair)
        pair[1].synchronize()
        return 1e-3 * pair[0].elapsed_time(pair[1])

    amount = 1e7 if kind == "spin" else 10.0
    for _ in range(3):
        amount *= STEP / max(measured(amount), 1e-4)
    alone = statistics.median(measured(amount) for _ in range(9))
    warm, count = 8, 80
    pairs = []
    times = []
    for batch in dataset(arguments, paths, warm + count, 3, threads=threads, prefetch=prefetch):
        pair = events()
        run(amount, pair)
        batch.view(torch.int16)[:, 0].sum()  # the batch is used in the same stream
        pair[1].synchronize()  # as a loop that looks at its loss
        times.append(time.perf_counter())
        pairs.append(pair)
    gaps = [1e-3 * a[1].elapsed_time(b[0]) for a, b in zip(pairs[warm - 1 :], pairs[warm:])]
    busy = [1e-3 * pair[0].elapsed_time(pair[1]) for pair in pairs[warm:]]
    wall = (times[-1] - times[warm - 1]) / count
    return {
        "kind": kind, "step_alone_ms": 1e3 * alone, "step_beside_ms": 1e3 * statistics.mean(busy), "wall_ms": 1e3 * wall,
        "wait_ms": 1e3 * statistics.mean(gaps), "most_wait_ms": 1e3 * max(gaps), "wait_share": sum(gaps) / (sum(gaps) + sum(busy)),
    }


# ---------------------------------------------------------------------------------------------- all of it


def measure(arguments: argparse.Namespace, codec: str) -> dict:
    begun = time.perf_counter()
    paths = make(arguments, codec)
    size = sum(os.path.getsize(path) for path in paths)
    result = {"codec": codec, "files": len(paths), "file_bytes": size, "making_s": time.perf_counter() - begun}
    print(json.dumps(result), flush=True)
    command = [sys.executable, __file__, "--rival", str(arguments.folder / codec), "--size", str(arguments.size), "--device",
               arguments.device, "--seconds", str(arguments.seconds), "--workers", str(arguments.workers)]
    # In a process of its own: its workers are forked from one that has no GPU yet.
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    try:
        result["rival"] = json.loads(outcome.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        result["rival"] = {"error": outcome.stderr[-600:]}
    print(json.dumps(result["rival"]), flush=True)
    check(arguments, paths)
    result["tiffjet"] = [throughput(arguments, paths, *how) for how in ((1, 2), (2, 3), (3, 4))]
    print(json.dumps(result["tiffjet"]), flush=True)
    if arguments.device.startswith("cuda"):
        result["floor"] = floor(arguments, paths)
        print(json.dumps(result["floor"]), flush=True)
        result["steps"] = [steps(arguments, paths, kind, 3, 4) for kind in ("spin", "matmul")]
        print(json.dumps(result["steps"]), flush=True)
    shutil.rmtree(arguments.folder / codec)
    return result


def judge(result: dict) -> list[str]:
    best = max(result["tiffjet"], key=lambda run: run["per_second"])
    rival_rate = result["rival"].get("per_second")
    times = best["per_second"] / rival_rate if rival_rate else float("nan")
    over = best["ms"] / result["floor"]["kernels_ms"] if "floor" in result else float("nan")
    lines = [
        f"{result['codec']}: {best['per_second']:.1f} batches/s ({best['ms']:.2f} ms, {best['threads']} threads), "
        f"rasterio with {WORKERS} workers {rival_rate or float('nan'):.2f}: {times:.1f} x; {over:.2f} x of the kernels alone "
        f"({'PASS' if times >= 10 or over <= 1.5 else 'FAIL'})"
    ]
    for step in result.get("steps", []):
        lines.append(
            f"{result['codec']}: {step['kind']} of {step['step_alone_ms']:.1f} ms beside it: waits {step['wait_ms']:.2f} ms, "
            f"{100 * step['wait_share']:.1f} % of the step ({'PASS' if step['wait_share'] <= 0.1 else 'FAIL'}); the step itself takes "
            f"{step['step_beside_ms']:.1f} ms"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--writers", type=int, default=6)
    parser.add_argument("--writer", default="cpu", help="the device that encodes the files")
    parser.add_argument("--codecs", default="deflate,zstd")
    parser.add_argument("--rival", type=Path, dest="paths", help="measure the rival alone, on the files of a folder")
    arguments = parser.parse_args()
    if arguments.paths is not None:
        print(json.dumps(rival(arguments)))
        return
    base = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 16 << 30 else None
    own = arguments.folder is None
    arguments.folder = Path(tempfile.mkdtemp(dir=base)) if own else arguments.folder
    results, lines = [], []
    try:
        for codec in arguments.codecs.split(","):
            results.append(measure(arguments, codec))
            lines += judge(results[-1])
    finally:
        if own:
            shutil.rmtree(arguments.folder, ignore_errors=True)
        if arguments.out:
            arguments.out.write_text(json.dumps({"results": results, "lines": lines}, indent=1))
        print("\n".join(lines))


if __name__ == "__main__":
    main()
