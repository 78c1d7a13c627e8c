"""dask: chunks of whole tiles when reading, one row of chunks at a time when writing."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from . import _devices, _parts
from ._tiffjet import UnavailableError
from ._write import (
    _MEMORY, Budget, Place, Raster, _positive, device_of, on_device, slab_rows, to_host, written_dtype,
)

__all__ = ["Chunked", "chunk_sizes", "from_pixels"]


# ---------------------------------------------------------------------------------------------- reading


def preferred(shape: Sequence[int], itemsize: int, tile: Sequence[int], size: int = 16 << 20) -> tuple[int, int, int]:
    """Bands, rows and columns of a chunk: all bands, and so many whole tiles each way that it has about `size` bytes."""
    bands, height, width = shape
    down, across = min(tile[0], height), min(tile[1], width)
    pixel = max(bands * itemsize, 1)
    # Doubled in turn, so that chunks stay about square.
    while 2 * down * across * pixel <= size and (down < height or across < width):
        if across < width and (across <= down or down >= height):
            across = min(2 * across, -(-width // tile[1]) * tile[1])
        else:
            down = min(2 * down, -(-height // tile[0]) * tile[0])
    return bands, min(down, height), min(across, width)


def chunk_sizes(chunks: Any, shape: Sequence[int], dtype: numpy.dtype, tile: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Sizes of chunks along (band, y, x) from what users write: 'auto', True, numbers, tuples, dicts.

    What is left to choose becomes whole tiles.

    Examples
    --------
    >>> import numpy
    >>> from tiffjet.dask import chunk_sizes
    >>> chunk_sizes({"y": 512}, (3, 1000, 700), numpy.dtype("uint8"), (256, 256))
    ((3,), (512, 488), (700,))
    >>> chunk_sizes(512, (3, 1000, 700), numpy.dtype("uint8"), (256, 256))
    ((3,), (512, 488), (512, 188))
    """
    import dask
    from dask.array.core import normalize_chunks
    from dask.utils import parse_bytes

    if chunks is True or (isinstance(chunks, dict) and not chunks):
        chunks = "auto" if chunks is True else preferred(shape, dtype.itemsize, tile)
    if isinstance(chunks, dict):
        unknown = set(chunks) - {"band", "y", "x", 0, 1, 2}
        if unknown:
            raise ValueError(f"chunks: there are no axes {unknown}")
        wanted = [chunks.get(name, chunks.get(axis, -1)) for axis, name in enumerate(("band", "y", "x"))]
    elif isinstance(chunks, (tuple, list)):
        if len(chunks) not in (2, 3):
            raise ValueError(f"chunks: {chunks} has neither (y, x) nor (band, y, x)")
        wanted = [*([-1] * (3 - len(chunks))), *chunks]
    elif isinstance(chunks, str):
        wanted = [chunks] * 3
    else:
        wanted = [-1, chunks, chunks]
    if any(isinstance(want, str) for want in wanted):
        limit = next((want for want in wanted if isinstance(want, str) and want != "auto"), None)
        size = parse_bytes(limit or dask.config.get("array.chunk-size"))
        best = preferred(shape, dtype.itemsize, tile, size)
        wanted = [choice if isinstance(want, str) else want for want, choice in zip(wanted, best)]
    return normalize_chunks(tuple(wanted), shape=tuple(shape), dtype=dtype)


def from_pixels(pixels: Any, chunks: Any) -> Any:
    """A dask array over lazy pixels. Each task holds the pixels' small description, and no handle."""
    try:
        import dask.array
        from dask.base import tokenize
    except ModuleNotFoundError as error:
        raise UnavailableError("chunks= needs dask (pip install 'tiffjet[dask]')") from error

    sizes = chunk_sizes(chunks, pixels.shape, pixels.dtype, pixels.tile)
    name = f"tiffjet-{tokenize(pixels.token(), sizes)}"
    if not pixels.is_uniform:
        return _from_parts(pixels, sizes, name)
    return dask.array.from_array(
        pixels, chunks=sizes, name=name, lock=False, asarray=False, inline_array=True, meta=pixels.meta(), fancy=False
    )


def _from_parts(pixels: Any, sizes: tuple[tuple[int, ...], ...], name: str) -> Any:
    """The same where chunks differ: each task holds what it needs to know alone."""
    import dask.array

    spans = [list(_spans(axis)) for axis in sizes]
    graph = {}
    for number, index in enumerate(itertools.product(*(range(len(axis)) for axis in spans))):
        own = [axis[i] for axis, i in zip(spans, index)]
        graph[(name, *index)] = (_read_chunk, pixels.chunk(index, number, own), tuple(slice(*span) for span in own))
    return dask.array.Array(graph, name, sizes, dtype=pixels.dtype, meta=pixels.meta())


def _read_chunk(pixels: Any, key: tuple[slice, ...]) -> Any:
    return pixels[key]


def has_client() -> bool:
    """Whether workers of dask.distributed would compute here."""
    import sys

    if "distributed" not in sys.modules:
        return False
    import distributed

    try:
        distributed.get_client(timeout=0)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------------------- writing


class Chunked(Raster):
    """A dask array of axes (band, y, x), computed one row of chunks at a time, each chunk once."""

    def __init__(self, array: Any, place: Place) -> None:
        if any(math.isnan(size) for sizes in array.chunks for size in sizes):
            raise ValueError("data: the sizes of its chunks are not known; compute_chunk_sizes() finds them")
        self.array = array
        self.place = place
        self.shape = tuple(int(n) for n in array.shape)  # type: ignore[assignment]
        self.dtype = written_dtype(numpy.dtype(array.dtype))
        self.device = device_of(array._meta)

    def _row_bytes(self) -> int:
        return self.shape[0] * self.shape[2] * self.dtype.itemsize

    def budget(self, memory: Any) -> Budget:
        """A part for two rows of chunks, one that is computed and one that is written, the rest for the writer."""
        if self.stays:
            # Chunks have memory of their own, whatever is done with them: all else is the writer's.
            return Budget(0, None if memory is None else _positive(memory))
        tallest = max(self.array.chunks[1]) * self._row_bytes()
        if memory is None:
            memory = max(_MEMORY, 4 * tallest)
        memory = _positive(memory)
        rows = min(max(memory // 2, 1), max(2 * tallest, memory // 4))
        return Budget(rows, memory - rows)

    def rows(self, budget: Budget, tile_rows: int) -> Iterator[Any]:
        if self.stays:
            # One row of chunks at a time, computed, written and let go before the next.
            for start, stop in _spans(self.array.chunks[1]):
                yield on_device(self.array[:, start:stop].compute())
            return
        groups = list(self._groups(budget.rows // 2, tile_rows))
        tallest = max(stop - start for start, stop in groups) * self._row_bytes()
        if tallest > budget.rows:
            # Not even one row of chunks fits: they wait on the disk.
            for start, stop in groups:
                yield from self._spooled(start, stop, budget.rows, tile_rows)
            return
        height = max(stop - start for start, stop in groups)
        buffer = numpy.empty((self.shape[0], height, self.shape[2]), self.dtype)
        yield from (self._compute(group, buffer) for group in groups)

    def crew(self, options: dict[str, Any]) -> Any:
        client = _client(self.array)
        if client is None:
            # Chunks may be on several GPUs; which ones is known when they are there.
            gpus = len(_devices.usable()) if self.device is not None and options["device"] != "cpu" else 0
            return _parts.Threads(2 * gpus) if gpus > 1 else None
        if self.device is not None and options["device"] == self.device:
            options["device"] = "cuda"  # each worker has its own
        return _parts.Workers(client)

    def collect(self, crew: Any, writer: Any, target: str | None, options: dict[str, Any], mask: Any, done: Any) -> Any:
        def mask_rows(start: int, stop: int) -> Any:
            rows = mask.raw(start, stop)
            return crew.whole(rows) if hasattr(rows, "__dask_graph__") else rows

        spec = _parts.Spec.of(self.shape, self.dtype, options)
        upload = None if target is None else _parts.Upload(crew, writer, (target, options["storage_options"]), spec)
        _parts.Bands(crew, spec, self.array, None if mask is None else mask_rows, upload).write(writer, done)
        return writer.finish() if upload is None else upload.finish()

    def _groups(self, size: int, tile_rows: int) -> Iterator[tuple[int, int]]:
        """Rows of chunks together, as long as they fit: first and last row."""
        start = stop = 0
        for height in self.array.chunks[1]:
            if stop > start and (stop + height - start) * self._row_bytes() > size:
                yield start, stop
                start = stop
            stop += height
        if stop > start:
            yield start, stop

    def _compute(self, group: tuple[int, int], buffer: numpy.ndarray) -> numpy.ndarray:
        """Computes rows into the front of a buffer."""
        part = self.array[:, slice(*group)]
        out = buffer.reshape(-1)[: math.prod(part.shape)].reshape(part.shape)
        _fill(out, part)
        return out

    def _spooled(self, start: int, stop: int, size: int, tile_rows: int) -> Iterator[numpy.ndarray]:
        """Computes chunk after chunk to a file, and gives the rows from there."""
        height, itemsize = stop - start, self.dtype.itemsize
        with tempfile.TemporaryFile() as spool:
            kept = []  # bands, columns, and where in the file
            for bands in _spans(self.array.chunks[0]):
                for columns in _spans(self.array.chunks[2]):
                    part = self.array[slice(*bands), start:stop, slice(*columns)]
                    block = numpy.empty(part.shape, self.dtype)
                    _fill(block, part)
                    kept.append((bands, columns, spool.tell()))
                    block.tofile(spool)
                    del block
            spool.flush()
            step = slab_rows(self, size // 2, tile_rows)
            for first in range(0, height, step):
                last = min(first + step, height)
                out = numpy.empty((self.shape[0], last - first, self.shape[2]), self.dtype)
                for bands, (left, right), offset in kept:
                    for plane, band in enumerate(range(*bands)):
                        spool.seek(offset + (plane * height + first) * (right - left) * itemsize)
                        values = numpy.fromfile(spool, self.dtype, (last - first) * (right - left))
                        out[band, :, left:right] = values.reshape(last - first, right - left)
                yield out


def _spans(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for size in sizes:
        yield start, start + size
        start += size


def _client(array: Any) -> Any:
    """The client of dask.distributed that would compute an array; None where dask itself does."""
    from dask.base import get_scheduler

    client = getattr(get_scheduler(collections=[array]), "__self__", None)
    return client if hasattr(client, "compute") and hasattr(client, "scheduler_info") else None


def _fill(out: numpy.ndarray, part: Any) -> None:
    """Computes a dask array into memory that is there; a block is let go as soon as it has been copied."""
    import dask
    from dask.array import store
    from dask.base import get_scheduler

    scheduler = get_scheduler(collections=[part])
    if getattr(scheduler, "__module__", "") != "dask.multiprocessing":
        # Threads of this process reach the memory themselves.
        store(part, _Target(out), lock=False, compute=True, return_stored=False)
        return
    spans = [list(_spans(sizes)) for sizes in part.chunks]
    places = [tuple(slice(*span) for span in place) for place in itertools.product(*spans)]
    blocks = part.to_delayed().ravel().tolist()
    for place, block in zip(places, dask.compute(*blocks)):
        out[place] = to_host(block)


class _Target:
    """Takes blocks of any library."""

    def __init__(self, out: numpy.ndarray) -> None:
        self._out = out
        self.shape, self.dtype = out.shape, out.dtype

    def __setitem__(self, place: Any, block: Any) -> None:
        self._out[place] = to_host(block)
