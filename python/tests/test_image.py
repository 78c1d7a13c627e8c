"""What an open file says of itself."""

import io
import logging
import os
import pickle

import numpy
import pytest

import tiffjet
from conftest import GRID, read


def test_the_header_says_it_all(cog):
    image = tiffjet.open(cog)
    assert (image.shape, image.dtype, image.pages, image.page) == ((3, 700, 900), numpy.dtype("uint16"), 1, 0)
    assert (image.transform, image.nodata, image.area_or_point) == (GRID, 7, "Area")
    assert image.bounds == (500000, 5993000, 509000, 6000000)
    assert image.descriptions == ["red", "green", "blue"]
    assert (image.compression, image.tile, image.tiled, image.interleave) == ("zstd", (128, 128), True, "pixel")
    assert (image.byte_order, image.bigtiff, image.file_size) == ("little", False, os.path.getsize(cog))
    assert [level.shape for level in image.levels] == [(3, 700, 900), (3, 350, 450), (3, 175, 225), (3, 87, 112)]
    assert image.levels[1].transform == (20, 0, 500000, 0, -20, 6000000)
    assert image.tags["ImageWidth"] == 900 and image.tags["BitsPerSample"] == (16, 16, 16)
    assert not image.has_mask and image.alpha_band is None and image.colormap is None and image.warnings == []
    assert repr(image) == f'Image("{cog}", shape=(3, 700, 900), dtype=uint16, zstd)'


def test_a_crs_speaks_to_pyproj(cog):
    crs = tiffjet.open(cog).crs
    assert (crs.epsg, str(crs), crs.to_epsg(), crs.name) == (32633, "EPSG:32633", 32633, "WGS 84 / UTM zone 33N")
    assert crs == tiffjet.Crs(32633) == tiffjet.Crs(crs.to_wkt()) == pickle.loads(pickle.dumps(crs))
    assert crs != tiffjet.Crs(4326) and len({crs, tiffjet.Crs("EPSG:32633")}) == 1
    pyproj = pytest.importorskip("pyproj")
    assert pyproj.CRS(crs).to_epsg() == 32633


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_sources_of_all_kinds_give_the_same(cog, pixels, kind):
    with open(cog, "rb") as file:
        image = tiffjet.open(kind(file.read()))
    assert (numpy.asarray(image.read()) == pixels).all()
    assert image.name.startswith("<")


def test_a_file_object_is_read_from_many_threads(cog, pixels):
    with open(cog, "rb") as file:
        image = tiffjet.open(file)
        assert image.name == cog
        assert (numpy.asarray(image.read()) == pixels).all()
        assert pytest.raises(TypeError, pickle.dumps, image)


def test_a_file_object_that_fails_is_heard(cog):
    class Broken(io.BytesIO):
        def read(self, n=-1):
            if self.tell() > 4096:
                raise ZeroDivisionError("the disk is gone")
            return super().read(n)

    with open(cog, "rb") as file:
        broken = Broken(file.read())
    with pytest.raises(ZeroDivisionError, match="the disk is gone"):
        tiffjet.open(broken).read()


def test_what_is_no_source_is_refused():
    with pytest.raises(TypeError, match="path, bytes or a binary file object"):
        tiffjet.open(3)
    with pytest.raises(NotImplementedError, match="ftp://"):
        tiffjet.open("ftp://example.com/x.tif")


def test_limits_have_names(cog):
    with pytest.raises(tiffjet.LimitError, match="cog.tif.*limit is 1000"):
        tiffjet.open(cog, limits={"output_bytes": 1000}).read()
    with pytest.raises(ValueError, match="none called"):
        tiffjet.open(cog, limits={"bytes": 1})


def test_pages_are_counted(cog):
    with pytest.raises(IndexError, match="page 1"):
        tiffjet.open(cog, page=1)


def test_an_image_is_pickled_by_its_path(cog, pixels):
    image = tiffjet.open(cog, limits={"levels": 2})
    data = pickle.dumps(image)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert (numpy.asarray(again.read()) == pixels).all() and again.version == image.version
    assert len(again.levels) == len(image.levels)


def test_a_changed_file_is_not_unpickled(cog, pixels):
    data = pickle.dumps(tiffjet.open(cog))
    tiffjet.to_geotiff(pixels[:1], cog)
    with pytest.raises(OSError, match="cog.tif: the file changed"):
        pickle.loads(data)


def test_bytes_are_pickled_along(cog, pixels):
    with open(cog, "rb") as file:
        image = pickle.loads(pickle.dumps(tiffjet.open(file.read())))
    assert (numpy.asarray(image.read()) == pixels).all()


def test_what_is_doubtful_is_logged(cog, caplog):
    with open(cog + ".ovr", "wb") as sidecar:
        sidecar.write(b"no TIFF")
    tiffjet.to_geotiff(read(cog), "plain.tif")
    os.rename(cog + ".ovr", "plain.tif.ovr")
    with caplog.at_level(logging.WARNING, "tiffjet"):
        image = tiffjet.open("plain.tif")
    assert image.warnings and "plain.tif" in caplog.text and "ovr" in caplog.text
    assert tiffjet.open("plain.tif", sidecars=False).warnings == []


def test_threads_share_an_image(cog, pixels):
    from concurrent.futures import ThreadPoolExecutor

    image = tiffjet.open(cog)
    windows = [((y, y + 100), (x, x + 90)) for y in range(0, 700, 100) for x in range(0, 900, 90)]
    with ThreadPoolExecutor(8) as pool:
        for ((y0, y1), (x0, x1)), tensor in zip(windows, pool.map(image.read, windows)):
            assert (numpy.asarray(tensor) == pixels[:, y0:y1, x0:x1]).all()
