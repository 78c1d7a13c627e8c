#!/usr/bin/env python3
"""Installs the rivals into the Python that runs this: pinned ones where all have wheels (3.13), else what can be had.

    python bench/install.py

A rival that can't be installed is said and left out of the benchmark; what makes the data must be there.
"""

import re
import subprocess
import sys
from pathlib import Path

PINNED_FOR = (3, 13)
REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"
NEEDED = {"numpy", "rasterio", "tifffile", "imagecodecs"}
# Not pinned: there may be no wheel of it for this machine.
EXTRA = ["cog3pio"]


def pip(*arguments: str) -> bool:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", *arguments]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def main() -> int:
    names = re.findall(r"^([\w-]+)==", REQUIREMENTS.read_text(), re.MULTILINE)
    missing = []
    if sys.version_info[:2] != PINNED_FOR or not pip("-r", str(REQUIREMENTS)):
        print("the pinned rivals are for Python %d.%d: taking what there is for this one" % PINNED_FOR, flush=True)
        missing = [name for name in names if not pip(name)]
    missing += [name for name in EXTRA if not pip(name)]
    for name in missing:
        print(f"{name} can't be installed here", flush=True)
    return 1 if NEEDED & set(missing) else 0


if __name__ == "__main__":
    sys.exit(main())
