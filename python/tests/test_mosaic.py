"""Mosaics: files on one grid, and virtual rasters, whose pixels are GDAL's."""

import os
import pickle

import numpy
import pytest

import tiffjet

pytest.importorskip("xarray")

GRID = (10.0, 0.0, 500000.0, 0.0, -10.0, 6000000.0)


def write(name, data, row=0, column=0, **options):
    """A file whose upper left pixel is at a row and a column of the grid."""
    transform = (10.0, 0.0, 500000.0 + 10 * column, 0.0, -10.0, 6000000.0 - 10 * row)
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    tiffjet.to_geotiff(data, name, **{"crs": 32633, "transform": transform, "tile_size": 32, **options})
    return name


def noise(seed, shape=(2, 60, 80), dtype="uint16", low=0, high=50):
    return numpy.random.default_rng(seed).integers(low, high, shape).astype(dtype)


@pytest.fixture
def four():
    """Four files that overlap, with pixels without data; and their places."""
    places = {"a.tif": (0, 0), "b.tif": (10, 70), "c.tif": (50, 5), "deep/d.tif": (48, 60)}
    pixels = {}
    for seed, (name, (row, column)) in enumerate(places.items()):
        pixels[name] = noise(seed, high=6)
        write(name, pixels[name], row, column, nodata=0)
    return places, pixels


def painted(order, places, pixels, nodata):
    """What is seen when files are laid over each other in this order."""
    out = numpy.zeros((2, 110, 150), "uint16")
    for name in order:
        row, column = places[name]
        part = out[:, row : row + 60, column : column + 80]
        seen = numpy.ones(part.shape, bool) if nodata is None else pixels[name] != nodata
        part[seen] = pixels[name][seen]
    return out


@pytest.mark.parametrize("chunks", [None, 37, {"band": 1, "y": 64, "x": 64}])
def test_overlaps(four, chunks):
    places, pixels = four
    names = list(places)
    for overlap, order, nodata in (("first_valid", names[::-1], 0), ("last_valid", names, 0), ("first", names[::-1], None),
                                   ("last", names, None)):
        mosaic = tiffjet.open_mosaic(names, overlap=overlap, chunks=chunks)
        assert mosaic.dims == ("band", "y", "x") and mosaic.dtype == "uint16"
        assert numpy.array_equal(mosaic.values, painted(order, places, pixels, nodata)), overlap
    assert mosaic.rio.crs.to_epsg() == 32633 if hasattr(mosaic, "rio") else True
    assert mosaic.x.values[0] == 500005 and mosaic.y.values[-1] == 6000000 - 1095


def test_parts_of_a_mosaic(four):
    places, pixels = four
    due = painted(list(places)[::-1], places, pixels, 0)
    for chunks in (None, 50):
        mosaic = tiffjet.open_mosaic(list(places), window=((20, 100), (30, 140)), bands=[2, 1], chunks=chunks)
        assert numpy.array_equal(mosaic.values, due[::-1, 20:100, 30:140])
        box = tiffjet.open_mosaic(list(places), bbox=(500300, 5999000, 501400, 5999800), chunks=chunks)
        assert numpy.array_equal(box.values, due[:, 20:100, 30:140])
    masked = tiffjet.open_mosaic(list(places), masked=True)
    assert masked.dtype == "float32" and numpy.array_equal(numpy.isnan(masked.values), due == 0)
    assert numpy.array_equal(mosaic[0, 3, [5, 80, 7]].values, due[1, 23, [35, 110, 37]])


def test_a_chunk_reads_the_files_that_it_needs(folder):
    pytest.importorskip("dask.array")
    names = [write(f"{i}.tif", numpy.full((1, 32, 32), i + 1, "uint8"), 0, 32 * i) for i in range(40)]
    mosaic = tiffjet.open_mosaic(names, chunks=32)
    assert len(pickle.dumps(mosaic.data)) < 40 * 1500 + 20_000
    os.remove(names[7])
    assert (mosaic[:, :, 8 * 32 :].values > 8).all()
    from tiffjet import _files

    _files._images.forget()
    with pytest.raises(FileNotFoundError):
        mosaic[:, :, 7 * 32 :].values
    with pytest.raises(FileNotFoundError):
        tiffjet.open_mosaic(names)
    holes = tiffjet.open_mosaic(names, missing="holes").values
    assert (holes[0, 0, 7 * 32 : 8 * 32] == 0).all() and holes[0, 0, 6 * 32] == 7


def test_files_that_do_not_fit(folder):
    write("a.tif", noise(1))
    cases = {
        "CRS": {"crs": 32632}, "size or direction": {"transform": (20.0, *GRID[1:])},
        "between": {"transform": (10.0, 0.0, 500003.0, 0.0, -10.0, 6000000.0)}, "no transform": {"transform": (1, 0, 0, 0, 1, 0)},
    }
    for message, options in cases.items():
        write("b.tif", noise(2), **options)
        with pytest.raises(ValueError, match=message):
            tiffjet.open_mosaic(["a.tif", "b.tif"])
    for message, data in (("type", noise(2, dtype="int16")), ("bands", noise(2, (1, 60, 80)))):
        write("b.tif", data)
        with pytest.raises(ValueError, match=message):
            tiffjet.open_mosaic(["a.tif", "b.tif"])
    for bad in ([], "a.tif"):
        with pytest.raises(ValueError):
            tiffjet.open_mosaic(bad)
    with pytest.raises(ValueError, match="overlap"):
        tiffjet.open_mosaic(["a.tif"], overlap="best")


def test_a_mask_is_looked_through(folder):
    low, high, mask = noise(1), noise(2), noise(3, (60, 80), "uint8", 0, 2)
    write("low.tif", low)
    write("high.tif", high, mask=mask)
    seen = tiffjet.open_mosaic(["high.tif", "low.tif"]).values
    assert numpy.array_equal(seen, numpy.where(mask, high, low))


# ---------------------------------------------------------------------------------------------- virtual rasters


def source(name, band=1, rect=(0, 0, 60, 80), to=None, kind="SimpleSource", more="", relative=1):
    to = rect if to is None else to
    rects = "".join(f'<{tag} yOff="{r[0]}" xOff="{r[1]}" ySize="{r[2]}" xSize="{r[3]}"/>' for tag, r in (("SrcRect", rect), ("DstRect", to)))
    return (f'<{kind}><SourceFilename relativeToVRT="{relative}">{name}</SourceFilename><SourceBand>{band}</SourceBand>'
            f"{rects}{more}</{kind}>")


def band(sources, number=1, dtype="UInt16", more=""):
    return f'<VRTRasterBand dataType="{dtype}" band="{number}">{more}{"".join(sources)}</VRTRasterBand>'


def vrt(bands, size=(110, 150), name="m.vrt", head=""):
    text = f'<VRTDataset rasterXSize="{size[1]}" rasterYSize="{size[0]}">{head}{"".join(bands)}</VRTDataset>'
    with open(name, "w") as file:
        file.write(text)
    return name


NODATA = "<NODATA>0</NODATA>"
CASES = {
    "in order": lambda: [band([source("a.tif"), source("b.tif", to=(10, 70, 60, 80)), source("c.tif", to=(50, 5, 60, 80))])],
    "nodata": lambda: [band([source("a.tif", kind="ComplexSource", more=NODATA),
                             source("deep/d.tif", to=(20, 30, 60, 80), kind="ComplexSource", more=NODATA)],
                            more="<NoDataValue>0</NoDataValue>")],
    "background": lambda: [band([source("a.tif", kind="ComplexSource", more=NODATA)], more="<NoDataValue>77</NoDataValue>")],
    "hidden background": lambda: [band([source("a.tif")], more="<NoDataValue>77</NoDataValue><HideNoDataValue>1</HideNoDataValue>")],
    "bands": lambda: [band([source("a.tif", 2), source("b.tif", 1, to=(30, 20, 60, 80))], 1),
                      band([source("a.tif", 1), source("b.tif", 2, to=(30, 20, 60, 80))], 2)],
    "bands apart": lambda: [band([source("a.tif", 2)], 1), band([source("b.tif", 1, to=(30, 20, 60, 80)), source("c.tif", 2)], 2)],
    "parts": lambda: [band([source("a.tif", rect=(7, 9, 31, 40), to=(70, 100, 31, 40)), source("b.tif", rect=(20, 0, 40, 80), to=(0, 0, 40, 80))])],
    "hanging over": lambda: [band([source("a.tif", to=(-20, -30, 60, 80)), source("b.tif", to=(90, 120, 60, 80))])],
    "scaled": lambda: [band([source("a.tif", kind="ComplexSource", more="<ScaleOffset>-3.5</ScaleOffset><ScaleRatio>2.5</ScaleRatio>")], dtype="Int16")],
    "scaled floats": lambda: [band([source("a.tif", kind="ComplexSource", more="<ScaleOffset>0.1</ScaleOffset><ScaleRatio>0.3</ScaleRatio>" + NODATA)],
                                   dtype="Float32", more="<NoDataValue>-9999</NoDataValue>")],
    "narrower": lambda: [band([source("wide.tif")], dtype="Byte")],
    "rounded": lambda: [band([source("float.tif")], dtype="Int16")],
    "rounded without a sign": lambda: [band([source("float.tif", kind="ComplexSource", more="<ScaleOffset>0</ScaleOffset><ScaleRatio>100</ScaleRatio>")], dtype="UInt16")],
    "holes in floats": lambda: [band([source("a.tif"), source("holes.tif", kind="ComplexSource", more="<NODATA>nan</NODATA>")], dtype="Float32")],
    "other floats": lambda: [band([source("float.tif", kind="ComplexSource", more="<NODATA>0.1</NODATA>")], dtype="Float64", more="<NoDataValue>0.1</NoDataValue>")],
    "masked": lambda: [band([source("a.tif"), source("masked.tif", kind="ComplexSource", more="<UseMaskBand>true</UseMaskBand>")])],
}


@pytest.fixture
def sources(four):
    floats = numpy.random.default_rng(9).normal(0, 300, (1, 60, 80)).astype("float32")
    floats[0, 5, :7] = [0.1, 0.5, 1.5, -0.5, -1.5, 1e9, -1e9]
    write("float.tif", floats)
    holes = floats.copy()
    holes[0, ::3] = numpy.nan
    write("holes.tif", holes)
    write("wide.tif", noise(3, dtype="int32", low=-300, high=900))
    write("masked.tif", noise(4), mask=noise(5, (60, 80), "uint8", 0, 2))


@pytest.mark.parametrize("case", CASES)
def test_pixels_are_those_of_gdal(sources, case):
    rasterio = pytest.importorskip("rasterio")
    path = vrt(CASES[case]())
    with rasterio.open(path) as dataset:
        due, nodata = dataset.read(), dataset.nodata
    for chunks in (None, 45):
        mosaic = tiffjet.open_mosaic(path, chunks=chunks)
        assert mosaic.dtype == due.dtype and mosaic.shape == due.shape
        assert numpy.array_equal(mosaic.values, due, equal_nan=due.dtype.kind == "f"), case
    assert mosaic.attrs.get("_FillValue") == nodata


def test_place_and_meaning(sources):
    head = "<SRS>EPSG:32633</SRS><GeoTransform>500000, 10, 0, 6000000, 0, -10</GeoTransform><Metadata><MDI key=\"maker\">me</MDI></Metadata>"
    more = "<Description>red</Description><Scale>0.5</Scale><Offset>2</Offset><UnitType>m</UnitType><NoDataValue>0</NoDataValue>"
    path = vrt([band([source("a.tif")], more=more)], head=head)
    mosaic = tiffjet.open_mosaic(path)
    assert mosaic.x.values[0] == 500005 and mosaic.spatial_ref.attrs["GeoTransform"].startswith("500000")
    assert "32633" in mosaic.spatial_ref.attrs["crs_wkt"] or "UTM" in mosaic.spatial_ref.attrs["crs_wkt"]
    assert mosaic.attrs["long_name"] == "red" and mosaic.attrs["scale_factor"] == 0.5 and mosaic.attrs["maker"] == "me"
    scaled = tiffjet.open_mosaic(path, mask_and_scale=True).values
    plain = mosaic.values
    assert numpy.array_equal(scaled, numpy.where(plain == 0, numpy.nan, plain * 0.5 + 2).astype("float32"), equal_nan=True)


def test_sources_that_are_not_there(sources):
    path = vrt([band([source("a.tif"), source("gone.tif", to=(30, 20, 60, 80))])])
    with pytest.raises(FileNotFoundError, match="gone.tif"):
        tiffjet.open_mosaic(path)
    holes = tiffjet.open_mosaic(path, missing="holes").values
    assert numpy.array_equal(holes, tiffjet.open_mosaic(vrt([band([source("a.tif")])], name="n.vrt")).values)


def test_sources_stay_in_their_folder(sources, folder):
    (folder / "inner").mkdir()
    outside = vrt([band([source("../a.tif")])], name="inner/m.vrt")
    absolute = vrt([band([source(str(folder / "a.tif"), relative=0)])], name="inner/n.vrt")
    os.symlink(folder / "a.tif", folder / "inner" / "link.tif")
    link = vrt([band([source("link.tif")])], name="inner/l.vrt")
    for path in (outside, absolute, link):
        with pytest.raises(PermissionError, match="root="):
            tiffjet.open_mosaic(path)
        assert tiffjet.open_mosaic(path, root=folder).shape == (1, 110, 150)
        assert tiffjet.open_mosaic(path, root="anywhere").shape == (1, 110, 150)
    for remote in ("https://example.org/a.tif", "/vsicurl/https://example.org/a.tif"):
        with pytest.raises(PermissionError):
            tiffjet.open_mosaic(vrt([band([source(remote, relative=0)])]))


BOMB = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<VRTDataset rasterXSize="5" rasterYSize="5"><SRS>&b;</SRS></VRTDataset>"""


@pytest.mark.parametrize("text", [
    BOMB, '<!DOCTYPE x SYSTEM "file:///etc/passwd"><VRTDataset rasterXSize="5" rasterYSize="5"/>', "<VRTDataset", "<other/>",
    "<VRTDataset>" * 200, '<VRTDataset rasterXSize="-1" rasterYSize="5"/>', '<VRTDataset rasterXSize="5" rasterYSize="5"/>',
    '<VRTDataset rasterXSize="99999999999999999" rasterYSize="5"><VRTRasterBand/></VRTDataset>',
    '<VRTDataset rasterXSize="5" rasterYSize="5"><GeoTransform>1,2</GeoTransform><VRTRasterBand/></VRTDataset>',
    '<VRTDataset rasterXSize="5" rasterYSize="5"><VRTRasterBand><SimpleSource><SourceFilename/></SimpleSource></VRTRasterBand></VRTDataset>',
])
def test_documents_that_make_no_sense(text):
    with pytest.raises(tiffjet.FormatError):
        tiffjet.open_mosaic(text)


def test_what_is_not_painted_is_refused(sources):
    cases = [
        band([source("a.tif", to=(0, 0, 30, 40))]), band([source("a.tif", rect=(0.5, 0, 60, 80))]),
        band([source("a.tif", kind="KernelFilteredSource")]), band([source("a.tif", kind="ComplexSource", more="<LUT>0:1</LUT>")]),
        band([source("a.tif", band="mask,1")]), band([source("a.tif")], dtype="CInt16"),
        '<VRTRasterBand dataType="Byte" subClass="VRTDerivedRasterBand"/>',
    ]
    for case in cases:
        with pytest.raises(NotImplementedError):
            tiffjet.open_mosaic(vrt([case]))
    with pytest.raises(NotImplementedError, match="types"):
        tiffjet.open_mosaic(vrt([band([source("a.tif")]), band([source("a.tif")], 2, "Byte")]))
    assert tiffjet.open_mosaic("m.vrt", bands=2).dtype == "uint8"
    with pytest.raises(ValueError, match="a.tif"):
        tiffjet.open_mosaic(vrt([band([source("a.tif", rect=(30, 0, 60, 80), to=(0, 0, 60, 80))])])).values
