"""Adapters from NumPy's ways to ONNX's: arrays of rank 0, half floats, old opsets."""

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.site import Site

PART: Final = 1 << 14
"""Elements that may be turned into objects of Python, or back, at a stroke.

It keeps the interpreter from all else, such as ending a run whose time is up.
"""

HALVES = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
"""Element types that are computed in float32 and rounded once."""


def is_half(dtype: np.dtype[Any]) -> bool:
    """Say whether values of the type are computed in float32."""
    return dtype in HALVES


def widened(x: Array) -> Array:
    """Return halves as float32, other arrays as they are."""
    return x.astype(np.float32) if is_half(x.dtype) else x


def arrayed(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that returns NumPy scalars for rank 0 return arrays.

    Where the output surely has axes the function is returned as it is.
    """
    if site.output_rank():
        return function
    if site.output_dtype() == np.dtype(object):
        return lambda *arrays: np.asarray(function(*arrays), dtype=object)
    asarray = np.asarray
    return lambda *arrays: asarray(function(*arrays))


def filled(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Return that many values, None where there are fewer."""
    return (*values, *(None,) * (count - len(values)))[:count]


def part_by_part(function: Callable[..., Array]) -> Callable[..., Array]:
    """Let a function of each element of its first array compute large ones in parts."""

    def compute(x: Array, *more: Array) -> Array:
        if x.size <= PART:
            return function(x, *more)
        flat = x.reshape(-1)
        parts = [function(flat[at : at + PART], *more) for at in range(0, flat.size, PART)]
        return np.concatenate(parts).reshape(x.shape)

    return compute


def copied(x: Array) -> Array:
    """Return a contiguous copy; large ones of objects are made in parts."""
    if x.dtype != object or x.size <= PART:
        return x.copy()
    made, longest = np.empty(x.shape, object), max(x.shape)
    one, other = (np.moveaxis(array, x.shape.index(longest), 0) for array in (made, x))
    step = max(1, PART * longest // x.size)
    for at in range(0, longest, step):
        one[at : at + step] = other[at : at + step]
    return made


def in_wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of arrays take halves: widen all, compute, round once."""

    def compute(x: Array, *more: Array | None) -> Any:
        if not is_half(x.dtype):
            return function(x, *more)
        wide = [None if one is None else widened(one) for one in more]
        return np.asarray(function(widened(x), *wide)).astype(x.dtype)

    return compute


def legacy_aligned(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
    """Apply the one-sided broadcasting of opsets before 7 to the second operand.

    Source: ONNX operator ``Add``, version 6, attributes ``broadcast`` and ``axis``.
    """
    if site.opset >= 7 or not site.attribute("broadcast", 0):  # noqa: PLR2004 (an opset)
        return function
    axis: int | None = site.attribute("axis")

    def compute(a: Array, b: Array) -> Any:
        if axis is not None:
            start = axis + a.ndim if axis < 0 else axis
            b = b.reshape(b.shape + (1,) * (a.ndim - start - b.ndim))
        return function(a, b)

    return compute
