#!/usr/bin/env python3
"""Serves one Python engine over the line protocol: a request a line on stdin, a JSON object a line on stdout.

    python bench/serve.py MODULE [ARGUMENT...]

    versions                           {"NAME": "VERSION", ...}
    read PATH                          {"wall": s, "cpu": s}         the whole image, opened and closed
    check PATH OUT                     {"shape": [b, y, x], "dtype": "float32"}; OUT gets the pixels, native byte order
    open PATH COUNT                    {"wall": s, "cpu": s}         of one open, the mean of COUNT
    windows PATH SEED COUNT HEIGHT WIDTH   {"seconds": [s, ...]}     random windows, the file kept open between requests
    checkwindows PATH SEED COUNT HEIGHT WIDTH OUT   {"dtype": ...}; OUT gets the pixels of one window after the other

Anything that fails answers {"error": "..."}; the engine goes on. Arguments are separated by tabs. Clocks are inside the
process: seconds of wall time, and of CPU time over all its threads.
"""

import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from windows import SIDE, windows


class Server:
    def __init__(self, adapter):
        self.adapter = adapter
        self.kept = (None, None)

    def versions(self):
        return self.adapter.versions()

    def read(self, path):
        if hasattr(self.adapter, "prepare"):
            self.adapter.prepare(path)
        gc.collect()
        return clocked(lambda: self.adapter.read(path))

    def check(self, path, out):
        pixels = np.ascontiguousarray(self.adapter.bands_first(np.asarray(self.adapter.read(path))))
        pixels.tofile(out)
        return {"shape": pixels.shape, "dtype": str(pixels.dtype)}

    def open(self, path, count):
        def opens():
            for _ in range(int(count)):
                self.adapter.close(self.adapter.open(path))

        gc.collect()
        return {clock: seconds / int(count) for clock, seconds in clocked(opens).items()}

    def windows(self, path, seed, count, height, width):
        handle = self._keep(path)
        seconds = []
        for row, col in windows(int(seed), int(count), int(height), int(width)):
            start = time.perf_counter()
            pixels = self.adapter.window(handle, row, col, SIDE)
            seconds.append(time.perf_counter() - start)
            del pixels
        return {"seconds": seconds}

    def checkwindows(self, path, seed, count, height, width, out):
        handle = self._keep(path)
        with Path(out).open("wb") as file:
            for row, col in windows(int(seed), int(count), int(height), int(width)):
                pixels = np.asarray(self.adapter.window(handle, row, col, SIDE))
                np.ascontiguousarray(self.adapter.bands_first(pixels)).tofile(file)
        return {"dtype": str(pixels.dtype)}

    def _keep(self, path):
        if self.kept[0] != path:
            if self.kept[0] is not None:
                self.adapter.close(self.kept[1])
            self.kept = (None, None)
            self.kept = (path, self.adapter.open(path))
        return self.kept[1]


def clocked(call):
    """Wall and CPU seconds of a call. Its result is freed after the clocks stop."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    del result
    return {"wall": wall, "cpu": cpu}


REQUESTS = ("versions", "read", "check", "open", "windows", "checkwindows")


def answer(server, line):
    verb, *arguments = line.rstrip("\n").split("\t")
    if verb not in REQUESTS:
        return {"error": f"unknown request: {verb}"}
    try:
        return getattr(server, verb)(*arguments)
    except Exception as error:  # whatever a rival raises is its answer
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main():
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not look like a reply
    module, *arguments = sys.argv[1:]
    server = Server(importlib.import_module(f"engines.{module}").adapter(*arguments))
    for line in sys.stdin:
        print(json.dumps(answer(server, line)), file=replies, flush=True)


if __name__ == "__main__":
    main()
