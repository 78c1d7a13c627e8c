"""PyTorch: datasets of windows over many files, read in whole batches on the target device.

Nothing of PyTorch is imported before a dataset is asked for; the samplers are those of `tiffjet.windows`.

    from torch.utils.data import DataLoader
    from tiffjet.torch import RandomWindows, WindowDataset

    dataset = WindowDataset(paths, RandomWindows(100_000, 512, seed=1), batch_size=64, device="cuda")
    for batch in DataLoader(dataset, batch_size=None, num_workers=0):   # (64, band, 512, 512) on the GPU
        ...

Batches are read by threads of the process, so `num_workers=0` is right: a worker process would only add a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._tiffjet import UnavailableError
from .windows import GridWindows, ListedWindows, PerFile, RandomWindows

if TYPE_CHECKING:
    from ._torch import WindowDataset, WindowMap

__all__ = ["GridWindows", "ListedWindows", "PerFile", "RandomWindows", "WindowDataset", "WindowMap"]


def __getattr__(name: str) -> Any:
    # Where torch is first needed.
    if name in ("WindowDataset", "WindowMap"):
        try:
            from . import _torch
        except ImportError as error:
            raise UnavailableError(f"tiffjet.torch.{name} needs PyTorch (pip install torch)") from error
        return getattr(_torch, name)
    raise AttributeError(f"module 'tiffjet.torch' has no attribute {name!r}")
