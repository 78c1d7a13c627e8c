#!/usr/bin/env python3
"""Is a wheel fit to be given away: tagged for old systems, one for all Pythons, stripped, small.

    python scripts/check_wheel.py WHEEL
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LARGEST = 20_000_000
OLDEST_GLIBC = (2, 36)


def needed_glibc(extension: Path) -> tuple[int, int]:
    """The newest glibc that a symbol of the extension asks for."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", extension.read_bytes())
    return max((int(major), int(minor)) for major, minor in versions)


def findings(wheel: Path) -> list[str]:
    found = []
    tag = re.fullmatch(r"tiffjet-[\w.]+-cp311-abi3-manylinux_(\d+)_(\d+)_(x86_64|aarch64)\.whl", wheel.name)
    if not tag:
        found.append("it is not tagged cp311-abi3-manylinux")
    if wheel.stat().st_size > LARGEST:
        found.append(f"it has {wheel.stat().st_size} bytes, {LARGEST} are allowed")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        extensions = [name for name in archive.namelist() if name.endswith(".so")]
        if extensions != ["tiffjet/_tiffjet.abi3.so"]:
            return [*found, f"extensions: {extensions}"]
        extension = Path(archive.extract(extensions[0], folder))
        glibc = needed_glibc(extension)
        if tag and glibc > (int(tag[1]), int(tag[2])):
            found.append(f"it asks for glibc {glibc[0]}.{glibc[1]}, which its tag does not say")
        if glibc > OLDEST_GLIBC:
            found.append(f"it asks for glibc {glibc[0]}.{glibc[1]}; {OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]} must do")
        symbols = subprocess.run(["readelf", "--section-headers", "--wide", extension], capture_output=True, text=True)
        if symbols.returncode == 0 and ".symtab" in symbols.stdout:
            found.append("it is not stripped")
        names = archive.namelist()
        for wanted in ("tiffjet/py.typed", "tiffjet/_tiffjet.pyi"):
            if wanted not in names:
                found.append(f"{wanted} is missing")
        found += [f"{name} does not belong there" for name in names if "/tests/" in name or name.endswith(".pyc")]
    return found


def main(path: str) -> int:
    wheel = Path(path)
    found = findings(wheel)
    for what in found:
        print(f"{wheel.name}: {what}", file=sys.stderr)
    if not found:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, one for every Python from 3.11 on, stripped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
