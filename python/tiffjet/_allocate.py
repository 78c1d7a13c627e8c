"""Memory of a GPU from the pool of another library, for pixels that are about to be read."""

from __future__ import annotations

import importlib
from typing import Any

from ._tiffjet import UnavailableError

# What CUDA calls the default stream, where 0 would mean none.
_LEGACY = 1


def memory(allocator: Any, size: int, device: int, stream: int) -> tuple[Any, int]:
    """`size` bytes on a device, as an array with `__dlpack__`, and the stream after which they may be written.

    `allocator` is the name of a library, or a function of (size, stream, device) that gives an array of just as many
    bytes. `stream` is 0 where the caller names none: then the memory is the library's to use on its current stream.
    """
    if callable(allocator):
        stream = stream or _LEGACY
        return _array(allocator(size, stream, device)), stream
    if allocator == "cupy":
        cupy = _library("cupy", "cupy")
        with cupy.cuda.Device(device):
            return cupy.empty(size, "uint8"), stream or cupy.cuda.get_current_stream().ptr or _LEGACY
    if allocator == "torch":
        torch = _library("torch", "torch")
        current = torch.cuda.current_stream(device).cuda_stream
        return torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}"), stream or current or _LEGACY
    if allocator == "rmm":
        rmm = _library("rmm", "rmm")
        with _library("cupy", "rmm with cupy").cuda.Device(device):  # its resource is that of the current device
            return _array(rmm.DeviceBuffer(size=size)), stream or _LEGACY
    raise ValueError(f"allocator: {allocator!r} is neither a function nor one of 'cupy', 'torch', 'rmm'")


def _library(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(f"allocator: {what} is not installed") from error


def _array(owner: Any) -> Any:
    """An array over memory that may only know the interface of CUDA arrays."""
    if hasattr(owner, "__dlpack__"):
        return owner
    if hasattr(owner, "__cuda_array_interface__"):
        return _library("cupy", "cupy, which takes memory without __dlpack__,").asarray(owner)
    raise TypeError(f"allocator: it gave {type(owner).__name__}, which has neither __dlpack__ nor __cuda_array_interface__")
