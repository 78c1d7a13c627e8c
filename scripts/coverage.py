#!/usr/bin/env python3
"""Lines of the core that its tests run, by the instrumentation of rustc and by llvm-cov of the same LLVM.

    coverage.py [--keep] [FILE...]      --keep: reports the runs of before, without new ones
                                        FILE: names the lines that were not run, of files whose name holds this

Only crates of this workspace are instrumented, so third-party crates are those of every other build. Lines of tests do not
count: files of tests, and what stands below `#[cfg(test)]`.

The rustup component `llvm-tools` is taken where it is there. Otherwise llvm-profdata and llvm-cov come from Debian's
archive, with the C library they were built for: packages are unpacked into build/llvm and run from there, nothing is
installed. Exit 1 where the parser, the layout, georeferencing or the codecs are below the bar.
"""

import json
import lzma
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
LLVM = ROOT / "build" / "llvm"
DEBIAN = "http://deb.debian.org/debian"
# Of lines, in each of these parts of the core as a whole.
BAR = 90.0
PARTS = ("tiff/", "layout.rs", "geo/", "codec/", "predictor")
# What must not count: tests inside the core.
TESTS = re.compile(r"(^|/)(tests|testing|image_tests)\.rs$|/tests/")


def say(*command: str | Path, **options) -> str:
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def llvm_major() -> str:
    return re.search(r"LLVM version: (\d+)", say("rustc", "-vV"))[1]


def packages(major: str) -> list[str]:
    """Paths in the archive of llvm and all that it needs."""
    with urllib.request.urlopen(f"{DEBIAN}/dists/sid/main/binary-amd64/Packages.xz", timeout=120) as answer:
        text = lzma.decompress(answer.read()).decode()
    known = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
        if "Package" in fields:
            known[fields["Package"]] = fields
    found, wanted = {}, [f"llvm-{major}"]
    while wanted:
        name = wanted.pop()
        if name in known and name not in found and name != f"llvm-{major}-linker-tools":
            found[name] = known[name]["Filename"]
            needs = known[name].get("Depends", "").split(",")
            wanted += [re.split(r"[ |(:]", need.strip())[0] for need in needs if need.strip()]
    return sorted(found.values())


def tools() -> dict[str, list[str]]:
    """How llvm-profdata and llvm-cov are run."""
    sysroot = Path(say("rustc", "--print", "sysroot").strip())
    beside = sysroot / "lib/rustlib/x86_64-unknown-linux-gnu/bin"
    if (beside / "llvm-cov").exists():
        return {name: [str(beside / name)] for name in ("llvm-profdata", "llvm-cov")}
    major = llvm_major()
    programs = LLVM / f"usr/lib/llvm-{major}/bin"
    if not (programs / "llvm-cov").exists():
        (LLVM / "packages").mkdir(parents=True, exist_ok=True)
        for path in packages(major):
            target = LLVM / "packages" / Path(path).name
            if not target.exists():
                urllib.request.urlretrieve(f"{DEBIAN}/{path}", target)
            say("dpkg-deb", "--extract", target, LLVM)
    libraries = LLVM / "usr/lib/x86_64-linux-gnu"
    loader = next(p for p in (libraries / "ld-linux-x86-64.so.2", LLVM / "usr/lib64/ld-linux-x86-64.so.2") if p.exists())
    with_loader = [str(loader), "--library-path", f"{libraries}:{programs.parent / 'lib'}"]
    return {name: [*with_loader, str(programs / name)] for name in ("llvm-profdata", "llvm-cov")}


def run_tests() -> list[str]:
    """Runs all tests of the core; gives the programs that were run."""
    for old in BUILD.glob("*.profraw"):
        old.unlink()
    wrapper = BUILD / "rustc"
    wrapper.write_text('#!/bin/sh\nexec "$@" -Cinstrument-coverage\n')
    wrapper.chmod(0o755)
    environment = os.environ | {
        "RUSTC_WORKSPACE_WRAPPER": str(wrapper),
        # Processes of one program share four files, however many there are.
        "LLVM_PROFILE_FILE": str(BUILD / "%4m.profraw"),
    }
    command = ["cargo", "test", "--locked", "--package", "tiffjet", "--all-features", "--lib", "--tests"]
    built = say(*command, "--no-run", "--message-format=json-render-diagnostics", cwd=ROOT, env=environment)
    programs = [m["executable"] for m in map(json.loads, built.splitlines()) if m.get("executable")]
    (BUILD / "programs.json").write_text(json.dumps(programs))
    if subprocess.run([*command, "--no-fail-fast"], cwd=ROOT, env=environment).returncode:
        print("tests fail: what they would have run is missing")
    return programs


def counted(path: Path) -> int:
    """The last line that is no test."""
    lines = path.read_text().splitlines()
    tests = (number for number, line in enumerate(lines) if line == "#[cfg(test)]" and "mod tests {" in lines[number + 1 : number + 3])
    return next(tests, len(lines))


def lines_of(report: str) -> dict[str, dict[int, int]]:
    """How often each line was run, by the name of its file in the core, from a report in lcov's format."""
    core = f"{ROOT}/crates/tiffjet/src/"
    files, last = {}, 0
    for entry in report.splitlines():
        kind, _, rest = entry.partition(":")
        if kind == "SF":
            name = rest.removeprefix(core)
            lines = {}
            if name != rest and not TESTS.search(name):
                files[name], last = lines, counted(Path(rest))
        elif kind == "DA":
            line, count = map(int, rest.split(",")[:2])
            if line <= last:
                lines[line] = count
    return files


def ranges(numbers: list[int]) -> str:
    """1 2 3 5 -> 1-3 5"""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1][1:] = [number]
        else:
            groups.append([number])
    return " ".join("-".join(map(str, group)) for group in groups)


def main() -> int:
    wanted = [argument for argument in sys.argv[1:] if argument != "--keep"]
    BUILD.mkdir(parents=True, exist_ok=True)
    tool = tools()
    programs = json.loads((BUILD / "programs.json").read_text()) if "--keep" in sys.argv[1:] else run_tests()
    merged = BUILD / "all.profdata"
    say(*tool["llvm-profdata"], "merge", "--sparse", *BUILD.glob("*.profraw"), "-o", merged)
    objects = [part for program in programs[1:] for part in ("--object", program)]
    report = say(*tool["llvm-cov"], "export", "--format=lcov", "--instr-profile", merged, programs[0], *objects)
    parts = {part: [0, 0] for part in (*PARTS, "")}
    for name, lines in sorted(lines_of(report).items()):
        run, missing = sum(map(bool, lines.values())), [line for line, count in sorted(lines.items()) if not count]
        if lines:
            print(f"{100 * run / len(lines):6.1f} %  of {len(lines):5} lines of {name}")
        if any(part in name for part in wanted):
            print(f"    not run: {ranges(missing)}")
        for part, sums in parts.items():
            if name.startswith(part):
                sums[0] += run
                sums[1] += len(lines)
    low = 0
    for part, (run, count) in parts.items():
        percent = 100 * run / max(count, 1)
        low += part in PARTS and percent < BAR
        print(f"{percent:6.1f} %  of {count:5} lines in {part or 'all of the core'}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
