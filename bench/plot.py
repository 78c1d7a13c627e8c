#!/usr/bin/env python3
"""Bars as SVG, from the JSON of `run.py` (CPU) or of `gpu/read.py`.

    python bench/plot.py RESULT.json [> RESULT.svg]

No library draws: a bar is a rectangle. Colours suit those who see few of them, and dark pages.
"""

import argparse
import json
import statistics
from html import escape
from pathlib import Path

COLOURS = ["#0072b2", "#e69f00", "#56b4e9", "#cc79a7", "#999999", "#d55e00", "#f0e442", "#009e73", "#882255", "#aaaa00"]
OURS = "tiffjet"
WIDTH, LABEL, NUMBER = 780, 230, 70
BAR, GAP, MARGIN = 13, 12, 10
LEGEND, LINE = 46, 18  # where the legend begins, and the height of one of its lines

STYLE = """text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-size: 15px; font-weight: 600 }
.note { fill: #57606a } .ours { font-weight: 600 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .note { fill: #9aa4af } }"""

# What data are called in tables and figures.
SOURCES = {"dem": "float32", "s2": "uint16", "rgb": "uint8 × 3"}
CODECS = {"none": "uncompressed", "deflate": "Deflate", "zstd": "ZSTD", "lzw": "LZW", "lerc": "LERC", "jpeg": "JPEG"}
# Engines of `gpu/read.py` that do something else than read a whole file: a kernel alone, windows.
NOT_WHOLE = ("nvCOMP alone", "rasterio + CuPy")


def gpu_groups(result):
    """Cases of `gpu/read.py` as (label, {engine: GB/s, or why there is none})."""
    groups = []
    for entry in result["files"].values():
        label = f"{SOURCES[entry['raster']]}, {entry['side']}, {CODECS[entry['codec']]}"
        label += ", predictor" if entry["predicted"] else ""
        speeds = {}
        for engine, facts in entry["engines"].items():
            if engine not in NOT_WHOLE and facts.get("ms") and facts.get("sound", True):
                speeds[engine] = entry["decoded"] / facts["ms"] / 1e6
        groups.append((label, speeds))
    return groups


def cpu_groups(result):
    """Cases of `run.py`, of its first size."""
    size = next(iter(result["sizes"].values()))
    kinds = {name: engine["kind"] for name, engine in result["engines"].items()}
    groups = []
    for name, entry in sorted(size["files"].items()):
        speeds = {}
        for engine, facts in entry["engines"].items():
            if kinds[engine] != "floor" and facts.get("samples") and facts["sound"] and "error" not in facts:
                speeds[engine] = entry["decoded"] / statistics.median(s["wall"] for s in facts["samples"]) / 1e9
        groups.append((name, speeds))
    return groups


def groups_of(result):
    return cpu_groups(result) if "sizes" in result else gpu_groups(result)


def bars(title, note, groups, engines=None):
    """An SVG of groups of bars: GB of pixels a second, longer is faster."""
    groups = [(label, speeds) for label, speeds in groups if OURS in speeds] or groups
    engines = engines or list(dict.fromkeys(engine for _, speeds in groups for engine in speeds))
    engines.sort(key=lambda engine: engine != OURS)
    most = max((speed for _, speeds in groups for speed in speeds.values()), default=1)
    scale = (WIDTH - LABEL - NUMBER) / most
    legend, y = legend_of(engines)
    out = []
    for label, speeds in groups:
        shown = [engine for engine in engines if engine in speeds]
        middle = y + BAR * len(shown) / 2 + 4
        out.append(f'<text x="{LABEL - 10}" y="{middle:.1f}" text-anchor="end">{escape(label)}</text>')
        for engine in shown:
            colour, length = COLOURS[engines.index(engine) % len(COLOURS)], max(1, speeds[engine] * scale)
            kind = ' class="ours"' if engine == OURS else ' class="note"'
            out.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            out.append(f'<text x="{LABEL + length + 5:.1f}" y="{y + BAR - 3}"{kind}>{number(speeds[engine])}</text>')
            y += BAR
        y += GAP
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text x="{MARGIN}" y="20" class="title">{escape(title)}</text>',
        f'<text x="{MARGIN}" y="38" class="note">{escape(note)}</text>',
    ]
    return "\n".join([*head, *legend, *out, "</svg>"]) + "\n"


def legend_of(engines):
    """A square and a name for each engine, in as many lines as they need, and where the bars begin."""
    out, x, y = [], MARGIN, LEGEND
    for i, engine in enumerate(engines):
        width = 30 + 7 * len(engine)
        if x > MARGIN and x + width > WIDTH:
            x, y = MARGIN, y + LINE
        out.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>')
        out.append(f'<text x="{x + 14}" y="{y + 9}">{escape(engine)}</text>')
        x += width
    return out, y + LINE + GAP


def number(speed):
    return f"{speed:.1f}" if speed >= 10 else f"{speed:.2f}"


def figure(result):
    """The whole record as one figure."""
    facts = result["machine"]
    if "sizes" in result:
        size = next(iter(result["sizes"]))
        note = f"{size} × {size} pixels, {facts['cpu']}, {facts['cores']} cores; GB of pixels a second, longer is faster"
        return bars("Reading whole files on the CPU", note, groups_of(result))
    note = f"{result['size']} × {result['size']} pixels, {facts['GPU']}; GB of pixels a second, longer is faster"
    return bars("From a path to pixels in GPU memory", note, groups_of(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    print(figure(json.loads(parser.parse_args().result.read_text())), end="")


if __name__ == "__main__":
    main()
