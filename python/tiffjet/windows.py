"""Batches of windows from many files, for training: which windows (samplers), and reading them ahead of their use.

It knows no framework: batches are `tiffjet.Tensor`s, which NumPy, JAX, CuPy and PyTorch take without a copy. For
PyTorch's `DataLoader` there is `tiffjet.torch`.

>>> import numpy, tiffjet
>>> from tiffjet.windows import Batches, RandomWindows
>>> for i in range(3):
...     written = tiffjet.to_geotiff(numpy.full((100, 120), i, "uint8"), f"field{i}.tif")
>>> batches = Batches([f"field{i}.tif" for i in range(3)], RandomWindows(10, 32, seed=7), batch_size=4, device="cpu")
>>> [numpy.asarray(batch).shape for batch in batches]
[(4, 1, 32, 32), (4, 1, 32, 32), (2, 1, 32, 32)]
"""

from __future__ import annotations

import operator
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy

from . import _tiffjet
from ._files import File, Held, Images, name_file
from ._read import _bands, _rectangle
from ._tiffjet import Image, Tensor
from ._write import _positive

__all__ = ["Batches", "GridWindows", "ListedWindows", "PerFile", "RandomWindows", "Sampler"]

# Files that are opened at the same time: they wait for storage.
_OPENERS = 16


# ---------------------------------------------------------------------------------------------- samplers


class Sampler(Protocol):
    """Chooses windows. All processes that ask for the same epoch get the same ones in the same order."""

    size: tuple[int, int]

    def windows(self, shapes: numpy.ndarray, epoch: int) -> numpy.ndarray:
        """Rows of (file, y, x), the upper left pixel of each window, from rows of (height, width) of all files."""
        ...


def _pair(size: Any) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, (int, numpy.integer)) else size
    height, width = operator.index(height), operator.index(width)
    if height < 1 or width < 1:
        raise ValueError(f"size: {size!r} has no pixels")
    return height, width


def _random(seed: int, epoch: int) -> numpy.random.Generator:
    return numpy.random.default_rng([seed & 0xFFFFFFFF, epoch])


def _fitting(shapes: numpy.ndarray, size: tuple[int, int]) -> numpy.ndarray:
    """Rows and columns where a window can begin; a file that is too small is an error rather than left out."""
    room = shapes - numpy.asarray(size) + 1
    if (room < 1).any():
        number = int(numpy.flatnonzero((room < 1).any(axis=1))[0])
        raise ValueError(f"size: file {number} has {tuple(shapes[number].tolist())} pixels, windows have {size}")
    return room


def _corners(random: numpy.random.Generator, files: numpy.ndarray, room: numpy.ndarray) -> numpy.ndarray:
    corners = random.integers(0, room[files])
    return numpy.column_stack([files, corners]).astype("int64")


@dataclass(frozen=True)
class RandomWindows:
    """`count` windows an epoch, at any place of any file; a file has as many as its area or its weight says."""

    count: int
    size: Any
    seed: int = 0
    weights: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _pair(self.size))
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))

    def windows(self, shapes: numpy.ndarray, epoch: int) -> numpy.ndarray:
        room = _fitting(shapes, self.size)
        weights = numpy.asarray(self.weights if self.weights is not None else room.prod(axis=1), dtype="float64")
        if len(weights) != len(shapes) or not (weights >= 0).all() or not weights.sum() > 0:
            raise ValueError(f"weights: {len(shapes)} of them are meant, none below 0 and not all 0")
        random = _random(self.seed, epoch)
        return _corners(random, random.choice(len(shapes), self.count, p=weights / weights.sum()), room)


@dataclass(frozen=True)
class PerFile:
    """`count` random windows of each file, all files in a new order each epoch."""

    count: int
    size: Any
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _pair(self.size))

    def windows(self, shapes: numpy.ndarray, epoch: int) -> numpy.ndarray:
        room = _fitting(shapes, self.size)
        random = _random(self.seed, epoch)
        return _corners(random, random.permutation(numpy.repeat(numpy.arange(len(shapes)), self.count)), room)


@dataclass(frozen=True)
class GridWindows:
    """All windows of a grid, file by file; those at the edges hang over (`pad` is needed) or are left out.

    With a `seed` they come in another order each epoch.
    """

    size: Any
    stride: Any = None
    hang_over: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _pair(self.size))
        object.__setattr__(self, "stride", self.size if self.stride is None else _pair(self.stride))

    def windows(self, shapes: numpy.ndarray, epoch: int) -> numpy.ndarray:
        parts = [numpy.empty((0, 3), "int64")]
        for number, shape in enumerate(shapes.tolist()):
            over = 0 if self.hang_over else 1
            ends = [length - over * (side - 1) for length, side in zip(shape, self.size)]
            y, x = (numpy.arange(0, max(end, 0), step) for end, step in zip(ends, self.stride))
            corners = numpy.stack(numpy.meshgrid(y, x, indexing="ij"), axis=-1).reshape(-1, 2)
            parts.append(numpy.column_stack([numpy.full(len(corners), number), corners]).astype("int64"))
        windows = numpy.concatenate(parts)
        return windows if self.seed is None else _random(self.seed, epoch).permutation(windows)


@dataclass(frozen=True)
class ListedWindows:
    """Windows that somebody else chose: (number of the file, `((y0, y1), (x0, x1))`), all of one size."""

    listed: Any
    seed: int | None = None

    def __post_init__(self) -> None:
        rows = [(operator.index(file), *_rectangle(window)) for file, window in self.listed]
        sizes = {row[3:] for row in rows}
        if len(sizes) != 1:
            raise ValueError(f"windows: one size is meant, there are {sorted(sizes)}")
        object.__setattr__(self, "listed", tuple(row[:3] for row in rows))
        object.__setattr__(self, "size", _pair(sizes.pop()))

    def windows(self, shapes: numpy.ndarray, epoch: int) -> numpy.ndarray:
        windows = numpy.asarray(self.listed, dtype="int64")
        if ((windows[:, 0] < 0) | (windows[:, 0] >= len(shapes))).any():
            raise IndexError(f"windows: there are files 0 to {len(shapes) - 1}")
        return windows if self.seed is None else _random(self.seed, epoch).permutation(windows)


# ---------------------------------------------------------------------------------------------- files


def _most_open() -> int:
    """Half of the files that this process may have open: others want some too."""
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return max(soft // 2, 64) if soft > 0 else 4096
    except (ImportError, OSError):
        return 128


# Headers stay parsed as long as their files may stay open; a file that went is opened again.
_images = Images(min(_most_open(), 65536))


class Files:
    """Files of one kind: one type, and the same bands. Each is opened once to learn its size."""

    def __init__(self, sources: Iterable[Any], *, level: int, limits: Mapping[str, int] | None,
                 storage_options: Mapping[str, Any] | None) -> None:
        listed = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
        if not listed:
            raise ValueError("files: there are none")

        def learn(src: Any) -> tuple[File | Held, tuple[int, int], Any]:
            file = name_file(src, limits=limits, storage_options=storage_options)
            image = file.image()
            if isinstance(file, File):
                _images.put(file, image)
            if not 0 <= level < len(image.levels):
                raise IndexError(f"{image.name}: level {level}, there are levels 0 to {len(image.levels) - 1}")
            return file, image.levels[level].shape[1:], (image.dtype, image.shape[0])

        with ThreadPoolExecutor(min(_OPENERS, len(listed))) as threads:
            learned = list(threads.map(learn, listed))
        self.names = [file for file, _, _ in learned]
        self.shapes = numpy.array([shape for _, shape, _ in learned], dtype="int64").reshape(-1, 2)
        kinds = {kind for _, _, kind in learned}
        if len({dtype for dtype, _ in kinds}) > 1:
            raise ValueError(f"files: one type is meant, there are {sorted(str(dtype) for dtype, _ in kinds)}")
        self.dtype, self.bands = min(kinds, key=lambda kind: kind[1])
        self.alike = len(kinds) == 1

    def image(self, number: int) -> Image:
        file = self.names[number]
        return _images.get(file) if isinstance(file, File) else file.image()

    def label(self, number: int) -> str:
        file = self.names[number]
        return file.place if isinstance(file, File) and isinstance(file.place, str) else file.image().name


# ---------------------------------------------------------------------------------------------- batches


def _batch_count(windows: int, batch_size: int, drop_last: bool) -> int:
    return windows // batch_size if drop_last else -(-windows // batch_size)


class Batches:
    """Batches of windows of one size, read ahead on the device by threads of this process.

    Iterating gives a `Tensor` of axes (n, band, y, x) for each batch; with `with_windows` a pair of it and the list of
    (file, window). Each iteration is the next epoch, and `set_epoch` says which. What comes depends on the sampler, its
    seed and the epoch alone, not on threads, and all ranks together see every window once.

    Parameters
    ----------
    files
        What `open` takes, many of it: one type, and the same bands, or `bands` that all have.
    sampler
        Which windows: `RandomWindows`, `PerFile`, `GridWindows`, `ListedWindows`, or what has `size` and `windows`.
    batch_size
        Windows of a batch.
    bands, level, device, pad, on_error, limits, storage_options
        As for `read_many`.
    rank, world_size
        Which share of the windows this process reads. Shares are equally long: the last windows are left out
        (`drop_last`), or the first ones come again.
    drop_last
        Leave a last batch out that is not whole.
    prefetch
        Batches that are read before somebody asks for them; each takes its pixels of device memory.
    threads
        Batches that are read at once: while one is decoded, the next is on its way from storage.
    memory
        Bytes of device memory that each of them may use beside its pixels, a number or text like `"4GiB"`; a 32nd of
        the device's where nobody says, 1.5 GiB at least. Few large tiles that need more are decoded in two goes.
    """

    def __init__(self, files: Iterable[Any], sampler: Sampler, *, batch_size: int, bands: Any = None, level: int = 0,
                 device: Any = "auto", pad: Any = None, on_error: str = "raise", rank: int = 0, world_size: int = 1,
                 drop_last: bool = False, prefetch: int = 4, threads: int = 3, memory: int | str | None = None,
                 with_windows: bool = False, limits: Mapping[str, int] | None = None,
                 storage_options: Mapping[str, Any] | None = None) -> None:
        if on_error not in ("raise", "fill"):
            raise ValueError(f"on_error: {on_error!r} is neither raise nor fill")
        if batch_size < 1 or prefetch < 1 or threads < 1:
            raise ValueError("batch_size, prefetch, threads: one at least")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank: {rank} is none of {world_size}")
        if isinstance(device, (list, tuple)):
            raise ValueError("device: one is meant; each process of a training has its own")
        self.files = Files(files, level=level, limits=limits, storage_options=storage_options)
        if bands is None and not self.files.alike:
            raise ValueError("files: they have different numbers of bands, bands= says which are wanted")
        self.sampler = sampler
        self.batch_size = batch_size
        self.bands = None if bands is None else _bands(bands)
        self.level = level
        self.device = device
        self.pad = pad
        self.fill = on_error == "fill"
        self.rank, self.world_size = rank, world_size
        self.drop_last = drop_last
        self.prefetch, self.threads = prefetch, threads
        self.memory = None if memory is None else _positive(memory)
        self.with_windows = with_windows
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next iteration is."""
        self.epoch = operator.index(epoch)

    def windows(self, epoch: int) -> numpy.ndarray:
        """The windows of this rank in an epoch, in their order: rows of (file, y, x)."""
        windows = numpy.asarray(self.sampler.windows(self.files.shapes, epoch), dtype="int64").reshape(-1, 3)
        if self.world_size > 1 and len(windows):
            each = len(windows) // self.world_size if self.drop_last else -(-len(windows) // self.world_size)
            windows = numpy.resize(windows, (each * self.world_size, 3)) if each else windows[:0]
        return windows[self.rank :: self.world_size]

    def __len__(self) -> int:
        """Batches of an epoch."""
        return _batch_count(len(self.windows(self.epoch)), self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        return self.share(0, 1)

    def share(self, worker: int, workers: int, finish: Callable[[Tensor], Any] | None = None) -> Ahead:
        """Every `workers`-th batch of the next epoch, from `worker` on; `finish` makes of a batch what is given."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        windows = self.windows(epoch)
        count = _batch_count(len(windows), self.batch_size, self.drop_last)
        parts = [windows[i * self.batch_size : (i + 1) * self.batch_size] for i in range(worker, count, workers)]
        finish = finish or (lambda tensor: tensor)

        def read(part: numpy.ndarray) -> Any:
            batch = finish(self.read(part))
            return (batch, self.told(part)) if self.with_windows else batch

        return Ahead(read, parts, self.prefetch, self.threads)

    def read(self, windows: numpy.ndarray) -> Tensor:
        """Reads windows, rows of (file, y, x), as one batch."""
        height, width = self.sampler.size
        items = []
        for file, y, x in windows.tolist():
            try:
                image: Any = self.files.image(file)
            except (OSError, ValueError, NotImplementedError) as error:
                if not self.fill:
                    raise
                image = str(error)
            items.append((image, (y, x, height, width)))
        return _tiffjet._read_many(items, self.bands, self.level, self.device, self.pad, self.fill, self.memory)

    def told(self, windows: numpy.ndarray) -> list[tuple[str, tuple[tuple[int, int], tuple[int, int]]]]:
        """File and window of each, as `read_many` takes them."""
        height, width = self.sampler.size
        return [(self.files.label(file), ((y, y + height), (x, x + width))) for file, y, x in windows.tolist()]


class Ahead:
    """Does work in threads before its results are asked for, and gives them in order. It ends with the iteration."""

    def __init__(self, work: Callable[[Any], Any], parts: Sequence[Any], ahead: int, threads: int) -> None:
        self._work = work
        self._parts = iter(parts)
        self._ahead = ahead
        self._process = os.getpid()
        self._coming: deque[Future[Any]] = deque()
        self._turn = threading.Lock()
        self._pool = ThreadPoolExecutor(min(threads, ahead), thread_name_prefix="tiffjet-batches")
        self._fill()

    def _fill(self) -> None:
        while len(self._coming) < self._ahead:
            part = next(self._parts, None)
            if part is None:
                return
            self._coming.append(self._pool.submit(self._work, part))

    def __iter__(self) -> Ahead:
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():
            raise RuntimeError(
                "this iteration began in another process, whose threads are not here: begin it in this one "
                "(DataLoader(num_workers=0) needs no other; with workers, the dataset itself is what they get)"
            )
        with self._turn:
            if not self._coming:
                self.close()
                raise StopIteration
            try:
                result = self._coming.popleft().result()
            except BaseException:
                self.close()
                raise
            self._fill()
            return result

    def close(self) -> None:
        """Lets go of what is still to come."""
        self._parts = iter(())
        while self._coming:
            self._coming.popleft().cancel()
        if self._process == os.getpid():
            self._pool.shutdown(wait=False, cancel_futures=True)

    def __del__(self) -> None:
        if hasattr(self, "_pool"):
            self.close()

