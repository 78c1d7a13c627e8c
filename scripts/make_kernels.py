#!/usr/bin/env python3
"""Compiles `crates/tiffjet-cuda/kernels/*.cu` and packs the result into `kernels.bin`, which is committed.

NVRTC of two pinned wheels does it; no GPU and no CUDA toolkit is needed. The older one gives PTX that every driver since
CUDA 12.0 takes, for devices that are not in the list; the newer one gives machine code (cubins) for those that are.

    make_kernels.py           make kernels.bin; compiles only what changed since the last time
    make_kernels.py --check   make it again from nothing and compare with the committed file
    make_kernels.py --verbose also print what the compiler says of every kernel (registers, shared memory, spills)

kernels.bin, numbers little-endian:

    magic    8 bytes "TJKERNEL"
    version  u32 = 1
    count    u32
    sources  32 bytes, SHA-256 of all sources
    entries  count times: name (24 bytes, zeros after it), kind u32 (0 cubin, 1 PTX), arch u32 (90 is sm_90),
             offset u32 from the start of the file, packed u32, size u32 (bytes before and after unpacking), unused u32
    bodies   zlib streams

A cubin of sm_XY serves devices of the same X and a minor version of Y or more; PTX serves any device from its arch on.
"""

import argparse
import ctypes
import hashlib
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "crates/tiffjet-cuda/kernels"
PACKED = KERNELS / "kernels.bin"
BUILD = ROOT / "build/kernels"

MAGIC, VERSION = b"TJKERNEL", 1
HEAD, ENTRY = struct.Struct("<8sII32s"), struct.Struct("<24sIIIIII")
CUBIN, PTX = 0, 1

PACKAGE = "nvidia-cuda-nvrtc-cu12"
WHEELS = {
    "12.0.140": "8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071",
    "12.9.86": "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
}
# (NVRTC, kind, arch)
TARGETS = (
    ("12.0.140", PTX, 75),
    *(("12.9.86", CUBIN, arch) for arch in (75, 80, 90, 100, 120)),
)
# Runs of a compiler that may be needed to get the same code again.
AGAIN = 20
OPTIONS = ("--std=c++17", "--device-as-default-execution-space")


@dataclass(frozen=True)
class Entry:
    name: str
    kind: int
    arch: int
    body: bytes
    log: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        return self.name, self.kind, self.arch


def sources() -> list[Path]:
    return sorted(path for path in KERNELS.iterdir() if path.suffix in {".cu", ".cuh", ".h"})


def digest_of_sources() -> bytes:
    total = hashlib.sha256()
    for path in sources():
        total.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.digest()


def included(path: Path) -> dict[str, bytes]:
    """The headers that a source needs, by name; the emulation of a GPU is none of the device's."""
    found: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        for name in re.findall(r'^\s*#include "([^"]+)"', waiting.pop().read_text(encoding="utf-8"), re.MULTILINE):
            if name not in found and not name.startswith("emulate/"):
                found[name] = (KERNELS / name).read_bytes()
                waiting.append(KERNELS / name)
    return found


def nvrtc(version: str) -> Path:
    """The folder of the pinned libraries, fetched when they are not there."""
    folder = BUILD / f"nvrtc-{version}"
    if (folder / "ready").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--platform=manylinux1_x86_64", "--platform=manylinux2010_x86_64", "--dest", str(folder)]
    subprocess.run([*command, f"{PACKAGE}=={version}"], check=True)
    (wheel,) = folder.glob("*.whl")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != WHEELS[version]:
        raise SystemExit(f"{wheel} is not the file that is pinned")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.search(r"/libnvrtc(-builtins)?\.so\.[\d.]+$", name):
                (folder / Path(name).name).write_bytes(archive.read(name))
    wheel.unlink()
    (folder / "ready").touch()
    return folder


class Compiler:
    """NVRTC of one version. Two of them can't live in one process: they have one name."""

    def __init__(self, version: str):
        folder = nvrtc(version)
        (builtins,) = folder.glob("libnvrtc-builtins.so.*")
        ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "libnvrtc.so.12"))

    def call(self, name: str, *arguments: object) -> int:
        return getattr(self.library, name)(*arguments)

    def take(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        if self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size)):
            raise SystemExit(f"NVRTC has no {what}")
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def compile(self, path: Path, kind: int, arch: int) -> tuple[bytes, str]:
        headers = included(path)
        count = len(headers)
        program = ctypes.c_void_p()
        self.call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            path.read_bytes(),
            path.name.encode(),
            count,
            (ctypes.c_char_p * count)(*headers.values()),
            (ctypes.c_char_p * count)(*(name.encode() for name in headers)),
        )
        options = [*OPTIONS, f"--gpu-architecture={'compute' if kind == PTX else 'sm'}_{arch}"]
        if kind == CUBIN:
            options.append("--ptxas-options=-v")
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self.call("nvrtcCompileProgram", program, len(options), given)
        log = self.take(program, "ProgramLog").rstrip(b"\0").decode()
        if failed:
            raise SystemExit(f"{path.name} for arch {arch}:\n{log}")
        body = self.take(program, "PTX").rstrip(b"\0") + b"\0" if kind == PTX else self.take(program, "CUBIN")
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return body, log


def work(version: str, job: str) -> None:
    """A process of one NVRTC: a job is `name:kind:arch:file`; the log goes beside the file."""
    name, kind, arch, file = job.split(":", 3)
    body, log = Compiler(version).compile(KERNELS / f"{name}.cu", int(kind), int(arch))
    Path(f"{file}.log").write_text(log, encoding="utf-8")
    Path(file).write_bytes(body)


def compile_apart(version: str, job: str) -> None:
    """In a process of its own: what was compiled before changes what comes out."""
    subprocess.run([sys.executable, "-B", __file__, "--work", version, job], check=True)


def make(afresh: bool) -> list[Entry]:
    cache = BUILD / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    made: dict[tuple[str, int, int], Path] = {}
    jobs: list[tuple[str, str]] = []
    for path in (path for path in sources() if path.suffix == ".cu"):
        texts = hashlib.sha256(path.read_bytes())
        for name, text in sorted(included(path).items()):
            texts.update(name.encode() + b"\0" + hashlib.sha256(text).digest())
        for version, kind, arch in TARGETS:
            key = hashlib.sha256(repr((texts.hexdigest(), version, kind, arch, OPTIONS)).encode()).hexdigest()[:24]
            file = cache / f"{path.stem}-{arch}-{key}"
            made[path.stem, kind, arch] = file
            if afresh or not file.exists():
                jobs.append((version, f"{path.stem}:{kind}:{arch}:{file}"))
    for version in {version for version, _ in jobs}:
        nvrtc(version)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: compile_apart(*job), jobs))
    return [
        Entry(name, kind, arch, file.read_bytes(), Path(f"{file}.log").read_text(encoding="utf-8"))
        for (name, kind, arch), file in sorted(made.items())
    ]


def pack(entries: list[Entry], digest: bytes) -> bytes:
    index, bodies = [], b""
    start = HEAD.size + ENTRY.size * len(entries)
    for entry in entries:
        packed = zlib.compress(entry.body, 9)
        place = (start + len(bodies), len(packed), len(entry.body), 0)
        index.append(ENTRY.pack(entry.name.encode(), entry.kind, entry.arch, *place))
        bodies += packed
    return HEAD.pack(MAGIC, VERSION, len(entries), digest) + b"".join(index) + bodies


def unpack(data: bytes) -> tuple[bytes, list[Entry]]:
    """The hash of the sources and the entries of a packed file."""
    magic, version, count, digest = HEAD.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise SystemExit("kernels.bin is of another kind or version")
    entries = []
    for i in range(count):
        name, kind, arch, offset, packed, size, _ = ENTRY.unpack_from(data, HEAD.size + i * ENTRY.size)
        body = zlib.decompress(data[offset : offset + packed])
        if len(body) != size:
            raise SystemExit(f"entry {i} of kernels.bin has a wrong size")
        entries.append(Entry(name.rstrip(b"\0").decode(), kind, arch, body))
    return digest, entries


def comes_again(key: tuple[str, int, int], body: bytes) -> bool:
    """Whether a few more runs give these bytes: some kernels come out in one of two ways."""
    name, kind, arch = key
    (version,) = (version for version, *target in TARGETS if target == [kind, arch])
    file = BUILD / "again"
    for _ in range(AGAIN):
        compile_apart(version, f"{name}:{kind}:{arch}:{file}")
        if file.read_bytes() == body:
            return True
    return False


def check(entries: list[Entry]) -> list[str]:
    """What differs. The content is compared, not the bytes: zlib may pack otherwise elsewhere. The old compiler's PTX is not
    the same from one run to the next: that it compiles, and was made from these sources, must do."""
    if not PACKED.exists():
        return ["kernels.bin is not there"]
    digest, committed = unpack(PACKED.read_bytes())
    wrong = [] if digest == digest_of_sources() else ["kernels.bin was made from other sources"]
    old, new = ({entry.key: entry.body for entry in side} for side in (committed, entries))
    for key in sorted(old.keys() | new.keys()):
        if key not in old or key not in new or key[1] != PTX and old[key] != new[key] and not comes_again(key, old[key]):
            wrong.append(f"{key[0]} for arch {key[2]} differs")
    return wrong


def usage(log: str) -> list[str]:
    """`kernel: registers, ...` of each kernel, from what the compiler says of it."""
    lines, name, spills = [], "", ""
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif "bytes stack frame" in line:
            spills = line.removeprefix("ptxas").strip(" .")
        elif found := re.search(r"Used (\d+) registers", line):
            lines.append(f"{name}: {found[1]} registers, {spills}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return 0
    entries = make(afresh=arguments.check)
    for entry in entries:
        if entry.kind == CUBIN and (arguments.verbose or entry.arch == 90):
            for line in usage(entry.log):
                print(f"sm_{entry.arch} {line}")
    if arguments.check:
        wrong = check(entries)
        for line in wrong:
            print(f"{line}: run `make kernels` and commit the result", file=sys.stderr)
        return 1 if wrong else 0
    if check(entries):
        PACKED.write_bytes(pack(entries, digest_of_sources()))
    print(f"{PACKED.relative_to(ROOT)}: {len(entries)} entries, {PACKED.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
