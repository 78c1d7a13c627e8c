"""The datasets of `tiffjet.torch`, apart from it because they can't be defined without PyTorch."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from . import _devices
from ._tiffjet import Tensor
from .windows import Ahead, Batches, Sampler


def _share() -> tuple[int, int]:
    """Rank and number of ranks of a training that has begun, else the only one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _name(device: Any) -> Any:
    """A device of torch in the words of tiffjet."""
    return str(device) if isinstance(device, torch.device) else device


def _check_worker(device: Any) -> None:
    """A worker that was forked can't use the GPU of its parent; say so before the driver does."""
    worker = get_worker_info()
    method = multiprocessing.get_start_method(allow_none=True)
    if worker is not None and _devices.is_cuda(device) and method not in ("spawn", "forkserver"):
        raise RuntimeError(
            f"tiffjet: DataLoader(num_workers={worker.num_workers}) forks its workers, and a fork can't use CUDA. Use "
            "num_workers=0: batches are read ahead by threads of this process. (Or multiprocessing_context='spawn', where "
            "each worker makes a context of the GPU for itself.)"
        )


def as_torch(tensor: Tensor) -> torch.Tensor:
    """The same memory as a tensor of torch; work of its current stream comes after the pixels."""
    return torch.from_dlpack(tensor)


class _Kept:
    """Gives batches, and keeps each until the stream that it was given on is done with it.

    Memory that tiffjet lends goes back to its pool when the last one lets go, and streams beside the default one are
    not waited for then.
    """

    def __init__(self, batches: Ahead) -> None:
        self._batches = batches
        self._given: deque[tuple[Any, Any]] = deque()
        self._last: Any = None

    def __iter__(self) -> _Kept:
        return self

    def __next__(self) -> Any:
        if self._last is not None:
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(self._last.device))
            self._given.append((event, self._last))
            self._last = None
        while self._given and self._given[0][0].query():
            self._given.popleft()
        batch = next(self._batches)
        tensor = batch[0] if isinstance(batch, tuple) else batch
        self._last = tensor if tensor.is_cuda else None
        return batch


class WindowDataset(IterableDataset):
    """Whole batches of windows, for `DataLoader(dataset, batch_size=None, num_workers=0)` or to iterate over as it is.

    It takes what `tiffjet.windows.Batches` takes. `rank` and `world_size` are those of `torch.distributed` where that has
    begun. Each iteration is the next epoch; `set_epoch` says which.
    """

    def __init__(self, files: Iterable[Any], sampler: Sampler, *, batch_size: int, device: Any = "auto",
                 rank: int | None = None, world_size: int | None = None, **options: Any) -> None:
        super().__init__()
        own = _share()
        self.batches = Batches(
            files, sampler, batch_size=batch_size, device=_name(device), rank=own[0] if rank is None else rank,
            world_size=own[1] if world_size is None else world_size, **options,
        )

    def set_epoch(self, epoch: int) -> None:
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        _check_worker(self.batches.device)
        worker = get_worker_info()
        which = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return _Kept(self.batches.share(*which, finish=as_torch))


class WindowMap(Dataset):
    """Windows by number, for samplers and batches of PyTorch's own: a batch that is asked for at once is read at once.

    It takes what `tiffjet.windows.Batches` takes, apart from what a `DataLoader` decides: batches, ranks and order.
    """

    def __init__(self, files: Iterable[Any], sampler: Sampler, *, device: Any = "auto", epoch: int = 0,
                 **options: Any) -> None:
        super().__init__()
        self.batches = Batches(files, sampler, batch_size=1, device=_name(device), **options)
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """The windows of another epoch of the sampler."""
        self.batches.set_epoch(epoch)
        self.windows = self.batches.windows(epoch)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        """What PyTorch's loaders ask for where they know the whole batch."""
        _check_worker(self.batches.device)
        windows = self.windows[numpy.asarray(numbers, dtype="int64")]
        read = as_torch(self.batches.read(windows))
        tensors = list(read.unbind(0))
        return list(zip(tensors, self.batches.told(windows))) if self.batches.with_windows else tensors
