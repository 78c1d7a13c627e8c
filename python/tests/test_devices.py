"""Several devices: which chunk is where, who encodes what, and that trouble with one is its own. The devices are simulated."""

import io
import sys
import threading

import numpy
import pytest

import simulated
import tiffjet
from tiffjet import _devices

pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

NAMES = ["cuda:0", "cuda:1", "cuda:2"]


@pytest.fixture
def three(monkeypatch):
    """Three GPUs of memory of the host."""
    monkeypatch.setitem(sys.modules, "cupy", simulated.cupy())
    monkeypatch.setattr(_devices, "usable", lambda: NAMES)
    monkeypatch.setattr(_devices, "check", lambda device: None)


class Recorded:
    """An image on simulated devices: reads are the CPU's, and their pixels are put where they were asked for."""

    def __init__(self, image, broken=None):
        self.image, self.broken, self.asked = image, broken, []
        self.lock = threading.Lock()

    def __getattr__(self, name):
        return getattr(self.image, name)

    def read(self, window, bands, level, device, *, fallback, io):
        with self.lock:
            self.asked.append((window, device))
        if device == self.broken:
            raise RuntimeError(f"{device} is lost")
        values = numpy.array(numpy.asarray(self.image.read(window, bands, level, "cpu")))
        return values if device == "cpu" else simulated.Array(values, int(str(device).removeprefix("cuda:")))


def open_on(cog, device, chunks=256, broken=None):
    """A dask array whose chunks are read on simulated devices, and the image that tells what was asked of it."""
    from tiffjet._files import Held
    from tiffjet.dask import from_pixels
    from tiffjet.xarray import Pixels

    image = Recorded(tiffjet.open(cog), broken)
    return from_pixels(Pixels(Held(image), device=device), chunks), image


def blocks(array, **options):
    """All blocks computed, by index."""
    delayed = array.to_delayed()
    found = dask.compute(*delayed.ravel().tolist(), **options)
    return {index: found[i] for i, index in enumerate(numpy.ndindex(delayed.shape))}


@pytest.mark.parametrize(("device", "due"), [
    (["cuda:0", "cuda:1"], lambda index, number: number % 2), ([2, "cuda:0", 1], lambda index, number: (2, 0, 1)[number % 3]),
    ("cuda:all", lambda index, number: number % 3), (lambda index: f"cuda:{index[1] % 3}", lambda index, number: index[1] % 3),
    ("cuda:1", lambda index, number: 1), (2, lambda index, number: 2),
])
def test_every_chunk_is_on_its_device(three, cog, pixels, device, due):
    array, _ = open_on(cog, device)
    for number, (index, block) in enumerate(blocks(array, scheduler="threads", num_workers=4).items()):
        _, i, j = index
        assert block.number == due(index, number)
        assert numpy.array_equal(block.values, pixels[:, 256 * i : 256 * i + 256, 256 * j : 256 * j + 256])


def test_a_turn_is_taken_where_the_chunk_is_read(cog, monkeypatch, three):
    array, image = open_on(cog, "cuda:all")
    monkeypatch.setattr(_devices, "usable", lambda: NAMES[:1])  # a worker with one GPU of its own
    assert {block.number for block in blocks(array, scheduler="sync").values()} == {0}
    monkeypatch.setattr(_devices, "usable", lambda: [])
    with pytest.raises(tiffjet.UnavailableError, match="cuda:all"):
        blocks(array, scheduler="sync")


def test_trouble_with_one_device_is_its_own(three, cog, pixels):
    array, _ = open_on(cog, NAMES, broken="cuda:1")
    delayed = array.to_delayed().ravel().tolist()
    for number, block in enumerate(delayed):
        if number % 3 == 1:
            with pytest.raises(RuntimeError, match="cuda:1 is lost"):
                block.compute(scheduler="threads")
        else:
            assert block.compute(scheduler="threads").number == number % 3


def test_what_is_no_device(cog):
    for bad in ([], ["cuda:all"], [None], [["cpu"]]):
        with pytest.raises(ValueError, match="device"):
            tiffjet.open_geotiff(cog, device=bad, chunks=256)
    with pytest.raises(ValueError, match="chunks"):
        tiffjet.open_geotiff(cog, device=["cpu", "cpu"])
    array = tiffjet.open_geotiff(cog, device=["cpu", "cpu"], chunks=256)
    assert isinstance(array.values, numpy.ndarray)


class Encoders:
    """Encoders of simulated devices: each takes what is on its own, and what it makes is the CPU's."""

    def __init__(self, spec_class, broken=None):
        self.real, self.used, self.broken = spec_class.encoder, [], broken

    def __call__(self, spec, device=None):
        device = device or spec.options["device"]
        host = self.real(spec, "cpu")
        outer = self

        class Encoder:
            levels, needs, reduce = host.levels, host.needs, host.reduce

            def encode(self, level, row, columns, data, mask=False):
                if device == outer.broken:
                    raise RuntimeError(f"{device} is lost")
                outer.used.append((level, mask, device))
                if isinstance(data, simulated.Array):
                    assert device == f"cuda:{data.number}"
                    data = numpy.ascontiguousarray(data.values).reshape(-1).view("uint8")
                return host.encode(level, row, columns, data, mask)

        return Encoder()


@pytest.fixture
def encoders(three, monkeypatch):
    from tiffjet import _parts

    made = Encoders(_parts.Spec)
    monkeypatch.setattr(_parts.Spec, "encoder", lambda self, device=None: made(self, device))
    return made


def spread(pixels, chunks, on=lambda index: sum(index) % 3):
    """A dask array whose chunks are on simulated devices."""
    def place(block, block_info=None):
        return simulated.Array(numpy.array(block), on(block_info[0]["chunk-location"]))

    array = da.from_array(pixels, chunks=chunks)
    return array.map_blocks(place, dtype=pixels.dtype, meta=simulated.Array(numpy.empty((0, 0, 0), pixels.dtype), 0))


@pytest.mark.parametrize("chunks", [(3, 128, 256), (3, 700, 128), (1, 150, 400), (2, 90, 333), (3, 256, 900)])
@pytest.mark.parametrize("options", [{"cog": True}, {"compression": "deflate"}, {"cog": True, "interleave": "band", "resampling": "cubic"}])
def test_chunks_are_encoded_where_they_are(encoders, pixels, chunks, options):
    due, found = io.BytesIO(), io.BytesIO()
    tiffjet.to_geotiff(pixels, due, tile_size=128, **options)
    tiffjet.to_geotiff(spread(pixels, chunks), found, tile_size=128, **options)
    assert found.getvalue() == due.getvalue()
    if chunks[2] % 128 == 0 or chunks[2] == 900:
        assert len({device for level, _, device in encoders.used if level == 0}) == 3
    assert {device for level, _, device in encoders.used if level > 0} <= {"cuda:0"}


def test_masks_nan_and_devices(encoders, pixels):
    values = pixels.astype("float32")
    values[:, 50:80, 100:300] = numpy.nan
    mask = pixels[0] % 5 > 0
    due, found = io.BytesIO(), io.BytesIO()
    options = {"tile_size": 128, "cog": True, "nodata": -1}
    tiffjet.to_geotiff(values, due, mask=mask, **options)
    tiffjet.to_geotiff(spread(values, (3, 128, 256)), found, mask=da.from_array(mask, chunks=200), **options)
    assert found.getvalue() == due.getvalue()


def test_an_encoder_that_fails_ends_the_write(encoders, pixels, folder):
    encoders.broken = "cuda:1"
    with pytest.raises(RuntimeError, match="cuda:1 is lost"):
        tiffjet.to_geotiff(spread(pixels, (3, 128, 256)), "lost.tif", tile_size=128)
    assert list(folder.iterdir()) == []
    tiffjet.to_geotiff(spread(pixels, (3, 128, 256), lambda index: 2), "kept.tif", tile_size=128)
    assert (folder / "kept.tif").exists()
