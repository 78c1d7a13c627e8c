"""dask.distributed: workers in processes of their own."""

import hashlib
import io
import multiprocessing
import os
import resource
import signal
import time

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


def slow_ramp(block_info=None):
    time.sleep(0.05)
    return ramp(block_info)


def test_a_worker_that_is_lost_costs_its_bands(folder):
    """Four workers, one of them killed in the middle: the file is whole, and nobody had more memory than it may."""
    size = SIZE // 2
    sizes = ((1,), (size // 16,) * 16, (size // 4,) * 4)
    options = {**OPTIONS, "tile_size": 128, "resampling": "cubic"}
    data = da.map_blocks(slow_ramp, chunks=sizes, dtype="float32", meta=numpy.empty((0, 0, 0), "float32"))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(write_ramp, ("whole.tif", size, options))
    killed = []
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None,
                                  memory_limit="2GiB") as cluster, distributed.Client(cluster) as client:
        scheduler, here = cluster.scheduler, peak()
        processes = client.run(os.getpid)

        def progress(rows, height):
            if rows > height // 3 and not killed:
                killed.append(next(iter(processes.values())))
                os.kill(killed[0], signal.SIGKILL)

        tiffjet.to_geotiff(data, "lost.tif", progress=progress, **options)
        deadline = time.monotonic() + 20
        while len(scheduler.tasks) >= 50 and time.monotonic() < deadline:
            time.sleep(0.1)  # what is let go is forgotten a little later
        left = len(scheduler.tasks)
    assert killed and digest("lost.tif") == digest("whole.tif")
    assert left < 50, left  # the scheduler remembers nothing of it
    # Scheduler and writer are this process; the image has 16 MiB at least, so what passed through them is not all of it.
    assert peak() - here < 256 << 20, peak() - here


def write_ramp(path, size, options):
    chunk = size // 16
    blocks = da.map_blocks(ramp, chunks=((1,), (chunk,) * 16, (chunk,) * 16), dtype="float32",
                           meta=numpy.empty((0, 0, 0), "float32"))
    tiffjet.to_geotiff(blocks.compute(scheduler="sync"), path, **options)


@pytest.mark.parametrize("options", [
    {"cog": True, "tile_size": 64}, {"tile_size": 128, "compression": "deflate"}, {"strips": True},
    {"cog": True, "tile_size": 32, "interleave": "band", "resampling": "cubic"}, {"cog": True, "compression": "none", "tile_size": 64},
    {"cog": True, "tile_size": (16, 64), "resampling": "gauss", "overviews": [2, 4, 8, 16, 32]},
    {"cog": True, "tile_size": 64, "mask": True}, {"tile_size": 64, "nodata": -1, "cog": True},
])
def test_bytes_are_those_of_a_local_write(client, pixels, options):
    values = pixels.astype("float32")
    values[:, 100:150, 30:90] = numpy.nan
    mask = pixels[0] % 5 > 0
    local = io.BytesIO()
    masked = options.get("mask")
    tiffjet.to_geotiff(values, local, **{**options, "mask": mask if masked else None})
    for chunks in ((3, 100, 900), (1, 150, 400), (2, 700, 333)):
        for given in (mask, da.from_array(mask, chunks=(130, 200))) if masked else (None,):
            far = io.BytesIO()
            tiffjet.to_geotiff(da.from_array(values, chunks=chunks), far, **{**options, "mask": given})
            assert far.getvalue() == local.getvalue(), chunks


def test_what_a_worker_says_is_raised_and_leaves_no_file(client, folder):
    def broken(block, block_info=None):
        if block_info[None]["chunk-location"][1] == 2:
            raise RuntimeError("no such pixels")
        return block

    data = da.ones((1, 512, 512), chunks=(1, 64, 512), dtype="uint8").map_blocks(broken, dtype="uint8", meta=numpy.empty((0, 0, 0), "uint8"))
    with pytest.raises(RuntimeError, match="no such pixels"):
        tiffjet.to_geotiff(data, "broken.tif", tile_size=64)
    assert not os.path.exists("broken.tif")


def test_pixels_do_not_come_back(client, folder):
    """Only encoded tiles travel: of an image that compresses well, nearly nothing."""
    data = da.zeros((1, 4096, 4096), chunks=(1, 512, 4096), dtype="uint16")
    asked = []

    def counted(future, direct):
        result = gather(future, direct=direct)
        asked.append(sum(len(tiles[-1]) for tiles in result))
        return result

    gather, client.gather = client.gather, counted
    try:
        tiffjet.to_geotiff(data, "zeros.tif", tile_size=256)
    finally:
        client.gather = gather
    assert asked and sum(asked) < 4096 * 4096 * 2 / 100
