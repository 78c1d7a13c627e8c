#!/usr/bin/env python3
"""Licences, bans, sources and wildcards of dependencies, by what deny.toml says: for where cargo-deny is not there.

Known holes and several versions of one crate are cargo-deny's to tell. Exit 1 where a crate breaks a rule.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def allows(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met with these licences alone."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def taken(word: str) -> bool:
        return words[:1] == [word] and bool(words.pop(0))

    def either() -> bool:
        met = both()
        while taken("OR"):
            met = both() or met
        return met

    def both() -> bool:
        met = one()
        while taken("AND"):
            met = one() and met
        return met

    def one() -> bool:
        if taken("("):
            met = either()
            return taken(")") and met
        licence = words.pop(0) if words else ""
        return (f"{licence} WITH {words.pop(0) if words else ''}" if taken("WITH") else licence) in allowed

    return either() and not words


def breaches(packages: list[dict], rules: dict) -> list[str]:
    allowed = set(rules["licenses"]["allow"])
    banned = {ban["crate"]: ban["reason"] for ban in rules["bans"]["deny"]}
    found = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] not in (None, REGISTRY):
            found.append(f"{name}: comes from {package['source']}")
        if not allows(package["license"] or "nothing", allowed):
            found.append(f"{name}: its licence is {package['license']}")
        if package["name"] in banned:
            found.append(f"{name}: {banned[package['name']]}")
        if package["source"] is None:
            wild = [need["name"] for need in package["dependencies"] if need["req"] == "*" and not need.get("path")]
            found += [f"{name}: any version of {need}" for need in wild]
    return found


def main() -> int:
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    packages = [package for package in metadata["packages"] if package["id"] in used]
    found = breaches(packages, rules)
    print(*found, f"{len(packages)} crates, {len(found)} breaches of deny.toml", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
