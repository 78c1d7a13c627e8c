"""Which devices are meant: one, or several that take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _tiffjet
from ._tiffjet import UnavailableError

ALL = "cuda:all"


@dataclass(frozen=True)
class Turn:
    """The GPU whose turn it is among all of the process that reads, which need not be the one that asks."""

    number: int

    def __str__(self) -> str:
        return f"cuda, turn {self.number}"


@dataclass(frozen=True)
class Spread:
    """Chunks on several devices: in turn, or as a function of the index of a chunk says."""

    choices: tuple[str, ...] | None = None
    function: Callable[[tuple[int, ...]], Any] | None = None

    def of(self, index: tuple[int, ...], number: int) -> Any:
        """The device of a chunk: its index, and its number among all."""
        if self.function is not None:
            return one(self.function(index))
        return Turn(number) if self.choices is None else self.choices[number % len(self.choices)]


def parse(device: Any) -> Any:
    """A device, or a `Spread` where several are named."""
    if isinstance(device, (Spread, Turn)):
        return device
    if device == ALL:
        return Spread()
    if callable(device):
        return Spread(function=device)
    if isinstance(device, (list, tuple)):
        if not device:
            raise ValueError("device: the list is empty")
        return Spread(choices=tuple(one(choice) for choice in device))
    return device


def one(device: Any) -> str:
    """The name of a single device."""
    if isinstance(device, str) and device != ALL:
        return device
    try:
        return f"cuda:{int(device)}"
    except (TypeError, ValueError):
        raise ValueError(f"device: {device!r} is no single device") from None


def resolve(device: Any) -> Any:
    """The device in this process."""
    if not isinstance(device, Turn):
        return device
    names = usable()
    if not names:
        raise UnavailableError(f"device: {ALL}, and this process has no usable GPU")
    return names[device.number % len(names)]


def usable() -> Sequence[str]:
    """The GPUs of this process."""
    return [name for name, said in _tiffjet._devices() if name != "cpu" and "can't be used" not in said]


def check(device: Any) -> None:
    """An error when a device can't be had here."""
    if isinstance(device, Spread):
        for choice in device.choices or ():
            _tiffjet._check_device(choice)
        if device.choices is None and device.function is None:
            resolve(Turn(0))
    else:
        _tiffjet._check_device(resolve(device))


def is_cuda(device: Any) -> bool:
    """Whether its pixels are on a GPU; of a function nobody knows before it is asked."""
    if isinstance(device, Spread):
        return device.choices is None and device.function is None or any(is_cuda(name) for name in device.choices or ())
    return isinstance(device, (int, Turn)) or str(device).startswith("cuda")
