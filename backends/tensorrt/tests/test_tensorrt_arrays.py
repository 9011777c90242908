"""DLPack by ctypes, against libraries that speak it; and CUDA's library where there is none."""
# ruff: noqa: N802 (the names are those of the libraries)

import ctypes
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from subgraphkit.errors import BackendUnavailableError
from subgraphkit_tensorrt.library import cudart
from subgraphkit_tensorrt.running import dlpack

CPU = (1, 0)
SHAPES: list[tuple[int, ...]] = [(), (0, 3), (5,), (2, 3, 4)]


class Exported:
    """An array of NumPy, handed out by our capsules."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, **_):
        array = self.array
        return dlpack.export(array.ctypes.data, array.shape, array.dtype, CPU, self)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "uint8", "bool"])
def test_numpy_reads_our_capsules(shape, dtype):
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    read = np.from_dlpack(Exported(array))
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)
    assert read.size == 0 or read.ctypes.data == array.ctypes.data


@pytest.mark.parametrize("shape", SHAPES)
def test_we_read_capsules_of_numpy(shape):
    array = np.ones(shape, np.float32)
    taken = dlpack.take(array.__dlpack__())
    assert (taken.shape, taken.dtype) == (shape, array.dtype)
    taken.release()


@pytest.mark.parametrize("reads", [True, False], ids=["read", "dropped unread"])
def test_what_is_handed_out_lives_as_long_as_it_is_read(*, reads):
    owner = Exported(np.arange(4.0))
    end = weakref.ref(owner)
    capsule = owner.__dlpack__()
    del owner
    gc.collect()
    assert end() is not None

    if reads:
        taken = dlpack.take(capsule)
        del capsule
        gc.collect()
        assert end() is not None
        taken.release()
    else:
        del capsule
        Exported(np.zeros(0)).__dlpack__()  # nobody tells of a capsule that is dropped
    gc.collect()
    assert end() is None


def test_what_begins_later_is_read_as_it_lies_and_what_has_gaps_is_not():
    capsule = Exported(np.zeros(4)).__dlpack__()
    tensor = list(dlpack._HELD.values())[-1][0].tensor
    tensor.byte_offset = 8
    taken = dlpack.take(capsule)
    assert taken.address == tensor.data + 8
    taken.release()
    with pytest.raises(ValueError, match="without gaps"):
        dlpack.take(np.zeros((4, 4))[:, :2].__dlpack__())


def test_a_capsule_is_taken_once():
    capsule = np.zeros(2).__dlpack__()
    dlpack.take(capsule).release()
    with pytest.raises(ValueError, match="PyCapsule"):
        dlpack.take(capsule)


def test_an_element_type_that_dlpack_lacks_is_refused():
    with pytest.raises(BufferError, match="float8"):
        dlpack.export(0, (1,), np.dtype(ml_dtypes.float8_e4m3fn), CPU, None)


def test_without_cuda_the_message_says_what_to_install(monkeypatch):
    def none(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(cudart, "_FOUND", [])
    monkeypatch.setattr(ctypes, "CDLL", none)
    with pytest.raises(BackendUnavailableError, match=r"(?s)SGK175.*not installed.*pip install"):
        cudart.cuda_runtime()


def test_a_cuda_that_is_newer_than_the_driver_gives_way_to_an_older_one(monkeypatch):
    tried = []

    class Library:
        """Says what a driver would make of it."""

        def __init__(self, name):
            tried.append(name)
            self.status = 35 if ".13" in name or "_13" in name else 0

        def cudaGetDeviceCount(self, place):
            place._obj.value = 1
            return self.status

        def cudaGetErrorString(self, status):
            return b"CUDA driver version is insufficient for CUDA runtime version"

    monkeypatch.setattr(cudart, "_FOUND", [])
    monkeypatch.setattr(cudart, "_wheel_folders", lambda: ())
    monkeypatch.setattr(cudart.ctypes, "CDLL", Library)
    monkeypatch.setattr(cudart, "_text", lambda library, status: "too old")
    assert cudart.cuda_runtime() is cudart.cuda_runtime()
    assert [name.split(".")[-1] for name in tried] == ["13", "12"]
