"""Arithmetic on numbers, with ONNX's rules for integers; bits; sums of many inputs; comparisons.

Source: ONNX operators ``Add`` to ``Xor``, ``Mod``, ``Pow``, ``BitShift``.
"""

from collections.abc import Callable, Mapping
from functools import partial, reduce
from math import inf
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels import elementwise
from subgraphkit_numpy.kernels.blocking import FLOATS, elementwise_kernel
from subgraphkit_numpy.kernels.elementwise import Block, scratch
from subgraphkit_numpy.kernels.registry import Array, Made, Same, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import PART, align_legacy, in_arrays

_BINARY = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip


@kernel(*_BINARY)
def binary(site: Site) -> Made:
    """Make a kernel of a ufunc of two arrays; integers wrap around."""
    return in_arrays(site, align_legacy(site, _BINARY[site.node.op_type]))


@kernel("Div")
def div(site: Site) -> Made:
    """Divide; integers truncate towards zero, and a divisor of zero is an error."""
    dtype = site.dtype()
    is_fraction = dtype is not None and dtype.kind not in "iu"
    return in_arrays(site, align_legacy(site, np.divide if is_fraction else _divide))


def _divide(a: Array, b: Array) -> Any:
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    _require_divisor(b)
    if a.dtype.kind == "u":
        return np.floor_divide(a, b)
    # fmod truncates as C does, so what is left divides without remainder
    return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


def _require_divisor(b: Array) -> None:
    if not np.all(b):
        raise ZeroDivisionError("division of integers by zero")


@kernel("Mod")
def mod(site: Site) -> Made:
    """Return the remainder: of the divisor's sign, or with ``fmod`` of the dividend's."""
    remainder = np.fmod if site.attribute("fmod", 0) else np.mod

    def compute(a: Array, b: Array) -> Any:
        if b.dtype.kind in "iu":
            _require_divisor(b)
        return remainder(a, b)

    return in_arrays(site, compute)


def _cube(x: Array, out: Array) -> None:
    square = scratch(x)
    np.multiply(x, x, square)
    np.multiply(square, x, out)


def _root(x: Array, out: Array) -> None:
    # unlike sqrt, pow gives inf for -inf, and 0 for -0
    lowest = x == -inf
    np.sqrt(x, out)
    np.add(out, 0.0, out)
    if lowest.any():
        out[lowest] = inf


POWERS: Final[Mapping[float, tuple[Block, float]]] = {
    0.5: (_root, 0.6),
    2.0: (np.square, 0.1),
    3.0: (_cube, 0.2),
}
"""By exponent, its block function and nanoseconds; special values follow ``pow`` of C."""


@kernel("Pow")
def power(site: Site) -> Made:
    """Raise to a power; the result has the type of the base."""
    base, exponent = site.dtype(0), site.dtype(1)
    is_known = base is not None and exponent is not None and base.kind not in "iu"
    value = site.constant(1) if is_known else None
    if value is not None and value.size == 1 and value.ndim <= (site.rank() or 0):
        known = POWERS.get(float(value.reshape(-1)[0]))
        if known is not None:
            site.absorb(1)
            return elementwise_kernel(site, *known)
    function = np.power if is_known and base == exponent else _power_any
    return in_arrays(site, align_legacy(site, function))


def _power_any(base: Array, exponent: Array) -> Any:
    dtype = base.dtype
    if dtype == exponent.dtype and dtype.kind not in "iu":
        return np.power(base, exponent)
    if dtype.kind not in "iu":
        return np.power(base, exponent.astype(dtype))
    if exponent.dtype.kind in "iu" and not np.any(exponent < 0):
        return np.power(base, exponent.astype(dtype))
    return np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(dtype)


@kernel("BitShift")
def bit_shift(site: Site) -> Made:
    """Shift bits of unsigned integers."""
    left = site.attribute("direction") == "LEFT"
    return in_arrays(site, np.left_shift if left else np.right_shift)


_VARIADIC = {"Sum": np.add, "Max": np.maximum, "Min": np.minimum}


@kernel(*_VARIADIC, aliases=False)
def variadic(site: Site) -> Made:
    """Combine any number of arrays from left to right; NaN wins over numbers."""
    function: Callable[..., Any] = _VARIADIC[site.node.op_type]
    if site.input_count == 1:
        return Same()
    if site.input_count == 2:  # noqa: PLR2004 (two operands)
        return in_arrays(site, function)
    return in_arrays(site, lambda *arrays: reduce(function, arrays))


@kernel("Mean")
def mean(site: Site) -> Made:
    """Average any number of arrays."""
    count = site.input_count
    if count == 1:
        return Same()

    def compute(*arrays: Array) -> Any:
        total = reduce(np.add, arrays)
        return total / total.dtype.type(count)

    return in_arrays(site, compute)


@kernel("Clip", until=10)
def clip_by_attributes(site: Site) -> Made:
    """Limit values to a range given by attributes."""
    dtype = site.dtype() or site.output_dtype() or np.dtype(np.float32)
    largest = np.finfo(np.float32).max
    ends = site.attribute("min", -largest), site.attribute("max", largest)
    with np.errstate(over="ignore"):
        low, high = (np.float32(end).astype(dtype) for end in ends)
    return _clip(site, low, high)


@kernel("Clip", since=11)
def clip(site: Site) -> Made:
    """Limit values to a range; where the bounds cross, the upper one holds."""
    if site.settled(1, 2):
        low, high = site.absorb(1, 2)
        bounds = (None if bound is None else bound.reshape(()) for bound in (low, high))
        return _clip(site, *bounds)
    return _clip_any


def _clip(site: Site, low: Array | None, high: Array | None) -> Made:
    dtype = site.dtype()
    if dtype in FLOATS:
        ends = np.finfo(dtype)
        lower, upper = ends.min if low is None else low, ends.max if high is None else high
        return elementwise_kernel(site, elementwise.clip(lower, upper), 0.2)
    return partial(_clip_any, low=low, high=high)


def _clip_any(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    if x.dtype.kind == "f":  # infinity is beyond bounds that are left out as well
        ends = np.finfo(x.dtype)
        low, high = ends.min if low is None else low, ends.max if high is None else high
    raised = x if low is None else np.maximum(x, low)
    return np.array(raised if high is None else np.minimum(raised, high))


@kernel("Equal")
def equal(site: Site) -> Made:
    """Compare element by element; strings too."""
    dtype = site.dtype()
    if dtype is not None and dtype.kind != "O":
        return in_arrays(site, align_legacy(site, np.equal))
    return _equal_objects


def _equal_objects(first: Array, second: Array) -> Array:
    """Compare in parts; on objects the ufunc gives objects, and keeps the interpreter for long."""
    each = np.nditer(
        [first, second, None],
        ["buffered", "external_loop", "refs_ok", "zerosize_ok"],
        [["readonly"], ["readonly"], ["writeonly", "allocate"]],
        op_dtypes=[None, None, np.bool_],
        buffersize=PART,
    )
    with each:
        for one, other, same in each:
            same[...] = one == other
        found: Array = each.operands[2]
    return found


@kernel("IsInf")
def is_inf(site: Site) -> Made:
    """Find infinities of the signs that the attributes ask for."""
    negative = bool(site.attribute("detect_negative", 1))
    positive = bool(site.attribute("detect_positive", 1))

    def compute(x: Array) -> Any:
        found = np.isinf(x)
        if not positive:
            found = found & (x < 0)
        return found if negative else found & ~(x < 0)

    return in_arrays(site, compute)


@kernel("Where")
def where(_site: Site) -> Made:
    """Choose elements of one of two arrays."""
    return np.where
