"""Writing what users have."""

import io
import os

import numpy
import pytest

import tiffjet
from conftest import GRID, read


def test_axes_of_plain_arrays(folder, pixels):
    tiffjet.to_geotiff(pixels[0], "two.tif")
    tiffjet.to_geotiff(pixels, "three.tif")
    assert (read("two.tif") == pixels[:1]).all() and (read("three.tif") == pixels).all()
    for data in (numpy.zeros(3), numpy.zeros((1, 2, 3, 4)), numpy.zeros((3, 0, 4)), numpy.zeros((2, 2), "datetime64[s]"),
                 numpy.array([["a"]])):
        with pytest.raises(ValueError, match="data:"):
            tiffjet.to_geotiff(data, "no.tif")
    assert sorted(os.listdir()) == ["three.tif", "two.tif"]


def test_what_was_written_is_told(folder, pixels):
    written = tiffjet.to_geotiff(pixels, "told.tif", cog=True, tile_size=256)
    assert (written.name, written.size) == ("told.tif", os.path.getsize("told.tif"))
    assert (written.levels, written.tiles, written.absent, written.bigtiff) == (3, 12 + 4 + 1, 0, False)


def test_views_and_other_byte_orders(folder, pixels):
    for view in (pixels[:, ::-1, ::2], pixels.transpose(0, 2, 1), pixels.astype(">u2"), numpy.asfortranarray(pixels)):
        tiffjet.to_geotiff(view, "view.tif")
        assert (read("view.tif") == view).all()
    tiffjet.to_geotiff(pixels[0] > 500, "bool.tif")
    assert (read("bool.tif")[0] == (pixels[0] > 500)).all()
    fixed = pixels.copy()
    fixed.flags.writeable = False
    tiffjet.to_geotiff(fixed, "fixed.tif")
    assert (read("fixed.tif") == pixels).all()


@pytest.mark.parametrize("options", [
    {}, {"cog": True}, {"strips": True}, {"compression": "deflate", "compression_level": 1}, {"compression": "lzw", "predictor": 2},
    {"compression": "none", "interleave": "band"}, {"tile_size": (64, 128)}, {"bigtiff": True}, {"overviews": [2, 4]},
    {"sparse": True, "nodata": 0}, {"predictor": "none", "resampling": "nearest", "cog": True},
])
def test_options_change_the_file_and_not_the_pixels(folder, pixels, options):
    tiffjet.to_geotiff(pixels, "options.tif", **options)
    image = tiffjet.open("options.tif")
    assert (numpy.asarray(image.read()) == pixels).all()
    assert image.compression == options.get("compression", "zstd")
    assert image.bigtiff == options.get("bigtiff", False) and image.tiled != options.get("strips", False)
    assert image.interleave == options.get("interleave", "pixel")
    verdict = tiffjet.validate("options.tif")
    assert verdict["valid"] and verdict["cog"] >= options.get("cog", False)


@pytest.mark.parametrize(("options", "error"), [
    ({"tile_size": 17}, ValueError), ({"tile_size": 0}, ValueError), ({"compression": "zip"}, ValueError),
    ({"nodata": -1}, ValueError), ({"nodata": 1.5}, ValueError), ({"nodata": "seven"}, ValueError), ({"crs": "nonsense["}, ValueError),
    ({"predictor": 4}, ValueError), ({"overviews": "some"}, ValueError), ({"overviews": [4, 2]}, ValueError),
    ({"resampling": "magic"}, ValueError), ({"bigtiff": "maybe"}, ValueError), ({"interleave": "line"}, ValueError),
    ({"photometric": "pink"}, ValueError), ({"memory": 0}, ValueError), ({"memory": "much"}, ValueError), ({"device": "tpu"}, ValueError),
    ({"fallback": "never"}, ValueError), ({"transform": (1, 2)}, ValueError), ({"mask": numpy.zeros((3, 3))}, ValueError),
    ({"strips": True, "tile_size": 256}, ValueError), ({"strips": True, "cog": True}, ValueError),
    ({"descriptions": ["one"]}, ValueError), ({"predictor": 3}, ValueError), ({"compression": "jpeg"}, (ValueError, NotImplementedError)),
    ({"colormap": {0: (1, 2, 300)}}, ValueError), ({"nan_to_nodata": True}, ValueError),
])
def test_bad_arguments_leave_no_file(folder, pixels, options, error):
    with pytest.raises(error):
        tiffjet.to_geotiff(pixels, "bad.tif", **options)
    assert os.listdir() == []


def test_an_unknown_device_is_told_apart_from_one_that_is_not_there(folder, pixels):
    if any(device["device"] != "cpu" for device in tiffjet.doctor()["devices"]):
        pytest.skip("there is one")
    with pytest.raises(tiffjet.UnavailableError, match="cuda"):
        tiffjet.to_geotiff(pixels, "cuda.tif", device="cuda")


def test_a_file_object_gets_the_same_bytes(folder, pixels):
    for options in ({}, {"cog": True}):
        tiffjet.to_geotiff(pixels, "path.tif", crs=4326, **options)
        stream = io.BytesIO()
        written = tiffjet.to_geotiff(pixels, stream, crs=4326, **options)
        with open("path.tif", "rb") as file:
            assert stream.getvalue() == file.read()
        assert written.name == "<file object>"


def test_a_file_object_that_fails_is_heard(folder, pixels):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "no room")

    with pytest.raises(OSError, match="no room") as caught:
        tiffjet.to_geotiff(pixels, Full())
    assert caught.value.errno == 28


def test_the_old_file_stays_until_the_new_one_is_whole(folder, pixels):
    tiffjet.to_geotiff(pixels, "old.tif")
    before = open("old.tif", "rb").read()

    def stop(done, rows):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        tiffjet.to_geotiff(pixels + 1, "old.tif", progress=stop)
    assert open("old.tif", "rb").read() == before and os.listdir() == ["old.tif"]
    with pytest.raises(IsADirectoryError):
        os.mkdir("folder")
        tiffjet.to_geotiff(pixels, "folder")
    with pytest.raises(FileNotFoundError):
        tiffjet.to_geotiff(pixels, "nowhere/file.tif")
    with pytest.raises(NotImplementedError, match="ftp://"):
        tiffjet.to_geotiff(pixels, "ftp://host/file.tif")
    with pytest.raises(TypeError):
        tiffjet.to_geotiff(pixels, 5)


def test_georeferencing(folder, pixels):
    tiffjet.to_geotiff(pixels, "geo.tif", crs="EPSG:4326", transform=(0.1, 0, 5, 0, -0.1, 50), nodata=65535,
                       metadata={"A": "1", "domain": {"B": "2"}}, descriptions=["x", None, "z"])
    image = tiffjet.open("geo.tif")
    assert (image.crs.epsg, image.transform, image.nodata) == (4326, (0.1, 0, 5, 0, -0.1, 50), 65535)
    assert image.metadata[""]["A"] == "1" and image.metadata["domain"] == {"B": "2"}
    assert image.descriptions == ["x", None, "z"]
    tiffjet.to_geotiff(pixels, "rotated.tif", transform=(1, 0.5, 5, 0.5, -1, 50))
    assert tiffjet.open("rotated.tif").transform == (1, 0.5, 5, 0.5, -1, 50)
    tiffjet.to_geotiff(pixels, "wkt.tif", crs=image.crs.to_wkt())
    assert tiffjet.open("wkt.tif").crs == image.crs


def test_nan_becomes_nodata(folder):
    data = numpy.array([[1, numpy.nan], [3, -5]], "float32")
    tiffjet.to_geotiff(data, "auto.tif", nodata=-9999)
    assert read("auto.tif").tolist() == [[[1, -9999], [3, -5]]]
    tiffjet.to_geotiff(data, "never.tif", nodata=-9999, nan_to_nodata=False)
    tiffjet.to_geotiff(data, "nan.tif", nodata=numpy.nan)
    for name in ("never.tif", "nan.tif"):
        assert numpy.isnan(read(name)[0, 0, 1])
    assert numpy.isnan(data[0, 1])


def test_exact_nodata_of_large_integers(folder):
    data = numpy.array([[2**63 - 1, 5]], "int64")
    tiffjet.to_geotiff(data, "large.tif", nodata=2**63 - 1)
    image = tiffjet.open("large.tif")
    assert image.nodata == 2**63 - 1 and numpy.asarray(image.read_mask()).tolist() == [[[0, 255]]]
    with pytest.raises(ValueError, match="nodata"):
        tiffjet.to_geotiff(data, "large.tif", nodata=2**63)


def test_colours(folder):
    data = numpy.arange(256, dtype="uint8").reshape(16, 16)
    tiffjet.to_geotiff(data, "palette.tif", colormap={0: (255, 0, 0), 7: (1, 2, 3, 255)})
    colours = tiffjet.open("palette.tif").colormap
    assert (colours[0], colours[7], colours[8]) == ((65535, 0, 0), (257, 514, 771), (0, 0, 0))
    tiffjet.to_geotiff(numpy.stack([data] * 3), "rgb.tif", photometric="rgb")
    assert tiffjet.open("rgb.tif").photometric == 2


def test_progress_is_told(folder, pixels):
    told = []
    tiffjet.to_geotiff(pixels, "told.tif", progress=lambda done, rows: told.append((done, rows)))
    assert told[-1] == (700, 700)
    pytest.importorskip("tqdm")
    tiffjet.to_geotiff(pixels, "bar.tif", progress=True)


def test_rasterio_reads_the_same(folder, pixels):
    rasterio = pytest.importorskip("rasterio")
    mask = pixels[0] > 100
    tiffjet.to_geotiff(pixels, "gdal.tif", crs=32633, transform=GRID, cog=True, mask=mask, compression="deflate",
                       descriptions=["r", "g", "b"], metadata={"KEY": "value"})
    with rasterio.open("gdal.tif") as file:
        assert (file.read() == pixels).all() and file.crs.to_epsg() == 32633 and tuple(file.transform)[:6] == GRID
        assert file.descriptions == ("r", "g", "b") and file.tags()["KEY"] == "value" and file.overviews(1) == [2]
        assert ((file.dataset_mask() == 255) == mask).all()


def test_torch_tensors_are_written(folder, pixels):
    torch = pytest.importorskip("torch")
    data = torch.arange(600.0, requires_grad=True).reshape(20, 30)
    tiffjet.to_geotiff(data, "torch.tif")
    assert (read("torch.tif")[0] == data.detach().numpy()).all()


def test_a_tensor_of_ours_is_written(cog, pixels):
    tiffjet.to_geotiff(tiffjet.open(cog).read(), "again.tif")
    assert (read("again.tif") == pixels).all()
