#!/usr/bin/env python3
"""Turns the JSON of `run.py` into markdown: tables, geometric means, and whether the bars are met.

python bench/report.py RESULT.json [> RESULT.md]
"""

import argparse
import json
import math
import statistics
from pathlib import Path

from engines import WARM_CACHE

OURS = "tiffjet"
OURS_COLD = "tiffjet-cold"  # not in results from before there was a cache: there the other is cold
NEVER_BELOW = 0.95  # of the fastest rival, on any file
ON_AVERAGE = 1.25  # times the fastest rival of each file, geometric mean
FLOOR_COMPRESSED = 1.2  # times the floor
INDEPENDENT, OWN = "floor-imagecodecs", "floor-tiffjet"
FLOOR_UNCOMPRESSED = 2.0
OPEN = 5.0  # times faster than rasterio
WINDOWS = 2.0  # times faster than the fastest rival, both without a warm cache


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


class File:
    """One file's medians."""

    def __init__(self, name, entry, kinds):
        self.name, self.entry, self.kinds = name, entry, kinds
        self.gigabytes = entry["decoded"] / 1e9
        self.compressed = entry["codec"] != "none"
        sampled = {n: e for n, e in entry["engines"].items() if e.get("samples") and "error" not in e}
        self.wall = {n: statistics.median(s["wall"] for s in e["samples"]) for n, e in sampled.items()}
        self.cpu = {n: statistics.median(s["cpu"] for s in e["samples"]) for n, e in sampled.items()}
        self.foreign = [s["foreign"] for e in sampled.values() for s in e["samples"]]

    def sound(self, engine):
        return engine in self.wall and self.entry["engines"][engine]["sound"]

    def of_kind(self, kind):
        return {n: w for n, w in self.wall.items() if self.kinds[n] == kind and self.sound(n)}

    def fastest_rival(self):
        rivals = self.of_kind("rival")
        return min(rivals, key=rivals.get) if rivals else None

    def floor(self):
        """The floor that counts, in seconds: a codec that is not ours where there is one, else the faster floor."""
        floors = self.of_kind("floor")
        independent = floors.get(INDEPENDENT) if self.compressed else None
        return independent or min(floors.values(), default=None)

    def against_own_codec(self):
        """How many times our own codec alone we need."""
        own = self.of_kind("floor").get(OWN)
        return self.wall[OURS] / own if own and self.sound(OURS) else None

    def against_rival(self):
        """How many times faster we are; None where it cannot be said."""
        rival = self.fastest_rival()
        return self.wall[rival] / self.wall[OURS] if rival and self.sound(OURS) else None

    def against_floor(self):
        """How many times the floor we need."""
        floor = self.floor()
        return self.wall[OURS] / floor if floor and self.sound(OURS) else None


class Report:
    def __init__(self, result):
        self.result = result
        self.kinds = {name: e["kind"] for name, e in result["engines"].items()}
        self.sizes = {
            size: [File(n, e, self.kinds) for n, e in sorted(r["files"].items())] for size, r in result["sizes"].items()
        }
        self.files = [f for files in self.sizes.values() for f in files]
        self.readers = [n for n in self.kinds if any(n in f.entry["engines"] for f in self.files)]

    def text(self):
        parts = ["# tiffjet against the others, on the CPU\n", self.machine(), self.engines()]
        for size, files in self.sizes.items():
            parts += [f"## Whole files, {size} x {size}\n", self.speeds(files), self.cpu(files)]
            parts += [self.open(size), self.windows(size)]
        parts += [self.failures(), self.bars()]
        return "\n".join(p for p in parts if p)

    def machine(self):
        facts = self.result["machine"]
        foreign = [x for f in self.files for x in f.foreign]
        rows = [
            [k, v if not isinstance(v, dict) else " ".join(f"{a}={b}" for a, b in v.items())] for k, v in facts.items()
        ]
        if foreign:
            noisy = sum(x > float(self.result["settings"]["foreign"]) for x in foreign)
            rows.append(
                [
                    "CPU taken by others",
                    f"median {statistics.median(foreign):.0%}, {noisy} of {len(foreign)} samples disturbed",
                ]
            )
        rows.append(["rounds", self.result["settings"]["rounds"]])
        return "## Machine\n\n" + table(["what", "value"], rows)

    def engines(self):
        rows = []
        for name, engine in self.result["engines"].items():
            versions = ", ".join(f"{k} {v}" for k, v in engine["versions"].items())
            env = " ".join(f"{k}={v}" for k, v in engine["env"].items())
            rows.append([name, engine["kind"], engine["note"], versions, env])
        return "## Engines\n\n" + table(["engine", "kind", "how", "versions", "environment"], rows)

    def speeds(self, files):
        head = ["file", "size / raw", *self.readers, "fastest rival", "us / rival", "us / floor", "us / own codec"]
        rows = []
        for f in files:
            cells = [self._speed(f, n) for n in self.readers]
            ratio = f.entry["bytes"] / f.entry["decoded"]
            ratios = f.against_rival(), f.against_floor(), f.against_own_codec()
            marks = [f"{r:.2f}x" if r else "-" for r in ratios]
            rows.append([f.name, f"{ratio:.2f}", *cells, f.fastest_rival() or "-", *marks])
        means = [self._mean_speed(files, n) for n in self.readers]
        rivals = [f.against_rival() for f in files if f.against_rival()]
        floors = [f.against_floor() for f in files if f.against_floor()]
        codecs = [f.against_own_codec() for f in files if f.against_own_codec()]
        marks = [f"{geometric_mean(r):.2f}x" if r else "-" for r in (rivals, floors, codecs)]
        rows.append(["**geometric mean**", "", *means, "", *marks])
        note = (
            "GB of decoded pixels a second, median of interleaved rounds. `us / rival`: speed over that of the fastest"
            " rival with right pixels. `us / floor`: time over that of the raw codec of imagecodecs"
            " (uncompressed: of the preads alone); `us / own codec`: over that of tiffjet's codec alone. A mean in brackets leaves out"
            " files the engine cannot read.\n"
        )
        return note + "\n" + table(head, rows)

    def _speed(self, f, name):
        entry = f.entry["engines"].get(name)
        if entry is None:
            return ""
        if name not in f.wall:
            return "no"
        return f"{f.gigabytes / f.wall[name]:.2f}" + ("" if entry["sound"] else " **wrong pixels**")

    def _mean_speed(self, files, name):
        speeds = [f.gigabytes / f.wall[name] for f in files if f.sound(name)]
        if not speeds:
            return "-"
        return f"{geometric_mean(speeds):.2f}" if len(speeds) == len(files) else f"({geometric_mean(speeds):.2f})"

    def cpu(self, files):
        rows = []
        for f in files:
            rows.append([f.name, *(f"{f.cpu[n] / f.gigabytes:.2f}" if n in f.cpu else "-" for n in self.readers)])
        note = "CPU seconds of all threads for a GB of decoded pixels, median: other load hardly touches it.\n"
        return "### CPU time\n\n" + note + "\n" + table(["file", *self.readers], rows)

    def open(self, size):
        latency = self.result["sizes"][size]["latency"]
        if not latency:
            return ""
        names = [n for n in self.kinds if any(n in r["open"] for r in latency.values())]
        rows = []
        for file, r in latency.items():
            rows.append(
                [file, *(f"{statistics.median(r['open'][n]) * 1e6:.0f}" if r["open"].get(n) else "-" for n in names)]
            )
        note = "Microseconds until shape, dtype and transform are known, and closed again; median.\n"
        return f"## Open, {size} x {size}\n\n" + note + "\n" + table(["file", *names], rows)

    def windows(self, size):
        latency = self.result["sizes"][size]["latency"]
        if not latency:
            return ""
        names = [n for n in self.kinds if any(n in r["windows"] for r in latency.values())]
        rows = []
        for file, r in latency.items():
            rows.append([file, *(self._window(r["windows"].get(n, {})) for n in names)])
        note = "Milliseconds for a random window of 512 x 512, the file kept open: p50 / p99."
        warm = ", ".join(f"`{n}`" for n in names if n in WARM_CACHE)
        if warm:
            note += f" {warm} keep decoded tiles as they do by default, so their p50 is mostly a copy of what was decoded"
            note += " before; of those named `-cold`, GDAL keeps 8 MB and tiffjet nothing."
        return f"## Windows, {size} x {size}\n\n" + note + "\n\n" + table(["file", *names], rows)

    def _window(self, entry):
        if not entry.get("seconds"):
            return "no" if "error" in entry else "-"
        p50, p99 = (quantile(entry["seconds"], q) * 1e3 for q in (0.5, 0.99))
        return f"{p50:.2f} / {p99:.2f}" + ("" if entry["sound"] else " **wrong pixels**")

    def failures(self):
        """What each engine cannot read, or reads wrong."""
        found = {}
        for f in self.files:
            for name, entry in f.entry["engines"].items():
                if "error" in entry:
                    found.setdefault((name, entry["error"]), []).append(f.name)
                elif not entry["sound"]:
                    found.setdefault((name, f"pixels differ from the source: {entry['check']}"), []).append(f.name)
        if not found:
            return "## Refused or wrong\n\nNothing.\n"
        rows = [
            [name, what.replace("|", "\\|"), ", ".join(dict.fromkeys(files))] for (name, what), files in found.items()
        ]
        return "## Refused or wrong\n\n" + table(["engine", "what", "files"], rows)

    # ---- bars

    def bars(self):
        rows = [
            self._bar_sound(),
            self._bar_every_file(),
            self._bar_average(),
            self._bar_floor(True, FLOOR_COMPRESSED),
            self._bar_floor(False, FLOOR_UNCOMPRESSED),
            self._bar_open(),
            self._bar_windows(),
        ]
        return "## Bars\n\n" + table(["bar", "measured", "verdict"], rows)

    @staticmethod
    def _verdict(values, passed):
        return ("PASS" if passed(values) else "FAIL") if values else "not measured"

    def _label(self, f):
        """The file's name, with its size where there are several."""
        size = next(s for s, files in self.sizes.items() if f in files)
        return f"{f.name} ({size})" if len(self.sizes) > 1 else f.name

    def _bar_sound(self):
        entries = {self._label(f): f.entry["engines"][OURS] for f in self.files if OURS in f.entry["engines"]}
        for size, result in self.result["sizes"].items():
            for file, entry in result["latency"].items():
                if OURS in entry["windows"]:
                    entries[f"windows of {file} ({size})"] = entry["windows"][OURS]
        bad = [n for n, e in entries.items() if "error" in e or not e["sound"]]
        verdict = self._verdict(entries, lambda _: not bad)
        return [
            "every file read, every pixel right",
            f"{len(entries) - len(bad)} of {len(entries)}; not: {', '.join(bad) or 'none'}",
            verdict,
        ]

    def _bar_every_file(self):
        ratios = {self._label(f): f.against_rival() for f in self.files if f.against_rival()}
        below = [f"{n} {r:.2f}x" for n, r in sorted(ratios.items(), key=lambda i: i[1]) if r < NEVER_BELOW]
        worst = f"worst {min(ratios.values()):.2f}x; below: {', '.join(below) or 'none'}" if ratios else "-"
        return [f"never below {NEVER_BELOW} x the fastest rival", worst, self._verdict(ratios, lambda _: not below)]

    def _bar_average(self):
        ratios = [f.against_rival() for f in self.files if f.against_rival()]
        mean = geometric_mean(ratios)
        text = f"{mean:.2f}x over {len(ratios)} files" if ratios else "-"
        bar = f"at least {ON_AVERAGE} x the fastest rival of each file, geometric mean"
        return [bar, text, self._verdict(ratios, lambda _: mean >= ON_AVERAGE)]

    def _bar_floor(self, compressed, limit):
        ratios = {
            self._label(f): f.against_floor() for f in self.files if f.compressed == compressed and f.against_floor()
        }
        above = [f"{n} {r:.2f}x" for n, r in sorted(ratios.items(), key=lambda i: -i[1]) if r > limit]
        text = "-"
        if ratios:
            mean, worst = geometric_mean(ratios.values()), max(ratios.values())
            text = f"geometric mean {mean:.2f}x, worst {worst:.2f}x; {len(above)} of {len(ratios)} above"
            text += f": {', '.join(above)}" if above else ""
        what = "compressed" if compressed else "uncompressed"
        return [f"at most {limit} x the floor on every {what} file", text, self._verdict(ratios, lambda _: not above)]

    def _bar_open(self):
        ratios, best = {}, {}
        for size, result in self.result["sizes"].items():
            for file, entry in result["latency"].items():
                medians = {n: statistics.median(v) for n, v in entry["open"].items() if v}
                if OURS in medians and "rasterio" in medians:
                    ratios[f"{file} ({size})"] = medians["rasterio"] / medians[OURS]
                    rivals = [w for n, w in medians.items() if self.kinds[n] == "rival"]
                    best[f"{file} ({size})"] = min(rivals) / medians[OURS]
        text = "-"
        if ratios:
            text = f"least {min(ratios.values()):.1f}x (against the fastest rival {min(best.values()):.1f}x)"
        verdict = self._verdict(ratios, lambda r: min(r.values()) >= OPEN)
        return [f"open at least {OPEN:g} x faster than rasterio", text, verdict]

    def _bar_windows(self):
        cold, warm = {}, {}
        for size, result in self.result["sizes"].items():
            for file, entry in result["latency"].items():
                p50 = {
                    n: quantile(e["seconds"], 0.5)
                    for n, e in entry["windows"].items()
                    if e.get("seconds") and e["sound"]
                }
                rivals = {n: w for n, w in p50.items() if self.kinds[n] == "rival"}
                cold_rivals = {n: w for n, w in rivals.items() if n not in WARM_CACHE}
                if OURS in p50 and cold_rivals:
                    name = min(cold_rivals, key=cold_rivals.get)
                    cold[f"{file} ({size})"] = (cold_rivals[name] / p50.get(OURS_COLD, p50[OURS]), name)
                    warm[f"{file} ({size})"] = min(rivals.values()) / p50[OURS]
        text = "-"
        if cold:
            each = ", ".join(f"{f} {r:.2f}x of {n}" for f, (r, n) in cold.items())
            text = f"{each}; all with warm caches, the least is {min(warm.values()):.2f}x"
        bar = f"random windows at least {WINDOWS:g} x faster than the fastest rival, both without a warm cache"
        return [bar, text, self._verdict(cold, lambda c: min(r for r, _ in c.values()) >= WINDOWS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    args = parser.parse_args()
    print(Report(json.loads(args.result.read_text())).text())


if __name__ == "__main__":
    main()
