"""The engine, open_geotiff, the accessor."""

import pickle

import numpy
import pytest

import tiffjet
from conftest import GRID, read

xarray = pytest.importorskip("xarray")


def bytes_read():
    """Bytes that this process has read from files."""
    with open("/proc/self/io") as io:
        return int(io.readline().split()[1])


def test_a_labelled_array(cog, pixels):
    da = tiffjet.open_geotiff(cog)
    assert (da.dims, da.shape, da.dtype) == (("band", "y", "x"), (3, 700, 900), numpy.uint16)
    assert (da.values == pixels).all()
    assert (da.x.values == 500000 + (numpy.arange(900) + 0.5) * 10).all()
    assert (da.y.values == 6000000 - (numpy.arange(700) + 0.5) * 10).all()
    assert da.band.values.tolist() == [1, 2, 3]
    assert da.attrs["_FillValue"] == 7 and da.attrs["long_name"] == ("red", "green", "blue")
    assert da.attrs["AREA_OR_POINT"] == "Area" and (da.attrs["scale_factor"], da.attrs["add_offset"]) == (1, 0)
    assert da.spatial_ref.attrs["GeoTransform"] == "500000.0 10.0 0.0 6000000.0 0.0 -10.0"
    assert "UTM zone 33N" in da.spatial_ref.attrs["crs_wkt"] and da.encoding["source"] == cog
    assert da.encoding["preferred_chunks"]["y"] in (700, 640) or da.encoding["preferred_chunks"]["y"] % 128 == 0


def test_the_engine(cog, pixels):
    ds = xarray.open_dataset(cog, engine="tiffjet")
    assert list(ds.data_vars) == ["band_data"] and ds.band_data.dtype == numpy.float32
    raw = xarray.open_dataarray(cog, engine="tiffjet", mask_and_scale=False)
    assert raw.dtype == numpy.uint16 and (raw.values == pixels).all()
    with xarray.open_dataset(cog, engine="tiffjet", chunks={}, drop_variables="spatial_ref") as ds:
        assert "spatial_ref" not in ds.coords and (ds.band_data.isel(band=1).values[0, 5] == pixels[1, 0, 5])


def test_opening_does_not_read_pixels(folder, pixels):
    tiffjet.to_geotiff(pixels, "whole.tif", compression="none", tile_size=256)
    pytest.importorskip("dask")
    before = bytes_read()
    da = tiffjet.open_geotiff("whole.tif")
    with pytest.warns(UserWarning, match="separate the stored chunks"):  # xarray's advice; they are whole tiles
        ds = xarray.open_dataset("whole.tif", engine="tiffjet", chunks={"y": 256, "x": 256})
    assert bytes_read() - before < 200_000 < pixels.nbytes
    before = bytes_read()
    part = da.isel(band=0, y=slice(300, 310), x=slice(10, 20)).values
    assert bytes_read() - before < 100_000 and (part == pixels[0, 300:310, 10:20]).all()
    before = bytes_read()
    ds.band_data.isel(y=slice(0, 256), x=slice(0, 256)).compute(scheduler="sync")
    tile = 3 * 256 * 256 * 2
    assert tile <= bytes_read() - before < 1.2 * tile


def test_a_thousand_files_are_opened_by_their_headers(folder):
    """Bytes are counted by the system: a file of 1 MB costs a few KB."""
    data = numpy.random.default_rng(0).integers(0, 255, (1024, 1024), "uint8")
    tiffjet.to_geotiff(data, "0.tif", crs=4326, transform=(1, 0, 0, 0, -1, 0), tile_size=256)
    size = len(open("0.tif", "rb").read())
    import shutil

    for i in range(1, 1000):
        shutil.copy("0.tif", f"{i}.tif")
    pytest.importorskip("dask")
    xarray.open_dataset("0.tif", engine="tiffjet", chunks={})  # imports are paid for
    before = bytes_read()
    opened = [xarray.open_dataset(f"{i}.tif", engine="tiffjet", chunks={}) for i in range(1000)]
    each = (bytes_read() - before) / 1000
    assert each < 32_000 < size / 20
    total = xarray.concat(opened[:3], "time", coords="minimal", compat="override", join="override")
    assert total.band_data.shape == (3, 1, 1024, 1024)
    assert (opened[999].band_data.values == data).all()


KEYS = [
    (0, slice(10, 20), slice(None)), (slice(None), 5, 7), ([2, 0], slice(0, 700, 7), slice(3, 900, 250)),
    (slice(None), [5, 5, 3, 699], [0, 899]), ([1], numpy.array([600, 2]), slice(None)), (slice(1, 2), slice(699, None, -3), -1),
    (slice(0, 0), slice(None), slice(None)), (1, [], slice(None)), (slice(None), slice(0, 700, 300), [899, 1, 450]),
]


@pytest.mark.parametrize("key", KEYS)
def test_indexing_is_that_of_numpy(cog, pixels, key):
    da = tiffjet.open_geotiff(cog)
    band, y, x = (part if isinstance(part, (int, slice)) else numpy.asarray(part, int) for part in key)
    expected = xarray.Variable(("band", "y", "x"), pixels)[band, y, x].values
    got = da.variable[band, y, x].values
    assert got.shape == expected.shape and got.dtype == expected.dtype and (got == expected).all()


def test_vectorized_indexing(cog, pixels):
    da = tiffjet.open_geotiff(cog)
    ys, xs = xarray.DataArray([1, 690, 5], dims="p"), xarray.DataArray([0, 899, 450], dims="p")
    assert (da.isel(y=ys, x=xs).values == pixels[:, ys.values, xs.values]).all()


def test_only_tiles_that_are_wanted_are_read(folder):
    """Corners of a large image: the four tiles that hold them, and no other."""
    data = numpy.random.default_rng(0).integers(0, 255, (2048, 2048), "uint8")
    tiffjet.to_geotiff(data, "corners.tif", tile_size=128, compression="none")
    da = tiffjet.open_geotiff("corners.tif")
    before = bytes_read()
    corners = da.isel(y=[0, 2047], x=[0, 2047]).values
    assert bytes_read() - before < 5 * 128 * 128
    assert (corners[0] == data[numpy.ix_([0, -1], [0, -1])]).all()


def test_masked(folder):
    data = numpy.array([[1, 7], [3, 4]], "uint8")
    tiffjet.to_geotiff(data, "nodata.tif", nodata=7)
    raw = tiffjet.open_geotiff("nodata.tif")
    assert raw.dtype == numpy.uint8 and raw.attrs["_FillValue"] == 7 and raw.attrs["_FillValue"].dtype == numpy.uint8
    masked = tiffjet.open_geotiff("nodata.tif", masked=True)
    assert masked.dtype == numpy.float32 and numpy.isnan(masked.values[0, 0, 1]) and masked.values[0, 1, 1] == 4
    assert "_FillValue" not in masked.attrs and masked.encoding["_FillValue"] == 7 and masked.encoding["dtype"] == "uint8"
    wide = tiffjet.to_geotiff(data.astype("int32"), "wide.tif", nodata=7)
    assert wide and tiffjet.open_geotiff("wide.tif", masked=True).dtype == numpy.float64


def test_the_mask_of_the_file_counts(folder):
    data = numpy.arange(12, dtype="float32").reshape(3, 4)
    tiffjet.to_geotiff(data, "mask.tif", mask=data % 2 == 0)
    masked = tiffjet.open_geotiff("mask.tif", masked=True).values[0]
    assert (numpy.isnan(masked) == (data % 2 == 1)).all()
    assert (tiffjet.open_geotiff("mask.tif").values[0] == data).all()


def scaled(folder, name="scaled.tif"):
    da = xarray.DataArray(numpy.array([[[0, 10], [20, 30]]] * 2, "int16"), dims=("band", "y", "x"),
                          attrs={"scales": (0.5, 2.0), "offsets": (1.0, -1.0), "_FillValue": 30, "units": ("m", "K")})
    tiffjet.to_geotiff(da, name)
    return da


def test_scale_and_offset(folder):
    scaled(folder)
    image = tiffjet.open("scaled.tif")
    assert (image.scales, image.offsets, image.units) == ([0.5, 2.0], [1.0, -1.0], ["m", "K"])
    values = tiffjet.open_geotiff("scaled.tif", mask_and_scale=True)
    assert values.dtype == numpy.float32 and values.encoding["scales"] == (0.5, 2.0) and "scales" not in values.attrs
    numpy.testing.assert_array_equal(values.values, [[[1, 6], [11, numpy.nan]], [[-1, 19], [39, numpy.nan]]])
    raw = tiffjet.open_geotiff("scaled.tif")
    assert raw.attrs["scales"] == (0.5, 2.0) and raw.attrs["units"] == ("m", "K")


def test_windows_boxes_levels(cog, pixels):
    part = tiffjet.open_geotiff(cog, window=((100, 200), (50, 60)), bands=[3])
    assert (part.values == pixels[2:, 100:200, 50:60]).all()
    assert part.x.values[0] == 500505 and part.y.values[0] == 5998995 and part.band.values.tolist() == [3]
    box = tiffjet.open_geotiff(cog, bbox=(500500, 5998000, 500600, 5999000))
    assert (box.values == pixels[:, 100:200, 50:60]).all() and box.x.equals(part.x)
    touched = tiffjet.open_geotiff(cog, bbox=(500505, 5998005, 500595, 5998995))
    assert touched.shape == box.shape
    half = tiffjet.open_geotiff(cog, level=1)
    assert half.shape == (3, 350, 450) and half.x.values[0] == 500010
    assert tiffjet.open_geotiff(cog, resolution=25).shape == half.shape
    assert tiffjet.open_geotiff(cog, max_size=500).shape == half.shape
    assert tiffjet.open_geotiff(cog, max_size=10).shape == (3, 87, 112)
    for options, error in (({"bbox": (0, 0, 1, 1)}, IndexError), ({"bbox": (1, 0, 0, 1)}, ValueError), ({"level": 9}, IndexError),
                           ({"window": ((0, 701), (0, 1))}, IndexError), ({"bands": [4]}, IndexError), ({"bands": 0}, IndexError),
                           ({"dtype": "uint8", "masked": True}, ValueError), ({"level": 1, "max_size": 5}, ValueError)):
        with pytest.raises(error):
            tiffjet.open_geotiff(cog, **options)
    assert tiffjet.open_geotiff(cog, dtype="float64").values.dtype == numpy.float64


def test_devices_that_are_not_there(cog):
    if any(device["device"] != "cpu" for device in tiffjet.doctor()["devices"]):
        pytest.skip("there is one")
    for opening in (lambda: tiffjet.open_geotiff(cog, device="cuda"), lambda: xarray.open_dataset(cog, engine="tiffjet", device="cuda:0")):
        with pytest.raises(tiffjet.UnavailableError, match="cuda"):
            opening()


def test_lazy_arrays_are_pickled_small(cog, pixels):
    da = tiffjet.open_geotiff(cog)
    data = pickle.dumps(da)
    assert len(data) < 20_000
    assert (pickle.loads(data).values == pixels).all()
    with open(cog, "rb") as file:
        held = pickle.loads(pickle.dumps(tiffjet.open_geotiff(file.read())))
    assert (held.values == pixels).all()


def test_values_can_be_changed_without_the_file(cog, pixels):
    da = tiffjet.open_geotiff(cog)
    da[0, 0, 0] = 1
    assert da.values[0, 0, 0] == 1 and tiffjet.open_geotiff(cog).values[0, 0, 0] == pixels[0, 0, 0]


def test_levels_are_a_tree(cog):
    tree = xarray.open_datatree(cog, engine="tiffjet", mask_and_scale=False)
    assert list(tree.children) == ["0", "1", "2", "3"]
    assert tree["1/band_data"].shape == (3, 350, 450) and (tree["2/band_data"].values == read(cog, level=2)).all()
    one = xarray.open_dataset(cog, engine="tiffjet", level=1)
    assert one.band_data.shape == (3, 350, 450)


def test_many_files_are_one_dataset(folder, pixels):
    pytest.importorskip("dask")
    for i in range(3):
        tiffjet.to_geotiff(pixels + i, f"{i}.tif", crs=32633, transform=GRID)
    names = [f"{i}.tif" for i in range(3)]
    ds = xarray.open_mfdataset(names, engine="tiffjet", combine="nested", concat_dim="time", mask_and_scale=False)
    assert ds.band_data.shape == (3, 3, 700, 900)
    assert (ds.band_data.isel(time=2).values == pixels + 2).all()


def test_rotated_grids(folder, pixels):
    turned = (8.0, 3.0, 1000.0, 3.0, -8.0, 2000.0)
    tiffjet.to_geotiff(pixels, "rotated.tif", transform=turned, crs=32633)
    da = tiffjet.open_geotiff("rotated.tif")
    xc = da.coords["xc"]
    assert xc.shape == (700, 900) and "x" not in da.coords
    a, b, c, d, e, f = turned
    assert xc[10, 20].item() == pytest.approx(a * 20.5 + b * 10.5 + c)
    assert da.coords["yc"][10, 20].item() == pytest.approx(d * 20.5 + e * 10.5 + f)
    assert (da.values == pixels).all()
    tiffjet.to_geotiff(da, "again.tif")
    assert tiffjet.open("again.tif").transform == turned


def test_no_georeferencing(folder, pixels):
    tiffjet.to_geotiff(pixels, "plain.tif")
    da = tiffjet.open_geotiff("plain.tif")
    assert da.x.values[:2].tolist() == [0.5, 1.5] and da.y.values[0] == 0.5 and "crs_wkt" not in da.spatial_ref.attrs
    tiffjet.to_geotiff(da, "again.tif")
    assert tiffjet.open("again.tif").transform is None


def test_control_points_instead_of_a_transform(folder, pixels):
    points = [(0.0, 0.0, 5.0, 50.0, 0.0, "1"), (900.0, 700.0, 6.0, 49.0, 0.0, "2")]
    writer = tiffjet.Writer("gcps.tif", (1, 700, 900), "uint16", gcps=points, crs=4326)
    writer.push(pixels[0].reshape(-1).view("uint8"))
    writer.finish()
    da = tiffjet.open_geotiff("gcps.tif")
    assert "x" not in da.coords and "gcps" in da.spatial_ref.attrs
    tiffjet.to_geotiff(da, "again.tif")
    assert tiffjet.open("again.tif").gcps == tiffjet.open("gcps.tif").gcps == points


def test_coordinates_have_no_error_that_adds_up(folder):
    step = 1 / 3600
    tiffjet.to_geotiff(numpy.zeros((2, 50_000), "uint8"), "wide.tif", transform=(step, 0, -180, 0, -step, 90), crs=4326)
    xs = tiffjet.open_geotiff("wide.tif").x.values
    assert xs[-1] == pytest.approx(-180 + (49_999 + 0.5) * step, abs=1e-13)


@pytest.mark.parametrize("dims", [("band", "y", "x"), ("y", "x", "band"), ("lat", "lon", "band"), ("x", "y", "band"),
                                  ("time", "latitude", "longitude")])
def test_names_decide_the_axes(folder, pixels, dims):
    order = {"band": 0, "time": 0, "y": 1, "lat": 1, "latitude": 1, "x": 2, "lon": 2, "longitude": 2}
    da = xarray.DataArray(pixels.transpose([order[dim] for dim in dims]), dims=dims)
    tiffjet.to_geotiff(da, "dims.tif")
    assert (read("dims.tif") == pixels).all()


def test_dims_that_make_no_sense(folder, pixels):
    for dims in (("band", "y", "z"), ("x", "a", "b")):
        with pytest.raises(ValueError, match="partner"):
            tiffjet.to_geotiff(xarray.DataArray(pixels, dims=dims), "no.tif")
    with pytest.raises(ValueError, match="one variable"):
        tiffjet.to_geotiff(xarray.Dataset({"a": 1, "b": 2}), "no.tif")


def test_what_was_read_is_written_again(cog, folder):
    da = tiffjet.open_geotiff(cog)
    da.tiffjet.to_geotiff("again.tif", cog=True, tile_size=128)
    with open(cog, "rb") as old, open("again.tif", "rb") as new:
        assert old.read() == new.read()
    ds = xarray.open_dataset(cog, engine="tiffjet", mask_and_scale=False)
    tiffjet.to_geotiff(ds, "dataset.tif")
    assert tiffjet.open("dataset.tif").transform == GRID


def test_a_part_keeps_its_place(cog, folder, pixels):
    da = tiffjet.open_geotiff(cog)
    da.isel(y=slice(100, 300), x=slice(50, 800)).tiffjet.to_geotiff("part.tif")
    assert tiffjet.open("part.tif").transform == (10, 0, 500500, 0, -10, 5999000)
    da.isel(y=slice(None, None, -1)).tiffjet.to_geotiff("flipped.tif")
    assert tiffjet.open("flipped.tif").transform == (10, 0, 500000, 0, 10, 5993000)
    da.coarsen(y=2, x=2).mean().tiffjet.to_geotiff("coarse.tif", nodata="none")
    assert tiffjet.open("coarse.tif").transform == (20, 0, 500000, 0, -20, 6000000)
    one = da.isel(y=[5], x=[7])
    one.tiffjet.to_geotiff("one.tif")
    assert tiffjet.open("one.tif").transform == (10, 0, 500070, 0, -10, 5999950)


def test_coordinates_make_a_transform(folder):
    da = xarray.DataArray(numpy.zeros((3, 4)), dims=("lat", "lon"), coords={"lat": [3.0, 2.0, 1.0], "lon": [10, 12, 14, 16]},
                          attrs={"crs": "EPSG:4326", "nodata": -1.0})
    tiffjet.to_geotiff(da, "coords.tif")
    image = tiffjet.open("coords.tif")
    assert (image.transform, image.crs.epsg, image.nodata) == ((2, 0, 9, 0, -1, 3.5), 4326, -1)
    with pytest.raises(ValueError, match="equidistant"):
        tiffjet.to_geotiff(da.assign_coords(lon=[1, 2, 4, 8]), "no.tif")
    with pytest.raises(ValueError, match="transform="):
        tiffjet.to_geotiff(da[:1], "no.tif")


def test_masked_data_are_written_as_they_were(cog, folder, pixels):
    masked = tiffjet.open_geotiff(cog, masked=True)
    assert numpy.isnan(masked.values).any()
    tiffjet.to_geotiff(masked, "masked.tif")
    image = tiffjet.open("masked.tif")
    assert image.nodata == 7 and (numpy.asarray(image.read()) == pixels).all()


def test_attributes_travel(folder, pixels):
    da = xarray.DataArray(pixels, dims=("band", "y", "x"), attrs={"sensor": "X", "number": 5, "odd": [1, 2], "AREA_OR_POINT": "Point",
                          "scale_factor": 0.1, "add_offset": 0.0, "long_name": "height", "units": "m"})
    tiffjet.to_geotiff(da, "attrs.tif", transform=GRID, crs=32633)
    back = tiffjet.open_geotiff("attrs.tif")
    assert (back.attrs["sensor"], back.attrs["number"], back.attrs["AREA_OR_POINT"]) == ("X", 5, "Point")
    assert (back.attrs["scale_factor"], back.attrs["long_name"], back.attrs["units"]) == (0.1, "height", ("m",) * 3)
    assert "odd" not in back.attrs and tiffjet.open("attrs.tif").transform == GRID


def test_asynchronous_loading(cog, pixels):
    import asyncio

    da = tiffjet.open_geotiff(cog)
    if not hasattr(da, "load_async"):
        pytest.skip("this xarray has none")
    assert (asyncio.run(da.isel(band=[0]).load_async()).values == pixels[:1]).all()
