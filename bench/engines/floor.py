"""The floor by an independent codec: imagecodecs over the tiles of the file, in threads.

Compressed tiles are in memory before the clock starts; each thread decodes into its own reused buffer. No predictor,
no byte order, no placing. An uncompressed file is read by parallel preads into one page-aligned buffer.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import imagecodecs
import numpy as np
import tifffile

from .adapter import PAGE, Adapter, Buffer

RUN = 4 << 20  # bytes of one pread at most


class Floor(Adapter):
    def __init__(self):
        self.threads = len(os.sched_getaffinity(0))
        self.pool = ThreadPoolExecutor(self.threads)
        self.local = threading.local()
        self.buffer = Buffer()
        self.path = None
        self.job = None

    def versions(self):
        return {"imagecodecs": imagecodecs.__version__, "tifffile": tifffile.__version__}

    def prepare(self, path):
        """Loads the tiles. Not timed."""
        if self.path != path:
            self.path, self.job = path, None
            with tifffile.TiffFile(path) as tiff:
                page = tiff.pages[0]
                self.job = self._pread(path, page) if page.compression == 1 else self._decode(path, page)

    def read(self, path):
        self.job()

    def _spread(self, work, items):
        """Runs the work on every thread; each takes the next item as it comes free."""
        queue = iter(items)
        for done in [self.pool.submit(work, queue) for _ in range(self.threads)]:
            done.result()

    def _pread(self, path, page):
        runs = adjacent(zip(page.dataoffsets, page.databytecounts))
        places = np.cumsum([0] + [-(-length // PAGE) * PAGE for _, length in runs])
        fd = os.open(path, os.O_RDONLY)
        out = memoryview(self.buffer.bytes(int(places[-1])))
        items = [(offset, out[place : place + length]) for (offset, length), place in zip(runs, places)]

        def work(queue):
            for offset, part in queue:
                done = 0
                while done < len(part):
                    got = os.preadv(fd, [part[done:]], offset + done)
                    if got == 0:
                        raise EOFError(path)
                    done += got

        return lambda: self._spread(work, items)

    def _decode(self, path, page):
        with open(path, "rb") as file:
            tiles = []
            for offset, length in zip(page.dataoffsets, page.databytecounts):
                file.seek(offset)
                tiles.append(file.read(length))
        tiles = [t for t in tiles if t]
        decode = decoder(page)
        size = int(np.prod(page.chunks)) * page.dtype.itemsize

        def work(queue):
            if not hasattr(self.local, "out") or self.local.out.size != size:
                self.local.out = np.zeros(size, np.uint8)
            for tile in queue:
                decode(tile, self.local.out)

        return lambda: self._spread(work, tiles)


def adjacent(ranges):
    """Offset and length of runs of ranges that follow each other, none longer than RUN."""
    runs = []
    for offset, length in sorted(ranges):
        while runs and length and sum(runs[-1]) == offset and runs[-1][1] < RUN:
            take = min(length, RUN - runs[-1][1])
            runs[-1] = (runs[-1][0], runs[-1][1] + take)
            offset, length = offset + take, length - take
        while length:
            take = min(length, RUN)
            runs.append((offset, take))
            offset, length = offset + take, length - take
    return runs


def decoder(page):
    """A function of a tile and a buffer, for the page's compression."""
    compression = int(page.compression)
    if compression in (8, 32946):
        return lambda tile, out: imagecodecs.deflate_decode(tile, raw=False, out=out)
    if compression == 50000:
        return lambda tile, out: imagecodecs.zstd_decode(tile, out=out)
    if compression == 5:
        return lambda tile, out: imagecodecs.lzw_decode(tile, out=out)
    # The others give pixels, not bytes.
    shape = tuple(n for n in page.chunks if n > 1)

    def pixels(out):
        return out.view(page.dtype).reshape(shape)

    if compression == 7:
        options = {"tables": page.jpegtables, "outcolorspace": "RGB"}
        options["colorspace"] = "YCBCR" if page.photometric == 6 else "RGB"
        return lambda tile, out: imagecodecs.jpeg8_decode(tile, out=pixels(out), **options)
    if compression == 50001:
        return lambda tile, out: imagecodecs.webp_decode(tile, hasalpha=False, out=pixels(out))
    if compression == 34887:
        return lambda tile, out: imagecodecs.lerc_decode(tile, out=pixels(out))
    raise NotImplementedError(f"compression {compression}")


def adapter():
    return Floor()
