#!/usr/bin/env python3
"""One line for all the tests in a log of `cargo test`, `unittest` and `pytest`. Exit 1 when a test failed or none ran."""

import re
import sys
from pathlib import Path

CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
PYTEST = re.compile(r"^(?=.*\d+ (?:passed|failed|error))=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(.*)$", re.MULTILINE)


def summarize(log: str) -> tuple[int, int, int]:
    """Passed, failed, ignored."""
    runs = [tuple(map(int, run)) for run in CARGO.findall(log)]
    for count, outcome in UNITTEST.findall(log):
        failed = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", outcome)))
        skipped = sum(map(int, re.findall(r"skipped=(\d+)", outcome)))
        runs.append((int(count) - failed - skipped, failed, skipped))
    for outcome in PYTEST.findall(log):
        counts = {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", outcome)}
        broken = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
        runs.append((counts.get("passed", 0), broken, counts.get("skipped", 0)))
    passed, failed, ignored = (sum(column) for column in zip(*runs)) if runs else (0, 0, 0)
    return passed, failed, ignored


def main(log: str) -> int:
    passed, failed, ignored = summarize(Path(log).read_text(encoding="utf-8", errors="replace"))
    print(f"\n{passed} tests passed, {failed} failed, {ignored} ignored. The log is {log}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
