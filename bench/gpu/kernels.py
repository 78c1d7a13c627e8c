#!/usr/bin/env python3
"""The decoders of tiffjet-cuda alone, data resident on the device, beside nvCOMP's in the same run.

    kernels.py [--out RESULT.json] [--size 8192] [--tiles 256,512,1024] [--rasters dem,s2,rgb] [--only WORD,WORD]
    kernels.py --variants "DEFLATE_WARM=64;DEFLATE_WARM=256"   also kernels compiled here with these definitions
    kernels.py --sanitize    a few small tiles, sound and damaged, through every entry point: for compute-sanitizer
    kernels.py --dry         make and check the data only; needs no GPU (try --size 1024)

Needs NumPy and CuPy; a C++ compiler for LZW and PackBits (streams.cpp); imagecodecs for streams of libdeflate, of its LZW
and (or zstandard) of ZSTD; libnvcomp.so.5 where the loader finds it for the rival. `place` is no codec: it puts decoded tiles in their place, and
its rate counts bytes read and written.
Rasters: dem (float32, predictor 3), s2 (uint16, predictor 2), rgb (uint8, predictor 2). Every tile is compared byte for
byte. Times are medians of 7, taken with CUDA events. The line marked * is what the launch rule chooses.
"""

import argparse
import ctypes
import functools
import json
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

try:
    import cupy as cp
except ImportError:
    cp = None
try:
    import imagecodecs
except ImportError:
    imagecodecs = None
try:
    import zstandard
except ImportError:
    zstandard = None

KERNELS = Path(__file__).resolve().parents[2] / "crates/tiffjet-cuda/kernels"
POOL = ThreadPoolExecutor()
ROUNDS = 7

# As in kernels/abi.h.
TILE = np.dtype(
    [("in", "<u8"), ("out", "<u8"), ("in_bytes", "<u4"), ("out_bytes", "<u4"), ("id", "<u4"), ("flags", "<u4")]
)
STATUS_OK = 0
STATUS_LONGER = 6  # full, while the data go on: the host looks at the rest

Encoder = Callable[[np.ndarray], bytes]


# -- data


def fractal(xp, size: int, seed: int, octaves: int):
    rng = np.random.default_rng(seed)
    out, strength = xp.zeros((size, size), xp.float32), 1.0
    for octave in range(octaves):
        cells = 2 ** (octave + 1) + 1
        grid = xp.asarray(rng.standard_normal((cells, cells)).astype(np.float32))
        x = np.linspace(0, cells - 1.001, size, dtype=np.float32)
        i = x.astype(int)
        part, i = xp.asarray((x - i).astype(np.float32)), xp.asarray(i)
        rows = grid[i] * (1 - part)[:, None] + grid[i + 1] * part[:, None]
        out += xp.float32(strength) * (rows[:, i] * (1 - part)[None, :] + rows[:, i + 1] * part[None, :])
        strength *= 0.55
    return out


def make_raster(name: str, size: int) -> np.ndarray:
    xp = cp or np
    host = cp.asnumpy if cp else np.asarray

    def noise(seed: int, width: float):
        return xp.asarray(np.random.default_rng(seed).normal(0, width, (size, size)).astype(np.float32))

    if name == "dem":
        return host(xp.round(fractal(xp, size, 1, 9) * 300 + 800 + noise(5, 0.05), 2).astype(xp.float32))
    if name == "s2":
        return host(xp.clip(fractal(xp, size, 10, 11) * 400 + 1500 + noise(2, 25), 0, 10000).astype(xp.uint16))
    bands = [xp.clip(fractal(xp, size, 10 + i, 11) * 25 + 110 + noise(21 + i, 3), 0, 255) for i in range(3)]
    return host(xp.stack([band.astype(xp.uint8) for band in bands], -1))


def cut(name: str, raster: np.ndarray, side: int) -> np.ndarray:
    """Tiles with their predictor applied, one row of bytes each."""
    across, bands = raster.shape[0] // side, raster.size // raster.shape[0] // raster.shape[1]
    count = across * across
    tiles = raster.reshape(across, side, across, side, bands).swapaxes(1, 2).reshape(count, side, side, bands)
    if name == "dem":
        planes = tiles.reshape(count * side, side).astype(">f4").view(np.uint8).reshape(count * side, side, 4)
        planes = planes.swapaxes(1, 2).reshape(count * side, 4 * side)
        packed = planes.copy()
        packed[:, 1:] -= planes[:, :-1]
    else:
        packed = tiles.copy()
        packed[:, :, 1:] -= tiles[:, :, :-1]
    return np.ascontiguousarray(packed).view(np.uint8).reshape(count, -1)


class Batch:
    """Encoded tiles in one buffer, as the contract of `Tile` in kernels/abi.h wants them.

    Each starts 14 bytes after a multiple of 16: behind a zlib header, the rival finds its data aligned.
    """

    def __init__(self, streams: list[bytes], sizes: list[int]):
        self.count = len(streams)
        self.in_bytes = np.array([len(stream) for stream in streams], np.uint64)
        self.out_bytes = np.array(sizes, np.uint64)
        room = (self.in_bytes + 2 + 32 + 15) // 16 * 16 + 16
        self.in_offset = np.concatenate([[0], np.cumsum(room)[:-1]]).astype(np.uint64) + np.uint64(30)
        self.encoded = np.zeros(int(self.in_offset[-1] + room[-1]) + 64, np.uint8)
        for at, stream in zip(self.in_offset, streams, strict=True):
            self.encoded[int(at) : int(at) + len(stream)] = np.frombuffer(stream, np.uint8)
        stride = (self.out_bytes + 15) // 16 * 16 + 16
        self.out_offset = np.concatenate([[0], np.cumsum(stride)[:-1]]).astype(np.uint64)
        self.out_total = int(self.out_offset[-1] + stride[-1])

    def upload(self) -> None:
        self.device_in, self.device_out = cp.asarray(self.encoded), cp.empty(self.out_total, cp.uint8)
        tiles = np.zeros(self.count, TILE)
        tiles["in"] = np.uint64(self.device_in.data.ptr) + self.in_offset
        tiles["out"] = np.uint64(self.device_out.data.ptr) + self.out_offset
        tiles["in_bytes"], tiles["out_bytes"] = self.in_bytes, self.out_bytes
        tiles["id"] = np.arange(self.count)
        self.tiles = tiles
        self.device_tiles = cp.asarray(tiles.view(np.uint8))
        self.status = cp.zeros(self.count, cp.uint32)

    def clear(self) -> None:
        self.device_out.fill(0xA5)
        self.status.fill(77)

    def wrong(self, plain: "cp.ndarray") -> int:
        """Tiles that are not what they should be; all have one size."""
        stride = self.out_total // self.count
        got = self.device_out.reshape(self.count, stride)[:, : plain.shape[1]]
        return int((~(got == plain).all(axis=1)).sum())

    def tile(self, i: int) -> bytes:
        at = int(self.out_offset[i])
        return cp.asnumpy(self.device_out[at : at + int(self.out_bytes[i])]).tobytes()


# -- kernels


def cubin(name: str, arch: int) -> bytes:
    """From kernels.bin; the format is described in scripts/make_kernels.py."""
    data = (KERNELS / "kernels.bin").read_bytes()
    magic, version, count, _ = struct.unpack_from("<8sII32s", data)
    if (magic, version) != (b"TJKERNEL", 1):
        raise SystemExit("kernels.bin is of another kind or version")
    best = None
    for i in range(count):
        title, kind, of, at, packed, _, _ = struct.unpack_from("<24sIIIIII", data, 48 + 48 * i)
        serves = kind == 0 and of // 10 == arch // 10 and of <= arch
        if title.rstrip(b"\0").decode() == name and serves and (best is None or of > best[0]):
            best = of, zlib.decompress(data[at : at + packed])
    if best is None:
        raise SystemExit(f"kernels.bin has no {name} for sm_{arch}")
    return best[1]


LOADED = []  # files of modules, which CuPy may open again


def load(name: str):
    file = tempfile.NamedTemporaryFile(suffix=".cubin")  # noqa: SIM115 -- lives as long as the process
    file.write(cubin(name, int(cp.cuda.Device().compute_capability)))
    file.flush()
    LOADED.append(file)
    return cp.RawModule(path=file.name)


VARIANTS: list[str] = []  # definitions, with spaces between those of one variant
COMPILED: dict[tuple[str, str], object] = {}


def variants(name: str) -> Iterator[tuple[str, object]]:
    """The kernel with other constants, compiled by CuPy: to find out which are best."""
    for title in VARIANTS:
        if (name, title) not in COMPILED:
            options = ("--std=c++17", f"-I{KERNELS}", *(f"-D{word}" for word in title.split()))
            code = (KERNELS / f"{name}.cu").read_text(encoding="utf-8")
            COMPILED[name, title] = cp.RawModule(code=code, options=options)
        yield title, COMPILED[name, title]


@dataclass
class Launch:
    """A way to decode a batch: what it is called, whether the rule of the codec takes it, how it is done."""

    label: str
    chosen: bool
    go: Callable[[], None]
    note: str = ""


def nvcomp(codec: str, batch: Batch, backend: int, places: np.ndarray, sizes: np.ndarray) -> Launch | None:
    """The rival's way, where its library is; `places` and `sizes` are those of its input."""
    try:
        library = ctypes.CDLL("libnvcomp.so.5")
    except OSError:
        return None

    class Options(ctypes.Structure):
        _fields_ = [("backend", ctypes.c_int), ("order", ctypes.c_int), ("reserved", ctypes.c_char * 56)]

    size, count, options, need = ctypes.c_size_t, batch.count, Options(backend, 0, b""), ctypes.c_size_t(0)
    most, total = size(int(batch.out_bytes.max())), size(int(batch.out_bytes.sum()))
    ask = getattr(library, f"nvcompBatched{codec}DecompressGetTempSizeAsync")
    ask(size(count), most, options, ctypes.byref(need), total)
    inputs, outputs = cp.asarray(places), cp.asarray(batch.tiles["out"])
    in_bytes, out_bytes = cp.asarray(sizes), cp.asarray(batch.out_bytes)
    actual, scratch = cp.empty(count, cp.uint64), cp.empty(max(need.value, 1), cp.uint8)
    status = batch.status.view(cp.int32)
    decode = getattr(library, f"nvcompBatched{codec}DecompressAsync")

    def at(array) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.data.ptr)

    def go() -> None:
        stream = ctypes.c_void_p(cp.cuda.get_current_stream().ptr)
        failed = decode(
            *(at(inputs), at(in_bytes), at(out_bytes), at(actual), size(count), at(scratch), need, at(outputs)),
            *(options, at(status), stream),
        )
        if failed:
            raise SystemExit(f"nvCOMP gives {failed}")

    return Launch("nvCOMP", False, go, f"scratch {need.value}")


def chosen_of(table: list[tuple[int, int, int]], batch: Batch) -> int:
    """The rule of kernels/*_launch.h: which line of a table of threads, blocks and shared bytes is launched."""
    device, largest, best = cp.cuda.Device().attributes, int(batch.out_bytes.max()), 0
    for i, (threads, blocks, shared) in enumerate(table):
        resident = batch.count <= device["MultiProcessorCount"] * blocks
        if resident and largest >= 32 * threads and shared <= device["MaxSharedMemoryPerBlockOptin"]:
            best = i
    return best


class Deflate:
    name = "deflate"

    def __init__(self) -> None:
        text = (KERNELS / "deflate_launch.h").read_text(encoding="utf-8")
        table = re.search(r"LAUNCHES\[\] = \{(.*?)\};", text, re.DOTALL)[1]
        self.table = [tuple(map(int, row)) for row in re.findall(r"\{(\d+), (\d+), (\d+)\}", table)]
        self.module = None

    def encoders(self) -> dict[str, Encoder]:
        found: dict[str, Encoder] = {"zlib": lambda tile: zlib.compress(tile, 6)}
        if imagecodecs is not None:
            found["libdeflate"] = lambda tile: imagecodecs.deflate_encode(tile, level=6)
        return found

    def decoded(self, stream: bytes, size: int) -> bytes | None:
        """What the host takes it for, None when it refuses. A little stricter than the host codec."""
        try:
            return zlib.decompress(stream) if size else b""
        except zlib.error:
            return None

    def launches(self, batch: Batch) -> Iterator[Launch]:
        self.module = self.module or load(self.name)
        yield from self.launches_of(self.module, "", batch)
        for title, module in variants(self.name):
            yield from self.launches_of(module, " " + title, batch)

    def launches_of(self, module, title: str, batch: Batch) -> Iterator[Launch]:
        chosen = chosen_of(self.table, batch)
        for i, (threads, _, shared) in enumerate(self.table):
            kernel = module.get_function(f"deflate_{threads}")
            kernel.max_dynamic_shared_size_bytes = shared
            arguments = (batch.device_tiles, np.uint32(batch.count), batch.status)

            def go(kernel=kernel, threads=threads, arguments=arguments, shared=shared) -> None:
                kernel((batch.count,), (threads,), arguments, shared_mem=shared)

            note = f"{kernel.num_regs} registers, {kernel.local_size_bytes} local, {shared} shared"
            yield Launch(f"deflate_{threads}{title}", i == chosen and not title, go, note)

    def rival(self, batch: Batch) -> Launch | None:
        """nvCOMP 5: raw Deflate, so without the two bytes before and the four behind."""
        return nvcomp("Deflate", batch, 2, batch.tiles["in"] + np.uint64(2), batch.in_bytes - np.uint64(6))


class Zstd:
    name = "zstd"
    stricter = True  # bits of literals must be used up; the host's library does not ask
    PARTS = ("scan", "entropy", "execute", "sums")

    def __init__(self) -> None:
        text = (KERNELS / "zstd_launch.h").read_text(encoding="utf-8")
        row = re.compile(r"\{(\d+), (\d+), (\d+)\}")
        self.entropy = tuple(map(int, row.search(text[text.index("ENTROPY =") :]).groups()))
        table = re.search(r"EXECUTE\[\] = \{(.*?)\};", text, re.DOTALL)[1]
        self.table = [tuple(map(int, found)) for found in row.findall(table)]
        self.module = None

    def encoders(self) -> dict[str, Encoder]:
        if imagecodecs is not None:
            return {"zstd": lambda tile: imagecodecs.zstd_encode(tile.tobytes(), level=9)}
        if zstandard is not None:
            return {"zstd": lambda tile: zstandard.ZstdCompressor(level=9).compress(tile.tobytes())}
        raise SystemExit("ZSTD streams are made by imagecodecs or zstandard, and neither is installed")

    def decoded(self, stream: bytes, size: int) -> bytes | None:
        if size == 0:
            return b""
        try:
            if imagecodecs is not None:
                return imagecodecs.zstd_decode(stream, out=size)
            return zstandard.ZstdDecompressor().decompress(stream, max_output_size=size)
        except (RuntimeError, ValueError, zstandard.ZstdError if zstandard else RuntimeError):
            return None

    def launches(self, batch: Batch) -> Iterator[Launch]:
        self.module = self.module or load(self.name)
        chosen = chosen_of(self.table, batch)
        slots = int((batch.out_bytes // 1024 + 4).sum())
        units = int((batch.out_bytes // 6 + 1).sum()) + 3 * slots
        need = 64 + 16 * batch.count + 96 * slots + 16 * ((slots + 1) // 2) + 16 * units
        scratch = cp.empty(need, cp.uint8)
        numbers = np.uint32(batch.count), scratch, np.uint32(slots), np.uint32(units)
        arguments = (batch.device_tiles, numbers[0], batch.status, *numbers[1:])
        warps = (batch.count + 3) // 4
        entropy_grid = self.entropy[1] * cp.cuda.Device().attributes["MultiProcessorCount"]
        for i, (threads, _, shared) in enumerate(self.table):
            shapes = {
                "zstd_scan": (warps, 128, 0),
                "zstd_entropy": (entropy_grid, 32, self.entropy[2]),
                f"zstd_execute_{threads}": (batch.count, threads, shared),
                "zstd_sums": (warps, 128, 0),
            }
            steps = []
            for name, (grid, block, bytes_shared) in shapes.items():
                kernel = self.module.get_function(name)
                kernel.max_dynamic_shared_size_bytes = max(bytes_shared, 1)
                steps.append((kernel, (grid,), (block,), bytes_shared))

            def go(steps=steps, marks=()) -> None:
                scratch[:64].fill(0)
                for k, (kernel, grid, block, bytes_shared) in enumerate(steps):
                    kernel(grid, block, arguments, shared_mem=bytes_shared)
                    if marks:
                        marks[k + 1].record()

            def parts(go=go) -> str:
                """Milliseconds of each kernel, of one run after another."""
                marks = [cp.cuda.Event() for _ in range(5)]
                go()
                scratch[:64].fill(0)
                marks[0].record()
                go(marks=marks)
                marks[4].synchronize()
                times = [cp.cuda.get_elapsed_time(marks[k], marks[k + 1]) for k in range(4)]
                return ", ".join(f"{name} {ms:.3f}" for name, ms in zip(self.PARTS, times, strict=True))

            yield Launch(f"execute_{threads}", i == chosen, go, f"{parts()}, scratch {need}")

    def rival(self, batch: Batch) -> Launch | None:
        """nvCOMP 5; only sound data, for it does not come back from others."""
        return nvcomp("Zstd", batch, 0, batch.tiles["in"], batch.in_bytes)


@functools.cache
def streams_library() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    source, library = Path(__file__).with_name("streams.cpp"), folder / "streams.so"
    subprocess.run(["c++", "-std=c++17", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def call_streams(name: str, data: np.ndarray, room: int) -> bytes:
    """A function of streams.cpp: what it writes, at most `room` bytes."""
    function = getattr(streams_library(), name)
    function.restype = ctypes.c_size_t
    out = np.empty(room, np.uint8)
    given = (ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.size))
    size = function(*given, ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(room))
    return out[: min(size, room)].tobytes()


class Lzw:
    name = "lzw"
    THREADS, SHARED, SEGMENT_BYTES, SLOT = 256, 37648, 4096, 32  # as in kernels/lzw.cu

    def __init__(self) -> None:
        self.module = None

    def encoders(self) -> dict[str, Encoder]:
        found: dict[str, Encoder] = {"libtiff": lambda tile: call_streams("lzw_encode", tile, 2 * tile.size + 64)}
        if imagecodecs is not None and hasattr(imagecodecs, "lzw_encode"):
            found["imagecodecs"] = lambda tile: bytes(imagecodecs.lzw_encode(tile.tobytes()))
        return found

    def decoded(self, stream: bytes, size: int) -> bytes | None:
        if stream[:1] == b"\0" and stream[1:2] and stream[1] & 1:
            return None  # the old order of bits, which is left to the host
        return call_streams("lzw_decode", np.frombuffer(stream, np.uint8), size)

    def launches(self, batch: Batch) -> Iterator[Launch]:
        self.module = self.module or load(self.name)
        lists, segments, retry = (self.module.get_function(f"lzw_{name}") for name in ("list", "segments", "retry"))
        for kernel in (segments, retry):
            kernel.max_dynamic_shared_size_bytes = self.SHARED
        rooms = batch.in_bytes // self.SEGMENT_BYTES + 1
        count, slots = batch.count, int(rooms.sum())
        head, scratch = cp.zeros(4, cp.uint32), cp.empty(slots * self.SLOT, cp.uint8)
        tiles, status, block = batch.device_tiles, batch.status, (self.THREADS,)
        bases = cp.empty(count, cp.uint32)

        def by(turns: int) -> Callable[[], None]:
            grid = turns * int(rooms.max()) if turns else slots

            def go() -> None:
                head.fill(0)
                lists(((count + 7) // 8,), (256,), (tiles, np.uint32(count), head, scratch, bases, status))
                given = (tiles, np.uint32(turns), head, scratch, bases, status)
                segments((grid,), block, given, shared_mem=self.SHARED)
                retry((count,), block, (tiles, np.uint32(count), status), shared_mem=self.SHARED)

            return go

        def in_order() -> None:
            status.fill(4)  # STATUS_RETRY
            retry((count,), block, (tiles, np.uint32(count), status), shared_mem=self.SHARED)

        note = f"{segments.num_regs} registers, {segments.local_size_bytes} local, {slots} slots"
        yield Launch("lzw", True, by(count), note)
        yield Launch("lzw_tile_by_tile", False, by(0))
        yield Launch("lzw_retry", False, in_order)

    def rival(self, batch: Batch) -> None:
        return None


class PackBits:
    name = "packbits"
    THREADS, SHARED = 256, 33184  # as in kernels/packbits.cu

    def __init__(self) -> None:
        self.module = None

    def encoders(self) -> dict[str, Encoder]:
        return {"own": lambda tile: call_streams("packbits_encode", tile, 2 * tile.size + 64)}

    def decoded(self, stream: bytes, size: int) -> bytes | None:
        return call_streams("packbits_decode", np.frombuffer(stream, np.uint8), size)

    def launches(self, batch: Batch) -> Iterator[Launch]:
        self.module = self.module or load(self.name)
        kernel = self.module.get_function("packbits")
        kernel.max_dynamic_shared_size_bytes = self.SHARED
        arguments = (batch.device_tiles, np.uint32(batch.count), batch.status)

        def go() -> None:
            kernel((batch.count,), (self.THREADS,), arguments, shared_mem=self.SHARED)

        yield Launch("packbits", True, go, f"{kernel.num_regs} registers, {kernel.local_size_bytes} local")

    def rival(self, batch: Batch) -> None:
        return None


# A new codec is a class as above and an entry here.
CODECS = {"deflate": Deflate, "lzw": Lzw, "packbits": PackBits, "zstd": Zstd}


# -- placing

# As in kernels/abi.h.
PLACE = np.dtype(
    [("in", "<u8"), ("out", "<u8")] + [(name, "<u4") for name in ("x", "height", "width", "at_y", "at_x", "plane")]
)
FORMAT_WORDS = (
    *("tile_width", "samples", "depth", "bits", "is_signed", "size", "word", "swap"),
    *("big", "predictor", "planar", "bands", "all", "reversed", "nodata", "pad"),
)
FORMAT = np.dtype(
    [(name, "<u8") for name in ("row_bytes", "out_row", "out_band")]
    + [(name, "<u4") for name in FORMAT_WORDS]
    + [("band_of", "<u8"), ("fill", "u1", 16), ("nodata_value", "u1", 16)]
)
NONE, HORIZONTAL, FLOAT = 0, 1, 2

# What most files are: type, samples of a pixel, predictor.
COMMON = {
    "f32 predictor 3": ("<u4", 1, FLOAT),
    "u16 predictor 2": ("<u2", 1, HORIZONTAL),
    "u8 x 3 predictor 2": ("|u1", 3, HORIZONTAL),
    "u16 x 4 predictor 2": ("<u2", 4, HORIZONTAL),
    "u8 x 3": ("|u1", 3, NONE),
    "f32": ("<u4", 1, NONE),
    "u8 predictor 2": ("|u1", 1, HORIZONTAL),
    "f64 predictor 3": ("<u8", 1, FLOAT),
    "f32 x 2 predictor 3": ("<u4", 2, FLOAT),
    "u16 x 12 predictor 2": ("<u2", 12, HORIZONTAL),
}


def place_entry(form: np.ndarray) -> str:
    """The rule at the head of kernels/place.cu."""
    if form["depth"] != 0 or form["reversed"] or form["size"] == 16:
        return "place_any"
    size, samples = int(form["size"]), int(form["samples"])
    if form["predictor"] == FLOAT:
        return f"place_floats_{size}_{samples}" if samples == 1 or (size == 4 and samples <= 4) else "place_any"
    return f"place_{size}_{samples}" if samples <= 4 else f"place_{size}_many"


def unpredicted(tiles: "cp.ndarray", dtype: np.dtype, side: int, samples: int, predictor: int) -> "cp.ndarray":
    """Pixels (tile, y, x, sample) of tiles of bytes."""
    count, size = tiles.shape[0], dtype.itemsize
    if predictor == FLOAT:
        planes = cp.cumsum(tiles.reshape(count, side, size * side, samples), axis=2, dtype=cp.uint8)
        planes = planes.reshape(count, side, size, side, samples)[:, :, ::-1]
        return cp.ascontiguousarray(cp.moveaxis(planes, 2, -1)).view(dtype)[..., 0]
    pixels = tiles.view(dtype).reshape(count, side, side, samples)
    return cp.cumsum(pixels, axis=2, dtype=dtype) if predictor == HORIZONTAL else pixels


class Placing:
    """Tiles of noise, the window they go to and what must be there in the end."""

    def __init__(self, size: int, side: int, dtype: str, samples: int, predictor: int, margin: int):
        dtype = np.dtype(dtype)
        across, edge = size // side, size - 2 * margin
        row_bytes = side * samples * dtype.itemsize
        tiles = cp.random.randint(0, 256, (across * across, side * row_bytes), cp.uint8)
        pixels = unpredicted(tiles, dtype, side, samples, predictor)
        image = pixels.reshape(across, across, side, side, samples).transpose(4, 0, 2, 1, 3).reshape(samples, size, size)
        self.expected = cp.ascontiguousarray(image[:, margin : size - margin, margin : size - margin])
        self.out = cp.empty_like(self.expected)
        self.tiles = tiles
        form = np.zeros((), FORMAT)
        form["row_bytes"], form["out_row"], form["out_band"] = row_bytes, edge * dtype.itemsize, edge * edge * dtype.itemsize
        form["tile_width"], form["samples"], form["bands"], form["all"] = side, samples, samples, 1
        form["bits"], form["size"], form["word"], form["predictor"] = 8 * dtype.itemsize, dtype.itemsize, dtype.itemsize, predictor
        self.form = form
        places = np.zeros((across, across), PLACE)
        top = np.maximum(np.arange(across) * side, margin)
        height = np.minimum((np.arange(across) + 1) * side, size - margin) - top
        skipped = (top - np.arange(across) * side).astype(np.uint64)
        places["height"], places["width"] = height[:, None], height[None, :]
        places["at_y"], places["at_x"], places["x"] = (top - margin)[:, None], (top - margin)[None, :], skipped[None, :]
        number = np.arange(across * across, dtype=np.uint64).reshape(across, across)
        places["in"] = np.uint64(tiles.data.ptr) + number * np.uint64(side * row_bytes) + skipped[:, None] * np.uint64(row_bytes)
        places["out"] = self.out.data.ptr
        self.count, self.per_place = across * across, -(-int(height.max()) // 4)
        self.places = cp.asarray(places.reshape(-1).view(np.uint8))
        self.traffic = int(height.sum()) * across * row_bytes + self.out.nbytes

    def go(self, kernel) -> None:
        grid = -(-self.count * self.per_place // 8)
        kernel((grid,), (256,), (self.places, np.uint32(self.count), np.uint32(self.per_place), self.form))


def place_all(size: int, sides: list[int], any_too: bool) -> Iterator[dict]:
    module = load("place")
    for side in sides:
        for label, (dtype, samples, predictor) in COMMON.items():
            for margin in (0, 5):
                placing = Placing(size, side, dtype, samples, predictor, margin)
                chosen = place_entry(placing.form)
                for entry in sorted({chosen, "place_any"} if any_too else {chosen}):
                    kernel = module.get_function(entry)
                    placing.out.view(cp.uint8).fill(0x5A)
                    placing.go(kernel)
                    cp.cuda.Device().synchronize()
                    time_ms = milliseconds(functools.partial(placing.go, kernel))
                    yield {
                        "codec": "place",
                        "format": label,
                        "side": side,
                        "margin": margin,
                        "how": entry,
                        "chosen": entry == chosen,
                        "ms": round(time_ms, 4),
                        "tb_per_s": round(placing.traffic / time_ms / 1e9, 3),
                        "wrong": int((placing.out != placing.expected).sum()),
                        "note": f"{kernel.num_regs} registers, {kernel.local_size_bytes} local",
                    }
                del placing
                cp.get_default_memory_pool().free_all_blocks()


def bench_place(size: int, sides: list[int], any_too: bool) -> list[dict]:
    rows = []
    for row in place_all(size, sides, any_too):
        rows.append(row)
        sound = f"WRONG {row['wrong']}" if row["wrong"] else ""
        print(
            f"place    {row['format']:20} {row['side']:5} margin {row['margin']} {'*' if row['chosen'] else ' '}{row['how']:16} "
            f"{row['ms']:8.4f} ms {row['tb_per_s']:6.3f} TB/s {row['note']} {sound}",
            flush=True,
        )
    return rows


# -- measuring


def milliseconds(go: Callable[[], None]) -> float:
    go()
    cp.cuda.Device().synchronize()
    times = []
    for _ in range(ROUNDS):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        go()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(begin, end))
    return statistics.median(times)


def measure(codec, raster: str, side: int, encoder: str, plain: np.ndarray, streams: list[bytes]) -> Iterator[dict]:
    batch = Batch(streams, [plain.shape[1]] * len(streams))
    batch.upload()
    expected = cp.asarray(plain)
    launches = [codec.rival(batch), *codec.launches(batch)]
    against = None
    for launch in filter(None, launches):
        batch.clear()
        launch.go()
        cp.cuda.Device().synchronize()
        wrong, bad = batch.wrong(expected), int((batch.status != STATUS_OK).sum())
        time_ms = milliseconds(launch.go)
        if launch.label == "nvCOMP":
            against = time_ms
        yield {
            "codec": codec.name,
            "encoder": encoder,
            "raster": raster,
            "side": side,
            "tiles": batch.count,
            "encoded": int(batch.in_bytes.sum()),
            "decoded": int(batch.out_bytes.sum()),
            "how": launch.label,
            "chosen": launch.chosen,
            "ms": round(time_ms, 3),
            "gb_per_s": round(int(batch.out_bytes.sum()) / time_ms / 1e6, 1),
            "times_rival": round(against / time_ms, 2) if against and launch.label != "nvCOMP" else None,
            "wrong_tiles": wrong,
            "bad_status": bad,
            "note": launch.note,
        }


def show(row: dict) -> None:
    ratio = f"{row['times_rival']:6.2f} x" if row["times_rival"] else ""
    sound = "" if row["wrong_tiles"] == row["bad_status"] == 0 else f"WRONG {row['wrong_tiles']} BAD {row['bad_status']}"
    print(
        f"{row['codec']:8} {row['encoder']:10} {row['raster']:4} {row['side']:5} {row['tiles']:5} tiles "
        f"{'*' if row['chosen'] else ' '}{row['how']:14} {row['ms']:9.3f} ms {row['gb_per_s']:7.1f} GB/s {ratio:9} {sound}{row['note'] if row['chosen'] else ''}",
        flush=True,
    )


def bench(arguments: argparse.Namespace) -> int:
    rows, begin, failed = [], time.time(), False
    names = arguments.codecs.split(",")
    codecs = [CODECS[name]() for name in names if name != "place"]
    if "place" in names and not arguments.dry:
        rows = bench_place(arguments.size, [int(side) for side in arguments.tiles.split(",")], any_too=False)
        failed = any(row["wrong"] for row in rows)
    for raster in arguments.rasters.split(",") if codecs else ():
        pixels = make_raster(raster, arguments.size)
        for side in map(int, arguments.tiles.split(",")):
            plain = cut(raster, pixels, side)
            for codec in codecs:
                for encoder, encode in codec.encoders().items():
                    if arguments.only and encoder not in arguments.only.split(","):
                        continue
                    streams = list(POOL.map(encode, plain))
                    if arguments.dry:
                        failed |= not dry(codec, raster, side, encoder, plain, streams)
                        continue
                    for row in measure(codec, raster, side, encoder, plain, streams):
                        rows.append(row)
                        show(row)
                        failed |= row["how"] != "nvCOMP" and row["wrong_tiles"] + row["bad_status"] > 0
                    cp.get_default_memory_pool().free_all_blocks()
    print(f"{time.time() - begin:.0f} s", flush=True)
    if arguments.out:
        device = None if arguments.dry else cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
        Path(arguments.out).write_text(json.dumps({"device": device, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def dry(codec, raster: str, side: int, encoder: str, plain: np.ndarray, streams: list[bytes]) -> bool:
    """All that can be checked without a GPU: streams, and where they lie in the buffer."""
    batch = Batch(streams, [plain.shape[1]] * len(streams))
    good = all(at % 16 == 14 for at in batch.in_offset.tolist())
    for at, size, tile in zip(batch.in_offset.tolist(), batch.in_bytes.tolist(), plain, strict=True):
        stream = batch.encoded[at : at + size].tobytes()
        good &= codec.decoded(stream, tile.size) == tile.tobytes() and at + size + 32 <= batch.encoded.size
    print(f"{codec.name} {encoder} {raster} {side}: {len(streams)} tiles, {batch.in_bytes.sum()} bytes, {good=}")
    return good


# -- for compute-sanitizer


def sanitize_cases(codec) -> tuple[list[bytes], list[int], int]:
    """Small tiles of every kind, sound ones first (the last number says how many), then damaged, cut short, too large
    and too small."""
    rng = np.random.default_rng(7)
    dem, rgb = cut("dem", make_raster("dem", 128), 64)[0], cut("rgb", make_raster("rgb", 128), 64)[0]
    repeats = np.tile(rng.integers(0, 256, 37, np.uint8), 300)
    plain = [dem, rgb, np.zeros(20000, np.uint8), rng.integers(0, 256, 5000, np.uint8), repeats, rgb[:1], rgb[:0]]
    streams = [encode(np.ascontiguousarray(tile)) for tile in plain for encode in codec.encoders().values()]
    sizes = [tile.size for tile in plain for _ in codec.encoders()]
    whole = len(streams)
    for i in range(8):
        stream = bytearray(streams[i % 4])
        for _ in range(1 + i % 3):
            stream[int(rng.integers(len(stream)))] ^= 1 << int(rng.integers(8))
        streams.append(bytes(stream))
        sizes.append(sizes[i % 4])
    for stream, size in ((streams[0][: len(streams[0]) // 2], sizes[0]), (streams[0], sizes[0] - 5), (streams[2], sizes[2] + 5)):
        streams.append(stream)
        sizes.append(size)
    return streams, sizes, whole


def sanitize(arguments: argparse.Namespace) -> int:
    failed = False
    for name in arguments.codecs.split(","):
        if name == "place":
            if not arguments.dry:
                failed |= any(row["wrong"] for row in bench_place(192, [48, 64], any_too=True))
            continue
        codec = CODECS[name]()
        streams, sizes, whole = sanitize_cases(codec)
        batch = Batch(streams, sizes)
        if arguments.dry:
            print(f"{name}: {batch.count} tiles")
            continue
        batch.upload()
        for launch in codec.launches(batch):
            if arguments.only and launch.label not in arguments.only.split(","):
                continue
            batch.clear()
            launch.go()
            cp.cuda.Device().synchronize()
            status = cp.asnumpy(batch.status)
            for i, stream in enumerate(streams):
                due = codec.decoded(stream, sizes[i])
                sound = due is not None and len(due) >= sizes[i]
                right = sound and batch.tile(i) == due[: sizes[i]]
                passed = status[i] == STATUS_OK or (status[i] == STATUS_LONGER and sound)
                # Damage that the host does not notice, a kernel may.
                if not passed and i >= whole and getattr(codec, "stricter", False):
                    continue
                # Nothing unsound may pass; what is sound must.
                if passed != sound or (sound and not right):
                    failed = True
                    print(f"{launch.label}: tile {i} has status {status[i]}, sound {sound}, right {right}")
            print(f"{launch.label}: statuses {np.bincount(status).tolist()}, {launch.note}", flush=True)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codecs", default=",".join([*CODECS, "place"]))
    parser.add_argument("--rasters", default="dem,s2,rgb")
    parser.add_argument("--tiles", default="256,512,1024")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--only", help="encoders to measure; with --sanitize, entry points to run")
    parser.add_argument("--variants", default="")
    parser.add_argument("--out")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    VARIANTS.extend(filter(None, arguments.variants.split(";")))
    if cp is None and not arguments.dry:
        raise SystemExit("CuPy is not installed; --dry needs none")
    return (sanitize if arguments.sanitize else bench)(arguments)


if __name__ == "__main__":
    sys.exit(main())
