#!/usr/bin/env python3
"""Do packed crates have all that they need: every file they include, and no test data.

    python scripts/check_crates.py FOLDER    where `cargo package --list` left tiffjet.files and its like
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("tiffjet", "tiffjet-cuda", "tiffjet-cli")
INCLUDE = re.compile(r"include(?:_str|_bytes)!\(\s*\"([^\"]+)\"")
NEEDED = ("categories", "description", "keywords", "license", "readme", "repository", "version")


def findings(crate: str, files: set[str]) -> list[str]:
    folder = ROOT / "crates" / crate
    found = []
    for path in sorted((folder / "src").rglob("*.rs")):
        text = re.sub(r"#\[cfg\(doctest\)\]\n.*\n", "", path.read_text())
        for target in INCLUDE.findall(text):
            wanted = (path.parent / target).resolve()
            if not wanted.is_relative_to(folder) or wanted.relative_to(folder).as_posix() not in files:
                found.append(f"{path.relative_to(ROOT)} includes {target}, which is not packed")
    package = tomllib.loads((folder / "Cargo.toml").read_text())["package"]
    found += [f"{crate} has no {key}" for key in NEEDED if not package.get(key)]
    found += [f"{crate} packs {name}" for name in files if name.endswith((".tif", ".whl", ".so"))]
    return found


def main(folder: str) -> int:
    found = []
    for crate in CRATES:
        files = set((Path(folder) / f"{crate}.files").read_text().splitlines())
        found += findings(crate, files)
        print(f"{crate}: {len(files)} files")
    for what in found:
        print(what, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
