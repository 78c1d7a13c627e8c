"""Reading on a GPU: pixels, who can take them, what happens to the rest of the process. Skipped where there is none."""

import multiprocessing

import numpy
import pytest

import tiffjet

pytestmark = pytest.mark.skipif(
    all(device["device"] == "cpu" for device in tiffjet.doctor()["devices"]), reason="there is no GPU"
)


@pytest.mark.parametrize("compression", ["none", "packbits", "lzw", "deflate", "zstd"])
def test_pixels_are_those_of_the_cpu(folder, pixels, compression):
    tiffjet.to_geotiff(pixels, "a.tif", compression=compression, tile_size=128)
    image = tiffjet.open("a.tif")
    tensor = image.read(device="cuda", fallback="forbid")
    assert tensor.device == "cuda:0"
    assert numpy.array_equal(numpy.asarray(tensor.cpu()), pixels)
    part = image.read(((100, 301), (57, 400)), bands=[3, 1], device="cuda:0", fallback="forbid")
    assert numpy.array_equal(numpy.asarray(part.cpu()), pixels[[2, 0], 100:301, 57:400])


def test_a_codec_without_a_gpu_route_goes_by_the_host_and_says_so(folder, pixels):
    tiffjet.to_geotiff(pixels, "a.tif", compression="lzma")
    image = tiffjet.open("a.tif")
    assert numpy.array_equal(numpy.asarray(image.read(device="cuda").cpu()), pixels)
    with pytest.raises(NotImplementedError, match="lzma"):
        image.read(device="cuda", fallback="forbid")


def test_cupy_takes_it_without_a_copy(cog, pixels):
    cupy = pytest.importorskip("cupy")
    tensor = tiffjet.open(cog).read(device="cuda")
    for array in (cupy.from_dlpack(tensor), cupy.asarray(tensor)):
        assert array.data.ptr == tensor.__cuda_array_interface__["data"][0]
        assert numpy.array_equal(cupy.asnumpy(array), pixels)


def test_torch_and_jax_take_it(cog, pixels):
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(tiffjet.open(cog).read(device="cuda"))
    assert tensor.is_cuda
    assert numpy.array_equal(tensor.cpu().numpy(), pixels)


def test_memory_of_the_caller(cog, pixels):
    cupy = pytest.importorskip("cupy")
    out = cupy.zeros((3, 700, 900), "uint16")
    tiffjet.open(cog).read(device="cuda", out=out, stream=cupy.cuda.get_current_stream())
    assert numpy.array_equal(cupy.asnumpy(out), pixels)


def test_memory_of_the_host_is_filled_by_the_cpu(cog, pixels):
    out = numpy.zeros((3, 700, 900), "uint16")
    for device in ({}, {"device": "auto"}):
        out[:] = 0
        assert tiffjet.open(cog).read(out=out, **device).device == "cpu"
        assert (out == pixels).all()


def test_memory_of_another_pool(cog, pixels):
    cupy = pytest.importorskip("cupy")
    image = tiffjet.open(cog)
    asked = []

    def allocate(size, stream, device):
        asked.append((size, device))
        return cupy.empty(size, "uint8")

    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    for allocator in (allocate, "cupy"):
        tensor = image.read(device="cuda", allocator=allocator)
        assert pool.used_bytes() >= before + pixels.nbytes
        assert numpy.array_equal(cupy.asnumpy(cupy.from_dlpack(tensor)), pixels)
        del tensor
        assert pool.used_bytes() == before
    assert asked == [(pixels.nbytes, 0)]
    with pytest.raises(ValueError, match="instead of"):
        image.read(device="cuda", allocator=lambda size, stream, device: cupy.empty(size - 1, "uint8"))
    with pytest.raises(ValueError, match="out, allocator"):
        image.read(device="cuda", allocator="cupy", out=cupy.zeros((3, 700, 900), "uint16"))


def test_memory_of_torch(cog, pixels):
    torch = pytest.importorskip("torch")
    tensor = tiffjet.open(cog).read(device="cuda", allocator="torch")
    assert torch.cuda.memory_allocated() >= pixels.nbytes
    assert numpy.array_equal(torch.from_dlpack(tensor).cpu().numpy(), pixels)


def test_many_windows(cog, pixels):
    windows = [((y, y + 64), (x, x + 64)) for y, x in ((0, 0), (130, 250), (680, 880))]
    tensor = tiffjet.read_many([(cog, window) for window in windows], device="cuda", pad=9)
    found = numpy.asarray(tensor.cpu())
    assert found.shape == (3, 3, 64, 64)
    assert numpy.array_equal(found[1], pixels[:, 130:194, 250:314])
    assert (found[2, :, 20:, :] == 9).all() and numpy.array_equal(found[2, :, :20, :20], pixels[:, 680:, 880:])


def test_data_arrays_hold_cupy(cog, pixels):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("xarray")
    array = tiffjet.open_geotiff(cog, device="cuda")
    assert isinstance(array.data, cupy.ndarray)
    assert numpy.array_equal(cupy.asnumpy(array.data), pixels)
    masked = tiffjet.open_geotiff(cog, device="cuda", masked=True)
    assert numpy.array_equal(cupy.asnumpy(cupy.isnan(masked.data)), pixels == 7)


def test_chunks_hold_cupy(cog, pixels):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("dask.array")
    array = tiffjet.open_geotiff(cog, device="cuda", chunks=256)
    assert numpy.array_equal(cupy.asnumpy(array.data.compute()), pixels)


def test_a_damaged_tile_is_an_error_and_the_next_read_works(folder, pixels):
    tiffjet.to_geotiff(pixels, "good.tif", compression="zstd", tile_size=128)
    data = bytearray(open("good.tif", "rb").read())
    data[len(data) // 2 : len(data) // 2 + 64] = b"\xff" * 64
    with pytest.raises(tiffjet.FormatError, match="zstd"):
        tiffjet.open(bytes(data)).read(device="cuda")
    assert numpy.array_equal(numpy.asarray(tiffjet.open("good.tif").read(device="cuda").cpu()), pixels)


def _read_in_child(path, queue):
    try:
        tiffjet.open(path).read(device="cuda")
        queue.put("no error")
    except RuntimeError as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_after_use_is_an_error_that_says_what_to_do(cog):
    tiffjet.open(cog).read(device="cuda")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_read_in_child, args=(cog, queue))
    child.start()
    assert "spawn" in queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0
