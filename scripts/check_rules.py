#!/usr/bin/env python3
"""The rules of ARCHITECTURE.md that no compiler checks. Prints every breach as `file:line: what`, exit 1 when there is one.

A rule is a function from a tree to its breaches. Plain Python 3.11, nothing to install.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

# Who may use whom, apart from tests. A new crate is a line here.
DEPENDS = {
    "tiffjet": set(),
    "tiffjet-testkit": {"tiffjet"},  # conformance(&dyn Backend)
    "tiffjet-cuda": {"tiffjet"},
    "tiffjet-cli": {"tiffjet", "tiffjet-cuda"},
    "tiffjet-bench": {"tiffjet"},
    "tiffjet-python": {"tiffjet", "tiffjet-cuda"},
}

# Files where `unsafe` may stand.
UNSAFE = {
    "crates/tiffjet-python/src/buffer.rs",
    "crates/tiffjet-python/src/capsule.rs",
    "crates/tiffjet-python/src/tensor.rs",
    "crates/tiffjet-cli/tests/measured/mod.rs",
    "crates/tiffjet-cuda/src/ffi/cufile.rs",
    "crates/tiffjet-cuda/src/ffi/driver.rs",
    "crates/tiffjet-cuda/src/ffi/lend.rs",
    "crates/tiffjet-cuda/src/ffi/load.rs",
    "crates/tiffjet-cuda/src/ffi/nvcomp.rs",
    "crates/tiffjet-cuda/tests/encode.rs",
    "crates/tiffjet-cuda/src/ffi/nvjpeg.rs",
    "crates/tiffjet-cuda/src/ffi/nvjpeg2k.rs",
    "crates/tiffjet/src/codec/jpeg/avx2.rs",
    "crates/tiffjet/src/codec/jpeg/vectors.rs",
    "crates/tiffjet/src/codec/jpeg2000.rs",
    "crates/tiffjet/src/codec/webp.rs",
    "crates/tiffjet/src/cpu/canvas.rs",
    "crates/tiffjet/src/cpu/read.rs",
    "crates/tiffjet/src/cpu/stream.rs",
    "crates/tiffjet/src/cpu/team.rs",
    "crates/tiffjet/src/dlpack.rs",
    "crates/tiffjet/src/predictor/wide.rs",
    "crates/tiffjet/src/sink/mapped.rs",
    "crates/tiffjet/src/tensor.rs",
}

# Lines of a file, and the few that may have more.
LINES = 800
LONGER = {
    "crates/tiffjet-cuda/src/ffi/driver.rs": 850,  # one library
    "crates/tiffjet/src/codec/ccitt.rs": 1050,  # a third of it tests with an encoder of their own
    "crates/tiffjet/src/codec/jpeg/decode.rs": 850,  # one machine with one state
    "crates/tiffjet/src/geo/crs.rs": 950,  # a quarter of it tests
    "crates/tiffjet/tests/write.rs": 850,  # one matrix of what is written, and the ways to feed it
    "crates/tiffjet-testkit/src/builder.rs": 900,  # one builder, one method for each thing a TIFF can have
}

# Words that the core never says, not even in a comment: it serves every device and every language alike.
FOREIGN = re.compile(r"cuda|nvcomp|pyo3", re.IGNORECASE)

# What a folder of the core must not know, and why.
BLIND = {
    "plan": (
        r"std::(fs|io|os|net)\b|\b(Source|Sink|Head)\b|\bcrate::(source|sink|cpu|backend|image)\b",
        "plan does no I/O and knows no backend",
    ),
    "codec": (
        r"std::(fs|os|net)\b|\b(Source|Sink|Head|Directory)\b|\bcrate::(?!codec\b|dtype\b|error\b|predictor\b)\w+",
        "codec knows no file",
    ),
    "tiff": (
        r"\b(DType|SampleKind|Tensor|Layout)\b|\bcrate::(codec|predictor|tensor|layout|plan|cpu|backend|image|geo)\b",
        "tiff knows no pixels",
    ),
    "geo": (
        r"std::(fs|os|net)\b|\b(Source|Sink|Head)\b|\bcrate::(source|sink|cpu|backend|codec|plan)\b",
        "geo is pure: tags and texts in, meaning out",
    ),
}

UNFINISHED = re.compile(r"\b(todo|unimplemented|dbg)!")

# Features of crates with C inside that would take a library of the system, of whatever version it has.
SYSTEM_LIBRARY = {"pkg-config", "dynamic", "system-dylib"}
# Crates that look for a library of the system unless they are told not to.
NEEDS = {"liblzma-sys": "static"}

# Comments, strings and characters of Rust: what is no code.
NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | \bb?r(?P<hashes>\#*)".*?"(?P=hashes) | b?"(?:\\.|[^"\\])*" | b?'(?:\\[^']+|[^\\'\n])'""",
    re.DOTALL | re.VERBOSE,
)

Breach = tuple[str, int, str]


def rust_files(root: Path) -> Iterator[tuple[str, str]]:
    """Every Rust file of the project, by its path from the root, with its text."""
    for folder in ("crates", "bench", "fuzz"):
        for path in sorted((root / folder).rglob("*.rs")):
            if "target" not in path.relative_to(root).parts:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def code(text: str) -> str:
    """The text with comments and literals blanked, its lines where they were."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def lines_with(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := pattern.search(line):
            yield number, found[0]


def core_is_neutral(root: Path) -> Iterator[Breach]:
    for path, text in rust_files(root):
        if path.startswith("crates/tiffjet/src/"):
            for number, word in lines_with(FOREIGN, text):
                yield path, number, f"`{word}` has no place in the core"


def folders_are_blind(root: Path) -> Iterator[Breach]:
    for path, text in rust_files(root):
        for folder, (pattern, why) in BLIND.items():
            if path.startswith(f"crates/tiffjet/src/{folder}"):
                for number, word in lines_with(re.compile(pattern), code(text)):
                    yield path, number, f"`{word}`: {why}"


def unsafe_is_named(root: Path) -> Iterator[Breach]:
    """Clippy asks for a SAFETY comment on each block; here is where blocks may be, and that nobody silences Clippy."""
    used = set()
    for path, text in rust_files(root):
        for number, _ in lines_with(re.compile(r"\bunsafe\b"), code(text)):
            used.add(path)
            if path not in UNSAFE:
                yield path, number, "`unsafe` outside the files named in scripts/check_rules.py"
        for number, _ in lines_with(re.compile(r"allow\([^)]*undocumented_unsafe_blocks"), code(text)):
            yield path, number, "every unsafe block argues its case"
    for path in sorted(UNSAFE - used):
        if (root / path).exists():
            yield path, 1, "has no `unsafe` any more: take it off the list in scripts/check_rules.py"


def all_is_finished(root: Path) -> Iterator[Breach]:
    for path, text in rust_files(root):
        for number, word in lines_with(UNFINISHED, code(text)):
            yield path, number, f"`{word}` is left over"


def files_are_short(root: Path) -> Iterator[Breach]:
    for path, text in rust_files(root):
        length, allowed = len(text.splitlines()), LONGER.get(path, LINES)
        if length > allowed:
            yield path, allowed + 1, f"{length} lines, {allowed} are allowed: split it"


def crates_point_down(root: Path) -> Iterator[Breach]:
    """cli -> tiffjet; the testkit serves tests alone."""
    workspace = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    for member in workspace["members"]:
        for manifest in sorted(root.glob(f"{member}/Cargo.toml")):
            path = manifest.relative_to(root).as_posix()
            crate = tomllib.loads(manifest.read_text(encoding="utf-8"))
            name = crate["package"]["name"]
            if name not in DEPENDS:
                yield path, 1, f"{name} is not in DEPENDS of scripts/check_rules.py"
                continue
            used = set(crate.get("dependencies", {})) | set(crate.get("build-dependencies", {}))
            for other in sorted(used & set(DEPENDS) - DEPENDS[name]):
                yield path, 1, f"{name} must not depend on {other}"
            if crate.get("lints") != {"workspace": True}:
                yield path, 1, f"{name} does not take the lints of the workspace"


def c_libraries_are_vendored(root: Path) -> Iterator[Breach]:
    """A library of the system, of unknown version, must never be picked up in silence."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    for node in metadata["resolve"]["nodes"]:
        name, features = names[node["id"]], set(node["features"])
        if not name.endswith("-sys") or "windows" in name:
            continue
        for feature in sorted(features & SYSTEM_LIBRARY):
            yield "Cargo.lock", 1, f"{name} has feature `{feature}`: it would link a library of the system"
        if NEEDS.get(name, "") not in features | {""}:
            yield "Cargo.lock", 1, f"{name} lacks feature `{NEEDS[name]}`: it would link a library of the system"


RULES = (
    core_is_neutral,
    folders_are_blind,
    unsafe_is_named,
    all_is_finished,
    files_are_short,
    crates_point_down,
    c_libraries_are_vendored,
)


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    breaches = [breach for rule in RULES for breach in rule(root)]
    for path, number, what in breaches:
        print(f"{path}:{number}: {what}")
    print(f"{len(RULES)} rules, {len(breaches)} breaches", file=sys.stderr)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
