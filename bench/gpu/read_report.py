#!/usr/bin/env python3
"""Turns the JSON of `read.py`, and that of `kernels.py` where there is one, into markdown: tables and the bars.

    read_report.py READ.json [KERNELS.json] [> READ.md]

A rival whose pixels are wrong is shown, but no bar is measured with it.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

OURS, NVTIFF, COG3PIO, XARRAY, XARRAY_ALONE, TIFFFILE, NVCOMP, RASTERIO = (
    *("tiffjet", "nvTIFF", "cog3pio", "xarray-spatial + KvikIO", "xarray-spatial", "tifffile + CuPy"),
    *("nvCOMP alone", "rasterio + CuPy"),
)
READERS = (NVTIFF, COG3PIO, XARRAY, XARRAY_ALONE, TIFFFILE)

NVTIFF_TIMES, NVTIFF_TIMES_DEFLATE_512 = 2, 4
XARRAY_TIMES = {"deflate": 40, "lzw": 40, "zstd": 20}
TIFFFILE_TIMES = 8
FLOOR_TIMES = 1.5  # Deflate and LZW, over max(pread, copy) + kernels
ZSTD_TIMES, ZSTD_ALLOWANCE_MS = 1.15, 4  # over nvCOMP's kernel and a few milliseconds
PLAIN_TIMES = 1.6  # uncompressed, over max(pread, copy)
WINDOWS_TIMES = 10
DEFLATE_KERNEL_TIMES = {256: 5.5, 512: 12, 1024: 15}
DEFLATE_KERNEL_MAY_BE_BELOW = ("libdeflate", "dem", 1024)  # its blocks are small: only the figure is asked for
LZW_KERNEL_GB_PER_S = 110
PLACE_TB_PER_S = 1.5

MISSED_SHOWN = 8


def table(head: list[str], rows: list[list]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


# -- one file


class File:
    """What was measured with one file."""

    def __init__(self, name: str, entry: dict):
        self.name, self.entry = name, entry
        self.codec, self.side = entry["codec"], entry["side"]

    def engine(self, name: str) -> dict:
        return self.entry["engines"].get(name, {})

    def ours(self, key: str) -> float | None:
        return self.engine(OURS).get(key)

    def ms(self, engine: str) -> float | None:
        """Milliseconds of an engine with right pixels."""
        found = self.engine(engine)
        return found.get("ms") if found.get("sound", True) else None

    def times(self, engine: str) -> float | None:
        """How many times as fast as an engine."""
        theirs, ours = self.ms(engine), self.ms(OURS)
        return theirs / ours if theirs and ours else None

    def transfer(self) -> float | None:
        """Reading or copying, whichever takes longer: they overlap."""
        pread, copy = self.ours("pread_ms"), self.ours("copy_ms")
        return None if pread is None or copy is None else max(pread, copy)

    def floor(self) -> float | None:
        transfer, kernels = self.transfer(), self.ours("kernels_ms")
        return None if transfer is None or kernels is None else transfer + kernels

    def over(self, milliseconds: float | None) -> float | None:
        ours = self.ms(OURS)
        return ours / milliseconds if ours and milliseconds else None

    def over_nvcomp(self) -> float | None:
        kernel = self.ms(NVCOMP)
        return self.over(kernel + ZSTD_ALLOWANCE_MS) if kernel else None

    def windows_times(self) -> float | None:
        theirs, ours = self.engine(RASTERIO), self.ours("windows_ms")
        return theirs["ms"] / ours if ours and theirs.get("ms") and theirs.get("sound") else None

    def memory_beside(self) -> int | None:
        """The most device memory of one read beside its result."""
        peak = self.ours("peak_bytes")
        return None if peak is None else peak - self.entry["decoded"]


# -- bars


@dataclass
class Bar:
    """A promise, and every value it was measured with."""

    title: str
    at_least: bool
    values: list[tuple[str, float, float]] = field(default_factory=list)  # of what, value, limit
    unit: str = "x"

    def meets(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least else value <= limit

    def missed(self) -> list[tuple[str, float, float]]:
        return [found for found in self.values if not self.meets(*found[1:])]

    def verdict(self) -> str:
        if not self.values:
            return "not measured"
        return "FAIL" if self.missed() else "pass"

    def worst(self) -> tuple[str, float, float] | None:
        def margin(found: tuple[str, float, float]) -> float:
            _, value, limit = found
            return value / limit if self.at_least else -value / limit

        return min(self.values, key=margin, default=None)


def over_files(
    title: str,
    files: list[File],
    value: Callable[[File], float | None],
    limit: Callable[[File], float | None],
    at_least: bool,
    unit: str = "x",
) -> Bar:
    bar = Bar(title, at_least, unit=unit)
    for file in files:
        found, allowed = value(file), limit(file)
        if found is not None and allowed is not None:
            bar.values.append((file.name, found, allowed))
    return bar


def only(codecs: tuple[str, ...], limit: float) -> Callable[[File], float | None]:
    return lambda file: limit if file.codec in codecs else None


def nvtiff_limit(file: File) -> float:
    return NVTIFF_TIMES_DEFLATE_512 if (file.codec, file.side) == ("deflate", 512) else NVTIFF_TIMES


def read_bars(files: list[File]) -> Iterator[Bar]:
    yield over_files("at least 2 x nvTIFF from a path (512² Deflate 4 x)", files, lambda f: f.times(NVTIFF), nvtiff_limit, True)
    for name in (XARRAY_ALONE, XARRAY):
        title = f"at least 40 x {name} for Deflate and LZW, 20 x for ZSTD"
        yield over_files(title, files, lambda f, name=name: f.times(name), lambda f: XARRAY_TIMES.get(f.codec), True)
    yield over_files("at least 8 x tifffile + CuPy", files, lambda f: f.times(TIFFFILE), lambda f: TIFFFILE_TIMES, True)
    title = "Deflate and LZW within 1.5 x of max(pread, copy) + kernels"
    limit = only(("deflate", "lzw"), FLOOR_TIMES)
    yield over_files(title, files, lambda f: f.over(f.floor()), limit, False)
    title = "ZSTD within 1.15 x of nvCOMP's kernel + 4 ms"
    yield over_files(title, files, File.over_nvcomp, only(("zstd",), ZSTD_TIMES), False)
    title = "uncompressed within 1.6 x of max(pread, copy)"
    yield over_files(title, files, lambda f: f.over(f.transfer()), only(("none",), PLAIN_TIMES), False)
    title = "100 windows in one call, at least 10 x rasterio in 16 threads + upload"
    yield over_files(title, files, File.windows_times, lambda f: WINDOWS_TIMES, True)
    title = "device memory of a read beside its result within the budget, bytes"
    yield over_files(title, files, File.memory_beside, lambda f: f.ours("budget"), False, unit="")


def kernel_bars(rows: list[dict]) -> Iterator[Bar]:
    deflate = Bar("Deflate kernel at least 5.5 x nvCOMP's at 256², 12 x at 512², 15 x at 1024²", True)
    lzw = Bar("LZW kernel at least 110 GB/s of output", True, unit=" GB/s")
    place = Bar("unpack + place at least 1.5 TB/s of traffic", True, unit=" TB/s")
    for row in filter(lambda row: row["chosen"], rows):
        if row["codec"] == "place":
            name = f"{row['format']}, {row['side']}², margin {row['margin']}"
            place.values.append((name, row["tb_per_s"], PLACE_TB_PER_S))
            continue
        name = f"{row['raster']} {row['side']}² of {row['encoder']}"
        if row["codec"] == "lzw":
            lzw.values.append((name, row["gb_per_s"], LZW_KERNEL_GB_PER_S))
        elif row["codec"] == "deflate" and row["times_rival"] and row["side"] in DEFLATE_KERNEL_TIMES:
            excused = (row["encoder"], row["raster"], row["side"]) == DEFLATE_KERNEL_MAY_BE_BELOW
            if not excused:
                deflate.values.append((name, row["times_rival"], DEFLATE_KERNEL_TIMES[row["side"]]))
    yield from (deflate, lzw, place)


def kernel_notes(rows: list[dict]) -> Iterator[str]:
    for row in rows:
        key = (row.get("encoder"), row.get("raster"), row["side"])
        if row["codec"] == "deflate" and row["chosen"] and key == DEFLATE_KERNEL_MAY_BE_BELOW and row["times_rival"]:
            yield f"Deflate kernel, dem 1024² of libdeflate (small blocks, no bar): {row['times_rival']:.1f} x nvCOMP's.\n"


# -- markdown


def number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def ratio(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}x"


def cell(found: dict) -> str:
    if "ms" in found:
        return number(found["ms"]) + ("" if found.get("sound", True) else " WRONG")
    error = found.get("error", "")
    return "unsupported" if error.startswith("unsupported") else "failed" if error else ""


def files_table(files: list[File]) -> str:
    readers = [name for name in READERS if any(file.engine(name) for file in files)]
    head = [
        *("file", "MB", "raw MB", OURS, "pread", "copy", "kernels", *readers, NVCOMP),
        *(f"us / {name}" for name in readers),
        *("over floor", "over nvCOMP + 4 ms", "beside the result, MB"),
    ]
    rows = []
    for file in files:
        beside = file.memory_beside()
        rows.append(
            [
                file.name,
                number(file.entry["bytes"] / 1e6, 0),
                number(file.entry["decoded"] / 1e6, 0),
                cell(file.engine(OURS)),
                *(number(file.ours(key)) for key in ("pread_ms", "copy_ms", "kernels_ms")),
                *(cell(file.engine(name)) for name in (*readers, NVCOMP)),
                *(ratio(file.times(name)) for name in readers),
                ratio(file.over(file.floor()), 2),
                ratio(file.over_nvcomp(), 2) if file.codec == "zstd" else "",
                number(None if beside is None else beside / 1e6, 0),
            ]
        )
    return table(head, rows)


def windows_table(files: list[File]) -> str:
    rows = [
        [f.name, number(f.ours("windows_ms")), cell(f.engine(RASTERIO)), ratio(f.windows_times())]
        for f in files
        if f.engine(RASTERIO)
    ]
    return table(["file", OURS, RASTERIO, f"us / {RASTERIO}"], rows) if rows else "Not measured.\n"


def bars_table(bars: list[Bar]) -> str:
    rows = []
    for bar in bars:
        worst, missed = bar.worst(), bar.missed()
        nearest = "" if worst is None else f"{worst[1]:.4g}{bar.unit} ({worst[0]}, bar {worst[2]:.4g})"
        below = ", ".join(f"{name} {value:.4g}{bar.unit}" for name, value, _ in missed[:MISSED_SHOWN])
        below += f", and {len(missed) - MISSED_SHOWN} more" if len(missed) > MISSED_SHOWN else ""
        rows.append([bar.title, bar.verdict(), f"{len(bar.values) - len(missed)} of {len(bar.values)}", nearest, below])
    return table(["bar", "verdict", "meet it", "nearest to it, or farthest from it", "miss it"], rows)


def failures(files: list[File]) -> Iterator[str]:
    for file in files:
        for name, found in file.entry["engines"].items():
            if "error" in found:
                yield f"- {name}, {file.name}: {found['error']}\n"
            elif not found.get("sound", True):
                yield f"- {name}, {file.name}: wrong pixels\n"


def check_text(check: dict | None) -> str:
    if check is None:
        return "Not done in this run.\n"
    return ("The same, bit for bit.\n" if check["same"] else "NOT THE SAME.\n") + "".join(
        f"    {line}\n" for line in ["", *check["said"]]
    )


def markdown(result: dict, kernels: dict | None) -> str:
    files = [File(name, entry) for name, entry in sorted(result["files"].items())]
    rows = kernels["rows"] if kernels else []
    facts = {**result["machine"], **{f"version of {k}": v for k, v in sorted(result["versions"].items())}}
    parts = [
        "# Reading on the GPU: tiffjet against the others\n",
        "## Machine\n",
        table(["what", "value"], [[key, value] for key, value in facts.items()]),
        f"## Whole files, {result['size']} x {result['size']}, from a path to device memory\n",
        f"Milliseconds, medians of {result['rounds']} (xarray-spatial: {result['xarray_rounds']}) after a run to warm up; "
        "files in the page cache. `pread`, `copy`, `kernels`: each phase of tiffjet alone; the floor is max(pread, copy) + "
        "kernels. `nvCOMP alone`: its kernel, data resident. Names: raster, codec (`np`: no predictor), side of the tiles.\n",
        files_table(files),
        f"## {result['windows']} random windows of 512 x 512 of one file\n",
        "Milliseconds for all of them, in device memory at the end. tiffjet: one call. rasterio: 16 threads, each with the "
        "file opened once for a round, and an upload for each window.\n",
        windows_table(files),
        "## Bars\n",
        bars_table([*read_bars(files), *kernel_bars(rows)]),
        *kernel_notes(rows),
        "## tiffjet's pixels on the GPU against those on the CPU\n",
        check_text(result.get("check")),
        "## Refused, failed or wrong\n",
        "".join(failures(files)) or "Nothing.\n",
        *(f"{note}\n" for note in result["notes"]),
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("kernels", type=Path, nargs="?")
    arguments = parser.parse_args()
    kernels = json.loads(arguments.kernels.read_text()) if arguments.kernels else None
    print(markdown(json.loads(arguments.result.read_text()), kernels), end="")


if __name__ == "__main__":
    main()
