"""Conversions between element types.

The specification of ``Cast`` is silent about a float that is NaN, infinite or too large for the
integer type. Here, as in ONNX Runtime, such a float becomes what C's conversion makes of it on the
machine. On x86-64 that is the smallest int32 or int64; narrower types keep its lowest bits.
Integers that are too large keep their lowest bits. Text that is not an integer is read as a float
and truncated.

Source: ONNX operator ``Cast``, versions 9 to 25.
"""

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from subgraphkit.types import DataType
from subgraphkit_numpy.kernels.reference import reference_kernel
from subgraphkit_numpy.kernels.registry import Array, Made, Same, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import part_by_part

_NATIVE: Final = frozenset(one.numpy for one in DataType if one.is_native)
_PLAIN: Final = _NATIVE | {np.dtype(ml_dtypes.bfloat16)}
"""Types between which ONNX and NumPy convert alike: C's rules, no saturation."""

_BELOW_BYTE: Final = frozenset(one.numpy for one in DataType if "INT" in one.name and one.bits < 8)  # noqa: PLR2004 (a byte)
_WHOLE: Final = _BELOW_BYTE | {dtype for dtype in _PLAIN if dtype.kind in "iu"}
_TWO_TO_64: Final = 1 << 64


@kernel("Cast")
def cast(site: Site) -> Made:
    """Convert to the type an attribute names."""
    to = site.attribute("to")
    # version 1 of the operator names the type by a string
    return _cast(site, (DataType[to.upper()] if isinstance(to, str) else DataType(to)).numpy)


@kernel("CastLike")
def cast_like(site: Site) -> Made:
    """Convert to the type of the second input."""
    target = site.dtype(1)
    return reference_kernel(site) if target is None else _cast(site, target, drop=1)


def _cast(site: Site, target: np.dtype[Any], drop: int | None = None) -> Made:
    dtype = site.dtype()
    if dtype is not None and dtype == target:
        return Same()
    if dtype not in _PLAIN or target not in _PLAIN:
        return part_by_part(_cast_rarely(site, dtype, target))

    def compute(x: Array, *_: Any) -> Array:
        return x.astype(target)

    if drop is not None:
        site.absorbed.add(drop)
    return compute


def _cast_rarely(
    site: Site, dtype: np.dtype[Any] | None, target: np.dtype[Any]
) -> Callable[..., Array]:
    """Return a kernel for types that NumPy does not convert, or not as ONNX has it."""
    plain = reference_kernel(site)
    if dtype is None or dtype in _NATIVE:
        return plain
    if dtype.kind != "O":
        # what is NumPy's own is converted to all others, and holds all values of the smaller ones
        between = np.dtype(np.int8) if dtype in _BELOW_BYTE else np.dtype(np.float32)
        return lambda x, *like: plain(x.astype(between), *like)
    if target in _WHOLE:
        return lambda x, *_: _each(_read_whole, x, np.dtype(np.int64)).astype(target)
    if target in _NATIVE:
        return plain
    return lambda x, *like: plain(_each(float, x, np.dtype(np.float32)), *like)


def _each(read: Callable[[Any], Any], x: Array, dtype: np.dtype[Any]) -> Array:
    """Read every text of an array as a number, modulo 2^64 where it is an integer."""
    numbers = [read(text) for text in x.reshape(-1).tolist()]
    if dtype.kind == "i":
        unsigned = np.array([number % _TWO_TO_64 for number in numbers], dtype=np.uint64)
        return unsigned.view(np.int64).reshape(x.shape)
    return np.array(numbers, dtype=dtype).reshape(x.shape)


def _read_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))
