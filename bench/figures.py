#!/usr/bin/env python3
"""Makes the figures and tables of the README from the newest records in bench/records.

    python bench/figures.py           writes docs/figures/*.svg and what stands between the marks in README.md
    python bench/figures.py --check   says whether they are what the records give

A record counts by its name: YYYY-MM-DD-*KIND.json, or YYYY-MM-DD-*KIND-2.json for the second one of a day; the last one of a
kind wins. After a new run: put its JSON there, and run this.
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import plot
from report import File, Report, geometric_mean, quantile, table

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "bench" / "records"
FIGURES = ROOT / "docs" / "figures"

# Of which files the README tells.
CPU_CASES = {
    "dem_t512_zstd_p3": "float32, 512 tiles, ZSTD, predictor 3",
    "dem_t512_deflate_p3": "float32, 512 tiles, Deflate, predictor 3",
    "dem_t512_lerc": "float32, 512 tiles, LERC",
    "s2_t512_lzw_p2": "uint16 × 4, 512 tiles, LZW, predictor 2",
    "rgb_t512_jpeg": "uint8 × 3, 512 tiles, JPEG",
    "dem_s1_none": "float32, strips of one row, uncompressed",
}
GPU_CASES = ["dem_none_256", "dem_deflate_256", "dem_zstd_256", "s2_deflate_512", "s2_lzw_512", "rgb_deflate_512"]
GPU_ENGINES = ["tiffjet", "nvTIFF", "cog3pio", "xarray-spatial + KvikIO", "xarray-spatial", "tifffile + CuPy"]


NAMES = {"gdal-n": "GDAL's GTiff", "libertiff-n": "GDAL's LIBERTIFF", "tifffile-n": "tifffile"}


def newest(kind):
    """The last record of a kind, and its name."""
    named = re.compile(rf"\d{{4}}-\d\d-\d\d-(.+-)?{kind}(-\d+)?")
    found = sorted((path for path in RECORDS.glob("*.json") if named.fullmatch(path.stem)), key=lambda path: path.stem)
    if not found:
        raise SystemExit(f"no record *-{kind}.json in {RECORDS}")
    return json.loads(found[-1].read_text()), found[-1].stem


def cpu_table(result, name):
    report = Report(result)
    files = {file.name: file for file in report.files}
    rows = []
    for case, label in CPU_CASES.items():
        file = files.get(case)
        if file and file.against_rival():
            rival = file.fastest_rival()
            speed = lambda engine: f"{file.gigabytes / file.wall[engine]:.2f}"  # noqa: E731
            rows.append([label, speed("tiffjet"), f"{speed(rival)} ({NAMES.get(rival, rival)})", f"{file.against_rival():.1f}"])
    ratios = [file.against_rival() for file in report.files if file.against_rival()]
    mean = f"The geometric mean of the ratios over {len(ratios)} files ([all of them](docs/figures/cpu-read.svg)) is {geometric_mean(ratios):.2f}."
    head = ["file", "tiffjet", "fastest rival", "ratio"]
    size, facts = next(iter(result["sizes"])), result["machine"]
    what = (f"Whole files of {size} × {size} pixels, {facts['cpu']}, {facts['cores']} cores, GB of pixels a second, against "
            f"the fastest of all rivals on the same file in the same run ([record](bench/records/{name}.md)):")
    return f"{what}\n\n{table(head, rows)}\n{mean} {latency_line()}"


def latency_line():
    """Opening and windows, from the record of latencies."""
    result, name = newest("latency")
    case, entry = next((case, entry) for size in result["sizes"].values() for case, entry in size["latency"].items())
    opens = {engine: statistics.median(walls) for engine, walls in entry["open"].items() if walls}
    windows = {n: quantile(e["seconds"], 0.5) for n, e in entry["windows"].items() if e.get("seconds") and e["sound"]}
    text = f"Opening takes {1e6 * opens['tiffjet']:.0f} µs where rasterio takes {1e6 * opens['rasterio']:.0f}."
    kinds = {n: e["kind"] for n, e in result["engines"].items()}
    cold = {n: w for n, w in windows.items() if kinds[n] == "rival" and n not in ("gdal-1", "gdal-n")}
    ours = windows.get("tiffjet-cold", windows["tiffjet"])
    best = min(cold, key=cold.get)
    text += (f" Random 512 × 512 windows of `{case}` take {1e3 * ours:.1f} ms, {cold[best] / ours:.1f} times faster than the "
             f"next, {NAMES.get(best, best)}, both without a cache of tiles")
    text += f"; {1e3 * windows['tiffjet']:.2f} ms with it" if "tiffjet-cold" in windows else ""
    return text + f" ([record](bench/records/{name}.md))."


def gpu_cases(result):
    return {case: result["files"][case] for case in GPU_CASES if case in result["files"]}


def gpu_table(result, name):
    engines = [e for e in GPU_ENGINES if any(e in entry["engines"] for entry in gpu_cases(result).values())]
    rows = []
    for entry in gpu_cases(result).values():
        label = f"{plot.SOURCES[entry['raster']]}, {entry['side']} tiles, {plot.CODECS[entry['codec']]}"
        label += f", predictor {3 if entry['raster'] == 'dem' else 2}" if entry["predicted"] else ""
        rows.append([label, *(milliseconds(entry["engines"].get(engine)) for engine in engines)])
    facts = result["machine"]
    what = (f"From a path in the page cache to pixels in memory of one {facts['GPU'].removeprefix('NVIDIA ')}, {result['size']} × "
            f"{result['size']} pixels, milliseconds, medians of {result['rounds']} in the same run, of {result['xarray_rounds']} for xarray-spatial "
            f"([record](bench/records/{name}.md)):")
    told = ("nvTIFF", "xarray-spatial", "tifffile", "rasterio")
    versions = ", ".join(f"{n} {v}" for n, v in result["versions"].items() if n in told)
    return f"{what}\n\n{table(['file', *engines], rows)}\n{windows_line(result)} With {versions}."


def windows_line(result):
    """Many windows in one call, from the same record."""
    pairs = [(entry["engines"]["tiffjet"]["windows_ms"], entry["engines"]["rasterio + CuPy"]["ms"])
             for entry in result["files"].values() if entry["engines"].get("rasterio + CuPy", {}).get("sound")]
    if not pairs:
        return ""
    times = [theirs / ours for ours, theirs in pairs]
    ours, theirs = zip(*pairs)
    return (f"{result['windows']} random windows of 512 × 512 in one call, {len(pairs)} files: {min(ours):.0f} to {max(ours):.0f} ms; by rasterio in "
            f"16 threads, with their upload, {min(theirs):.0f} to {max(theirs):.0f} ms, {min(times):.1f} to {max(times):.0f} times as long.")


def milliseconds(facts):
    if facts is None:
        return "-"
    if facts.get("error"):
        return "unsupported" if "unsupported" in facts["error"] else "failed"
    if not facts.get("sound", True):
        return "wrong pixels"
    return f"{facts['ms']:.1f}" if facts["ms"] < 20 else f"{facts['ms']:.0f}"


def gpu_figure(result):
    facts = result["machine"]
    chosen = dict(result, files=gpu_cases(result))
    note = f"{result['size']} × {result['size']} pixels, one {facts['GPU']}; GB of pixels a second, longer is faster"
    return plot.bars("From a path to pixels in GPU memory", note, plot.groups_of(chosen))


def made():
    """Every file that this makes, with its text."""
    gpu, gpu_name = newest("gpu-read")
    cpu, cpu_name = newest("cores-4096")
    texts = {"gpu-read": gpu_table(gpu, gpu_name), "cpu-read": cpu_table(cpu, cpu_name)}
    readme = (ROOT / "README.md").read_text()
    for kind, text in texts.items():
        pattern = re.compile(rf"(<!-- {kind}: made by bench/figures.py -->\n).*?(<!-- end -->)", re.DOTALL)
        readme, count = pattern.subn(lambda found: found[1] + text.rstrip() + "\n" + found[2], readme)
        if count != 1:
            raise SystemExit(f"README.md has no place for {kind}")
    return {ROOT / "README.md": readme, FIGURES / "gpu-read.svg": gpu_figure(gpu), FIGURES / "cpu-read.svg": plot.figure(cpu)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    texts = made()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'is not what the records give' if check else 'is written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
