"""Several GPUs that are memory of the host: as much of CuPy as tiffjet uses, which notices what is on the wrong device."""

import threading
import types

import numpy

_local = threading.local()


def current():
    return getattr(_local, "devices", [0])[-1]


class Device:
    """A device, to work with for a while."""

    def __init__(self, number):
        self.id = number

    def __enter__(self):
        _local.devices = [*getattr(_local, "devices", [0]), self.id]
        return self

    def __exit__(self, *error):
        _local.devices = _local.devices[:-1]


class Array:
    """Memory of one device. Work on it while another one is current is an error, as it is or may be on GPUs."""

    def __init__(self, values, number):
        self.values, self.number = values, number

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)
    ndim = property(lambda self: self.values.ndim)
    device = property(lambda self: Device(self.number))
    flags = property(lambda self: self.values.flags)

    def __dlpack_device__(self):
        return 2, self.number

    __cuda_array_interface__ = None  # it has one, and nobody may look at it

    def _here(self):
        assert current() == self.number, f"memory of device {self.number} while {current()} is current"
        return self.values

    def __getitem__(self, key):
        return Array(self.values[_plain(key)], self.number)  # a view: nothing happens on the device

    def __setitem__(self, key, value):
        self._here()[_plain(key)] = _plain(value)

    def __ne__(self, other):
        return Array(self._here() != _plain(other), self.number)

    def __eq__(self, other):
        return Array(self._here() == _plain(other), self.number)

    def astype(self, dtype, copy=True):
        return Array(self._here().astype(dtype, copy=copy), self.number)

    def get(self):
        return self.values.copy()


def _plain(value):
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    return value._here() if isinstance(value, Array) else value


def cupy():
    """The module."""
    module = types.ModuleType("cupy")
    module.ndarray = Array
    module.empty = lambda shape, dtype=float: Array(numpy.empty(shape, dtype), current())
    module.zeros = lambda shape, dtype=float: Array(numpy.zeros(shape, dtype), current())
    module.asarray = lambda values: values if isinstance(values, Array) else Array(numpy.array(values), current())
    module.cuda = types.SimpleNamespace(Device=Device)
    return module
