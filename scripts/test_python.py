#!/usr/bin/env python3
"""Builds the wheel and runs the Python suite from it, in fresh environments, on every Python that is found.

Each Python gets two: one with the wheel and what it needs alone, and one with all that it can work with. PyTorch is
added to one of them where its index of builds without CUDA can be reached (the builds on PyPI are gigabytes).

One of them gets the servers that tests of remote files talk to (the others come by `make servers`); with
TIFFJET_TEST_REMOTE=1 those tests must run there.

TIFFJET_PYTHONS="3.11 3.13" restricts the versions; TIFFJET_TORCH_INDEX names the index, empty for none; TIFFJET_LARGE=1
makes some tests large, in one environment.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "python"
OLDEST = (3, 11)
FULL = ["tiffjet[all]", "tifffile", "imagecodecs", "mypy", "nbclient", "nbformat", "ipykernel"]
REMOTE = ["moto[server,s3]", "gcp-storage-emulator", "s3fs", "obstore", "aiohttp"]
TORCH_INDEX = os.environ.get("TIFFJET_TORCH_INDEX", "https://download.pytorch.org/whl/cpu")


def run(*command: str | Path, **options) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)


def version_of(python: Path) -> tuple[int, int] | None:
    """Major and minor version of an interpreter; None when it can't make environments or is no CPython."""
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2], sys.implementation.name, getattr(sys, '_is_gil_enabled', bool)())"
    try:
        out = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    return (int(out[0]), int(out[1])) if out[2] == "cpython" else None


def find_pythons() -> dict[tuple[int, int], Path]:
    """One interpreter for each version from 3.11 on."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 30)] + ["python3"]
    found: dict[tuple[int, int], Path] = {}
    for python in [Path(sys.executable), *(folder / name for folder in folders for name in names)]:
        if python.exists():
            version = version_of(python)
            if version is not None and version >= OLDEST:
                found.setdefault(version, python)
    wanted = os.environ.get("TIFFJET_PYTHONS", "").split()
    chosen = {version: python for version, python in found.items() if not wanted or "%d.%d" % version in wanted}
    return dict(sorted((chosen or found).items()))


def make_environment(python: Path, name: str) -> Path:
    folder = BUILD / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python: Path, *packages: str) -> None:
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--find-links", BUILD / "wheels",
        *packages)


def build_wheel(python: Path) -> str:
    """The wheel, for all versions alike."""
    shutil.rmtree(BUILD / "wheels", ignore_errors=True)
    maturin = make_environment(python, "build-venv")
    install(maturin, "maturin>=1.9,<2")
    run(maturin.with_name("maturin"), "build", "--release", "--locked", "--out", BUILD / "wheels", cwd=ROOT)
    (wheel,) = (BUILD / "wheels").glob("tiffjet-*-abi3-*.whl")
    return str(wheel)


def add_torch(python: Path) -> None:
    """PyTorch without CUDA, where it can be had."""
    if not TORCH_INDEX:
        return
    command = [python, "-m", "pip", "install", "--quiet", "--retries", "0", "--timeout", "10", "--index-url", TORCH_INDEX, "torch"]
    if subprocess.run([str(part) for part in command], capture_output=True).returncode:
        print(f"PyTorch is not tested: {TORCH_INDEX} can't be reached", flush=True)


def run_suite(python: Path, name: str, large: bool, remote: bool) -> bool:
    print(f"\n=== python suite: {name}", flush=True)
    left_out = {"PYTHONPATH"}
    left_out |= set() if large else {"TIFFJET_LARGE"}
    left_out |= set() if remote else {"TIFFJET_TEST_REMOTE"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    # -P: the folder of the sources is not on the path, so what is imported is the wheel.
    command = [python, "-P", "-m", "pytest", ROOT / "python" / "tests", "-q", "-p", "no:cacheprovider", "-W",
               "ignore::PendingDeprecationWarning", f"--rootdir={ROOT}", "-c", ROOT / "pyproject.toml"]
    if not remote:  # once is enough for what talks to servers
        command += ["--ignore", ROOT / "python" / "tests" / "test_remote.py"]
    return subprocess.run([str(part) for part in command], cwd=BUILD, env=environment).returncode == 0


def main() -> int:
    pythons = find_pythons()
    if not pythons:
        sys.exit("no Python from 3.11 on was found")
    print("Pythons:", ", ".join("%d.%d" % version for version in pythons), flush=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel(next(iter(pythons.values())))
    failed = []
    for version, python in pythons.items():
        number = "%d.%d" % version
        bare = make_environment(python, f"{number}-bare")
        install(bare, wheel, "pytest")
        full = make_environment(python, f"{number}-full")
        install(full, wheel, "pytest", *FULL)
        last = python == list(pythons.values())[-1]
        if last:
            add_torch(full)
            install(full, *REMOTE)
        for environment, kind in ((bare, "bare"), (full, "full")):
            if not run_suite(environment, f"{number} {kind}", last, remote=last and kind == "full"):
                failed.append(f"{number} {kind}")
            shutil.rmtree(environment.parents[1])
    print("python suites failed: " + ", ".join(failed) if failed else "all python suites passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
