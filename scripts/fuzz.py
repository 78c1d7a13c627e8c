#!/usr/bin/env python3
"""Fuzzes every target: files, georeferencing and codecs by libFuzzer, kernels by their own driver, under sanitizers.

    fuzz.py [--seconds N] [TARGET...]

Builds into build/fuzz with a stable rustc, which is told to take the flags of sanitizers; no cargo-fuzz is needed. Seeds
are made, and taken from the folder TIFFJET_CORPUS where it is set; what is found is kept in build/fuzz/corpus and is where
the next run begins. As many targets run at once as there are cores. Exit 1 where one fails; the input lies in
build/fuzz/failures then, and belongs into a test with a name.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
TRIPLE = "x86_64-unknown-linux-gnu"
KERNELS = ("packbits", "lzw", "deflate", "zstd", "place")
EMULATE = ROOT / "crates" / "tiffjet-cuda" / "kernels" / "emulate"

COVERAGE = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
]
RUST = ["--cfg", "fuzzing", "-Zsanitizer=address", "-Ccodegen-units=1", "-Clink-arg=-fuse-ld=bfd", *COVERAGE]
# C libraries too: GCC tells `fuzz/counters.c` where they go.
C = "-fsanitize=address -fsanitize-coverage=trace-pc -fno-omit-frame-pointer -g1"
CXX = (
    "-std=c++17 -O1 -g1 -Wall -Wextra -Werror -Wno-unknown-pragmas -ffp-contract=off -fno-omit-frame-pointer "
    "-fsanitize=address,undefined -fno-sanitize-recover=all -fsanitize-coverage=trace-pc"
).split()
# GCC names two `static` variables of one file alike, which is no breach of the rule of one definition.
SANITIZER = {"ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0"}


def run(*command: str | Path, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], text=True, **options)


def build() -> Path:
    """The fuzzers, and what they begin with; gives the folder of programs."""
    environment = os.environ | {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": " ".join(RUST), "CFLAGS": C}
    cargo = ["cargo", "build", "--release", "--locked", "--target", TRIPLE, "--target-dir", BUILD]
    run(*cargo, cwd=ROOT / "fuzz", env=environment, check=True)
    programs = BUILD / TRIPLE / "release"
    run(programs / "seeds", BUILD / "seeds", env=os.environ | SANITIZER, check=True)
    for kernel in KERNELS:
        compiler = os.environ.get("CXX", "c++")
        source = [f'-DFUZZED="run_{kernel}.cpp"', "-I", EMULATE.parent, EMULATE / "fuzz.cpp"]
        run(compiler, *CXX, *source, "-o", programs / f"fuzz-{kernel}", check=True)
    if not (BUILD / "seeds" / "kernel_place").exists():
        test = ["cargo", "test", "--locked", "--quiet", "--package", "tiffjet-cuda", "--all-features", "--test", "place"]
        run(*test, cwd=ROOT, env=os.environ | {"TIFFJET_SEEDS": str(BUILD / "seeds" / "kernel_place")}, check=True)
    return programs


def fuzz(programs: Path, target: str, seconds: int) -> tuple[bool, str]:
    """Whether nothing was found, and the figures in words."""
    folder, failures = BUILD / "corpus" / target, BUILD / "failures" / target
    for needed in (folder, failures):
        needed.mkdir(parents=True, exist_ok=True)
    seeds = BUILD / "seeds" / target
    if target.startswith("kernel_"):
        command = [programs / f"fuzz-{target.removeprefix('kernel_')}", seconds, os.getpid(), seeds]
    else:
        choices = ["-rss_limit_mb=2048", "-malloc_limit_mb=512", "-timeout=10", "-max_len=16384"]
        choices += [f"-dict={ROOT / 'fuzz' / 'dictionary'}", f"-max_total_time={seconds}", f"-artifact_prefix={failures}/"]
        command = [programs / "any", *choices, folder, *([seeds] if seeds.exists() else [])]
    environment = os.environ | SANITIZER | {"TIFFJET_FUZZ": target}
    ended = run(*command, cwd=failures, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (failures / "log").write_text(ended.stdout)
    if ended.returncode:
        return False, f"{target}: FAILED, see {failures}"
    if target.startswith("kernel_"):
        return True, f"{target}: {ended.stdout.strip().splitlines()[-1]}"
    lines = re.findall(r"#(\d+)\s+(INITED|DONE)\s+(cov: \d+ ft: \d+)", ended.stdout)
    started, done = lines[0], lines[-1]
    return True, f"{target}: {done[0]} runs, {started[2]} at the start, {done[2]} at the end"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("targets", nargs="*")
    chosen = parser.parse_args()
    programs = build()
    names = run(programs / "seeds", env=os.environ | SANITIZER, stdout=subprocess.PIPE, check=True).stdout.split()
    targets = chosen.targets or [*names, *(f"kernel_{kernel}" for kernel in KERNELS)]
    well = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for good, words in pool.map(lambda target: fuzz(programs, target, chosen.seconds), targets):
            print(words, flush=True)
            well &= good
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
