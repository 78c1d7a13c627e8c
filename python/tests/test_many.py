"""Windows of many files at once."""

import numpy
import pytest

import tiffjet


@pytest.fixture
def files(pixels, folder):
    names = [f"{i}.tif" for i in range(5)]
    for i, name in enumerate(names):
        tiffjet.to_geotiff(pixels + i, name, tile_size=128)
    return names


def test_one_batch_over_many_files(files, pixels):
    windows = [(name, ((10 * i, 10 * i + 64), (7 * i, 7 * i + 96))) for i, name in enumerate(files)]
    batch = tiffjet.read_many(windows, bands=[2, 1])
    assert batch.shape == (5, 2, 64, 96)
    for i, values in enumerate(numpy.asarray(batch)):
        expected = pixels[[1, 0], 10 * i : 10 * i + 64, 7 * i : 7 * i + 96] + i
        assert (values == expected).all()


def test_open_images_and_whole_ones_do_too(files, pixels):
    batch = tiffjet.read_many([(tiffjet.open(files[0]), None), (files[1], None)])
    assert (numpy.asarray(batch) == numpy.stack([pixels, pixels + 1])).all()


def test_windows_hang_over_where_there_is_a_pad(files, pixels):
    window = ((-2, 3), (898, 902))
    values = numpy.asarray(tiffjet.read_many([(files[0], window)], pad=65535))
    assert (values[0, :, 2:, :2] == pixels[:, :3, 898:]).all()
    assert (values[0, :, :2] == 65535).all() and (values[0, :, :, 2:] == 65535).all()
    with pytest.raises(IndexError, match="0.tif.*pad="):
        tiffjet.read_many([(files[0], window)])


def test_what_can_not_be_read_is_filled_where_that_is_wanted(files, pixels):
    with open("2.tif", "r+b") as file:
        file.seek(20000)
        file.write(bytes(5000))
    windows = [(name, ((0, 700), (0, 900))) for name in [*files, "none.tif"]]
    batch = tiffjet.read_many(windows, pad=1, on_error="fill")
    failed = dict(batch.report.failures)
    assert sorted(failed) == [2, 5] and "2.tif" in failed[2] and "none.tif" in failed[5]
    values = numpy.asarray(batch)
    for i in range(6):
        assert (values[i] == (1 if i in failed else pixels + i)).all()
    with pytest.raises(tiffjet.FormatError, match="2.tif"):
        tiffjet.read_many(windows[:5])
    with pytest.raises(FileNotFoundError, match="none.tif"):
        tiffjet.read_many(windows)


def test_windows_of_another_shape_or_type_are_refused(files, folder):
    with pytest.raises(ValueError, match="1.tif"):
        tiffjet.read_many([(files[0], ((0, 5), (0, 5))), (files[1], ((0, 6), (0, 5)))])
    tiffjet.to_geotiff(numpy.zeros((3, 10, 10)), "float.tif")
    with pytest.raises(ValueError, match="float.tif.*float64"):
        tiffjet.read_many([(files[0], ((0, 5), (0, 5))), ("float.tif", ((0, 5), (0, 5)))])


@pytest.mark.parametrize(("options", "error"), [({"pad": -1}, ValueError), ({"on_error": "ignore"}, ValueError),
                                                ({"bands": [0]}, IndexError), ({"bands": []}, ValueError),
                                                ({"level": 3}, IndexError)])
def test_arguments_that_make_no_sense(files, options, error):
    with pytest.raises(error):
        tiffjet.read_many([(files[0], ((0, 5), (0, 5)))], **options)
    with pytest.raises(ValueError):
        tiffjet.read_many([])
