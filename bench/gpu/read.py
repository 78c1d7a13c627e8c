#!/usr/bin/env python3
"""Reading on a GPU: from a path to pixels in device memory, tiffjet and its rivals in one run.

    read.py --data FOLDER --out RESULT.json --tiffjet READ_BENCH [--check CORPUS] [--nvtiff FOLDER] [--kernels KERNELS.json]
    read.py --data FOLDER --size 1024 --part data        the files alone; needs no GPU

READ_BENCH and CORPUS are examples of tiffjet-cuda (`cargo build --release -p tiffjet-cuda --examples`). FOLDER of --nvtiff has
`include` and `lib` of nvTIFF. Needs NumPy, CuPy, tifffile and imagecodecs; xarray-spatial, rasterio, cog3pio, nvCOMP 5 (where the
loader finds libnvcomp.so.5) and nvcc for the rivals: one that is missing is left out, and the result says so.

Files: the rasters dem (float32), s2 (uint16) and rgb (uint8 x 3), each without compression, with Deflate 6, ZSTD 9 and LZW, tiles
of 256 and 512, with a predictor and some without (`np`). They are made once (4 GB), then reused, and read into the page cache.
Every engine runs in a process of its own and with the settings of its own. Its first result is compared with the raster the file
was made of; tiffjet's are compared with its CPU's by CORPUS. RESULT.json is written again after each engine, so that a run cut
short leaves what it had; the tables (read_report.py) lie beside it as RESULT.md.
"""

import argparse
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

import kernels
import read_report as report

sys.path.append(str(Path(__file__).resolve().parents[1]))
import machine  # noqa: E402 -- of the folder above

WORKERS = 16
WINDOW = 512
WINDOW_FILES = ("dem_deflate_256", "dem_zstd_512", "s2_none_256", "s2_deflate_256", "rgb_lzw_512", "rgb_zstd_256")
LEVELS = {"none": None, "deflate": {"level": 6}, "zstd": {"level": 9}, "lzw": None}
PREDICTORS = {"dem": 3, "s2": 2, "rgb": 2}

# -- files


@dataclass(frozen=True)
class File:
    raster: str
    codec: str
    side: int
    predicted: bool

    @property
    def name(self) -> str:
        plain = "" if self.predicted or self.codec == "none" else "np"
        return f"{self.raster}_{self.codec}{plain}_{self.side}"

    def path(self, folder: Path) -> Path:
        return folder / f"{self.name}.tif"

    def pixels(self, folder: Path) -> Path:
        return folder / f"{self.raster}.npy"


def all_files() -> list[File]:
    found = [
        File(raster, codec, side, codec != "none")
        for raster in PREDICTORS
        for codec in LEVELS
        for side in (256, 512)
        if (codec, side) != ("none", 512)
    ]
    # Without a predictor: what more of the rivals can read.
    return found + [File(raster, codec, 256, False) for raster in ("dem", "s2") for codec in ("deflate", "zstd", "lzw")]


def write_file(file: File, folder: Path, pixels: np.ndarray) -> None:
    import tifffile

    path = file.path(folder)
    scratch = path.with_suffix(".part")
    tifffile.imwrite(
        scratch,
        pixels,
        tile=(file.side, file.side),
        compression=None if file.codec == "none" else file.codec,
        compressionargs=LEVELS[file.codec],
        predictor=PREDICTORS[file.raster] if file.predicted else None,
        photometric="rgb" if file.raster == "rgb" else "minisblack",
        maxworkers=WORKERS,
    )
    scratch.rename(path)


def make_data(arguments: argparse.Namespace) -> Iterator[dict]:
    folder, stamp = arguments.data, arguments.data / "size"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = stamp.exists() and stamp.read_text() == str(arguments.size)
    stamp.unlink(missing_ok=True)  # until all are there

    def make(raster: str) -> np.ndarray:
        path = folder / f"{raster}.npy"
        if not (fresh and path.exists()):
            np.save(path, kernels.make_raster(raster, arguments.size))
        return np.load(path, mmap_mode="r")

    with ThreadPoolExecutor(4) as pool:
        tasks = []
        for raster in PREDICTORS:
            pixels = make(raster)
            missing = [f for f in all_files() if f.raster == raster and not (fresh and f.path(folder).exists())]
            tasks += [pool.submit(write_file, file, folder, pixels) for file in missing]
        for task in tasks:
            task.result()
    stamp.write_text(str(arguments.size))
    yield {"made": len(tasks)}


def into_page_cache(paths: list[Path]) -> None:
    def read(path: Path) -> None:
        with path.open("rb", buffering=0) as file:
            part = bytearray(16 << 20)
            while file.readinto(part):
                pass

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(read, paths))


# -- engines in Python, each in a process of its own: lines of JSON


def version_of(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = str(getattr(sys.modules.get(package), "__version__", "unknown"))
    return found


def milliseconds(rounds: int, read: Callable[[], object]) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        read()
        times.append((time.perf_counter() - begun) * 1e3)
    return round(statistics.median(times), 3)


def readers(arguments: argparse.Namespace, rounds: int, read: Callable[[Path], "kernels.cp.ndarray"]) -> Iterator[dict]:
    """Times `read`, which returns when the pixels are on the device; its first result is compared."""
    for file in arguments.files:
        path = file.path(arguments.data)
        try:
            sound = bool(np.array_equal(kernels.cp.asnumpy(read(path)), np.load(file.pixels(arguments.data), mmap_mode="r")))
            yield {"file": file.name, "ms": milliseconds(rounds, functools.partial(read, path)), "sound": sound}
        except Exception as error:  # noqa: BLE001 -- whatever a rival raises is its result
            yield {"file": file.name, "error": repr(error)[:300]}


def tifffile_cupy(arguments: argparse.Namespace) -> Iterator[dict]:
    import imagecodecs  # noqa: F401 -- for its version
    import tifffile

    cp = kernels.cp
    yield {"versions": version_of("tifffile", "imagecodecs", "numpy") | {"cupy": cp.__version__}}

    def read(path: Path):
        pixels = cp.asarray(tifffile.imread(path, maxworkers=WORKERS))
        cp.cuda.Device().synchronize()
        return pixels

    yield from readers(arguments, arguments.rounds, read)


def xarray_spatial_alone(arguments: argparse.Namespace) -> Iterator[dict]:
    """As its own extras install it: KvikIO, which it uses where it is found, is none of them."""
    sys.modules["kvikio"] = None
    yield from xarray_spatial(arguments)


def xarray_spatial(arguments: argparse.Namespace) -> Iterator[dict]:
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # it uses a name that NumPy has dropped
    warnings.simplefilter("ignore")
    from xrspatial.geotiff import open_geotiff

    yield {"versions": version_of("xarray-spatial", "xarray")}

    def read(path: Path):
        pixels = open_geotiff(str(path), gpu=True)
        kernels.cp.cuda.Device().synchronize()
        return pixels.data

    yield from readers(arguments, arguments.xarray_rounds, read)


def cog3pio_cuda(arguments: argparse.Namespace) -> Iterator[dict]:
    """Its pixels come as one axis; they are told apart for the comparison alone."""
    from cog3pio import CudaCogReader

    cp = kernels.cp
    yield {"versions": version_of("cog3pio")}
    shapes = {f.path(arguments.data): np.load(f.pixels(arguments.data), mmap_mode="r").shape for f in arguments.files}

    def read(path: Path):
        pixels = cp.from_dlpack(CudaCogReader(path.as_uri(), device_id=0))
        cp.cuda.Device().synchronize()
        return pixels.reshape(shapes[path])

    yield from readers(arguments, arguments.rounds, read)


def encoded_tiles(path: Path) -> list[bytes]:
    import tifffile

    data = np.memmap(path, np.uint8, "r")
    with tifffile.TiffFile(path) as tiff:
        page = tiff.pages[0]
        return [data[at : at + size].tobytes() for at, size in zip(page.dataoffsets, page.databytecounts, strict=True)]


def plain_tiles(file: File, pixels: np.ndarray) -> np.ndarray:
    """What a codec must give, one row of bytes for each tile."""
    if file.predicted:
        return kernels.cut(file.raster, pixels, file.side)
    across = pixels.shape[0] // file.side
    tiles = pixels.reshape(across, file.side, across, file.side, -1).swapaxes(1, 2)
    return np.ascontiguousarray(tiles).view(np.uint8).reshape(across * across, -1)


def nvcomp_alone(arguments: argparse.Namespace) -> Iterator[dict]:
    cp, plain_of = kernels.cp, {}
    for file in arguments.files:
        if file.codec not in ("deflate", "zstd"):
            continue
        key = file.raster, file.side, file.predicted
        if key not in plain_of:
            plain_of[key] = plain_tiles(file, np.load(file.pixels(arguments.data)))
        plain, streams = plain_of[key], encoded_tiles(file.path(arguments.data))
        batch = kernels.Batch(streams, [plain.shape[1]] * len(streams))
        batch.upload()
        launch = kernels.CODECS[file.codec]().rival(batch)
        if launch is None:
            yield {"note": "nvCOMP is not measured: the loader finds no libnvcomp.so.5"}
            return
        yield {"versions": {"nvCOMP": "5, of libnvcomp.so.5"}}
        batch.clear()
        launch.go()
        cp.cuda.Device().synchronize()
        sound = batch.wrong(cp.asarray(plain)) == 0 and not bool(batch.status.any())
        yield {"file": file.name, "ms": round(kernels.milliseconds(launch.go), 3), "sound": sound}
        del batch, launch
        cp.get_default_memory_pool().free_all_blocks()


def random_windows(count: int, height: int, width: int) -> list[tuple[int, int]]:
    """Corners; the same as those of the example `read_bench`."""
    state, mask = 0x9E37_79B9_7F4A_7C15, (1 << 64) - 1

    def below(limit: int) -> int:
        nonlocal state
        state ^= state << 13 & mask
        state ^= state >> 7
        state ^= state << 17 & mask
        return state % (limit + 1)

    return [(below(max(height - WINDOW, 0)), below(max(width - WINDOW, 0))) for _ in range(count)]


def rasterio_windows(arguments: argparse.Namespace) -> Iterator[dict]:
    os.environ["GDAL_DISABLE_READDIR_ON_OPEN"] = "EMPTY_DIR"
    import rasterio
    from rasterio.windows import Window

    cp = kernels.cp
    yield {"versions": {"rasterio": rasterio.__version__, "GDAL": rasterio.__gdal_version__}}

    def read_all(path: Path, corners: list[tuple[int, int]]) -> list:
        opened, local = [], threading.local()

        def read(corner: tuple[int, int]):
            if not hasattr(local, "file"):
                local.file = rasterio.open(path)
                opened.append(local.file)
            return cp.asarray(local.file.read(window=Window(corner[1], corner[0], WINDOW, WINDOW)))

        with ThreadPoolExecutor(WORKERS) as pool:
            found = list(pool.map(read, corners))
        cp.cuda.Device().synchronize()
        for file in opened:
            file.close()
        return found

    for file in arguments.files:
        if file.name not in WINDOW_FILES:
            continue
        path, pixels = file.path(arguments.data), np.load(file.pixels(arguments.data), mmap_mode="r")
        pixels = pixels[..., None] if pixels.ndim == 2 else pixels
        corners = random_windows(arguments.windows, *pixels.shape[:2])
        found = read_all(path, corners)
        sound = all(
            np.array_equal(cp.asnumpy(got), np.moveaxis(pixels[y : y + WINDOW, x : x + WINDOW], -1, 0))
            for got, (y, x) in zip(found, corners, strict=True)
        )
        del found
        yield {
            "file": file.name,
            "ms": milliseconds(arguments.rounds, functools.partial(read_all, path, corners)),
            "sound": sound,
        }


PARTS = {
    "data": make_data,
    report.TIFFFILE: tifffile_cupy,
    report.COG3PIO: cog3pio_cuda,
    report.XARRAY: xarray_spatial,
    report.XARRAY_ALONE: xarray_spatial_alone,
    report.NVCOMP: nvcomp_alone,
    report.RASTERIO: rasterio_windows,
}


def run_part(arguments: argparse.Namespace) -> int:
    try:
        if kernels.cp is None and arguments.part != "data":
            raise ImportError("CuPy is not installed")
        for line in PARTS[arguments.part](arguments):
            print(json.dumps(line), flush=True)
    except ImportError as error:
        print(json.dumps({"note": f"{arguments.part} is not measured: {error}"}), flush=True)
    return 0


# -- the whole


class Run:
    """Starts one engine after the other and keeps what they say."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.deadline = time.monotonic() + arguments.seconds
        self.log = arguments.out.with_suffix(".log").open("w")
        facts = {key: value for key, value in machine.facts().items() if key != "memory settings"}
        self.result = {
            "machine": gpu_facts() | facts | ({"commit": arguments.commit} if arguments.commit else {}),
            **{"versions": {}, "size": arguments.size, "rounds": arguments.rounds, "windows": arguments.windows},
            **{"xarray_rounds": arguments.xarray_rounds, "files": {}, "check": None, "notes": []},
        }

    def note(self, text: str) -> None:
        print(text, flush=True)
        self.result["notes"].append(text)

    def save(self) -> None:
        self.arguments.out.write_text(json.dumps(self.result, indent=1) + "\n", encoding="utf-8")
        path = self.arguments.kernels
        found = json.loads(path.read_text(encoding="utf-8")) if path else None
        self.arguments.out.with_suffix(".md").write_text(report.markdown(self.result, found), encoding="utf-8")

    def start(self, name: str, command: list, limit: float, text: str | None = None, env: dict | None = None) -> tuple[str, int]:
        """What a program writes to standard output, and its status; it is stopped at the limit."""
        limit = max(1.0, min(limit, self.deadline - time.monotonic()))
        begun = time.monotonic()
        try:
            done = subprocess.run(
                [str(word) for word in command],
                **{"input": text, "stdout": subprocess.PIPE, "stderr": self.log, "timeout": limit, "text": True},
                env=os.environ | (env or {}),
                check=False,
            )
            out, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as stopped:
            out, status = stopped.stdout or b"", -1  # bytes, whatever was asked for
            out = out if isinstance(out, str) else out.decode(errors="replace")
            self.note(f"{name} is stopped after {limit:.0f} s; what it had measured counts.")
        except OSError as error:
            self.note(f"{name} is not measured: {error}")
            return "", -1
        print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
        return out, status

    def lines(self, name: str, command: list, limit: float, env: dict | None = None) -> Iterator[dict]:
        out, status = self.start(name, command, limit, env=env)
        if status > 0 or status < -1:
            self.note(f"{name} ended with status {status}.")
        for line in out.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                print(f"{name} says: {line[:300]}", flush=True)
                continue
            self.result["versions"] |= found.pop("versions", {})
            if "note" in found:
                self.note(found["note"])
            yield found

    def entry(self, name: str, engine: str) -> dict:
        return self.result["files"][name]["engines"].setdefault(engine, {})

    def part(self, name: str, limit: float) -> None:
        shared = [f"--{key}={getattr(self.arguments, key.replace('-', '_'))}" for key in ("data", "size", "rounds", "windows")]
        command = [sys.executable, "-B", __file__, "--part", name, f"--xarray-rounds={self.arguments.xarray_rounds}", *shared]
        for found in self.lines(name, command, limit):
            if "file" in found:
                self.entry(found.pop("file"), name).update(found)

    def data(self) -> None:
        arguments = self.arguments
        self.part("data", 120)
        paths = [file.path(arguments.data) for file in arguments.files]
        if missing := [path.name for path in paths if not path.exists()]:
            raise SystemExit(f"the files could not be made: {', '.join(missing)}; see {self.log.name}")
        into_page_cache(paths)
        for file, path in zip(arguments.files, paths, strict=True):
            decoded = np.load(file.pixels(arguments.data), mmap_mode="r").nbytes
            self.result["files"][file.name] = {
                **{"raster": file.raster, "codec": file.codec, "side": file.side, "predicted": file.predicted},
                **{"bytes": path.stat().st_size, "decoded": decoded, "engines": {}},
            }

    def tiffjet(self) -> None:
        if not self.arguments.tiffjet:
            return self.note("tiffjet is not measured: no --tiffjet.")
        options = ["--runs", self.arguments.rounds, "--windows", self.arguments.windows]
        paths = [file.path(self.arguments.data) for file in self.arguments.files]
        for found in self.lines("tiffjet", [self.arguments.tiffjet, *options, *paths], 90):
            if "file" in found:
                entry = self.entry(Path(found.pop("file")).stem, report.OURS)
                entry.update({key: value for key, value in found.items() if key not in ("peak_bytes", "read_ms")})
                if "read_ms" in found:
                    entry["ms"] = found["read_ms"]
        self.peaks()

    def peaks(self) -> None:
        """The peak is that of a process, so each file has one; several at once, for no time is taken."""

        def peak(file: File) -> list[dict]:
            return list(
                self.lines(f"peak of {file.name}", [self.arguments.tiffjet, "--runs", 1, file.path(self.arguments.data)], 30)
            )

        with ThreadPoolExecutor(4) as pool:
            for file, lines in zip(self.arguments.files, pool.map(peak, self.arguments.files), strict=True):
                for found in lines:
                    if "peak_bytes" in found:
                        self.entry(file.name, report.OURS).update({k: found[k] for k in ("peak_bytes", "budget")})

    def check(self) -> None:
        if not self.arguments.check:
            return self.note("tiffjet's pixels are not compared: no --check.")
        paths = "".join(f"{file.path(self.arguments.data)}\n" for file in self.arguments.files)
        out, status = self.start("check", [self.arguments.check, "-"], 60, text=paths)
        said = [line.replace(f"{self.arguments.data}/", "") for line in out.splitlines()]
        same = sum(int(count) for count in re.findall(r": (\d+) levels the same", out))
        self.result["check"] = {"same": status == 0 and same == len(self.arguments.files), "said": said[-40:]}

    def nvtiff(self) -> None:
        prefix = self.arguments.nvtiff
        if not prefix:
            return self.note("nvTIFF is not measured: no --nvtiff.")
        with tempfile.TemporaryDirectory() as folder:
            program, source = Path(folder) / "nvtiff", Path(__file__).with_name("nvtiff.cu")
            command = ["nvcc", "-O2", "-std=c++17", f"-I{prefix}/include", source, "-o", program, f"-L{prefix}/lib", "-lnvtiff"]
            if self.start("nvcc", command, 60)[1] != 0:
                return self.note(f"nvTIFF is not measured: nvtiff.cu does not compile, see {Path(self.log.name).name}.")
            pairs = [path for f in self.arguments.files for path in (f.path(self.arguments.data), f.pixels(self.arguments.data))]
            found_by = ":".join(filter(None, [f"{prefix}/lib", os.environ.get("LD_LIBRARY_PATH", "")]))
            command = [program, self.arguments.rounds, *pairs]
            for found in self.lines(report.NVTIFF, command, 60, {"LD_LIBRARY_PATH": found_by}):
                if "version" in found:
                    self.result["versions"]["nvTIFF"] = found["version"]
                if "file" in found:
                    self.entry(Path(found.pop("file")).stem, report.NVTIFF).update(found)

    def all(self) -> int:
        """What is needed most comes first."""
        steps = [self.data, self.tiffjet, self.nvtiff, functools.partial(self.part, report.NVCOMP, 60), self.check]
        steps += [functools.partial(self.part, name, 120) for name in (report.RASTERIO, report.TIFFFILE, report.XARRAY, report.XARRAY_ALONE, report.COG3PIO)]
        begun = time.monotonic()
        for step in steps:
            step()
            self.save()
        print(f"{time.monotonic() - begun:.0f} s", flush=True)
        check = self.result["check"]
        return 0 if check is None or check["same"] else 1


def gpu_facts() -> dict[str, str]:
    keys = {"GPU": "name", "driver": "driver_version", "GPU memory": "memory.total"}
    command = ["nvidia-smi", f"--query-gpu={','.join(keys.values())}", "--format=csv,noheader", "--id=0"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return {"GPU": "unknown"}
    return dict(zip(keys, map(str.strip, out.splitlines()[0].split(",")), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the files")
    parser.add_argument("--out", type=Path, help="where the JSON goes; .md and .log beside it")
    parser.add_argument("--tiffjet", type=Path, help="the program read_bench")
    parser.add_argument("--check", type=Path, help="the program corpus")
    parser.add_argument("--nvtiff", type=Path, help="folder with include and lib of nvTIFF")
    parser.add_argument("--kernels", type=Path, help="JSON of kernels.py, for the bars of the kernels")
    parser.add_argument("--commit", help="what READ_BENCH was built from, if not this checkout")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--xarray-rounds", type=int, default=3, help="it takes up to a second")
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=280, help="for all; engines that do not fit are cut short")
    parser.add_argument("--part", choices=PARTS, help="one part, to standard output")
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()
    arguments.files = all_files()
    if arguments.part:
        return run_part(arguments)
    if not arguments.out:
        parser.error("--out is needed")
    return Run(arguments).all()


if __name__ == "__main__":
    sys.exit(main())
