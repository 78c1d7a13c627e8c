"""Facts about the machine, and how busy others keep it."""

import os
import platform
import subprocess
import time
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
TICKS = os.sysconf("SC_CLK_TCK")

# glibc keeps what is freed, for every engine alike: a fresh page costs a page fault, on a virtual machine up to 13 us,
# which would be most of the time of a fast reader and says nothing about it.
WARM_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "20000000000", "MALLOC_ARENA_MAX": "1"}


def busy_seconds():
    """CPU seconds spent by everybody since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq + steal) / TICKS


class ForeignLoad:
    """Share of the machine's CPU time that others took between `start` and `stop`: 0 is quiet, 1 is every core."""

    def __init__(self):
        self.start()

    def start(self):
        self.busy, self.own, self.wall = busy_seconds(), time.process_time(), time.perf_counter()

    def stop(self, engine_cpu):
        wall = time.perf_counter() - self.wall
        foreign = busy_seconds() - self.busy - (time.process_time() - self.own) - engine_cpu
        return max(0.0, foreign / (wall * CORES))


def wait_for_quiet(limit, seconds):
    """Waits until the foreign load is below the limit, for so many seconds at most; tells how long that was."""
    start = time.perf_counter()
    while (waited := time.perf_counter() - start) < seconds:
        load = ForeignLoad()
        time.sleep(min(0.25, seconds - waited))
        if load.stop(0.0) <= limit:
            break
    return time.perf_counter() - start


def _field(path, key):
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "unknown")


def _git(*arguments):
    try:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def facts():
    """What a reader of the numbers must know of the machine."""
    return {
        "time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": CORES,
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "load": [round(x, 2) for x in os.getloadavg()],
        "commit": _git("rev-parse", "--short", "HEAD") + (" with changes" if _git("status", "--porcelain") else ""),
        "memory settings": WARM_MEMORY,
    }
