"""Windows, bands, levels, devices, memory of the caller."""

import importlib.util

import numpy
import pytest

import tiffjet
from conftest import read


class Window:
    """As rasterio has it."""

    def __init__(self, col_off, row_off, width, height):
        self.col_off, self.row_off, self.width, self.height = col_off, row_off, width, height


@pytest.mark.parametrize("window", [((10, 60), (100, 300)), (slice(10, 60), slice(100, 300)), Window(100.0, 10, 200, 50.0),
                                    [[10, 60], [100, 300]], ((numpy.int64(10), 60), (100, numpy.uint16(300)))])
def test_windows_of_all_kinds(cog, pixels, window):
    assert (read(cog, window=window) == pixels[:, 10:60, 100:300]).all()


def test_open_ends_of_slices(cog, pixels):
    assert (read(cog, window=(slice(None), slice(800, None))) == pixels[:, :, 800:]).all()


@pytest.mark.parametrize(("window", "error"), [
    (((0, 701), (0, 10)), IndexError), (((-1, 5), (0, 10)), IndexError), (((5, 5), (0, 10)), (IndexError, ValueError)),
    (((9, 5), (0, 10)), (IndexError, ValueError)), (((0, 1.5), (0, 10)), ValueError), ((slice(0, 9, 2), slice(0, 9)), ValueError),
    (7, TypeError), (((0, True), (0, 10)), TypeError), (((0, 2**40), (0, 10)), IndexError),
])
def test_windows_that_make_no_sense(cog, window, error):
    with pytest.raises(error):
        read(cog, window=window)


def test_bands_are_counted_from_one(cog, pixels):
    assert (read(cog, bands=2) == pixels[1:2]).all()
    assert (read(cog, bands=[3, 1]) == pixels[[2, 0]]).all()
    assert (read(cog, bands=numpy.array([3, 1])) == pixels[[2, 0]]).all()


@pytest.mark.parametrize(("bands", "error"), [(0, IndexError), ([4], IndexError), ([], ValueError), ("red", TypeError),
                                              (-1, IndexError), (1.5, TypeError)])
def test_bands_that_are_not_there(cog, bands, error):
    with pytest.raises(error):
        read(cog, bands=bands)


def test_levels(cog):
    assert read(cog, level=2).shape == (3, 175, 225)
    assert read(cog, level=1, window=((300, 350), (440, 450))).shape == (3, 50, 10)
    with pytest.raises(IndexError, match="level 9"):
        read(cog, level=9)


def test_devices(cog):
    image = tiffjet.open(cog)
    best = tiffjet.doctor()["devices"][-1]["device"].split(":")[0]
    assert image.read(device="auto").device.split(":")[0] == best
    assert image.read(device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="tpu"):
        image.read(device="tpu")
    if all(device["device"] == "cpu" for device in tiffjet.doctor()["devices"]):
        for device in ("cuda", "cuda:0", 0):
            with pytest.raises(tiffjet.UnavailableError, match="cuda"):
                image.read(device=device)


def test_arguments_that_the_cpu_does_not_have(cog):
    image = tiffjet.open(cog)
    for options in ({"stream": 1}, {"allocator": print}, {"io": "gds"}, {"fallback": "never"}):
        with pytest.raises(ValueError):
            image.read(device="cpu", **options)
    assert image.read(fallback="forbid").shape == (3, 700, 900)


def test_into_memory_of_the_caller(cog, pixels):
    image = tiffjet.open(cog)
    out = numpy.zeros((3, 700, 900), "uint16")
    tensor = image.read(out=out)
    assert (out == pixels).all() and tensor.report.bytes_out == out.nbytes
    assert numpy.asarray(tensor).ctypes.data == out.ctypes.data
    flat = numpy.zeros((50, 60), "uint16")
    image.read(window=((0, 50), (0, 60)), bands=1, out=flat)
    assert (flat == pixels[0, :50, :60]).all()


def test_who_gives_memory():
    from tiffjet._allocate import memory

    class Owner:
        def __dlpack__(self):
            raise AssertionError("nobody looks inside")

    asked, owner = [], Owner()
    assert memory(lambda *what: asked.append(what) or owner, 100, 2, 0) == (owner, 1)
    assert memory(lambda *what: asked.append(what) or owner, 200, 0, 77) == (owner, 77)
    assert asked == [(100, 1, 2), (200, 77, 0)]
    with pytest.raises(TypeError, match="list"):
        memory(lambda *_: [], 1, 0, 0)
    with pytest.raises(ValueError, match="jemalloc"):
        memory("jemalloc", 1, 0, 0)
    for library in ("cupy", "rmm"):
        if importlib.util.find_spec(library) is None:
            with pytest.raises(tiffjet.UnavailableError, match=library):
                memory(library, 1, 0, 0)


def test_memory_that_does_not_fit_is_not_written(cog):
    image = tiffjet.open(cog)
    fixed = numpy.zeros((3, 700, 900), "uint16")
    fixed.flags.writeable = False
    for out in (numpy.zeros((3, 700, 901), "uint16"), numpy.zeros((3, 700, 900), "int16"), fixed,
                numpy.zeros((3, 700, 1800), "uint16")[:, :, ::2]):
        with pytest.raises((ValueError, BufferError)):
            image.read(out=out)
        assert not out.any()
    with pytest.raises(TypeError, match="__dlpack__"):
        image.read(out=[0])


def test_the_mask_is_that_of_nodata(folder):
    data = numpy.array([[1, 7], [7, 2]], "uint8")
    tiffjet.to_geotiff(data, "nodata.tif", nodata=7)
    mask = tiffjet.open("nodata.tif").read_mask()
    assert mask.dtype == numpy.uint8 and numpy.asarray(mask).tolist() == [[[255, 0], [0, 255]]]


def test_the_mask_of_the_file_comes_first(folder):
    data, mask = numpy.full((40, 50), 7, "uint8"), numpy.eye(40, 50, dtype=bool)
    tiffjet.to_geotiff(data, "mask.tif", nodata=7, mask=mask)
    image = tiffjet.open("mask.tif")
    assert image.has_mask
    assert ((numpy.asarray(image.read_mask())[0] == 255) == mask).all()
    assert (numpy.asarray(image.read_mask(window=((3, 9), (0, 5))))[0] == 255 * mask[3:9, :5]).all()


def test_errors_name_the_file(folder):
    with pytest.raises(FileNotFoundError, match="nowhere.tif") as caught:
        tiffjet.open("nowhere.tif")
    assert (caught.value.errno, caught.value.filename) == (2, "nowhere.tif")
    with open("text.tif", "w") as file:
        file.write("This is no TIFF, whatever its name says.")
    with pytest.raises(tiffjet.FormatError, match="text.tif.*byte 0"):
        tiffjet.open("text.tif")
    assert issubclass(tiffjet.FormatError, ValueError) and issubclass(tiffjet.LimitError, ValueError)
    assert issubclass(tiffjet.UnavailableError, RuntimeError)


def test_a_damaged_tile_is_named(folder, pixels):
    tiffjet.to_geotiff(pixels[0], "damaged.tif", tile_size=256)
    with open("damaged.tif", "r+b") as file:
        file.seek(file.seek(0, 2) // 2)
        file.write(bytes(100))
    with pytest.raises(tiffjet.FormatError, match=r"damaged.tif: level 0, tile row \d, column \d, zstd"):
        tiffjet.open("damaged.tif").read()


def test_a_file_that_changes_is_an_error(folder, pixels):
    tiffjet.to_geotiff(pixels, "changes.tif")
    image = tiffjet.open("changes.tif")
    with open("changes.tif", "ab") as file:
        file.write(b"more")
    with pytest.raises(OSError, match="changes.tif: the file changed"):
        image.read(device="cpu")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
                                   "float32", "float64", "complex64", "complex128"])
def test_every_type_goes_there_and_back(folder, dtype):
    data = (numpy.arange(2 * 30 * 40) * 3).astype(dtype).reshape(2, 30, 40)
    tiffjet.to_geotiff(data, "type.tif", tile_size=16)
    back = read("type.tif")
    assert back.dtype == data.dtype and (back == data).all()


def test_pairs_of_integers_become_complex(folder):
    """GDAL's CInt16, which nobody but GDAL writes: made by hand from pairs."""
    data = numpy.arange(32 * 32 * 2, dtype="int16").reshape(1, 32, 32, 2)
    writer = tiffjet.Writer("pairs.tif", (1, 32, 32), "complex_int16", tile=(16, 16))
    writer.push(data.reshape(-1).view("uint8"))
    writer.finish()
    image = tiffjet.open("pairs.tif")
    assert (image.dtype, image.sample_type) == (numpy.dtype("complex64"), "complex_int16")
    tensor = image.read(device="cpu")
    values = numpy.asarray(tensor)
    assert values.dtype == numpy.complex64 and (values.real == data[..., 0]).all() and (values.imag == data[..., 1]).all()
    with pytest.raises(BufferError, match="complex_int16"):
        numpy.from_dlpack(tensor)
    with pytest.raises(ValueError, match="needs a copy"):
        tensor.__array__(copy=False)
