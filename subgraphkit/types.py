"""Data types and shapes of values, in ONNX's own terms.

A value is a tensor, or a sequence, optional, map or sparse tensor built from tensors. A dimension
is an ``int`` when known, a ``str`` when it is a named symbol, and ``None`` when nothing is known.

Source: ONNX IR specification, "Static tensor shapes" and "Types".
"""

import enum
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

# NumPy goes first: where it is broken, ml_dtypes would hide the error that says why.
# isort: split
import ml_dtypes

Dim = int | str | None
"""A dimension: known (int), a named symbol (str) or unknown (None)."""

Shape = tuple[Dim, ...]
"""One entry per axis."""

_NO_NAME = re.compile(r"\?*|None|-\d+|unk__.*", re.DOTALL)


def named(text: str) -> str | None:
    """Return the name of a dimension; None for what exporters write where they have none.

    That is nothing at all, ``?``, ``None``, a negative number, and ``unk__`` with a number. Two
    dimensions written that way have nothing to do with each other.
    """
    return None if _NO_NAME.fullmatch(text) else text


def repeated_names(shapes: Iterable[Shape | None]) -> frozenset[str]:
    """Return the names that several dimensions have.

    Of the inputs of a model, these are names that a caller may give several sizes: exporters call
    different dimensions by one name, and so nothing may go wrong where they differ.
    """
    counts = Counter(dim for shape in shapes for dim in shape or () if isinstance(dim, str))
    return frozenset(dim for dim, count in counts.items() if count > 1)


class DataType(enum.IntEnum):
    """Element types of tensors, with the numbers of ``TensorProto.DataType``."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28

    __hash__ = int.__hash__  # that of enumerations is written in Python, and types are keys

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of an element; ``object`` for strings.

        Raises:
            KeyError: For ``UNDEFINED``, which has none.
        """
        return _NUMPY_DTYPES[self]

    @property
    def label(self) -> str:
        """The NumPy spelling used in tables and messages, such as ``float32``."""
        return _LABELS[self]

    @property
    def onnx_name(self) -> str:
        """The spelling used in type strings, such as ``float`` in ``tensor(float)``."""
        return self.name.lower()

    @property
    def bits(self) -> int:
        """Bits of one element as ONNX stores it (4 for INT4); 0 for strings and UNDEFINED."""
        return _BITS[self]

    @staticmethod
    def of(dtype: np.dtype) -> "DataType":
        """Find the data type of a NumPy dtype; byte order is ignored, text kinds are STRING.

        Raises:
            KeyError: If ONNX has no such type.
        """
        return _data_type_of(dtype)


_NUMPY_DTYPES: dict[DataType, np.dtype] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.INT8: np.dtype(np.int8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.STRING: np.dtype(object),
    DataType.BOOL: np.dtype(np.bool_),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.UINT64: np.dtype(np.uint64),
    DataType.COMPLEX64: np.dtype(np.complex64),
    DataType.COMPLEX128: np.dtype(np.complex128),
    DataType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    DataType.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DataType.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DataType.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DataType.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DataType.UINT4: np.dtype(ml_dtypes.uint4),
    DataType.INT4: np.dtype(ml_dtypes.int4),
    DataType.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DataType.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DataType.UINT2: np.dtype(ml_dtypes.uint2),
    DataType.INT2: np.dtype(ml_dtypes.int2),
    DataType.FLOAT6E2M3: np.dtype(ml_dtypes.float6_e2m3fn),
    DataType.FLOAT6E3M2: np.dtype(ml_dtypes.float6_e3m2fn),
}
_SUB_BYTE_BITS = {
    DataType.UINT4: 4,
    DataType.INT4: 4,
    DataType.FLOAT4E2M1: 4,
    DataType.UINT2: 2,
    DataType.INT2: 2,
    DataType.FLOAT6E2M3: 6,
    DataType.FLOAT6E3M2: 6,
    DataType.STRING: 0,
    DataType.UNDEFINED: 0,
}
_BITS = {
    dtype: _SUB_BYTE_BITS.get(dtype, 8 * _NUMPY_DTYPES[dtype].itemsize)
    if dtype in _NUMPY_DTYPES
    else 0
    for dtype in DataType
}
_LABELS = {dtype: numpy.name for dtype, numpy in _NUMPY_DTYPES.items()}
_LABELS |= {DataType.UNDEFINED: "unknown", DataType.STRING: "string"}


@lru_cache(maxsize=256)
def _data_type_of(dtype: np.dtype) -> DataType:
    if dtype.kind in "USOT":
        return DataType.STRING
    native = dtype.newbyteorder("=")
    for data_type, candidate in _NUMPY_DTYPES.items():
        if candidate == native:
            return data_type
    raise KeyError(dtype)


def _dim_text(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else named(dim or "") or "?"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense tensor.

    Attributes:
        dtype: Element type; ``UNDEFINED`` if inference could not tell.
        shape: One entry per axis, or None if even the rank is unknown.
    """

    dtype: DataType
    shape: Shape | None = None

    def __str__(self) -> str:
        """Render as ``float32[1,3,H,?]``; ``?`` has no name, and an unknown rank is ``[...]``."""
        if self.shape is None:
            return f"{self.dtype.label}[...]"
        return f"{self.dtype.label}[{','.join(map(_dim_text, self.shape))}]"

    @property
    def onnx_name(self) -> str:
        """The type string that ONNX Runtime reports, such as ``tensor(float)``."""
        return f"tensor({self.dtype.onnx_name})"

    @property
    def rank(self) -> int | None:
        """Number of axes, or None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def element_count(self) -> int | None:
        """Number of elements, or None if a dimension is not a known integer."""
        if self.shape is None:
            return None
        count = 1
        for dim in self.shape:
            if not isinstance(dim, int):
                return None
            count *= dim
        return count

    @property
    def nbytes(self) -> int | None:
        """Size in bytes as ONNX stores it, or None if unknown."""
        count = self.element_count
        return None if count is None else (count * self.dtype.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class SparseTensorType:
    """A sparse tensor of the given element type and dense shape."""

    dtype: DataType
    shape: Shape | None = None

    def __str__(self) -> str:
        """Render as ``sparse float32[3,4]``."""
        return f"sparse {TensorType(self.dtype, self.shape)}"

    @property
    def onnx_name(self) -> str:
        """The type string that ONNX Runtime reports."""
        return f"sparse_tensor({self.dtype.onnx_name})"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A list of values of one type; an element of None is not known."""

    element: "ValueType | None"

    def __str__(self) -> str:
        """Render as ``sequence(float32[...])``."""
        return f"sequence({self.element or '?'})"

    @property
    def onnx_name(self) -> str:
        """The type string that ONNX Runtime reports, such as ``seq(tensor(float))``."""
        return f"seq({self.element.onnx_name if self.element else '?'})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value of the given type, or nothing; an element of None is not known."""

    element: "ValueType | None"

    def __str__(self) -> str:
        """Render as ``optional(float32[...])``."""
        return f"optional({self.element or '?'})"

    @property
    def onnx_name(self) -> str:
        """The type string that ONNX Runtime reports."""
        return f"optional({self.element.onnx_name if self.element else '?'})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A mapping from scalars of one type to values of another (ai.onnx.ml)."""

    key: DataType
    value: "ValueType | None"

    def __str__(self) -> str:
        """Render as ``map(int64, float32[...])``."""
        return f"map({self.key.label}, {self.value or '?'})"

    @property
    def onnx_name(self) -> str:
        """The type string that ONNX Runtime reports."""
        return f"map({self.key.onnx_name},{self.value.onnx_name if self.value else '?'})"


ValueType = TensorType | SparseTensorType | SequenceType | OptionalType | MapType
"""The type of any value."""


def slot(name: str, axis: int, dim: Dim) -> str:
    """Return how ``shapes`` calls a dimension of a value: its name, or ``x[2]`` without one."""
    return dim if isinstance(dim, str) else f"{name}[{axis}]"


def fits(shape: tuple[int, ...], declared: Shape) -> bool:
    """Say whether a concrete shape has the declared rank and the dimensions that are known."""
    return len(shape) == len(declared) and all(
        not isinstance(want, int) or have == want
        for have, want in zip(shape, declared, strict=True)
    )
