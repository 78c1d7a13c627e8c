"""Writing by many: bands of tile rows are encoded and reduced where their pixels are, one writer collects the tiles.

A band is some tile rows of one level. Its strip (its rows) is made from chunks, or from the strips above; it is
encoded, and rows of the next level are made from it and from the first rows of the strip below it. What is submitted
keeps what it needs alive, so a worker that is lost costs its own bands and no more. Only encoded tiles come back, some
bands ahead of the writer and no further.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy

from ._tiffjet import Encoder, Writer, Written, _send_part
from ._write import device_of, to_host

# Bytes of pixels in a band: many tiles, and little beside the memory of a worker.
_BAND = 64 << 20
# Bands for each thread that works, so that none has nothing to do.
_BANDS_EACH = 4
# Parts of an object: stores take ten thousand, and the writer has some of its own.
_MOST_PARTS = 4000
# Seconds that parts on their way are waited for where all is given up.
_PATIENCE = 60
# Encoders that a process keeps: one for each image that is being written.
_MOST_ENCODERS = 8


@dataclass(frozen=True)
class Spec:
    """What all who work on an image must know."""

    token: str
    shape: tuple[int, int, int]
    dtype: str
    options: dict[str, Any]
    nan: float | None  # written instead of NaN

    @classmethod
    def of(cls, shape: tuple[int, int, int], dtype: numpy.dtype, options: dict[str, Any]) -> Spec:
        nan = options["nodata"] if options.get("nan_to_nodata") else None
        kept = {name: value for name, value in options.items() if name not in ("storage_options", "memory")}
        return cls(uuid.uuid4().hex, shape, dtype.name, kept, nan)

    def encoder(self, device: str | None = None) -> Encoder:
        """The encoder of this process for a device."""
        key = (self.token, device or self.options["device"])
        with _turn:
            if key not in _encoders:
                _encoders[key] = Encoder("tiles", self.shape, self.dtype, **{**self.options, "device": key[1]})
                while len(_encoders) > _MOST_ENCODERS:
                    _encoders.popitem(last=False)
            return _encoders[key]


_encoders: OrderedDict[tuple[str, str], Encoder] = OrderedDict()
_turn = threading.Lock()


@dataclass
class Strip:
    """Rows of one level, all columns: parts side by side, each on one device, cut between tiles; and their mask."""

    first: int
    parts: list[tuple[int, Any]]  # first column, and pixels (band, y, x)
    mask: numpy.ndarray | None = None

    @property
    def rows(self) -> int:
        return int(self.parts[0][1].shape[1])

    def host(self, start: int, stop: int) -> tuple[numpy.ndarray, numpy.ndarray | None]:
        """Some rows, counted from the first, in memory of the host, and their mask."""
        pieces = [to_host(part[:, start:stop]) for _, part in self.parts]
        whole = pieces[0] if len(pieces) == 1 else numpy.concatenate(pieces, axis=2)
        return numpy.ascontiguousarray(whole), None if self.mask is None else self.mask[start:stop]


# ---------------------------------------------------------------------------------------------- what workers do


def make_strip(spec: Spec, rows: tuple[int, int], spans: Any, mask: Any, *blocks: Any) -> Strip:
    """Rows of the image from the chunks that they lie in: `spans` are their rows, bands and columns."""
    first, end = rows
    tile = spec.encoder("cpu").levels[0][3]
    groups: list[list[tuple[Any, Any]]] = []
    columns = sorted({span[2] for span in spans})
    for start, _ in columns:
        own = [(span, block) for span, block in zip(spans, blocks) if span[2][0] == start]
        here = device_of(own[0][1])
        # A part begins between tiles, and where the device changes; else it goes on.
        if groups and (start % tile or here == device_of(groups[-1][0][1])):
            groups[-1].extend(own)
        else:
            groups.append(own)
    parts = [_part(spec, (first, end), group) for group in groups]
    told = None if mask is None else (to_host(mask) != 0).astype("uint8")
    return Strip(first, parts, told)


def _part(spec: Spec, rows: tuple[int, int], group: Sequence[tuple[Any, Any]]) -> tuple[int, Any]:
    left, right = min(span[2][0] for span, _ in group), max(span[2][1] for span, _ in group)
    device = device_of(group[0][1])
    dtype = numpy.dtype(spec.dtype)
    shape = (spec.shape[0], rows[1] - rows[0], right - left)
    with _on(group[0][1]):
        library = numpy if device is None else importlib.import_module("cupy")
        out = library.empty(shape, dtype)
        for (bands, lines, columns), block in group:
            top, bottom = max(lines[0], rows[0]), min(lines[1], rows[1])
            block = block[:, top - lines[0] : bottom - lines[0]]
            if device is None or device_of(block) != device:
                block = library.asarray(numpy.ascontiguousarray(to_host(block)))  # by way of the host
            out[slice(*bands), top - rows[0] : bottom - rows[0], columns[0] - left : columns[1] - left] = block
        if spec.nan is not None:
            out[out != out] = dtype.type(spec.nan)
        return left, out


def _on(array: Any) -> Any:
    from .xarray import on_device_of

    return on_device_of(array)


def encode(spec: Spec, level: int, strip: Strip) -> list[Any]:
    """The tiles of a strip, and of its mask, as a writer takes them."""
    tiles: list[Any] = []
    _, width, tile_rows, tile_columns = spec.encoder("cpu").levels[level]
    row, across = strip.first // tile_rows, -(-width // tile_columns)
    for left, pixels in strip.parts:
        columns = (left // tile_columns, min(across, -(-(left + pixels.shape[2]) // tile_columns)))
        where = device_of(pixels) if spec.options["device"] != "cpu" else None
        data = pixels if where else _flat(to_host(pixels))
        tiles.extend(spec.encoder(where).encode(level, row, columns, data))
    if strip.mask is not None:
        tiles.extend(spec.encoder().encode(level, row, (0, across), _flat(strip.mask), mask=True))
    return tiles


def measure(tiles: list[Any]) -> tuple[list[Any], list[Any]]:
    """Of tiles of the full image, which stay where they are, their places and lengths; all others as they are."""
    own, others = _apart(tiles)
    return [(plane, row, col, lengths) for _, _, plane, row, col, lengths, _ in own], others


def send(target: tuple[str, Any, str], number: int, *bands: list[Any]) -> str:
    """Sends the full image's tiles of some bands, in the order of the file, as one part; gives what stands for it."""
    url, options, upload = target
    return _send_part(url, options, upload, number, [tiles[-1] for band in bands for tiles in _apart(band)[0]])


def _apart(tiles: list[Any]) -> tuple[list[Any], list[Any]]:
    """Tiles of the full image in the order of the file, and those of masks."""
    own = [entry for entry in tiles if entry[:2] == (0, False)]
    return sorted(own, key=lambda entry: (entry[3], entry[2], entry[4])), [e for e in tiles if e[:2] != (0, False)]


def _flat(array: numpy.ndarray) -> numpy.ndarray:
    return numpy.ascontiguousarray(array).reshape(-1).view("uint8")


def head(strip: Strip, count: int) -> tuple[numpy.ndarray, numpy.ndarray | None]:
    """The first rows of a strip, for those above it that need them."""
    pixels, mask = strip.host(0, count)
    return pixels.copy(), None if mask is None else mask.copy()


def reduce(spec: Spec, level: int, rows: tuple[int, int], strip: Strip, *heads: Any) -> Strip:
    """Rows of a level from a strip of the level above, and from the first rows of those that follow it."""
    encoder = spec.encoder("cpu")
    start, stop = encoder.needs(level, *rows)
    skipped = start - strip.first
    pieces = [strip.host(skipped, min(stop - strip.first, strip.rows)), *heads]
    above = pieces[0][0] if not heads else numpy.concatenate([pixels for pixels, _ in pieces], axis=1)
    mask = None
    if strip.mask is not None:
        mask = _flat(numpy.concatenate([mask for _, mask in pieces]))
    pixels, told = encoder.reduce(level, rows, start, _flat(above), mask)
    width, count = encoder.levels[level][1], rows[1] - rows[0]
    made = numpy.frombuffer(pixels, spec.dtype).reshape(spec.shape[0], count, width)
    return Strip(rows[0], [(0, made)], None if told is None else numpy.frombuffer(told, "uint8").reshape(count, width))


def _same(value: Any) -> Any:
    return value


def join(*strips: Strip) -> Strip:
    """Strips below each other as one: those of overviews have one part."""
    pixels = numpy.concatenate([strip.parts[0][1] for strip in strips], axis=1)
    masks = [strip.mask for strip in strips if strip.mask is not None]
    return Strip(strips[0].first, [(0, pixels)], numpy.concatenate(masks) if masks else None)


def cut(strip: Strip, start: int, stop: int) -> Strip:
    """Some rows of a strip of an overview."""
    low, high = start - strip.first, stop - strip.first
    return Strip(start, [(0, strip.parts[0][1][:, low:high])], None if strip.mask is None else strip.mask[low:high])


# ---------------------------------------------------------------------------------------------- who works


class Crew(Protocol):
    """Does work somewhere; what it gives stands for the result, and other work can take it."""

    threads: int
    is_apart: bool  # not in this process

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any: ...

    def result(self, future: Any) -> Any: ...

    def share(self, value: Any) -> Any:
        """Something that much of the work takes."""
        ...

    def chunks(self, array: Any) -> list[Any]:
        """The blocks of a dask array, to be computed."""
        ...

    def whole(self, array: Any) -> Any:
        """All of a dask array, to be computed."""
        ...

    def completed(self, waiting: set[Any]) -> tuple[Any, Any]:
        """One of those that are waited for, and its result."""
        ...

    def settle(self, waiting: set[Any]) -> None: ...

    def cancel(self, waiting: set[Any]) -> None: ...


class Workers:
    """The workers of dask.distributed."""

    is_apart = True

    def __init__(self, client: Any) -> None:
        self._client = client
        self.threads = max(1, sum(client.nthreads().values()))
        self._ready: deque[Any] = deque()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.submit(work, *arguments, pure=False)

    def share(self, value: Any) -> Any:
        # Work like any other: each worker gets it once, and it can be had again when one is lost.
        return self.submit(_same, value)

    def chunks(self, array: Any) -> list[Any]:
        return self._client.compute(array.to_delayed().ravel().tolist())

    def whole(self, array: Any) -> Any:
        return self._client.compute(array)

    def completed(self, waiting: set[Any]) -> tuple[Any, Any]:
        from distributed import wait as wait_for

        if not self._ready:
            self._ready.extend(wait_for(list(waiting), return_when="FIRST_COMPLETED").done)
        future = self._ready.popleft()
        result = self.result(future)
        future.release()
        return future, result

    def result(self, future: Any) -> Any:
        # From worker to writer, past the scheduler, which needs no memory for them.
        return self._client.gather(future, direct=True)

    def settle(self, waiting: set[Any]) -> None:
        """Waits a while for work, whatever becomes of it."""
        from distributed import wait as wait_for

        with contextlib.suppress(Exception):
            wait_for(list(waiting), timeout=_PATIENCE)

    def cancel(self, waiting: set[Any]) -> None:
        self._client.cancel(list(waiting))


class Threads:
    """Threads of this process: for chunks that are on several GPUs of it."""

    is_apart = False

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tiffjet-parts")

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        def run() -> Any:
            # They were submitted before, so they are under way: threads take work in its order.
            return work(*(value.result() if isinstance(value, Future) else value for value in arguments))

        return self._pool.submit(run)

    def share(self, value: Any) -> Any:
        return value

    def chunks(self, array: Any) -> list[Any]:
        import dask

        return list(dask.compute(*array.to_delayed().ravel().tolist()))

    def whole(self, array: Any) -> Any:
        return array.compute()

    def completed(self, waiting: set[Any]) -> tuple[Any, Any]:
        future = next(iter(wait(waiting, return_when=FIRST_COMPLETED).done))
        return future, future.result()

    def result(self, future: Any) -> Any:
        return future.result()

    def settle(self, waiting: set[Any]) -> None:
        wait(waiting)

    def cancel(self, waiting: set[Any]) -> None:
        for future in waiting:
            future.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)


# ---------------------------------------------------------------------------------------------- the order of work


@dataclass
class Level:
    """One level on its way: its bands, and strips that are still needed."""

    height: int
    step: int  # rows of a band
    strips: deque[tuple[int, int, Any]] = field(default_factory=deque)  # first row, end, strip: not yet reduced
    made: int = 0  # rows of it that strips exist for
    pieces: deque[tuple[int, int, Any]] = field(default_factory=deque)  # rows made from above, not yet in a band
    reduced: int = 0  # rows of the next level that were asked for

    @property
    def due(self) -> int:
        """The end of the next band."""
        return min(self.made + self.step, self.height)


class Upload:
    """Parts of an object that workers send themselves.

    Bands of the full image stay where they were encoded, and their lengths come here. In the order of the file they become
    parts, as large as the store wants them: a number for each, and a worker that sends it. The first part has the head of
    the file too, which is known last, so it is sent from here; and so is what is left at the end.
    """

    def __init__(self, crew: Crew, writer: Writer, place: tuple[str, Any], spec: Spec) -> None:
        self._crew, self._writer = crew, writer
        size = numpy.dtype(spec.dtype).itemsize
        for length in spec.shape:
            size *= length
        self._least = max(writer.part_bytes, size // _MOST_PARTS)
        self._target = crew.share((*place, writer.upload))
        self._due = 0  # first row of the band whose turn it is
        self._early: dict[int, tuple[int, Any, int]] = {}  # end, band and bytes of those that came before their turn
        self._open: list[Any] = []  # bands of the next part
        self._bytes = 0  # of them
        self._lead: list[Any] | None = None  # bands of the first part
        self._sending: dict[Any, tuple[int, list[Any]]] = {}  # number and bands of parts on their way
        self._parts: dict[int, str] = {}
        self._numbers = 0

    @property
    def kept(self) -> int:
        """Bands that nobody sends yet."""
        return len(self._early) + len(self._open)

    @property
    def sending(self) -> set[Any]:
        return set(self._sending)

    def take(self, rows: tuple[int, int], band: Any, measured: tuple[list[Any], list[Any]]) -> list[Any]:
        """A band is encoded: gives what has to be waited for."""
        own, others = measured
        self._writer.note(own)
        self._writer.append(others)
        self._early[rows[0]] = (rows[1], band, sum(sum(lengths) for *_, lengths in own))
        begun = []
        while self._due in self._early:
            self._due, band, size = self._early.pop(self._due)
            self._open.append(band)
            self._bytes += size
            if self._bytes >= self._least:
                begun.extend(self._close())
        return begun

    def _close(self) -> Iterator[Any]:
        bands, self._open, self._bytes = self._open, [], 0
        if self._lead is None:
            self._lead = bands
            return
        self._numbers += 1
        future = self._crew.submit(send, self._target, self._numbers, *bands)
        self._sending[future] = (self._numbers, bands)
        yield future

    def sent(self, future: Any, token: str) -> None:
        """A part has arrived: its bands may go."""
        number, _ = self._sending.pop(future)
        self._parts[number] = token

    def finish(self) -> Written:
        """All are sent: what is left goes from here, and the object appears."""
        parts = [self._parts[number] for number in sorted(self._parts)]
        return self._writer.finish_around(self._gathered(self._lead or []), parts, self._gathered(self._open))

    def _gathered(self, bands: list[Any]) -> bytes:
        return b"".join(tiles[-1] for band in bands for tiles in _apart(self._crew.result(band))[0])


class Bands:
    """Gives out the work of an image in the order of its rows, and collects the tiles."""

    def __init__(self, crew: Crew, spec: Spec, array: Any, mask: Any, upload: Upload | None = None) -> None:
        self._crew, self._spec, self._array, self._mask, self._upload = crew, spec, array, mask, upload
        self._shared = crew.share(spec)
        self._encoder = spec.encoder("cpu")
        self._levels = [Level(height, self._step(i)) for i, (height, _, _, _) in enumerate(self._encoder.levels)]
        self._waiting: set[Any] = set()
        self._rows: dict[Any, int] = {}  # of the full image, by what encodes them
        self._bands: dict[Any, tuple[int, int, Any]] = {}  # first row, end and band, by what measures it
        self._chunks: OrderedDict[int, tuple[list[Any], list[Any], int]] = OrderedDict()

    def _step(self, level: int) -> int:
        height, width, tile, _ = self._encoder.levels[level]
        size = self._spec.shape[0] * width * numpy.dtype(self._spec.dtype).itemsize * tile
        down = -(-height // tile)
        return tile * max(1, min(_BAND // max(size, 1), -(-down // (_BANDS_EACH * self._crew.threads))))

    def write(self, writer: Writer, done: Callable[[int], Any]) -> None:
        """All of it. Not more bands are under way than keep everybody busy."""
        ahead, rows = 2 * self._crew.threads + 2, 0
        try:
            for future in self._work():
                self._waiting.add(future)
                while self._waiting and len(self._waiting) + (self._upload.kept if self._upload else 0) >= ahead:
                    rows = self._collect(writer, done, rows)
            while self._waiting:
                rows = self._collect(writer, done, rows)
        finally:
            if self._upload is not None:
                # A part that arrives after its upload was given up may stay in the store.
                self._crew.settle(self._upload.sending & self._waiting)
            self._crew.cancel(self._waiting)

    def _collect(self, writer: Writer, done: Callable[[int], Any], rows: int) -> int:
        future, result = self._crew.completed(self._waiting)
        self._waiting.remove(future)
        if self._upload is not None and future in self._upload.sending:
            self._upload.sent(future, result)
        elif self._upload is not None and future in self._bands:
            start, stop, band = self._bands.pop(future)
            self._waiting.update(self._upload.take((start, stop), band, result))
        else:
            writer.append(result)
        rows += self._rows.pop(future, 0)
        done(rows)
        return rows

    def _work(self) -> Iterator[Any]:
        """Submits everything, as fast as it is asked to; gives what encodes."""
        first = self._levels[0]
        while first.made < first.height:
            start, stop = first.made, first.due
            yield from self._begin(0, start, stop, self._strip(start, stop))

    def _strip(self, start: int, stop: int) -> Any:
        """Rows of the image, from the chunks that they lie in."""
        heights, spans, blocks = self._array.chunks, [], []
        row = 0
        for number, height in enumerate(heights[1]):
            if row < stop and row + height > start:
                own = self._chunk_row(number, row, height)
                spans.extend(own[0])
                blocks.extend(own[1])
            row += height
        while self._chunks and next(iter(self._chunks.values()))[2] <= stop:
            self._chunks.popitem(last=False)  # who needs them holds them
        mask = None if self._mask is None else self._mask(start, stop)
        return self._crew.submit(make_strip, self._shared, (start, stop), spans, mask, *blocks)

    def _chunk_row(self, number: int, row: int, height: int) -> Any:
        if number not in self._chunks:
            bands, _, columns = self._array.chunks
            spans = [(band, (row, row + height), column) for band in _spans(bands) for column in _spans(columns)]
            blocks = self._crew.chunks(self._array[:, row : row + height])
            self._chunks[number] = (spans, blocks, row + height)
        return self._chunks[number]

    def _begin(self, level: int, start: int, stop: int, strip: Any) -> Iterator[Any]:
        """A band has its strip: encodes it, and goes on with the next level."""
        encoded = self._crew.submit(encode, self._shared, level, strip)
        if level == 0 and self._upload is not None:
            band, encoded = encoded, self._crew.submit(measure, encoded)
            self._bands[encoded] = (start, stop, band)
        if level == 0:
            self._rows[encoded] = stop - start
        yield encoded
        own = self._levels[level]
        own.made = stop
        if level + 1 < len(self._levels):
            own.strips.append((start, stop, strip))
            yield from self._reduce(level)

    def _reduce(self, level: int) -> Iterator[Any]:
        """Makes rows of the next level from strips whose followers are there."""
        above, below = self._levels[level], self._levels[level + 1]
        while above.strips and above.reduced < below.height:
            start, stop, strip = above.strips[0]
            end = self._starting_before(level + 1, above.reduced, below.height, stop)
            if end > above.reduced:
                needed = self._encoder.needs(level + 1, above.reduced, end)[1]
                if needed > above.made:
                    return
                heads = [self._crew.submit(head, other, min(needed, last) - first)
                         for first, last, other in list(above.strips)[1:] if first < needed]
                piece = self._crew.submit(reduce, self._shared, level + 1, (above.reduced, end), strip, *heads)
                below.pieces.append((above.reduced, end, piece))
                above.reduced = end
            above.strips.popleft()
            yield from self._join(level + 1)

    def _starting_before(self, level: int, low: int, high: int, row: int) -> int:
        """The first row of a level whose rows above begin at a row or later."""
        while low < high:
            middle = (low + high) // 2
            if self._encoder.needs(level, middle, middle + 1)[0] < row:
                low = middle + 1
            else:
                high = middle
        return low

    def _join(self, level: int) -> Iterator[Any]:
        """Bands of a level whose rows are all made."""
        own = self._levels[level]
        while own.pieces and own.made < own.height and own.pieces[-1][1] >= own.due:
            start, stop, strips = own.made, own.due, []
            while own.pieces and own.pieces[0][0] < stop:
                first, last, piece = own.pieces[0]
                inside = (max(first, start), min(last, stop))
                strips.append(piece if inside == (first, last) else self._crew.submit(cut, piece, *inside))
                if last > stop:
                    break
                own.pieces.popleft()
            strip = strips[0] if len(strips) == 1 else self._crew.submit(join, *strips)
            yield from self._begin(level, start, stop, strip)


def _spans(sizes: Sequence[int]) -> list[tuple[int, int]]:
    spans, start = [], 0
    for size in sizes:
        spans.append((start, start + size))
        start += size
    return spans
