"""Reductions over axes, and positions of extremes.

Source: ONNX operators ``ReduceSum`` and its family; of an empty set, the neutral element.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np

from subgraphkit_numpy.kernels.blocking import FLOATS
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.rows import row_sums
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import widen

Axes = tuple[int, ...] | None
Reduction = Callable[[Array, Axes, bool], Any]

LARGE: Final = 1 << 13
"""Smaller arrays are added up before a faster way is found."""

# Called with (array, axes, dtype, out, keepdims), which is faster than by keyword.
_SUM: Callable[..., Any] = np.add.reduce
_PRODUCT: Callable[..., Any] = np.multiply.reduce
_MAXIMUM: Callable[..., Any] = np.maximum.reduce
_MINIMUM: Callable[..., Any] = np.minimum.reduce


def _sum(x: Array, axes: Axes, keepdims: bool) -> Any:  # noqa: FBT001 (the signature of a family)
    if x.size >= LARGE and x.dtype in FLOATS and axes and x.flags.c_contiguous:
        first = x.ndim - len(axes)
        if {axis % x.ndim for axis in axes} == set(range(first, x.ndim)):
            kept = x.shape[:first] + (1,) * (len(axes) if keepdims else 0)
            return row_sums(x.reshape(prod(x.shape[:first]), -1)).reshape(kept)
    return _SUM(x, axes, x.dtype, None, keepdims)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Any:  # noqa: FBT001 (called by place)
    total = np.asarray(_sum(x, axes, keepdims))
    count = x.size // total.size if total.size else 0
    if x.dtype.kind in "iu":
        return (total / count).astype(x.dtype)
    return np.divide(total, x.dtype.type(count))


def least(dtype: np.dtype[Any]) -> Any:
    """Return the least value of an element type."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def _greatest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)


def _log_sum_exp(x: Array, axes: Axes, keepdims: bool) -> Any:  # noqa: FBT001 (called by place)
    if x.dtype.kind in "iu":
        return _log_sum_exp(x.astype(np.float64), axes, keepdims).astype(x.dtype)
    largest = np.asarray(_REDUCTIONS["ReduceMax"](x, axes, True))  # noqa: FBT003 (data)
    shift = np.where(np.isfinite(largest), largest, x.dtype.type(0))
    total = np.asarray(_sum(np.exp(x - shift), axes, keepdims))
    return np.log(total) + shift.reshape(total.shape)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": lambda x, axes, keep: _PRODUCT(x, axes, x.dtype, None, keep),
    "ReduceMax": lambda x, axes, keep: _MAXIMUM(x, axes, None, None, keep, least(x.dtype)),
    "ReduceMin": lambda x, axes, keep: _MINIMUM(x, axes, None, None, keep, _greatest(x.dtype)),
    "ReduceL1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: np.sqrt(_sum(np.square(x), axes, keep)),
    "ReduceSumSquare": lambda x, axes, keep: _sum(np.square(x), axes, keep),
    "ReduceLogSum": lambda x, axes, keep: np.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
}
_EXACT = frozenset({"ReduceMax", "ReduceMin"})


@kernel(*_REDUCTIONS)
def reduce(site: Site) -> Made:
    """Reduce over the axes of an attribute or an input; none means all, or nothing if asked."""
    op_type = site.node.op_type
    function = _REDUCTIONS[op_type]
    keepdims = bool(site.attribute("keepdims", 1))
    empty: Axes = () if site.attribute("noop_with_empty_axes", 0) else None
    apply = partial(_reduce_axes, function, keepdims, op_type in _EXACT)
    if site.settled(1):
        axes = site.absorb_ints(1) if site.has(1) else site.ints("axes")
        return partial(apply, axes=axes or empty)

    def compute(x: Array, axes: Array) -> Array:
        return apply(x, axes=tuple(int(a) for a in axes.reshape(-1)) or empty)

    return compute


def _reduce_axes(function: Reduction, keepdims: bool, exact: bool, x: Array, axes: Axes) -> Array:  # noqa: FBT001 (called by place)
    found = function(x if exact else widen(x), axes, keepdims)
    return np.asarray(found).astype(x.dtype, copy=False)


@kernel("ArgMax", "ArgMin")
def position(site: Site) -> Made:
    """Return where along an axis the first or last extreme is, as int64."""
    find = np.argmax if site.node.op_type == "ArgMax" else np.argmin
    axis = site.attribute("axis", 0)
    keepdims = bool(site.attribute("keepdims", 1))
    last = bool(site.attribute("select_last_index", 0))

    def compute(x: Array) -> Array:
        if x.dtype == ml_dtypes.bfloat16:
            x = x.astype(np.float32)
        if 0 in np.delete(x.shape, axis):  # of results that have no elements, the shape
            x = np.zeros([max(size, int(at == axis % x.ndim)) for at, size in enumerate(x.shape)])
        if not last:
            return np.asarray(find(x, axis=axis, keepdims=keepdims), dtype=np.int64)
        found = find(np.flip(x, axis), axis=axis, keepdims=keepdims)
        return np.asarray(x.shape[axis] - 1 - found, dtype=np.int64)

    return compute
