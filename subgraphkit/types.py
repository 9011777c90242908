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
from math import prod
from typing import Any, Self

import numpy as np

# NumPy goes first: where it is broken, ml_dtypes would hide the error that says why.
# isort: split
import ml_dtypes

Dim = int | str | None
"""A dimension: known (int), a named symbol (str) or unknown (None)."""

Shape = tuple[Dim, ...]
"""One entry per axis."""

_NO_NAME = re.compile(r"\?*|None|-\d+|unk__.*", re.DOTALL)


def dim_name(text: str) -> str | None:
    """Return the name of a dimension; None for exporters' words for no name.

    That is nothing at all, ``?``, ``None``, a negative number, and ``unk__`` with a number. Two
    dimensions written that way have nothing to do with each other.
    """
    return None if _NO_NAME.fullmatch(text) else text


def repeated_names(shapes: Iterable[Shape | None]) -> frozenset[str]:
    """Return the names that several dimensions have.

    A caller may give one such name several sizes, because exporters use one name for different
    dimensions. So differing sizes must not break anything.
    """
    counts = Counter(dim for shape in shapes for dim in shape or () if isinstance(dim, str))
    return frozenset(dim for dim, count in counts.items() if count > 1)


class DataType(enum.IntEnum):
    """Element types of tensors, with the numbers of ``TensorProto.DataType``."""

    bits: int
    """Bits of one element as ONNX stores it (4 for INT4); 0 for strings and UNDEFINED."""
    label: str
    """The NumPy spelling used in tables and messages, such as ``float32``."""
    _value_: int
    _dtype: np.dtype

    UNDEFINED = 0, np.void, 0, "unknown"
    FLOAT = 1, np.float32
    UINT8 = 2, np.uint8
    INT8 = 3, np.int8
    UINT16 = 4, np.uint16
    INT16 = 5, np.int16
    INT32 = 6, np.int32
    INT64 = 7, np.int64
    STRING = 8, object, 0, "string"
    BOOL = 9, np.bool_
    FLOAT16 = 10, np.float16
    DOUBLE = 11, np.float64
    UINT32 = 12, np.uint32
    UINT64 = 13, np.uint64
    COMPLEX64 = 14, np.complex64
    COMPLEX128 = 15, np.complex128
    BFLOAT16 = 16, ml_dtypes.bfloat16
    FLOAT8E4M3FN = 17, ml_dtypes.float8_e4m3fn
    FLOAT8E4M3FNUZ = 18, ml_dtypes.float8_e4m3fnuz
    FLOAT8E5M2 = 19, ml_dtypes.float8_e5m2
    FLOAT8E5M2FNUZ = 20, ml_dtypes.float8_e5m2fnuz
    UINT4 = 21, ml_dtypes.uint4, 4
    INT4 = 22, ml_dtypes.int4, 4
    FLOAT4E2M1 = 23, ml_dtypes.float4_e2m1fn, 4
    FLOAT8E8M0 = 24, ml_dtypes.float8_e8m0fnu
    UINT2 = 25, ml_dtypes.uint2, 2
    INT2 = 26, ml_dtypes.int2, 2
    FLOAT6E2M3 = 27, ml_dtypes.float6_e2m3fn, 6
    FLOAT6E3M2 = 28, ml_dtypes.float6_e3m2fn, 6

    def __new__(
        cls, number: int, dtype: Any = np.void, bits: int | None = None, label: str = ""
    ) -> Self:
        """Make a member of its number, its NumPy type, and further facts."""
        member = int.__new__(cls, number)
        member._value_ = number
        member._dtype = found = np.dtype(dtype)  # noqa: SLF001 (its own)
        member.bits = 8 * found.itemsize if bits is None else bits
        member.label = label or found.name
        return member

    def __str__(self) -> str:
        """Render as ``float32``, in formatted texts, too."""
        return self.label

    def __format__(self, form: str) -> str:
        return format(self.label, form)

    __hash__ = int.__hash__  # that of enumerations is written in Python, and types are keys

    @property
    def is_native(self) -> bool:
        """Whether NumPy itself has it, as real numbers or truth values."""
        return self._dtype.isbuiltin == 1 and self._dtype.kind in "biuf"

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of an element; ``object`` for strings.

        Raises:
            KeyError: For ``UNDEFINED``, which has none.
        """
        if not self:
            raise KeyError(self)
        return self._dtype

    @property
    def onnx_name(self) -> str:
        """The spelling used in type strings, such as ``float`` in ``tensor(float)``."""
        return self.name.lower()

    @staticmethod
    def of(dtype: np.dtype) -> "DataType":
        """Find the data type of a NumPy dtype; byte order is ignored, text kinds are STRING.

        Raises:
            KeyError: If ONNX has no such type.
        """
        return _data_type_of(dtype)


@lru_cache(maxsize=256)
def _data_type_of(dtype: np.dtype) -> DataType:
    if dtype.kind in "USOT":
        return DataType.STRING
    native = dtype.newbyteorder("=")
    for data_type in DataType:
        if data_type and data_type.numpy == native:
            return data_type
    raise KeyError(dtype)


def _dim_text(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else dim_name(dim or "") or "?"


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
            return f"{self.dtype}[...]"
        return f"{self.dtype}[{','.join(map(_dim_text, self.shape))}]"

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
        dims = [dim for dim in self.shape or () if isinstance(dim, int)]
        return None if self.shape is None or len(dims) < len(self.shape) else prod(dims)

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
