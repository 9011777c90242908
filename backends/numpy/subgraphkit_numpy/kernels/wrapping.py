"""Adapters from NumPy's ways to ONNX's: arrays of rank 0, half floats, old opsets."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import ml_dtypes
import numpy as np

from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.site import Site

PART: Final = 1 << 14
"""Elements that may be turned into objects of Python, or back, at a stroke.

It keeps the interpreter from all else, such as ending a run whose time is up.
"""

_AT_A_STROKE: Final = 1 << 18
"""References to objects that NumPy may make or drop at a stroke: a millisecond or two."""

HALVES = frozenset({np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
"""Element types that are computed in float32 and rounded once."""


def is_half(dtype: np.dtype[Any]) -> bool:
    """Say whether values of the type are computed in float32."""
    return dtype in HALVES


def widen(x: Array) -> Array:
    """Return halves as float32, other arrays as they are."""
    return x.astype(np.float32) if is_half(x.dtype) else x


def in_arrays(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that returns NumPy scalars for rank 0 return arrays.

    Where the output surely has axes the function is returned as it is.
    """
    if site.output_rank():
        return function
    if site.output_dtype() == np.dtype(object):
        return lambda *arrays: np.asarray(function(*arrays), dtype=object)
    asarray = np.asarray
    return lambda *arrays: asarray(function(*arrays))


def pad_values(values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
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


@contextmanager
def objects(count: int) -> Iterator[Array]:
    """Yield an array of that many objects, for a block that fills it.

    NumPy makes and frees an array in one step, which no deadline ends. So this array grows in
    parts, and is freed in parts if the block fails. Keep no view of it longer than a statement.
    """
    made = np.empty(0, object)
    try:
        for end in range(_AT_A_STROKE, count + _AT_A_STROKE, _AT_A_STROKE):
            made.resize(min(end, count), refcheck=False)
        yield made
    except BaseException:
        # on a thread of its own, where no interruption strikes again
        threading.Thread(target=_free, args=(made,), daemon=True).start()
        raise


def _free(made: Array) -> None:
    while made.size:
        made.resize(max(0, made.size - _AT_A_STROKE), refcheck=False)


def copy_of(x: Array) -> Array:
    """Return a contiguous copy; large ones of objects are made in parts."""
    if x.dtype != object or x.size <= PART:
        return x.copy()
    with objects(x.size) as made:
        for at in range(0, x.size, PART):
            made[at : at + PART] = x.flat[at : at + PART]
    return made.reshape(x.shape)


def in_wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of arrays take halves: widen all, compute, round once."""

    def compute(x: Array, *more: Array | None) -> Any:
        if not is_half(x.dtype):
            return function(x, *more)
        wide = [None if one is None else widen(one) for one in more]
        return np.asarray(function(widen(x), *wide)).astype(x.dtype)

    return compute


def align_legacy(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
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
