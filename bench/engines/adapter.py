"""What every Python engine has in common."""

import numpy as np

PAGE = 4096


class Buffer:
    """One page-aligned allocation, kept: pixels land in warm memory, as in a program that reads many files."""

    def __init__(self):
        self._bytes = np.empty(0, np.uint8)

    def bytes(self, size):
        """`size` bytes from the start of a page."""
        if self._bytes.size < size + PAGE:
            self._bytes = np.zeros(size + PAGE, np.uint8)
        skip = -self._bytes.ctypes.data % PAGE
        return self._bytes[skip : skip + size]

    def array(self, shape, dtype):
        """The same as an array."""
        dtype = np.dtype(dtype)
        return self.bytes(int(np.prod(shape)) * dtype.itemsize).view(dtype).reshape(shape)


class Adapter:
    """An engine inside its process. `read`, `open`, `close` and `window` are timed: no checks, no conversions there."""

    def versions(self):
        """Name and version of what is measured."""
        raise NotImplementedError

    def read(self, path):
        """Opens the file, decodes level 0 whole, closes it. Returns the pixels with the engine's own axes."""
        raise NotImplementedError

    def bands_first(self, pixels):
        """What `read` or `window` gave, with axes (band, y, x)."""
        return pixels

    def open(self, path):
        """A handle, once shape, dtype and transform are known."""
        raise NotImplementedError

    def close(self, handle):
        """Closes it."""

    def window(self, handle, row, col, side):
        """The pixels of a square window."""
        raise NotImplementedError
