"""Every snippet of the documentation and the README runs, page by page, in a folder with the files it speaks of.

A snippet whose first line is `# needs a GPU` runs where TIFFJET_TEST_CUDA says that there is one, and `# needs PyTorch` where that is
installed; otherwise it is compiled. Those of guides/remote.md run in test_remote.py, beside servers.
"""

import importlib.util
import os
import pathlib
import re

import numpy
import pytest

import tiffjet

ROOT = pathlib.Path(__file__).parents[2]
ELSEWHERE = {"remote.md"}
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GRID = (10.0, 0.0, 500000.0, 0.0, -10.0, 6000000.0)


def pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if SNIPPET.search(page.read_text()) and page.name not in ELSEWHERE]


def missing(snippet):
    """Why a snippet can't run here."""
    first = snippet.splitlines()[0]
    if first.startswith("# needs a GPU") and not os.environ.get("TIFFJET_TEST_CUDA"):
        return "no GPU"
    if first.startswith("# needs PyTorch") and importlib.util.find_spec("torch") is None:
        return "no PyTorch"
    # Parts of the package that a build may not have yet.
    for name, part in {"open_mosaic": "mosaic", "tiffjet.windows": "windows", "tiffjet.torch": "torch"}.items():
        if name in snippet and importlib.util.find_spec(f"tiffjet.{part}") is None:
            return f"no tiffjet.{part}"
    return None


@pytest.fixture
def files(folder):
    rng = numpy.random.default_rng(1)
    scene = rng.integers(0, 4000, (4, 1200, 1600)).astype("uint16")
    tiffjet.to_geotiff(scene, "scene.tif", crs=32633, transform=GRID, tile_size=256)
    y, x = numpy.mgrid[:400, :500]
    dem = (1000 + 300 * numpy.sin(x / 60) * numpy.cos(y / 50)).astype("float32")
    dem[:20] = -9999
    tiffjet.to_geotiff(dem, "dem.tif", crs=32633, transform=GRID, nodata=-9999, cog=True, tile_size=128)


def test_there_are_snippets():
    assert len(pages()) >= 12


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets(page, files):
    for needed in ("xarray", "dask", "distributed", "pyproj"):
        pytest.importorskip(needed)
    names, left_out = {"__name__": "__main__"}, []
    for number, snippet in enumerate(SNIPPET.findall(page.read_text()), 1):
        code = compile(snippet, f"{page.name}, snippet {number}", "exec")
        why = missing(snippet)
        if why:
            left_out.append(f"snippet {number}: {why}")
        else:
            exec(code, names)
    if left_out:
        pytest.skip("; ".join(left_out) + "; the others ran")
