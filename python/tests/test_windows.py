"""Batches of windows for training: which windows, who gets which, and that they are the right pixels."""

import os
import pickle
import subprocess
import sys
import threading
import types

import numpy
import pytest

import tiffjet
from conftest import read
from tiffjet.windows import Batches, GridWindows, ListedWindows, PerFile, RandomWindows

SHAPES = [(100, 120), (64, 200), (150, 90)]


@pytest.fixture
def files(folder):
    names = []
    for i, shape in enumerate(SHAPES):
        values = numpy.random.default_rng(i).integers(0, 60000, (2, *shape)).astype("uint16")
        tiffjet.to_geotiff(values, f"{i}.tif", tile_size=32)
        names.append(str(folder / f"{i}.tif"))
    return names


def batches(files, sampler, **options):
    return Batches(files, sampler, **{"batch_size": 5, "device": "cpu", **options})


def all_windows(given):
    return [window for _, windows in given for window in windows]


@pytest.mark.parametrize("threads", [1, 3])
def test_pixels_are_those_of_the_files(files, threads):
    count = 0
    for batch, windows in batches(files, RandomWindows(23, (20, 30), seed=4), with_windows=True, threads=threads):
        for values, (name, ((y0, y1), (x0, x1))) in zip(numpy.asarray(batch), windows):
            assert numpy.array_equal(values, read(name)[:, y0:y1, x0:x1])
            count += 1
    assert count == 23


def test_the_same_seed_gives_the_same_windows(files):
    one, other = (batches(files, RandomWindows(40, 16, seed=1), with_windows=True, threads=n) for n in (1, 3))
    first, second = all_windows(one), all_windows(one)
    assert first == all_windows(other) and second == all_windows(other)
    assert first != second
    one.set_epoch(0)
    assert all_windows(one) == first
    assert all_windows(batches(files, RandomWindows(40, 16, seed=2), with_windows=True)) != first


def test_samplers():
    shapes = numpy.array(SHAPES)
    inside = RandomWindows(5000, 16, seed=3).windows(shapes, 0)
    room = (shapes - 16)[inside[:, 0]]
    assert (inside[:, 1:] >= 0).all() and (inside[:, 1:] <= room).all()
    assert (inside[:, 1:] == room).any(axis=0).all() and (inside[:, 1:] == 0).any(axis=0).all()
    assert set(RandomWindows(100, 16, weights=[0, 1, 0]).windows(shapes, 0)[:, 0]) == {1}
    assert numpy.bincount(PerFile(7, 16).windows(shapes, 5)[:, 0]).tolist() == [7, 7, 7]
    grid = GridWindows(32, stride=(32, 16)).windows(shapes, 0)
    assert (grid[:, 1:] + 32 <= shapes[grid[:, 0]]).all() and len(grid) == 3 * 6 + 2 * 11 + 4 * 4
    over = GridWindows(32, hang_over=True).windows(shapes, 0)
    assert len(over) == 4 * 4 + 2 * 7 + 5 * 3
    mixed = GridWindows(32, seed=1)
    assert sorted(mixed.windows(shapes, 0).tolist()) == GridWindows(32).windows(shapes, 0).tolist()
    assert mixed.windows(shapes, 0).tolist() != mixed.windows(shapes, 1).tolist()
    with pytest.raises(ValueError, match="file 1"):
        RandomWindows(3, 80).windows(shapes, 0)
    for bad in (lambda: RandomWindows(1, 0), lambda: RandomWindows(2, 16, weights=[1, 2]).windows(shapes, 0),
                lambda: ListedWindows([(0, ((0, 5), (0, 5))), (0, ((0, 6), (0, 5)))])):
        with pytest.raises(ValueError):
            bad()


@pytest.mark.parametrize(("count", "drop_last"), [(40, False), (41, False), (41, True), (3, False)])
def test_ranks_and_workers_share_the_windows(files, count, drop_last):
    sampler = RandomWindows(count, 16, seed=1)
    everything = all_windows(batches(files, sampler, with_windows=True))
    seen, lengths = [], set()
    for rank in range(4):
        own = batches(files, sampler, rank=rank, world_size=4, drop_last=drop_last, with_windows=True, batch_size=2)
        assert len(own) == len(list(own))
        own.set_epoch(0)
        whole = all_windows(own)
        parts = []
        for worker in range(3):
            own.set_epoch(0)
            parts.append([windows for _, windows in own.share(worker, 3)])
        # Every worker has every third batch.
        together = [parts[i % 3][i // 3] for i in range(sum(map(len, parts)))]
        assert [window for windows in together for window in windows] == whole
        seen += whole
        lengths.add(len(whole))
    assert len(lengths) == 1
    assert set(seen) <= set(everything) and (drop_last or set(seen) == set(everything))


def test_windows_that_hang_over_and_files_that_break(files, folder):
    sampler = GridWindows(64, hang_over=True)
    with pytest.raises((ValueError, IndexError)):
        list(batches(files, sampler))
    padded = batches(files, sampler, pad=9, with_windows=True)
    for batch, windows in padded:
        for values, (name, ((y0, _), (x0, _))) in zip(numpy.asarray(batch), windows):
            due = read(name)[:, y0 : y0 + 64, x0 : x0 + 64]
            assert numpy.array_equal(values[:, : due.shape[1], : due.shape[2]], due)
            assert (values[:, due.shape[1] :] == 9).all() and (values[:, :, due.shape[2] :] == 9).all()
    data = bytearray(open(files[1], "rb").read())
    data[len(data) // 2 : len(data) // 2 + 3000] = b"\xff" * 3000
    with open("broken.tif", "wb") as file:
        file.write(data)
    broken = [files[0], "broken.tif"]
    with pytest.raises(tiffjet.FormatError, match="broken.tif"):
        list(batches(broken, GridWindows(32)))
    failures = [failure for batch in batches(broken, GridWindows(32), on_error="fill") for failure in batch.report.failures]
    assert failures and all("broken.tif" in why for _, why in failures)


def test_what_is_refused(files):
    sampler = RandomWindows(4, 16)
    tiffjet.to_geotiff(numpy.zeros((1, 100, 100), "uint16"), "one.tif")
    tiffjet.to_geotiff(numpy.zeros((2, 100, 100), "uint8"), "bytes.tif")
    for given, options in (([], {}), ([*files, "bytes.tif"], {}), ([*files, "one.tif"], {}), (files, {"batch_size": 0}),
                           (files, {"rank": 2, "world_size": 2}), (files, {"on_error": "skip"}), (files, {"device": ["cpu", "cpu"]})):
        with pytest.raises(ValueError):
            batches(given, sampler, **options)
    assert [numpy.asarray(batch).shape[1] for batch in batches([*files, "one.tif"], sampler, bands=1)] == [1]
    with pytest.raises(FileNotFoundError):
        batches(["gone.tif"], sampler)


def test_nothing_runs_ahead_without_end(files):
    read_so_far = []
    own = batches(files, RandomWindows(1000, 16), prefetch=3, threads=2)
    reading, own.read = own.read, lambda windows: read_so_far.append(1) or reading(windows)
    ahead = iter(own)
    for _ in range(4):
        next(ahead)
    assert len(read_so_far) <= 4 + 3
    ahead.close()
    with pytest.raises(StopIteration):
        next(ahead)
    del ahead
    names = [thread.name for thread in threading.enumerate() if thread.is_alive() and thread.name.startswith("tiffjet-batches")]
    assert len(names) <= 2


def test_more_files_than_may_be_open(files, monkeypatch):
    from tiffjet import _files, windows

    monkeypatch.setattr(windows, "_images", _files.Images(1))
    own = batches(files, PerFile(6, 16, seed=2), with_windows=True)
    for batch, told in own:
        for values, (name, ((y0, y1), (x0, x1))) in zip(numpy.asarray(batch), told):
            assert numpy.array_equal(values, read(name)[:, y0:y1, x0:x1])


def test_an_iteration_stays_in_its_process(files):
    ahead = iter(batches(files, RandomWindows(20, 16)))
    ahead._process = os.getpid() + 1
    with pytest.raises(RuntimeError, match="another process"):
        next(ahead)


# ---------------------------------------------------------------------------------------------- PyTorch


def stand_in():
    """As much of PyTorch as the datasets use, for machines without it."""
    torch = types.ModuleType("torch")
    data = types.ModuleType("torch.utils.data")

    class Dataset:
        pass

    class IterableDataset(Dataset):
        pass

    class Tensor(numpy.ndarray):
        is_cuda = False

        def unbind(self, axis):
            return [self.take(i, axis) for i in range(self.shape[axis])]

    data.Dataset, data.IterableDataset, data.get_worker_info = Dataset, IterableDataset, lambda: None
    torch.from_dlpack = lambda tensor: numpy.from_dlpack(tensor).view(Tensor)
    torch.device = type("device", (), {})
    torch.Tensor = Tensor
    torch.distributed = types.SimpleNamespace(is_available=lambda: False)
    torch.utils = types.SimpleNamespace(data=data)
    return {"torch": torch, "torch.utils": types.ModuleType("torch.utils"), "torch.utils.data": data}


@pytest.fixture
def torch(monkeypatch):
    try:
        import torch
    except ImportError:
        for name, module in stand_in().items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.delitem(sys.modules, "tiffjet._torch", raising=False)
        torch = sys.modules["torch"]
    yield torch
    sys.modules.pop("tiffjet._torch", None)
    if hasattr(tiffjet, "_torch"):
        del tiffjet._torch


def test_datasets(files, torch):
    from tiffjet.torch import WindowDataset, WindowMap

    sampler = RandomWindows(11, 16, seed=3)
    due = [numpy.asarray(batch) for batch in batches(files, sampler)]
    dataset = WindowDataset(files, sampler, batch_size=5, device="cpu")
    assert isinstance(dataset, torch.utils.data.IterableDataset) and len(dataset) == 3
    found = list(dataset)
    assert all(isinstance(batch, torch.Tensor) for batch in found)
    assert all(numpy.array_equal(numpy.asarray(batch), values) for batch, values in zip(found, due))
    windows = WindowMap(files, sampler, device="cpu")
    assert len(windows) == 11
    together = numpy.concatenate(due)
    assert numpy.array_equal(numpy.asarray(windows[7]), together[7])
    assert all(numpy.array_equal(numpy.asarray(values), together[i]) for values, i in zip(windows.__getitems__([3, 9, 3]), (3, 9, 3)))


def test_a_loader_takes_them(files):
    data = pytest.importorskip("torch.utils.data")
    from tiffjet.torch import WindowDataset, WindowMap

    sampler = RandomWindows(11, 16, seed=3)
    due = [numpy.asarray(batch) for batch in batches(files, sampler)]
    loader = data.DataLoader(WindowDataset(files, sampler, batch_size=5, device="cpu"), batch_size=None, num_workers=0)
    assert all(numpy.array_equal(batch.numpy(), values) for batch, values in zip(loader, due))
    mapped = data.DataLoader(WindowMap(files, sampler, device="cpu"), batch_size=5)
    assert all(numpy.array_equal(batch.numpy(), values) for batch, values in zip(mapped, due))


def test_a_forked_worker_is_told_what_to_do(files, torch, monkeypatch):
    from tiffjet import _torch
    from tiffjet.torch import WindowDataset

    dataset = WindowDataset(files, RandomWindows(4, 16), batch_size=2, device="cpu")
    dataset.batches.device = "cuda"
    monkeypatch.setattr(_torch, "get_worker_info", lambda: types.SimpleNamespace(id=0, num_workers=4))
    monkeypatch.setattr(_torch.multiprocessing, "get_start_method", lambda allow_none: None)
    with pytest.raises(RuntimeError, match="num_workers=0"):
        iter(dataset)


def test_datasets_go_to_other_processes(files, torch):
    own = pickle.loads(pickle.dumps(batches(files, RandomWindows(6, 16, seed=1))))
    assert [numpy.asarray(batch).shape for batch in own] == [(5, 2, 16, 16), (1, 2, 16, 16)]


def test_nothing_of_torch_is_imported_before_it_is_used():
    code = "import sys, tiffjet.torch, tiffjet.windows; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    import tiffjet.torch

    with pytest.raises(AttributeError):
        tiffjet.torch.nothing
