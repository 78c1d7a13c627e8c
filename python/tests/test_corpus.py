"""Parity with rioxarray: CRS, transform, nodata, pixels of every file of a corpus that both open.

TIFFJET_CORPUS names a folder of TIFFs. Differences that are meant are in docs/reference/rioxarray.md, by name.
"""

import os
import pathlib
import subprocess
import sys

import pytest

CORPUS = os.environ.get("TIFFJET_CORPUS")


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS, reason="TIFFJET_CORPUS names no folder")
def test_parity_with_rioxarray():
    pytest.importorskip("rioxarray")
    script = pathlib.Path(__file__).with_name("parity.py")
    outcome = subprocess.run([sys.executable, str(script), CORPUS], capture_output=True, text=True)
    print(outcome.stdout[-10_000:])
    assert outcome.returncode == 0, outcome.stdout[-3000:] + outcome.stderr[-3000:]
