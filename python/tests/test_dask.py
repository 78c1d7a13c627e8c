"""dask arrays: chunks of whole tiles, streamed writes that give the same bytes."""

import io
import pickle

import numpy
import pytest

import tiffjet
from conftest import read

xarray = pytest.importorskip("xarray")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


def file_of(data, **options):
    """The bytes of the file that an array becomes."""
    stream = io.BytesIO()
    tiffjet.to_geotiff(data, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize(("chunks", "expected"), [
    ("auto", ((3,), (700,), (900,))), ({}, ((3,), (700,), (900,))), (True, ((3,), (700,), (900,))), (-1, ((3,), (700,), (900,))),
    (256, ((3,), (256, 256, 188), (256, 256, 256, 132))), ((350, 900), ((3,), (350, 350), (900,))),
    ((1, 700, 450), ((1, 1, 1), (700,), (450, 450))), ({"band": 1}, ((1, 1, 1), (700,), (900,))),
    ({"y": 512, "x": "auto"}, ((3,), (512, 188), (900,))), ({"x": (100, 800)}, ((3,), (700,), (100, 800))),
])
def test_chunks_of_all_kinds(cog, pixels, chunks, expected):
    array = tiffjet.open_geotiff(cog, chunks=chunks)
    assert array.chunks == expected and (array.values == pixels).all()


def test_chunks_that_make_no_sense(cog):
    for chunks in ({"z": 5}, (1, 2, 3, 4), {"y": (1, 2)}):
        with pytest.raises(ValueError):
            tiffjet.open_geotiff(cog, chunks=chunks)


def test_automatic_chunks_are_whole_tiles(cog):
    with dask.config.set({"array.chunk-size": "200kB"}):
        sizes = tiffjet.open_geotiff(cog, chunks="auto").chunks
    assert len(sizes[1]) > 1 and len(sizes[2]) > 1
    assert all(size % 128 == 0 for axis in sizes[1:] for size in axis[:-1])
    tiffjet.to_geotiff(numpy.zeros((4000, 5000), "uint8"), "large.tif", tile_size=128, sparse=True)
    for chunks in ({}, "auto"):
        sizes = xarray.open_dataset("large.tif", engine="tiffjet", chunks=chunks).band_data.chunks
        assert all(size % 128 == 0 for axis in sizes[1:] for size in axis[:-1])


def test_the_graph_is_small_and_holds_no_handles(cog):
    array = tiffjet.open_geotiff(cog, chunks=128)
    tasks = 6 * 8
    assert len(pickle.dumps(array.data)) < 500 * tasks + 20_000
    assert array.data.name == tiffjet.open_geotiff(cog, chunks=128).data.name
    assert array.data.name != tiffjet.open_geotiff(cog, chunks=128, masked=True).data.name


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_schedulers(cog, pixels, scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        array = tiffjet.open_geotiff(cog, chunks={"y": 300})
        assert (array.values == pixels).all()
        assert file_of(array) == file_of(array.compute())


def test_a_header_is_parsed_once_in_a_process(cog, monkeypatch):
    from tiffjet import _files

    array = tiffjet.open_geotiff(cog, chunks=128)
    data = pickle.dumps(array)
    opened = []
    reopen = _files._tiffjet._reopen

    class Counting:
        def __getattr__(self, name):
            return getattr(real, name)

        @staticmethod
        def _reopen(*arguments):
            opened.append(arguments)
            return reopen(*arguments)

    real = _files._tiffjet
    monkeypatch.setattr(_files, "_tiffjet", Counting())
    _files._images.forget()
    pickle.loads(data).compute(scheduler="threads", num_workers=8)
    assert len(opened) == 1


def test_a_file_that_changed_is_not_read_by_an_old_graph(cog, pixels):
    array = tiffjet.open_geotiff(cog, chunks=128)
    tiffjet.to_geotiff(pixels[::-1], cog)
    assert (array.values == pixels).all()  # the old file is still open here
    from tiffjet import _files

    _files._images.forget()
    with pytest.raises(OSError, match="changed"):
        array.compute()


CHUNKS = [((3,), (700,), (900,)), ((1, 2), (1, 299, 400), (333, 567)), ((1, 1, 1), (128,) * 5 + (60,), (900,)), ((3,), (7,) * 100, (450, 450))]


@pytest.mark.parametrize("options", [{}, {"cog": True, "tile_size": 128}, {"strips": True}, {"interleave": "band", "compression": "deflate"},
                                     {"memory": 1 << 20, "cog": True}])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_a_streamed_file_is_the_same(pixels, chunks, options):
    expected = file_of(pixels, crs=32633, **{**options, "memory": None})
    assert file_of(da.from_array(pixels, chunks), crs=32633, **options) == expected


def test_band_last_and_holes(pixels):
    holes = numpy.where(pixels % 5 == 0, numpy.nan, pixels).astype("float32")
    expected = file_of(holes, nodata=-9999, cog=True, tile_size=128)
    last = da.from_array(holes.transpose(1, 2, 0), (211, 900, 1))
    streamed = file_of(xarray.DataArray(last, dims=("y", "x", "band")), nodata=-9999, cog=True, tile_size=128)
    assert streamed == expected
    assert (read(streamed) == numpy.where(numpy.isnan(holes), -9999, holes)).all()


def test_a_mask_goes_along(pixels):
    mask = pixels[0] > 300
    expected = file_of(pixels, mask=mask, cog=True)
    assert file_of(da.from_array(pixels, (3, 100, 900)), mask=da.from_array(mask, (50, 300)), cog=True) == expected


def test_every_chunk_is_computed_once(pixels):
    counts = {}

    def count(block, block_info=None):
        key = tuple(block_info[0]["chunk-location"])
        counts[key] = counts.get(key, 0) + 1
        return block

    for memory in (None, 1 << 20, 4 << 20):
        counts.clear()
        source = da.from_array(pixels, (1, 190, 333)).map_blocks(count, dtype=pixels.dtype, meta=numpy.empty((0, 0, 0), "uint16"))
        assert file_of(source, tile_size=256, memory=memory) == file_of(pixels, tile_size=256)
        assert set(counts.values()) == {1} and len(counts) == 3 * 4 * 3


def test_no_more_is_computed_ahead_than_fits():
    """Rows of chunks that are computed and not yet written: no more than the memory holds."""
    import threading

    state = {"done": 0, "most": 0, "written": 0}
    lock = threading.Lock()

    def block(block_info=None):
        with lock:
            state["done"] += 1
            state["most"] = max(state["most"], state["done"] - state["written"])
        return numpy.ones((1, 100, 1000), "uint8")

    def progress(rows, _):
        with lock:
            state["written"] = rows // 100

    source = da.map_blocks(block, chunks=((1,), (100,) * 40, (1000,)), dtype="uint8", meta=numpy.empty((0, 0, 0), "uint8"))
    tiffjet.to_geotiff(source, io.BytesIO(), memory=800_000, tile_size=16, progress=progress)
    assert state["done"] == 40 and state["most"] <= 4


def test_errors_of_tasks_come_through(folder):
    def fail(block):
        raise ZeroDivisionError("in a task")

    source = da.zeros((3, 100, 100), chunks=(3, 50, 100)).map_blocks(fail, dtype=float, meta=numpy.empty((0, 0, 0)))
    with pytest.raises(ZeroDivisionError, match="in a task"):
        tiffjet.to_geotiff(source, "failed.tif")
    assert not list(folder.iterdir())


def test_unknown_chunks_are_refused():
    source = da.from_array(numpy.arange(12).reshape(3, 4), (1, 4))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        file_of(source[source[:, 0] > 0])


def test_lazy_arrays_without_dask_are_streamed_too(cog, pixels):
    assert file_of(tiffjet.open_geotiff(cog).drop_attrs()) == file_of(tiffjet.open_geotiff(cog).drop_attrs().compute())
