"""DLPack by ctypes: arrays handed to other libraries, and taken from them, without a copy.

Source: DLPack 0.8, ``dlpack.h``; the array API standard, ``__dlpack__``.
"""

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import ml_dtypes
import numpy as np

CUDA: Final = 2
"""DLPack's number for memory of a GPU."""
ON_CUDA: Final = frozenset({CUDA, 13})
"""And for memory of one that moves between it and the host by itself."""

GAPS: Final = "its elements are not in row-major order without gaps"
_NAME: Final = b"dltensor"
_USED: Final = b"used_dltensor"
_TYPES: Final[dict[tuple[int, int], np.dtype[Any]]] = {
    (code, 8 * np.dtype(name).itemsize): np.dtype(name)
    for code, names in enumerate(("bhiq", "BHIQ", "efd", "", (ml_dtypes.bfloat16,), "", "?"))
    for name in names
}
"""By code and bits."""
_CODES: Final = {dtype: code for code, dtype in _TYPES.items()}


_BYTE: Final = ctypes.c_uint8


class _Device(ctypes.Structure):
    _fields_: ClassVar[Any] = (("kind", ctypes.c_int), ("index", ctypes.c_int))


class _Type(ctypes.Structure):
    _fields_: ClassVar[Any] = (("code", _BYTE), ("bits", _BYTE), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_: ClassVar[Any] = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)

_HELD: Final[dict[int, Any]] = {}
_UNREAD: Final[dict[int, list[Any]]] = {}
"""Capsules that nobody had taken an array out of when they were last looked at."""
_OURS: Final = 2
"""References to a capsule that is left to us: of the list it is in, and of the call that counts."""
# A collection of garbage may end another capsule while it is held.
_LOCK: Final = threading.RLock()


def _delete(managed: Any) -> None:
    with _LOCK:
        _HELD.pop(ctypes.addressof(managed.contents), None)


# What C calls back must live as long as C may call it.
_DELETE: Final = _Deleter(_delete)


def _drop_unread() -> list[Any]:
    """Return what is in capsules that were dropped with nobody having taken it.

    A capsule cannot have a destructor in Python. If a consumer refuses the array, the destructor
    would run while an exception is under way, and that exception would be lost.
    """
    ended = []
    for place, unread in list(_UNREAD.items()):
        is_unread = _is_valid(unread[0], _NAME)
        if is_unread and sys.getrefcount(unread[0]) > _OURS:
            continue
        del _UNREAD[place]
        if is_unread:
            ended.append(_HELD.pop(place, None))
    return ended


def export(
    address: int, shape: Sequence[int], dtype: np.dtype[Any], device: Sequence[int], owner: object
) -> Any:
    """Return a capsule for ``from_dlpack`` of another library.

    ``dtype``: Its element type, of whole bytes.

    If the other library does not take the array, it is released when the next is handed out.

    Raises:
        BufferError: DLPack has no such element type.
    """
    extents = (ctypes.c_int64 * len(shape))(*shape)
    tensor = _Tensor(address, _Device(*device), len(shape), _dtype_code(dtype), extents)
    managed = _Managed(tensor=tensor, context=None, deleter=_DELETE)
    place = ctypes.addressof(managed)
    capsule = _new(place, _NAME, None)
    with _LOCK:
        ended = _drop_unread()
        _HELD[place] = (managed, extents, owner)
        _UNREAD[place] = [capsule]
    del ended  # whose ends may take their time
    return capsule


def _dtype_code(dtype: np.dtype[Any]) -> _Type:
    if dtype not in _CODES:
        raise BufferError(f"DLPack has no element type for {dtype}")
    return _Type(*_CODES[dtype], 1)


@dataclass(slots=True)
class Foreign:
    """An array of another library, held while it is read: row-major and without gaps.

    Attributes:
        release: Lets go of it; to be called once.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    release: Callable[[], object]

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def take(capsule: Any) -> Foreign:
    """Take over the array in a capsule.

    Raises:
        BufferError: Its element type has no NumPy counterpart; the capsule stays as it is.
        ValueError: It is no capsule of DLPack, was taken before, or has gaps.
    """
    managed = ctypes.cast(_pointer(capsule, _NAME), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    dtype = _read(tensor.dtype)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    _rename(capsule, _USED)
    if not is_row_major(shape, strides):
        _release(managed)
        raise ValueError(GAPS)
    return Foreign((tensor.data or 0) + tensor.byte_offset, shape, dtype, lambda: _release(managed))


def _release(managed: Any) -> None:
    if managed.contents.deleter:
        managed.contents.deleter(managed)


def _read(described: _Type) -> np.dtype[Any]:
    code, bits, lanes = described.code, described.bits, described.lanes
    if lanes == 1 and (code, bits) in _TYPES:
        return _TYPES[code, bits]
    raise BufferError(
        f"DLPack's element type {code} of {bits} bits and {lanes} lanes is not one of ONNX"
    )


def is_row_major(shape: Sequence[int], strides: Sequence[int] | None, step: int = 1) -> bool:
    """Say whether elements, each a step behind the one before, are in order without gaps."""
    if strides is None:
        return True
    expected = step
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return 0 in shape
        expected *= extent
    return True
