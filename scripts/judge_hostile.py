#!/usr/bin/env python3
"""What GDAL makes of hostile files, beside what tiffjet must make of them.

    judge_hostile.py FOLDER         FOLDER: of `cargo run --package tiffjet-testkit --example hostile_files -- FOLDER`

Each file is read whole by GDAL (rasterio), in a process of its own with a limit of time and memory. Lists files that must be
read and that GDAL refuses, and the other way round; where tiffjet is installed, pixels of files that both read are compared.
Readers may differ with good reason: this informs who states an expectation, and exits 0.
"""

import collections
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS = 20
MEMORY = 4 << 30

# Run with the path of a file: prints `read` and a digest, or `refused` and why; then the same of tiffjet.
CHILD = f"""
import hashlib, os, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
os.environ.update(GDAL_PAM_ENABLED="NO", GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR", CUDA_VISIBLE_DEVICES="", GDAL_CACHEMAX="64")
warnings.simplefilter("ignore")
import numpy, rasterio
def told(read):
    try:
        pixels = numpy.ascontiguousarray(read())
    except Exception as error:
        return f"refused {{error.__cause__ or error}}".splitlines()[0]
    return f"read {{pixels.shape}} {{pixels.dtype}} {{hashlib.sha256(pixels.tobytes()).hexdigest()[:16]}}"
def gdal():
    with rasterio.open(sys.argv[1]) as file:
        if file.width * file.height * file.count > 1 << 28:
            raise MemoryError("more pixels than are compared")
        return file.read()
print(told(gdal), flush=True)
try:
    import tiffjet
except ImportError:
    sys.exit()
print(told(lambda: numpy.asarray(tiffjet.open(sys.argv[1]).read(device="cpu"))))
"""


def answers(path: Path) -> list[str]:
    """What GDAL said, then what tiffjet said."""
    try:
        ended = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [f"took more than {SECONDS} s"]
    return ended.stdout.splitlines() or [f"ended with {ended.returncode}"]


def main() -> int:
    files = sorted(Path(sys.argv[1]).glob("*.tif"))
    counts: collections.Counter = collections.Counter()
    with ThreadPoolExecutor(2) as pool:
        for path, said in zip(files, pool.map(answers, files)):
            expected, name = path.stem.split(".", 1)
            gdal = said[0]
            counts[expected, gdal.split()[0]] += 1
            other = (expected == "Reads") != gdal.startswith("read ")
            if other and expected != "Either":
                print(f"{expected:11}  {name}: GDAL {gdal}")
            if len(said) > 1 and gdal.startswith("read ") and said[1].startswith("read ") and gdal != said[1]:
                print(f"{expected:11}  {name}: GDAL {gdal}; tiffjet {said[1]}")
    for (expected, gdal), count in sorted(counts.items()):
        print(f"{count:4} files that must be {expected}: GDAL {gdal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
