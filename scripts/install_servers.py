#!/usr/bin/env python3
"""Puts the servers that tests of remote files talk to, and that are no Python packages, into build/servers.

azurite comes from npm, nginx from Debian's archive as packages that are unpacked there, not installed. What the machine
has already stays as it is. A server that can't be had is said, and the tests that need it are skipped with that reason.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "build" / "servers"
AZURITE = "azurite@3.35.0"


def run(*command: str | Path, **options) -> None:
    subprocess.run([str(part) for part in command], check=True, stdin=subprocess.DEVNULL, **options)


def install_azurite() -> None:
    folder = FOLDER / "azurite"
    if (folder / "node_modules" / ".bin" / "azurite-blob").exists() or shutil.which("azurite-blob"):
        return
    folder.mkdir(parents=True, exist_ok=True)
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, AZURITE)


def install_nginx() -> None:
    folder = FOLDER / "nginx"
    program = folder / "usr" / "sbin" / "nginx"
    if program.exists() or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin"):
        return
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    try:
        run("apt-get", "-qq", "download", "nginx", cwd=packages)
    except subprocess.CalledProcessError:
        run("apt-get", "-qq", "update")  # no list of packages yet
        run("apt-get", "-qq", "download", "nginx", cwd=packages)
    for package in packages.glob("*.deb"):
        run("dpkg-deb", "--extract", package, folder)
    run(program, "-v")


def main() -> int:
    missing = 0
    for name, install in (("azurite", install_azurite), ("nginx", install_nginx)):
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{name} can't be had here: {error}", file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
