"""The short matrix of ways to write, judged by GDAL, tifffile and rio-cogeo in an environment of their own."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")


def judges() -> Path:
    """The Python that has the judges, made where it is missing."""
    folder = ROOT / "build" / "judges"
    python, ready, wanted = folder / "bin" / "python", folder / "ready", ROOT / "scripts" / "judges.txt"
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted.read_text(encoding="utf-8"):
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
        for command in ([sys.executable, "-m", "venv", "--clear", folder], [*pip, "--requirement", wanted]):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                raise unittest.SkipTest(f"the judges can't be installed: {made.stderr.strip()[-200:]}")
        ready.write_text(wanted.read_text(encoding="utf-8"), encoding="utf-8")
    return python


class Written(unittest.TestCase):
    def test_others_read_what_was_written(self):
        python = judges()
        with tempfile.TemporaryDirectory() as folder:
            example = [CARGO, "run", "--locked", "--quiet", "--package", "tiffjet-cli", "--example", "matrix", "--"]
            subprocess.run([*example, folder, "--short"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            script = ROOT / "scripts" / "judge_written.py"
            told = subprocess.run([python, "-B", script, folder], capture_output=True, text=True, check=False)
            print(told.stdout, told.stderr, sep="", file=sys.stderr)
            self.assertEqual(told.returncode, 0)


if __name__ == "__main__":
    unittest.main()
