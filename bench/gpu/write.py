#!/usr/bin/env python3
"""Writing on a GPU: from pixels in device memory to a file, tiffjet and its rivals in one run.

    write.py --data FOLDER --out RESULT.json [--target FOLDER] [--files FOLDER]
    write.py --data FOLDER --part NAME                       one part, lines of JSON to standard output

Needs tiffjet (installed, or on PYTHONPATH), NumPy, CuPy and tifffile; dask and xarray for streams, xarray-spatial and nvCOMP 5
(where the loader finds libnvcomp.so.5) for the rivals: what is missing is left out, and the result says so. Files go to TARGET,
/dev/shm by default: what is measured is not the disk.

Rasters: dem (float32), s2 (uint16) and rgb (uint8 x 3), as in read.py. Every part runs in a process of its own. `check` writes
small rasters in many ways, streamed and at once, compares the files byte by byte, and the pixels with the CPU's and tifffile's; it
leaves them in FILES, each with a JSON of what it was made of, for other judges. RESULT.json is written again after each part;
the tables (write_report.py) lie beside it as RESULT.md.
"""

import argparse
import ctypes
import gc
import hashlib
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kernels
import write_report as report

sys.path.append(str(Path(__file__).resolve().parents[1]))
import machine  # noqa: E402 -- of the folder above

PREDICTORS = {"dem": 3, "s2": 2, "rgb": 2}
CODECS = ("zstd", "deflate", "lzw", "packbits", "none")
ROUNDS = 5
MIB = 1 << 20


def load(arguments: argparse.Namespace, raster: str) -> np.ndarray:
    return np.load(arguments.data / f"{raster}.npy")


def make_data(arguments: argparse.Namespace) -> Iterator[dict]:
    arguments.data.mkdir(parents=True, exist_ok=True)
    for raster in PREDICTORS:
        path = arguments.data / f"{raster}.npy"
        if not path.exists() or np.load(path, mmap_mode="r").shape[0] != arguments.size:
            np.save(path, kernels.make_raster(raster, arguments.size))
    yield {"made": list(PREDICTORS)}


def timed(act, rounds: int, seconds: float) -> list[float]:
    """Milliseconds of some rounds after a first one, fewer where they take long."""
    act()
    times, end = [], time.perf_counter() + seconds
    while len(times) < rounds and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def bands_first(pixels):
    """(y, x) or (y, x, band) as (band, y, x), without a copy."""
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def ways() -> Iterator[tuple[str, str, int, bool]]:
    for raster, codec in itertools.product(PREDICTORS, CODECS):
        yield raster, codec, 256, False
    for raster, codec in itertools.product(("dem", "s2"), ("zstd", "deflate", "lzw")):
        yield raster, codec, 512, False
        yield raster, codec, 256, True


def entry(raster: str, codec: str, side: int, cog: bool, engine: str, **found) -> dict:
    return {"raster": raster, "codec": codec, "side": side, "cog": cog, "engine": engine, **found}


def ours(arguments: argparse.Namespace, engine: str) -> Iterator[dict]:
    import tiffjet

    host = engine == report.CPU
    if not host:
        import cupy as cp
    path = arguments.target / "tiffjet-write.tif"
    rasters: dict = {}
    for raster, codec, side, cog in ways():
        if raster not in rasters:
            rasters = {raster: load(arguments, raster)}
            if not host:
                rasters[raster] = cp.asarray(rasters[raster])
        pixels = bands_first(rasters[raster])
        options = {"compression": codec, "tile_size": side, "cog": cog, "crs": 32633, "device": "cpu" if host else "cuda"}
        try:
            times = timed(lambda: tiffjet.to_geotiff(pixels, path, **options), ROUNDS, 0.6 if host else 1.0)
            written = tiffjet.to_geotiff(pixels, path, **options)
            told = written.report
            found = {
                "ms": statistics.median(times), "best": min(times), "bytes": path.stat().st_size,
                "device_memory": told.device_memory, "routes": told.routes, "fallbacks": told.fallbacks,
            }
            if not host and not cog:
                back = np.asarray(tiffjet.open(path).read(device="cpu"))
                found["sound"] = bool(np.array_equal(back, bands_first(cp.asnumpy(rasters[raster]))))
            yield entry(raster, codec, side, cog, engine, **found)
        except Exception as error:  # noqa: BLE001 -- the result says what failed
            yield entry(raster, codec, side, cog, engine, error=repr(error)[:200])
    path.unlink(missing_ok=True)


def xarray_spatial(arguments: argparse.Namespace) -> Iterator[dict]:
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # what it calls is gone from NumPy
    import cupy as cp
    import xarray as xr
    from xrspatial.geotiff import to_geotiff

    warnings.simplefilter("ignore")
    pool, path = cp.get_default_memory_pool(), str(arguments.target / "xarray-spatial.tif")
    for raster, codec, side, cog in ways():
        slow = codec == "lzw" and (cog or raster != "dem")
        if codec == "packbits" or side != 256 or slow or raster != "dem" and cog:
            continue
        pixels = cp.asarray(load(arguments, raster))
        dims = ("y", "x") if pixels.ndim == 2 else ("y", "x", "band")
        size = pixels.shape[0]
        coords = {"y": 5e6 - 10.0 * np.arange(size), "x": 5e5 + 10.0 * np.arange(size)}
        data = xr.DataArray(pixels, dims=dims, coords=coords, attrs={"crs": 32633})
        predictor = PREDICTORS[raster] if codec != "none" else False
        gc.collect()
        pool.free_all_blocks()
        base = pool.total_bytes()

        def write():
            to_geotiff(data, path, compression=codec, predictor=predictor, gpu=True, cog=cog)
            cp.cuda.Device().synchronize()

        try:
            times = timed(write, 3, 1.5)
            found = {"ms": statistics.median(times), "bytes": os.path.getsize(path), "device_memory": pool.total_bytes() - base}
            yield entry(raster, codec, side, cog, report.XARRAY, **found)
        except Exception as error:  # noqa: BLE001
            yield entry(raster, codec, side, cog, report.XARRAY, error=repr(error)[:200])
    Path(path).unlink(missing_ok=True)


class Options(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_int), ("reserved", ctypes.c_char * 60)]


def nvcomp(arguments: argparse.Namespace) -> Iterator[dict]:
    """nvCOMP's kernels alone, with all tiles at once and their predictor applied."""
    import cupy as cp

    size_t, lib = ctypes.c_size_t, ctypes.CDLL("libnvcomp.so.5")
    at = lambda array: ctypes.c_void_p(array.data.ptr)  # noqa: E731
    algorithms = (("zstd", "Zstd", 0), ("deflate", "Deflate", 0), ("deflate", "Deflate", 1), ("deflate", "Deflate", 2))
    for raster, side in (("dem", 256), ("dem", 512), ("s2", 256), ("rgb", 256)):
        cog = False
        tiles = cp.asarray(kernels.cut(raster, load(arguments, raster), side))
        count, length = tiles.shape
        for codec, name, algorithm in algorithms:
            call = lambda what, n=name: getattr(lib, f"nvcompBatched{n}Compress{what}")  # noqa: E731
            options, most, scratch = Options(algorithm, b""), size_t(0), size_t(0)
            call("GetMaxOutputChunkSize")(size_t(length), options, ctypes.byref(most))
            call("GetTempSizeAsync")(size_t(count), size_t(length), options, ctypes.byref(scratch), size_t(count * length))
            room = -(-most.value // 64) * 64
            out, temp = cp.empty(count * room, cp.uint8), cp.empty(max(scratch.value, 8), cp.uint8)
            numbers = np.arange(count, dtype=np.uint64)
            inputs = cp.asarray(np.uint64(tiles.data.ptr) + numbers * np.uint64(length))
            outputs = cp.asarray(np.uint64(out.data.ptr) + numbers * np.uint64(room))
            sizes, made, status = cp.full(count, length, cp.uint64), cp.zeros(count, cp.uint64), cp.zeros(count, cp.int32)

            def run():
                call("Async")(
                    at(inputs), at(sizes), size_t(length), size_t(count), at(temp), scratch, at(outputs), at(made), options,
                    at(status), ctypes.c_void_p(0),
                )
                cp.cuda.Device().synchronize()

            found = {"ms": statistics.median(timed(run, 3, 0.5)), "bytes": int(made.sum()), "device_memory": scratch.value + count * room}
            yield entry(raster, codec, side, cog, f"{report.NVCOMP} {algorithm}" if codec == "deflate" else report.NVCOMP, **found)
            del out, temp
            cp.get_default_memory_pool().free_all_blocks()


# -- memory


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """The most memory of device and host while something happens, beside what there was."""

    def __init__(self, device):
        import threading

        self._device, self._stop = device, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _used(self) -> int:
        free, total = self._device.mem_info
        return total - free

    def __enter__(self):
        self.device_before, self.host_before = self._used(), resident()
        self.device = self.host = 0
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._stop.wait(0.0005):
            self.device = max(self.device, self._used() - self.device_before)
            self.host = max(self.host, resident() - self.host_before)

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def memory(arguments: argparse.Namespace) -> Iterator[dict]:
    """Streams of 512 rows and eager writes: what they take, and whether they give the same file."""
    import cupy as cp
    import dask
    import dask.array
    import tiffjet

    pixels = load(arguments, "dem")
    resident_pixels = cp.asarray(pixels)
    path, other = arguments.target / "stream.tif", arguments.target / "eager.tif"
    dask.config.set(scheduler="synchronous")

    def lazy():
        return dask.array.map_blocks(cp.asarray, dask.array.from_array(pixels, chunks=(512, -1)), dtype=pixels.dtype, meta=cp.empty((0, 0), pixels.dtype))

    tiffjet.to_geotiff(resident_pixels[:1024], path, device="cuda")  # contexts and kernels are there
    device = cp.cuda.Device()
    pool = cp.get_default_memory_pool()
    for codec, cog, budget in itertools.product(("zstd", "deflate", "lzw", "none"), (False, True), ("64MiB", None)):
        for name, data in (("stream", lazy()), ("eager", resident_pixels)):
            gc.collect()
            pool.free_all_blocks()
            target = path if name == "stream" else other
            try:
                with Watch(device) as watch:
                    start = time.perf_counter()
                    written = tiffjet.to_geotiff(data, target, compression=codec, predictor=3 if codec != "none" else "none", cog=cog, memory=budget, device="cuda")
                    seconds = time.perf_counter() - start
                told = written.report
                found = {
                    "way": name, "codec": codec, "cog": cog, "budget": budget, "ms": seconds * 1e3,
                    "device_seen": watch.device, "host_seen": watch.host, "device_memory": told.device_memory,
                    "host_memory": told.host_memory, "routes": told.routes, "fallbacks": told.fallbacks,
                    "chunk": 512 * pixels.shape[1] * 4 if name == "stream" else 0, "bytes": written.size,
                }
                if name == "eager" and path.exists():
                    found["same"] = path.read_bytes() == other.read_bytes()
                yield {"memory": found}
            except Exception as error:  # noqa: BLE001
                yield {"memory": {"way": name, "codec": codec, "cog": cog, "budget": budget, "error": repr(error)[:200]}}
    path.unlink(missing_ok=True)
    other.unlink(missing_ok=True)


# -- correctness

TRANSFORM = (10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0)


def small_ways() -> Iterator[dict]:
    dtypes = ("uint8", "int16", "uint16", "int32", "float16", "float32", "float64")
    for number, (codec, dtype, bands) in enumerate(itertools.product(CODECS + ("lzma",), dtypes, (1, 3))):
        predictors = ("none",) if codec in ("none", "packbits") else ("none", "2", "3") if dtype[0] == "f" else ("none", "2")
        for predictor in predictors:
            cut = ({"tile_size": (16, 32)}, {"strips": True}, {"tile_size": 32, "overviews": [2, 4]}, {"tile_size": 32, "cog": True})
            for layout in cut if dtype in ("uint8", "float32") else cut[number % 4 : number % 4 + 1]:
                yield {"compression": codec, "dtype": dtype, "bands": bands, "predictor": predictor, **layout}


def small_pixels(dtype: str, bands: int, holes: bool) -> np.ndarray:
    y, x = np.mgrid[:70, :101]
    rng = np.random.default_rng(1)
    values = np.stack([(x * 2 + y * 3 + 40 * band) % 120 + rng.integers(0, 4, x.shape) for band in range(bands)]).astype(dtype)
    if holes:
        values[:, 10:40, 20:60] = np.nan
    return values


def check(arguments: argparse.Namespace) -> Iterator[dict]:
    """Small rasters in many ways: from the device at once, in ragged rows, bands last, with little memory, to a file object."""
    import cupy as cp
    import dask.array
    import tifffile
    import tiffjet

    arguments.files.mkdir(parents=True, exist_ok=True)
    resamplings = ("nearest", "average", "mode", "cubic", "bilinear", "gauss", "rms", "min", "max")
    failed, count = [], 0
    for number, way in enumerate(small_ways()):
        dtype, bands = way.pop("dtype"), way.pop("bands")
        holes = dtype[0] == "f" and number % 2 == 0
        pixels = small_pixels(dtype, bands, holes)
        options = {**way, "crs": 32633, "transform": TRANSFORM, "resampling": resamplings[number % len(resamplings)]}
        if number % 4 == 1 and bands > 1:
            options["interleave"] = "band"
        if dtype[0] == "f":
            options["nodata"] = -9999.0
        masked = number % 5 == 0 and "nodata" not in options
        mask = np.random.default_rng(3).random(pixels.shape[1:]) > 0.2 if masked else None
        name = "-".join(str(v).replace(" ", "") for v in (number, *way.values(), dtype, bands))
        device = cp.asarray(pixels)
        before = device.copy()
        on_device = None if mask is None else cp.asarray(mask)
        path = arguments.files / f"{name}.tif".replace("(", "").replace(")", "").replace("[", "").replace("]", "").replace(",", "_")
        try:
            tiffjet.to_geotiff(device, path, mask=on_device, device="cuda", **options)
            whole = path.read_bytes()
            last = cp.ascontiguousarray(device.transpose(1, 2, 0)).transpose(2, 0, 1)
            others = {
                "bands last": lambda dst: tiffjet.to_geotiff(last, dst, mask=on_device, **options),
                "little memory": lambda dst: tiffjet.to_geotiff(device, dst, mask=on_device, memory=1, **options),
                "of the host": lambda dst: tiffjet.to_geotiff(pixels, dst, mask=mask, device="cuda", **options),
            }
            if mask is None:
                ragged = dask.array.from_array(pixels, chunks=(1, (1, 30, 7, 32), (60, 41)))
                others["ragged"] = lambda dst: tiffjet.to_geotiff(ragged.map_blocks(cp.asarray, meta=device[:0, :0, :0]), dst, **options)
            for what, write in others.items():
                stream = io.BytesIO()
                write(stream)
                if stream.getvalue() != whole:
                    failed.append(f"{path.name}: {what}: other bytes")
            if not bool((cp.asarray(device).view(cp.uint8) == before.view(cp.uint8)).all()):
                failed.append(f"{path.name}: the caller's pixels changed")
            due = np.where(np.isnan(pixels), np.array(-9999.0, dtype), pixels) if holes else pixels
            image = tiffjet.open(path)
            if not np.array_equal(np.asarray(image.read(device="cpu")), due):
                failed.append(f"{path.name}: other pixels")
            if options["compression"] != "lzma":
                seen = tifffile.imread(path, key=0)
                seen = seen if seen.ndim == 2 else seen if seen.shape[0] == bands and options.get("interleave") == "band" else seen.transpose(2, 0, 1)
                if not np.array_equal(np.broadcast_to(seen, due.shape), due):
                    failed.append(f"{path.name}: tifffile sees other pixels")
            cpu = io.BytesIO()
            tiffjet.to_geotiff(pixels, cpu, mask=mask, device="cpu", **options)
            host = tiffjet.open(cpu.getvalue())
            for level in range(len(host.levels)):
                one, two = (np.asarray(i.read(level=level, device="cpu")) for i in (image, host))
                if not np.array_equal(one.view("uint8"), two.view("uint8")):
                    failed.append(f"{path.name}: level {level} is not the CPU's")
            digests = [hashlib.sha256(np.ascontiguousarray(band).tobytes()).hexdigest() for band in due]
            said = {"sha256": digests, "transform": TRANSFORM, "epsg": 32633, "cog": bool(options.get("cog"))}
            if "nodata" in options:
                said["nodata"] = -9999.0
            path.with_suffix(".json").write_text(json.dumps(said))
            count += 1
        except Exception as error:  # noqa: BLE001
            failed.append(f"{path.name}: {error!r}"[:300])
    yield {"check": {"ways": count, "failed": failed}}


def large(arguments: argparse.Namespace) -> Iterator[dict]:
    """Large rasters as tifffile and the CPU see them."""
    import cupy as cp
    import tifffile
    import tiffjet

    path = arguments.target / "large.tif"
    for raster, codec, side in itertools.product(PREDICTORS, ("zstd", "deflate", "lzw"), (256, 512)):
        pixels = load(arguments, raster)
        try:
            tiffjet.to_geotiff(bands_first(cp.asarray(pixels)), path, compression=codec, tile_size=side)
            same = np.array_equal(tifffile.imread(path, maxworkers=16), pixels)
            cpu = np.array_equal(np.asarray(tiffjet.open(path).read(device="cpu")), bands_first(pixels))
            yield {"large": {"raster": raster, "codec": codec, "side": side, "tifffile": bool(same), "cpu": bool(cpu)}}
        except Exception as error:  # noqa: BLE001
            yield {"large": {"raster": raster, "codec": codec, "side": side, "error": repr(error)[:200]}}
    path.unlink(missing_ok=True)


PARTS = {
    "data": make_data,
    "check": check,
    "tiffjet": lambda arguments: ours(arguments, report.OURS),
    "nvcomp": nvcomp,
    "memory": memory,
    "xarray": xarray_spatial,
    "cpu": lambda arguments: ours(arguments, report.CPU),
    "large": large,
}
SECONDS = {"data": 60, "check": 120, "tiffjet": 100, "nvcomp": 40, "memory": 60, "xarray": 70, "cpu": 70, "large": 40}


def run_part(arguments: argparse.Namespace) -> int:
    for found in PARTS[arguments.part](arguments):
        print(json.dumps(found), flush=True)
    return 0


def facts() -> dict[str, str]:
    keys = {"GPU": "name", "driver": "driver_version"}
    command = ["nvidia-smi", f"--query-gpu={','.join(keys.values())}", "--format=csv,noheader", "--id=0"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return {"GPU": "unknown"}
    return dict(zip(keys, map(str.strip, out.splitlines()[0].split(",")), strict=True))


def run_all(arguments: argparse.Namespace) -> int:
    result: dict = {"machine": {**facts(), "cores": machine.CORES}, "commit": arguments.commit, "size": arguments.size, "entries": [], "problems": []}
    for part in arguments.parts:
        begun = time.monotonic()
        command = [sys.executable, __file__, "--part", part, "--data", arguments.data, "--size", str(arguments.size)]
        command += ["--target", arguments.target, "--files", arguments.files]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=SECONDS[part])
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            result["problems"].append(f"{part}: cut short after {SECONDS[part]} s")
        if process.returncode:
            result["problems"].append(f"{part}: {err.strip().splitlines()[-1] if err.strip() else process.returncode}")
        for line in out.splitlines():
            if line.startswith("{"):
                result["entries"].append(json.loads(line))
        print(f"{part}: {time.monotonic() - begun:.0f} s", *(result["problems"][-1:] if process.returncode else ()), flush=True)
        arguments.out.write_text(json.dumps(result, indent=1))
        arguments.out.with_suffix(".md").write_text(report.render(result))
    print(report.render(result))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the rasters")
    parser.add_argument("--out", type=Path, help="where the JSON goes; .md beside it")
    parser.add_argument("--target", type=Path, default=Path("/dev/shm"), help="folder of what is written")
    parser.add_argument("--files", type=Path, help="folder of the small files of `check`")
    parser.add_argument("--commit", help="what tiffjet was built from")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--part", choices=PARTS, help="one part, to standard output")
    arguments = parser.parse_args()
    arguments.files = arguments.files or arguments.data / "small"
    if arguments.part:
        return run_part(arguments)
    if not arguments.out:
        parser.error("--out is needed")
    return run_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
