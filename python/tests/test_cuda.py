"""Reading and writing on a GPU: pixels, who can take and give them, what happens to the rest of the process. Skipped where
there is none."""

import io
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


def written(data, **options):
    """A file of them, and what was written."""
    stream = io.BytesIO()
    told = tiffjet.to_geotiff(data, stream, tile_size=128, **options)
    return stream.getvalue(), told


@pytest.mark.parametrize("compression", ["none", "packbits", "lzw", "zstd"])
def test_arrays_are_encoded_where_they_are(pixels, compression):
    cupy = pytest.importorskip("cupy")
    array = cupy.asarray(pixels)
    whole, told = written(array, compression=compression, fallback="forbid", cog=True)
    assert told.report.device_memory > 0 and told.report.fallbacks == []
    assert all(route.endswith("cuda:0") for route, _ in told.report.routes)
    assert numpy.array_equal(numpy.asarray(tiffjet.open(whole).read(device="cpu")), pixels)
    last = cupy.ascontiguousarray(array.transpose(1, 2, 0)).transpose(2, 0, 1)
    turned = cupy.ascontiguousarray(array[:, ::-1, ::-1])[:, ::-1, ::-1]
    for other in (last, turned):
        assert written(other, compression=compression, cog=True)[0] == whole
    assert written(pixels, compression=compression, device="cuda", cog=True)[0] == whole
    assert written(array, compression=compression, memory="1MiB", cog=True)[0] == whole
    host = tiffjet.open(written(array, compression=compression, device="cpu", cog=True)[0])
    for level in range(len(host.levels)):
        pair = [numpy.asarray(image.read(level=level, device="cpu")) for image in (host, tiffjet.open(whole))]
        assert numpy.array_equal(*pair)


def test_torch_and_own_tensors_are_written(cog, pixels):
    torch = pytest.importorskip("torch")
    tensor = tiffjet.open(cog).read(device="cuda")
    whole, told = written(tensor)
    assert told.report.device_memory > 0
    assert numpy.array_equal(numpy.asarray(tiffjet.open(whole).read(device="cpu")), pixels)
    floats = torch.arange(120000, device="cuda", dtype=torch.float32, requires_grad=True).reshape(300, 400)
    back = tiffjet.open(written(floats)[0]).read(device="cpu")
    assert numpy.array_equal(numpy.asarray(back)[0], floats.detach().cpu().numpy())


def test_nan_becomes_nodata_and_the_array_stays():
    cupy = pytest.importorskip("cupy")
    array = cupy.arange(90000, dtype="float32").reshape(300, 300)
    array[100:200, 50:250] = numpy.nan
    before = array.copy()
    whole, _ = written(array, nodata=-9999, cog=True)
    assert bool((array.view("uint32") == before.view("uint32")).all())
    due = numpy.nan_to_num(cupy.asnumpy(array), nan=-9999)
    assert numpy.array_equal(numpy.asarray(tiffjet.open(whole).read(device="cpu"))[0], due)


def test_dask_of_cupy_is_streamed(pixels):
    cupy = pytest.importorskip("cupy")
    dask = pytest.importorskip("dask.array")
    chunks = dask.from_array(pixels, chunks=(2, 150, 400)).map_blocks(cupy.asarray, meta=cupy.empty((0, 0, 0), "uint16"))
    whole, _ = written(cupy.asarray(pixels), cog=True)
    assert written(chunks, cog=True, memory="2MiB")[0] == whole
    assert written(dask.from_array(pixels, chunks=(3, 90, 900)), cog=True, device="cuda")[0] == whole


def test_masks_of_either_side(pixels):
    cupy = pytest.importorskip("cupy")
    mask = pixels[0] % 5 > 0
    whole, _ = written(cupy.asarray(pixels), mask=cupy.asarray(mask))
    assert written(cupy.asarray(pixels), mask=mask)[0] == whole
    assert written(pixels, mask=mask, device="cuda")[0] == whole
    assert numpy.array_equal(numpy.asarray(tiffjet.open(whole).read_mask(device="cpu")).squeeze() != 0, mask)


def test_a_level_that_the_gpu_does_not_have_is_told_once(pixels):
    cupy = pytest.importorskip("cupy")
    _, told = written(cupy.asarray(pixels), compression="zstd", compression_level=19)
    assert len(told.report.fallbacks) == 1 and "19" in told.report.fallbacks[0]
    with pytest.raises(NotImplementedError, match="19"):
        written(cupy.asarray(pixels), compression="zstd", compression_level=19, fallback="forbid")


@pytest.mark.parametrize("compression", ["zstd", "deflate", "lzw"])
@pytest.mark.parametrize("chunks", [(3, 128, 256), (2, 150, 400)])
def test_chunks_of_several_gpus_give_the_same_bytes(pixels, compression, chunks, monkeypatch):
    """Two GPUs that are one: parts are encoded apart from each other, and the file is that of one write."""
    cupy = pytest.importorskip("cupy")
    dask = pytest.importorskip("dask.array")
    from tiffjet import _devices

    meta = cupy.empty((0, 0, 0), "uint16")
    array = dask.from_array(pixels, chunks=chunks).map_blocks(cupy.asarray, meta=meta)
    whole, _ = written(cupy.asarray(pixels), cog=True, compression=compression)
    monkeypatch.setattr(_devices, "usable", lambda: ["cuda:0", "cuda:0"])
    assert written(array, cog=True, compression=compression)[0] == whole
    mask = pixels[0] % 5 > 0
    masked, _ = written(cupy.asarray(pixels), mask=cupy.asarray(mask), compression=compression)
    assert written(array, mask=mask, compression=compression)[0] == masked


def test_workers_of_a_cluster_encode_on_their_gpu(pixels):
    cupy = pytest.importorskip("cupy")
    dask = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    whole, _ = written(cupy.asarray(pixels), cog=True)
    array = dask.from_array(pixels, chunks=(3, 150, 400)).map_blocks(cupy.asarray, meta=cupy.empty((0, 0, 0), "uint16"))
    with distributed.Client(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=None):
        assert written(array, cog=True)[0] == whole


def test_chunks_take_turns_between_devices(cog, pixels):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("dask.array")
    for device in (["cuda:0", 0], "cuda:all", lambda index: index[2] % 1):
        array = tiffjet.open_geotiff(cog, device=device, chunks=256)
        assert isinstance(array.data._meta, cupy.ndarray) or callable(device)
        assert numpy.array_equal(cupy.asnumpy(array.data.compute()), pixels)


@pytest.mark.parametrize("chunks", [None, 300])
def test_mosaics_hold_cupy(folder, pixels, chunks):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("xarray")
    if chunks:
        pytest.importorskip("dask.array")
    names = []
    for number, column in enumerate((0, 500)):
        grid = (10, 0, 5e5 + 10 * column, 0, -10, 6e6)
        tiffjet.to_geotiff(pixels[:, :, column : column + 400 + 100 * (1 - number)] % 9, f"{number}.tif", crs=32633, transform=grid, nodata=0)
        names.append(f"{number}.tif")
    for overlap in ("first_valid", "last"):
        here = tiffjet.open_mosaic(names, device="cpu", overlap=overlap).values
        there = tiffjet.open_mosaic(names, device="cuda", overlap=overlap, chunks=chunks).data
        there = there.compute() if chunks else there
        assert isinstance(there, cupy.ndarray) and numpy.array_equal(cupy.asnumpy(there), here)


def test_batches_for_torch(cog, pixels):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    from tiffjet.torch import RandomWindows, WindowDataset, WindowMap

    dataset = WindowDataset([cog, cog], RandomWindows(50, 64, seed=1), batch_size=8, device="cuda", with_windows=True)
    side = torch.cuda.Stream()
    count = 0
    with torch.cuda.stream(side):
        for batch, windows in DataLoader(dataset, batch_size=None, num_workers=0):
            assert batch.is_cuda
            for values, (_, ((y0, y1), (x0, x1))) in zip(batch.cpu().numpy(), windows):
                assert numpy.array_equal(values, pixels[:, y0:y1, x0:x1])
                count += 1
    assert count == 50
    mapped = WindowMap([cog], RandomWindows(20, 64, seed=2), device=torch.device("cuda:0"))
    assert sum(len(batch) for batch in DataLoader(mapped, batch_size=6)) == 20


def test_batches_for_jax(cog, pixels):
    jax = pytest.importorskip("jax")
    from tiffjet.windows import Batches, GridWindows

    for batch in Batches([cog], GridWindows(128), batch_size=4, device="cuda"):
        try:
            taken = jax.dlpack.from_dlpack(batch)
        except RuntimeError as error:
            pytest.skip(f"JAX has no GPU here: {error}")
        assert numpy.array_equal(numpy.asarray(taken), numpy.asarray(batch.cpu()))


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
