#!/usr/bin/env python3
"""Measures every engine on every file and writes the raw numbers as JSON; `report.py` turns them into tables.

    python bench/run.py --out RESULT.json [--data build/bench-data] [--sizes 4096,8192] [--set small|full]
                        [--only GLOB,GLOB] [--engines NAME,NAME] [--rivals-only] [--rounds 7] [--windows 200]

Every engine runs in a process of its own. For each file every engine first reads it once, untimed, and its pixels are
compared with the source array. Then come the rounds: in each, every engine reads the file, in an order that rotates, so
that a slow minute of the machine strikes them all. A sample that others disturbed is taken once more, after a wait for
quiet; on a machine that never is, that ends after `--patience` seconds in all. The record says how disturbed samples were.
"""

import argparse
import fnmatch
import json
import os
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import engines
import machine
from windows import SIDE, windows

LATENCY_FILES = "dem_cog_zstd_p3,dem_t512_deflate_p3,dem_s16_zstd_p3,s2_t512_zstd_p2,rgb_cog_jpeg"
PATIENCE = 300  # seconds for one answer
OPENS = 20  # opens of one sample
CHECK_SEED, CHECK_WINDOWS = 99, 3


class Died(Exception):
    """The engine's process ended, or did not answer."""


class Process:
    """A running engine."""

    def __init__(self, engine, log):
        self.engine = engine
        env = os.environ | machine.WARM_MEMORY | engine.env
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(engine.command(), stdin=pipe, stdout=pipe, stderr=log, env=env, bufsize=0)
        self.pending = b""

    def ask(self, *words):
        """The answer as a dict; it has "error" where the engine refuses."""
        try:
            self.child.stdin.write(("\t".join(map(str, words)) + "\n").encode())
            answer = json.loads(self._line())
        except (OSError, Died) as error:
            self.close()
            code = self.child.returncode
            answer = {"error": f"the process ended with status {code}" if isinstance(error, OSError) else str(error)}
        if "error" in answer and len(words) > 1:  # a record is no place for the folders of this machine
            answer["error"] = answer["error"].replace(str(words[1]), Path(words[1]).name)
        return answer

    def _line(self):
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self.pending:
            ready, _, _ = select.select([self.child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Died(f"no answer in {PATIENCE} s")
            part = os.read(self.child.stdout.fileno(), 1 << 16)
            if not part:
                raise Died(f"the process ended with status {self.child.wait()}")
            self.pending += part
        line, _, self.pending = self.pending.partition(b"\n")
        return line

    def close(self):
        if self.child.poll() is None:
            self.child.stdin.close()
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Fleet:
    """The processes of the engines, started when first asked and again after one died."""

    def __init__(self, log):
        self.log = log
        self.running = {}

    def __getitem__(self, engine):
        process = self.running.get(engine.name)
        if process is None or process.child.poll() is not None:
            process = self.running[engine.name] = Process(engine, self.log)
        return process

    def close(self):
        for process in self.running.values():
            process.close()
        self.running.clear()


class Bench:
    def __init__(self, args):
        self.args = args
        self.names = [n for n in args.engines.split(",") if n]
        self.log = args.out.with_suffix(".log").open("w")  # what engines say on stderr
        self.fleet = Fleet(self.log)
        self.patience = args.patience
        settings = {k: str(v) for k, v in vars(args).items()}
        self.result = {"machine": machine.facts(), "settings": settings, "engines": {}, "sizes": {}}

    def engines(self, role):
        found = [e for e in engines.pick(self.names, role) if e.module or not self.args.rivals_only]
        for engine in found:
            if engine.name not in self.result["engines"]:
                if not engine.module and not engines.WORKER.exists():
                    raise SystemExit(
                        f"{engines.WORKER} is missing: cargo build --release -p tiffjet-bench, or --rivals-only"
                    )
                versions = self.fleet[engine].ask("versions")
                if "error" in versions:
                    print(f"{engine.name} is left out: it can't be started here ({self.log.name} says why)", flush=True)
                facts = {"kind": engine.kind, "note": engine.note, "env": engine.env, "versions": versions}
                self.result["engines"][engine.name] = facts
        return [e for e in found if "error" not in self.result["engines"][e.name]["versions"]]

    def run(self):
        for size in self.args.sizes.split(","):
            root = self.args.data / size
            manifest = json.loads((root / "manifest.json").read_text())
            found = {n: f for n, f in manifest["files"].items() if self._wanted(n, f)}
            sizes = self.result["sizes"][size] = {"files": {}, "latency": {}}
            for source in dict.fromkeys(f["source"] for f in found.values()):
                pixels = np.load(root / "source" / f"{source}.npy", mmap_mode="r")
                for name, facts in found.items():
                    if facts["source"] == source:
                        sizes["files"][name] = self.read(name, root, facts, pixels)
                        self.save()
                for name in self.args.latency.split(","):
                    if name in found and found[name]["source"] == source:
                        sizes["latency"][name] = self.latency(name, root, found[name], pixels)
                        self.save()
                self.fleet.close()  # what one source made an engine keep in memory must not crowd the next

    def _wanted(self, name, facts):
        globs = self.args.only.split(",")
        return (facts["small"] or self.args.set == "full") and any(fnmatch.fnmatch(name, g) for g in globs)

    # ---- whole files

    def read(self, name, root, facts, pixels):
        path = (root / facts["file"]).resolve()
        out = {k: facts[k] for k in ("source", "layout", "codec", "bytes", "decoded")} | {"engines": {}}
        sound = []
        for engine in self.engines("read"):
            verdict = self._warm_up(engine, path, root, facts, pixels)
            out["engines"][engine.name] = verdict
            if "error" not in verdict:
                sound.append(engine)
        for turn in range(self.args.rounds):
            shift = turn % max(1, len(sound))
            for engine in sound[shift:] + sound[:shift]:
                entry = out["engines"][engine.name]
                sample = self._sample(engine, path)
                if "error" in sample:
                    entry["error"] = sample["error"]
                else:
                    entry["samples"].append(sample)
        self._print(name, facts, out)
        return out

    def _warm_up(self, engine, path, root, facts, pixels):
        """One read and the comparison of its pixels."""
        process = self.fleet[engine]
        if engine.kind == "floor":
            answer = process.ask(verb(engine), path)
            return {"error": answer["error"]} if "error" in answer else {"check": "", "sound": True, "samples": []}
        scratch = self._scratch(root)
        answer = process.ask("check", path, scratch)
        if "error" in answer:
            return {"error": answer["error"]}
        try:
            check, sound = compare_image(scratch, answer, facts, pixels)
        finally:
            scratch.unlink(missing_ok=True)
        return {"check": check, "sound": sound, "samples": []}

    def _scratch(self, root):
        """Where an engine leaves pixels to be compared; two runs may share the data."""
        return (root / f"pixels-{os.getpid()}.raw").resolve()

    def _sample(self, engine, path):
        """Reads until `--seconds` have passed; once more if others disturbed it, and the quieter one counts."""
        best = None
        for attempt in range(1 + self.args.retries):
            load = machine.ForeignLoad()
            wall = cpu = calls = 0
            while calls == 0 or wall < self.args.seconds:
                answer = self.fleet[engine].ask(verb(engine), path)
                if "error" in answer:
                    return answer
                wall, cpu, calls = wall + answer["wall"], cpu + answer["cpu"], calls + 1
            foreign = load.stop(cpu)
            sample = {"wall": wall / calls, "cpu": cpu / calls, "foreign": round(foreign, 3), "calls": calls}
            if best is None or foreign < best["foreign"]:
                best = sample
            if foreign <= self.args.foreign or self.patience <= 0:
                break
            if attempt < self.args.retries:
                self.patience -= machine.wait_for_quiet(self.args.foreign, min(2.0, self.patience))
        return best

    def _print(self, name, facts, out):
        cells = []
        for engine, entry in out["engines"].items():
            if entry.get("samples"):
                wall = statistics.median(s["wall"] for s in entry["samples"])
                cells.append(f"{engine} {facts['decoded'] / wall / 1e9:.2f}" + ("" if entry["sound"] else " WRONG"))
        print(f"{time.strftime('%H:%M:%S')} {name}, GB/s: " + ", ".join(cells), flush=True)

    # ---- open and windows

    def latency(self, name, root, facts, pixels):
        path = (root / facts["file"]).resolve()
        _, height, width = facts["shape"]
        opens = {e: [] for e in self.engines("open") if "error" not in self.fleet[e].ask("open", path, 3)}
        seconds, verdicts = {}, {}
        for engine in self.engines("windows"):
            verdicts[engine.name] = verdict = self._warm_up_windows(engine, path, root, facts, pixels)
            if "error" not in verdict:
                seconds[engine] = []
        per_round = -(-self.args.windows // self.args.rounds)
        for turn in range(self.args.rounds):
            for engine, walls in opens.items():
                answer = self.fleet[engine].ask("open", path, OPENS)
                walls.extend([answer["wall"]] if "wall" in answer else [])
            for engine, walls in seconds.items():
                answer = self.fleet[engine].ask("windows", path, turn, per_round, height, width)
                walls.extend(answer.get("seconds", []))
        print(f"{time.strftime('%H:%M:%S')} {name}: open and windows", flush=True)
        for engine, walls in seconds.items():
            verdicts[engine.name]["seconds"] = walls
        return {"open": {e.name: walls for e, walls in opens.items()}, "windows": verdicts}

    def _warm_up_windows(self, engine, path, root, facts, pixels):
        _, height, width = facts["shape"]
        scratch = self._scratch(root)
        request = ("checkwindows", path, CHECK_SEED, CHECK_WINDOWS, height, width, scratch)
        answer = self.fleet[engine].ask(*request)
        if "error" in answer:
            return {"error": answer["error"]}
        corners = windows(CHECK_SEED, CHECK_WINDOWS, height, width)
        try:
            check, sound = compare_windows(scratch, answer, facts, pixels, corners)
        finally:
            scratch.unlink(missing_ok=True)
        return {"check": check, "sound": sound}

    def save(self):
        part = self.args.out.with_suffix(".part")
        part.write_text(json.dumps(self.result, indent=1))
        part.replace(self.args.out)


def verb(engine):
    """The Rust worker serves two engines: the reader and the floor."""
    return "floor" if engine.kind == "floor" and not engine.module else "read"


def compare_image(path, answer, facts, pixels):
    """What to say of an engine's pixels, and whether they are right."""
    if tuple(answer["shape"]) != pixels.shape or answer["dtype"] != str(pixels.dtype):
        return f"shape {tuple(answer['shape'])} {answer['dtype']}", False
    decoded = np.memmap(path, pixels.dtype, "r", shape=pixels.shape)
    return compare(decoded, pixels, facts)


def compare_windows(path, answer, facts, pixels, corners):
    if answer["dtype"] != str(pixels.dtype):
        return answer["dtype"], False
    decoded = np.fromfile(path, pixels.dtype)
    expected = [pixels[:, row : row + SIDE, col : col + SIDE] for row, col in corners]
    if decoded.size != sum(e.size for e in expected):
        return f"{decoded.size} values", False
    return compare(decoded.reshape(-1, SIDE, SIDE), np.concatenate(expected), facts, slack=1.5)


def compare(decoded, expected, facts, slack=1.05):
    """Exact; or, of a lossy codec, hardly further from the source than GDAL's decoding of the whole file is."""
    if facts["mean_error"] == 0:
        exact = all(np.array_equal(a, b) for a, b in zip(decoded, expected, strict=True))
        return ("exact", True) if exact else ("wrong pixels", False)
    error = float(np.mean([np.abs(a.astype(np.float32) - b).mean() for a, b in zip(decoded, expected, strict=True)]))
    return f"mean error {error:.3f}", error <= facts["mean_error"] * slack + 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("build/bench-data"))
    parser.add_argument("--sizes", default="4096")
    parser.add_argument("--set", choices=["small", "full"], default="small")
    parser.add_argument("--only", default="*", help="globs over file names")
    parser.add_argument("--engines", default="", help="names; all of them if empty")
    parser.add_argument("--rivals-only", action="store_true", help="leave out what needs the Rust worker")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="a sample repeats its read until so many have passed"
    )
    parser.add_argument("--latency", default=LATENCY_FILES, help="files for open and windows")
    parser.add_argument("--windows", type=int, default=200, help="windows of each engine and file")
    parser.add_argument("--foreign", type=float, default=0.06, help="share of the machine others may take of a sample")
    parser.add_argument("--retries", type=int, default=1)
    parser.add_argument("--patience", type=float, default=600, help="seconds of waiting for quiet, in all")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    try:
        bench.run()
    finally:
        bench.fleet.close()
        bench.log.close()


if __name__ == "__main__":
    sys.exit(main())
