#!/usr/bin/env python3
"""Lines that tests run, by the instrumentation of rustc and by llvm-cov of the same LLVM; files below the bar are named.

    coverage.py [--keep]        --keep: reports the runs of before, without new ones

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
PARTS = ("tiff/", "layout.rs", "geo/", "codec/")
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
    """Runs all tests of the core and of the command line; gives the programs that were run."""
    for old in BUILD.glob("*.profraw"):
        old.unlink()
    environment = os.environ | {
        "RUSTFLAGS": "-Cinstrument-coverage",
        "CARGO_TARGET_DIR": str(BUILD / "target"),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "LLVM_PROFILE_FILE": str(BUILD / "%p-%m.profraw"),
    }
    command = ["cargo", "test", "--locked", "-p", "tiffjet", "-p", "tiffjet-cli", "--all-features", "--lib", "--bins", "--tests"]
    built = say(*command, "--no-run", "--message-format=json", cwd=ROOT, env=environment)
    programs = [m["executable"] for m in map(json.loads, built.splitlines()) if m.get("executable")]
    subprocess.run([*command, "--no-fail-fast"], cwd=ROOT, env=environment, check=False)
    (BUILD / "programs.json").write_text(json.dumps(programs))
    return programs


def main() -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    tool = tools()
    programs = json.loads((BUILD / "programs.json").read_text()) if "--keep" in sys.argv[1:] else run_tests()
    merged = BUILD / "all.profdata"
    raw = BUILD / "raw.txt"
    raw.write_text("\n".join(str(p) for p in BUILD.glob("*.profraw")))
    say(*tool["llvm-profdata"], "merge", "--sparse", "-f", raw, "-o", merged)
    objects = [part for program in programs[1:] for part in ("--object", program)]
    report = say(*tool["llvm-cov"], "export", "--summary-only", "--instr-profile", merged, programs[0], *objects)
    core = f"{ROOT}/crates/tiffjet/src/"
    parts = {part: [0, 0] for part in PARTS}
    files = []
    for file in json.loads(report)["data"][0]["files"]:
        name = file["filename"].removeprefix(core)
        if name == file["filename"] or TESTS.search(name):
            continue
        lines = file["summary"]["lines"]
        files.append((lines["percent"], name, lines["count"] - lines["covered"]))
        for part in PARTS:
            if name.startswith(part):
                parts[part][0] += lines["covered"]
                parts[part][1] += lines["count"]
    for percent, name, missing in sorted(files):
        if percent < BAR:
            print(f"{percent:6.1f} %  {name}, {missing} lines not run")
    low = 0
    for part, (covered, count) in parts.items():
        percent = 100 * covered / max(count, 1)
        low += percent < BAR
        print(f"{percent:6.1f} %  of {count} lines in {part}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
