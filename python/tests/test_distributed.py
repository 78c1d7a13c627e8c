"""dask.distributed: workers in processes of their own."""

import hashlib
import multiprocessing
import os
import resource

import numpy
import pytest

import tiffjet

distributed = pytest.importorskip("distributed")
pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")

# 16384 squared where it is asked for; a quarter of that each way takes seconds.
SIZE = 16384 if os.environ.get("TIFFJET_LARGE") else 4096


def peak():
    """The most memory that this process has ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None,
                                  memory_limit="2GiB") as cluster:
        with distributed.Client(cluster) as client:
            yield client


def ramp(block_info=None):
    """Values that depend on their place alone."""
    (y0, y1), (x0, x1) = block_info[None]["array-location"][-2:]
    y, x = numpy.ogrid[y0:y1, x0:x1]
    return ((y * 7 + x * 3) % 1009 + (x % 13) / 16).astype("float32")[None]


OPTIONS = {"crs": 32633, "transform": (10, 0, 0, 0, -10, 0), "cog": True, "compression_level": 1}


def make(size):
    chunk = size // 16
    sizes = ((1,), (chunk,) * 16, (chunk,) * 16)
    return da.map_blocks(ramp, chunks=sizes, dtype="float32", meta=numpy.empty((0, 0, 0), "float32"))


def write_eagerly(path, size):
    """In a process of its own, whose memory does not count: the sum of all pixels."""
    eager = make(size).compute(scheduler="sync")
    tiffjet.to_geotiff(eager, path, **OPTIONS)
    return float(eager.sum(dtype="float64"))


def test_open_compute_and_write(client, folder):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        total = pool.apply(write_eagerly, ("eager.tif", SIZE))
    expected, chunk, image = digest("eager.tif"), SIZE // 16, SIZE * SIZE * 4
    here, before = peak(), client.run(peak)
    tiffjet.to_geotiff(make(SIZE), "streamed.tif", **OPTIONS)
    assert digest("streamed.tif") == expected
    opened = tiffjet.open_geotiff("streamed.tif", chunks={"y": 2 * chunk, "x": 2 * chunk})
    assert float(opened.sum(dtype="float64")) == pytest.approx(total, rel=1e-12)
    tiffjet.to_geotiff(opened, "again.tif", **OPTIONS)
    assert digest("again.tif") == expected
    # No worker held more than some chunks of the image, and this process no more than it may use.
    grown = {worker: most - before[worker] for worker, most in client.run(peak).items()}
    assert all(growth < max(image // 4, 128 << 20) for growth in grown.values()), grown
    assert peak() - here < 640 << 20, peak() - here
