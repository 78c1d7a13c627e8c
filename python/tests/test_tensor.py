"""Pixels shared with other libraries."""

import ctypes
import gc
import threading

import numpy
import pytest

import tiffjet


@pytest.fixture
def tensor(cog):
    return tiffjet.open(cog).read(device="cpu")


def test_numpy_shares_the_memory(tensor, pixels):
    array = numpy.asarray(tensor)
    assert (array == pixels).all() and array.flags.writeable and array.flags.c_contiguous
    assert numpy.from_dlpack(tensor).ctypes.data == array.ctypes.data == numpy.asarray(tensor).ctypes.data
    array[0, 0, 0] = 9
    assert numpy.from_dlpack(tensor)[0, 0, 0] == 9


def test_numpy_gets_what_it_asks_for(tensor, pixels):
    assert numpy.asarray(tensor, dtype="float64").dtype == numpy.float64
    copy = numpy.array(tensor)
    assert copy.ctypes.data != numpy.asarray(tensor).ctypes.data and (copy == pixels).all()
    assert tensor.__array__().ctypes.data == numpy.asarray(tensor).ctypes.data
    assert tensor.__array__("float32", True).dtype == numpy.float32
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__("float32", copy=False)


def test_attributes(tensor):
    assert (tensor.shape, tensor.ndim, tensor.nbytes, tensor.device) == ((3, 700, 900), 3, 3780000, "cpu")
    assert tensor.dtype == numpy.uint16 and tensor.cpu() is tensor
    assert repr(tensor) == 'Tensor(shape=(3, 700, 900), dtype=uint16, device="cpu")'
    assert tensor.report.tiles == 48 and tensor.report.fallbacks == [] and tensor.report.failures == []
    assert 0 < tensor.report.bytes_read < tensor.report.bytes_out == tensor.nbytes
    assert not hasattr(tensor, "__cuda_array_interface__")


def test_the_buffer_protocol(tensor, pixels):
    view = memoryview(tensor)
    assert (view.shape, view.format, view.itemsize, view.readonly, view.nbytes) == ((3, 700, 900), "H", 2, False, 3780000)
    assert bytes(view) == pixels.tobytes()


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


def inside(capsule, name, kind):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(get(capsule, name))


def test_the_capsule_of_version_one(tensor):
    capsule = tensor.__dlpack__(max_version=(1, 3))
    managed = inside(capsule, b"dltensor_versioned", Versioned)
    raw = managed.tensor
    assert (managed.major, managed.flags, raw.device_type, raw.device_id) == (1, 0, 1, 0)
    assert (raw.code, raw.bits, raw.lanes, raw.byte_offset) == (1, 16, 1, 0)
    assert raw.shape[:3] == [3, 700, 900] and raw.strides[:3] == [630000, 900, 1]
    assert raw.data == numpy.asarray(tensor).ctypes.data
    copied = inside(tensor.__dlpack__(max_version=(1, 0), copy=True), b"dltensor_versioned", Versioned)
    assert copied.flags == 2


def test_the_capsule_from_before(tensor):
    for version in (None, (0, 8)):
        capsule = tensor.__dlpack__(max_version=version)
        assert inside(capsule, b"dltensor", Legacy).tensor.shape[:3] == [3, 700, 900]


def test_what_consumers_may_ask(tensor):
    assert tensor.__dlpack_device__() == (1, 0)
    assert tensor.__dlpack__(dl_device=(1, 0), copy=False) is not None
    for options in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True, "stream": 1}):
        with pytest.raises(BufferError):
            tensor.__dlpack__(**options)


def test_memory_lives_as_long_as_somebody_uses_it(cog, pixels):
    array = numpy.from_dlpack(tiffjet.open(cog).read(device="cpu"))
    view = memoryview(tiffjet.open(cog).read(device="cpu"))
    gc.collect()
    # Memory that was let go would be taken by these.
    others = [tiffjet.open(cog).read(bands=[3, 2, 1], device="cpu") for _ in range(3)]
    assert (array == pixels).all() and (numpy.asarray(view) == pixels).all() and len(others) == 3


def test_a_capsule_that_nobody_takes_lets_go(cog):
    image = tiffjet.open(cog)

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    for _ in range(20):
        image.read(device="cpu").__dlpack__()
    before = resident()
    for _ in range(300):
        image.read(device="cpu").__dlpack__(max_version=(1, 0))
    assert resident() - before < 100 * 3780000


def test_the_deleter_may_be_called_from_any_thread(cog, pixels):
    arrays = [numpy.from_dlpack(tiffjet.open(cog).read(device="cpu")) for _ in range(8)]
    threads = [threading.Thread(target=arrays.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not arrays and (numpy.asarray(tiffjet.open(cog).read(device="cpu")) == pixels).all()


def test_memory_of_others_becomes_a_tensor():
    array = numpy.arange(24, dtype="int32").reshape(2, 3, 4)
    tensor = tiffjet.Tensor.from_dlpack(array)
    del array
    assert tensor.shape == (2, 3, 4) and numpy.asarray(tensor).sum() == 276
    many = tiffjet.Tensor.from_dlpack(numpy.zeros((5, 2, 3, 4), "float32"))
    assert many.shape == (5, 2, 3, 4) and numpy.from_dlpack(many).shape == (5, 2, 3, 4)
    with pytest.raises(ValueError):
        tiffjet.Tensor.from_dlpack(numpy.zeros(3))
    with pytest.raises(BufferError, match="contiguous"):
        tiffjet.Tensor.from_dlpack(numpy.zeros((2, 3, 4)).transpose(2, 1, 0))


def test_torch_shares_the_memory(cog, pixels):
    torch = pytest.importorskip("torch")
    image = tiffjet.open(cog)
    tensor = image.read(device="cpu")
    shared = torch.from_dlpack(tensor)
    assert shared.data_ptr() == numpy.asarray(tensor).ctypes.data and tuple(shared.shape) == (3, 700, 900)
    out = torch.zeros((3, 700, 900), dtype=torch.uint16)
    image.read(device="cpu", out=out)
    assert (out.numpy() == pixels).all()
