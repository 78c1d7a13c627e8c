"""What all tests share: small files made by the package itself, in a folder of their own."""

import os

# Where there is a GPU, `auto` would take it, and these tests are about the rest; test_cuda.py is run by `make test-gpu`.
if not os.environ.get("TIFFJET_TEST_CUDA"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy  # noqa: E402
import pytest  # noqa: E402

import tiffjet  # noqa: E402

GRID = (10.0, 0.0, 500000.0, 0.0, -10.0, 6000000.0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def pixels():
    """Three bands that compress a little, 700 rows, 900 columns."""
    y, x = numpy.mgrid[:700, :900]
    noise = numpy.random.default_rng(1).integers(0, 16, (3, 700, 900))
    return (numpy.stack([y + x, 2 * y, 3 * x]) + noise).astype("uint16")


@pytest.fixture
def cog(pixels, folder):
    """A georeferenced COG of them with tiles of 128 and nodata 7."""
    tiffjet.to_geotiff(pixels, "cog.tif", crs=32633, transform=GRID, nodata=7, cog=True, tile_size=128,
                       descriptions=["red", "green", "blue"])
    return str(folder / "cog.tif")


def read(path, **options):
    """All pixels as a NumPy array."""
    return numpy.asarray(tiffjet.open(path).read(**{"device": "cpu", **options}))
