#!/usr/bin/env python3
"""The kernels of writing alone, data resident on the device: packing, encoders, checksums, the blob, overviews.

    encoders.py [--out RESULT.json] [--size 8192] [--tiles 256,512] [--rasters dem,s2,rgb]

Needs NumPy and CuPy, and imagecodecs to decode some tiles of each encoder; without it they are not judged. Rasters and
predictors are those of kernels.py. Times are medians of 7, taken with CUDA events; rates of what is no codec count bytes
read and written.
"""

import argparse
import json
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cupy as cp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernels as reading  # noqa: E402

try:
    import imagecodecs
except ImportError:
    imagecodecs = None

U32, U64 = np.uint32, np.uint64
PACK_TILE = np.dtype([("in", "u8"), ("out", "u8"), ("strides", "i8", 3), ("height", "u4"), ("width", "u4"), ("rows", "u4"), ("pad", "u4")])


def by_value(data: bytes) -> np.ndarray:
    """A struct as an argument."""
    return np.frombuffer(data, np.dtype([("bytes", "u1", (len(data),))])).reshape(())


def milliseconds(go: Callable[[], None], rounds: int = reading.ROUNDS) -> float:
    go()
    times = []
    for _ in range(rounds):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        go()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(begin, end))
    return sorted(times)[rounds // 2]


@dataclass(frozen=True)
class Packing:
    """How a raster is packed: the kernel for its pixels as they are, its predictor, and its samples."""

    kernel: str
    predictor: int
    samples: int


PACKINGS = {
    "dem": Packing("pack_line_floats_4", 2, 1),
    "s2": Packing("pack_line_2", 1, 1),
    "rgb": Packing("pack_line_1", 1, 3),
}


@dataclass(frozen=True)
class Encoder:
    """Kernels of one codec: with threads and shared memory those that are launched for every piece of a tile."""

    steps: tuple[tuple[str, int, int], ...]
    piece: int  # bytes of a tile that a block takes; 0: a warp takes a row
    scratch: Callable[[int, int], int]
    decode: Callable[[bytes, int], bytes]
    framed: bool = False


def room(blocks: int) -> int:
    return (12 * blocks + 8 + 15) // 16 * 16 + blocks * 32768


ENCODERS = {
    "zstd": Encoder((("zstd_encode", 256, 76276),), 32768, lambda n, _: room(-(-n // 32768)), lambda e, n: imagecodecs.zstd_decode(e)),
    "deflate": Encoder((("deflate_encode", 256, 76088),), 32768, lambda n, _: room(-(-n // 32768)), lambda e, n: zlib.decompress(e), True),
    "lzw": Encoder(
        (("lzw_encode", 32, 24576), ("lzw_choose", 0, 0), ("lzw_again", 32, 24576)),
        32768,
        lambda n, _: (8 * (-(-n // 32768) + 1) + 15) // 16 * 16 + -(-n // 32768) * 49200,
        lambda e, n: bytes(imagecodecs.lzw_decode(e, out=n)),
    ),
    "packbits": Encoder((("packbits_count", 256, 0),), 0, lambda n, row: 4 * -(-n // row), lambda e, n: imagecodecs.packbits_decode(e)),
}


class Tiles:
    """Packed tiles of a raster, and what is made of them."""

    def __init__(self, name: str, raster: np.ndarray, side: int):
        self.name, self.side, packing = name, side, PACKINGS[name]
        self.pixels = cp.asarray(raster)
        size, across = raster.dtype.itemsize, raster.shape[0] // side
        self.row = side * packing.samples * size
        self.bytes, self.count = side * self.row, across * across
        self.packed = cp.empty(self.count * self.bytes, cp.uint8)
        self.expected = reading.cut(name, raster, side)
        y, x = self.pixels.strides[:2]
        at = np.arange(self.count, dtype=np.int64)
        table = np.zeros(self.count, PACK_TILE)
        table["in"] = self.pixels.data.ptr + at // across * side * y + at % across * side * x
        table["out"] = self.packed.data.ptr + at * self.bytes
        table["strides"] = (size, y, x)
        table["height"] = table["width"] = table["rows"] = side
        self.table = cp.asarray(table.view(np.uint8))
        words = (side, packing.samples, size, 8 * size, 0, packing.predictor, 0, 0, 0, 0)
        self.format = by_value(struct.pack("<Q10I32x", self.row, *words))
        self.addresses = cp.asarray(table["out"])
        self.lengths, self.offsets = cp.zeros(self.count, cp.uint64), cp.zeros(self.count + 1, cp.uint64)
        self.sums = cp.zeros(self.count, cp.uint32)

    def pack(self) -> dict:
        kernel = reading.load("pack").get_function(PACKINGS[self.name].kernel)
        per_tile = -(-self.side // 4)
        grid = -(-self.count * per_tile // 8)
        took = milliseconds(lambda: kernel((grid,), (256,), (self.table, U32(self.count), U32(per_tile), self.format, U64(0))))
        right = np.array_equal(cp.asnumpy(self.packed).reshape(self.expected.shape), self.expected)
        return {"what": "pack", "ms": took, "rate": 2 * self.packed.nbytes / took / 1e9, "right": bool(right)}

    def adler(self) -> dict:
        kernel, plain = reading.load("frame").get_function("adler"), cp.full(self.count, self.bytes, cp.uint64)
        go = lambda: kernel((self.count,), (256,), (self.addresses, plain, U32(self.count), self.sums), shared_mem=64)  # noqa: E731
        took = milliseconds(go)
        right = all(zlib.adler32(self.expected[i].tobytes()) == int(self.sums[i]) for i in (0, self.count - 1))
        return {"what": "adler", "ms": took, "rate": self.packed.nbytes / took / 1e9, "right": right}

    def place(self, sizes: "cp.ndarray", extra: int) -> int:
        """Lengths and offsets; gives the bytes of all."""
        kernel = reading.load("frame").get_function("offsets")
        lengths = by_value(struct.pack("<QQQII", sizes.data.ptr, 0, 0, extra, 0))
        kernel((1,), (1024,), (lengths, U32(self.count), self.lengths, self.offsets), shared_mem=256)
        return int(self.offsets[self.count])

    def encode(self, codec: str) -> dict:
        encoder, source = ENCODERS[codec], reading.load(f"{codec}_encode")
        need = -(-encoder.scratch(self.bytes, self.row) // 16) * 16
        scratch, sizes = cp.empty(self.count * need, cp.uint8), cp.zeros(self.count, cp.uint64)
        tiles = np.zeros(self.count, reading.TILE)
        tiles["in"] = self.packed.data.ptr + np.arange(self.count, dtype=np.int64) * self.bytes
        tiles["out"] = scratch.data.ptr + np.arange(self.count, dtype=np.int64) * need
        tiles["in_bytes"], tiles["out_bytes"], tiles["id"] = self.bytes, self.row, np.arange(self.count)
        table = cp.asarray(tiles.view(np.uint8))
        per_tile = U32(-(-self.bytes // encoder.piece) if encoder.piece else self.side)
        warps = -(-self.count // 8)
        pieces = self.count * int(per_tile) if encoder.piece else -(-self.count * int(per_tile) // 8)

        def make() -> None:
            for name, threads, shared in encoder.steps:
                kernel = source.get_function(name)
                if shared > 48 << 10:
                    kernel.max_dynamic_shared_size_bytes = shared
                arguments = (table, U32(self.count), per_tile)
                if threads:
                    kernel((pieces,), (threads,), arguments, shared_mem=shared)
                else:
                    kernel((warps,), (256,), arguments[:2])
            total = source.get_function(f"{codec}_sum")
            if codec == "packbits":
                total((self.count,), (256,), (table, U32(self.count), sizes), shared_mem=128)
            else:
                total((warps,), (256,), (table, U32(self.count), sizes))

        took = milliseconds(make)
        whole = self.place(sizes, 6 if encoder.framed else 0)
        out = cp.empty(whole, cp.uint8)
        blob = by_value(struct.pack("<QQQQII", self.lengths.data.ptr, self.offsets.data.ptr, out.data.ptr, whole, 0, self.count))
        write = source.get_function(f"{codec}_write")
        sums = (self.sums,) if encoder.framed else ()
        took += milliseconds(lambda: write((pieces,), (256,), (table, *sums, per_tile, blob)))
        row = {"what": codec, "ms": took, "rate": self.packed.nbytes / took / 1e9, "ratio": self.packed.nbytes / whole}
        if imagecodecs:
            ends, written = cp.asnumpy(self.offsets).astype(np.int64), cp.asnumpy(out)
            streams = {i: written[ends[i] : ends[i + 1]].tobytes() for i in (0, self.count // 2, self.count - 1)}
            row["right"] = all(encoder.decode(s, self.bytes) == self.expected[i].tobytes() for i, s in streams.items())
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--tiles", default="256,512")
    parser.add_argument("--rasters", default="dem,s2,rgb")
    options = parser.parse_args()
    rows = []
    for name in options.rasters.split(","):
        raster = reading.make_raster(name, options.size)
        for side in map(int, options.tiles.split(",")):
            tiles = Tiles(name, raster, side)
            measured = [tiles.pack, tiles.adler, *(lambda codec=codec: tiles.encode(codec) for codec in ENCODERS)]
            for measure in measured:
                row = {"raster": name, "side": side, **measure()}
                rows.append(row)
                ratio = f"  ratio {row['ratio']:.3f}" if "ratio" in row else ""
                print(f"{name:4} {side:5} {row['what']:9} {row['ms']:8.3f} ms {row['rate']:7.2f} TB/s{ratio}  {row.get('right', '')}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if not all(row.get("right", True) for row in rows):
        raise SystemExit("something is not right")


if __name__ == "__main__":
    main()
