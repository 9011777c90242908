"""Functions of whole rows as block functions, and the driver that applies them to arrays.

A *block function of rows* ``f(x, out, *parameters)`` reads the rows of a matrix ``x`` and writes as
many to ``out``, which may be ``x``. Both are float32 or float64. What a row becomes depends on that
row alone, so neither blocks nor threads show in results. For that reason a sum of a row is NumPy's
or a single dot product, never part of a matrix product.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.elementwise import BLOCK, do_blocks, scratch
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.parallel import BUFFER

RowBlock = Callable[..., None]
"""Writes a function of every row of its first argument to its second."""

_FEW: Final = 768
"""Maxima of longer rows are fastest one by one."""

_PIECE: Final = 4096
"""Elements of a long row that are added up straight."""


def in_rows(
    function: RowBlock,
    x: Array,
    length: int,
    out: Array | None = None,
    nanoseconds: float = 1.0,
    *parameters: Any,
    by_row: Sequence[Array] = (),
) -> Array:
    """Apply a block function of rows to an array whose trailing axes are rows.

    ``nanoseconds``: What one thread takes for an element, roughly. Decides whether threads share
    the work.
    """
    # ``ascontiguousarray`` would make one axis of none
    x = x if x.flags.c_contiguous else x.copy()
    if out is None or not out.flags.c_contiguous:
        out = np.empty_like(x)
    if not x.size:
        return out
    source, target = x.reshape(-1, length), out.reshape(-1, length)
    rows = source.shape[0]
    work = partial(_apply, function, (source, target, *by_row), parameters)
    if x.size <= BLOCK:
        work(slice(0, rows))
        return out
    do_blocks(work, rows, x.size, nanoseconds)
    return out


def _apply(
    function: RowBlock, arrays: Sequence[Array], parameters: tuple[Any, ...], part: slice
) -> None:
    length = arrays[0].shape[1]
    before = np.setbufsize(BUFFER // 2 if BUFFER // 4 < length <= BUFFER // 2 else BUFFER)
    try:
        function(*(array[part] for array in arrays), *parameters)
    finally:
        np.setbufsize(before)


def row_sums(x: Array) -> Array:
    """Return the sum of every row of a matrix, as a column."""
    # does not go through BLAS, and is twice as fast as ``np.add.reduce``
    return _in_pieces(x, lambda rows: np.einsum("...i->...", rows))


def _square_sums(x: Array) -> Array:
    return _in_pieces(x, lambda rows: np.vecdot(rows, rows))


def _in_pieces(x: Array, add_up: Callable[[Array], Array]) -> Array:
    """Add rows up, long ones in pieces: for accuracy, and lest BLAS cut them for its threads."""
    rows, length = x.shape
    if length <= 2 * _PIECE:
        return add_up(x)[:, None]
    split = length // _PIECE * _PIECE
    total: Array = add_up(x[:, :split].reshape(rows, -1, _PIECE)).sum(1, keepdims=True)
    if split < length:
        np.add(total, add_up(x[:, split:])[:, None], total)
    return total


def row_maxima(x: Array) -> Array:
    """Return the largest element of every row of a matrix, as a column; NaN if there is one."""
    rows, length = x.shape
    if length > _FEW or not x.flags.c_contiguous:
        return np.maximum.reduce(x, 1, keepdims=True)
    starts = np.arange(0, rows * length, length)
    largest: Array = np.maximum.reduceat(x.reshape(-1), starts)
    return largest[:, None]


def _exponentials(x: Array, y: Array) -> Array:
    """Write rows less their maxima, so that nothing overflows; return their exponentials."""
    np.subtract(x, row_maxima(x), y)
    return np.exp(y, scratch(x))


def softmax(x: Array, out: Array) -> None:
    """Write the exponentials of every row, divided by their sum."""
    y = _exponentials(x, out)
    np.divide(y, row_sums(y), out)


def log_softmax(x: Array, out: Array) -> None:
    """Write every row less the logarithm of the sum of its exponentials."""
    total = row_sums(_exponentials(x, out))
    np.subtract(out, np.log(total, total), out)


def hardmax(x: Array, out: Array) -> None:
    """Write 1 where the first of the largest of every row is, and 0 elsewhere."""
    first = x.argmax(1)  # before anything is written, for both may be the same memory
    out[...] = 0
    out[np.arange(len(x)), first] = 1


def layer_normalize(
    x: Array, out: Array, scale: Array | None, bias: Array | None, epsilon: float
) -> None:
    """Write every row less its mean, over its deviation; then scaled and shifted."""
    y, variance = _centre_rows(x)
    _finish(y, out, variance, scale, epsilon)
    if bias is not None:
        np.add(out, bias, out)


def _centre_rows(x: Array) -> tuple[Array, Array]:
    """Return rows less their mean, in memory of the thread, and the variance of each."""
    length = x.shape[1]
    mean = row_sums(x)
    np.divide(mean, length, mean)
    y = scratch(x)
    np.subtract(x, mean, y)
    variance = _square_sums(y)
    np.divide(variance, length, variance)
    return y, variance


def normalize_groups(x: Array, out: Array, scale: Array, bias: Array, epsilon: float) -> None:
    """Write every row less its mean, over its deviation; then pieces of it scaled and shifted."""
    y, variance = _centre_rows(x)
    np.add(variance, epsilon, variance)
    np.sqrt(variance, variance)
    shape = (*scale.shape, -1)
    np.multiply(y.reshape(shape), np.divide(scale, variance)[:, :, None], out.reshape(shape))
    np.add(out.reshape(shape), bias[:, :, None], out.reshape(shape))


def rms_normalize(x: Array, out: Array, scale: Array | None, epsilon: float) -> None:
    """Write every row over its root mean square, then scaled; parameters as above."""
    length = x.shape[1]
    square = _square_sums(x)
    np.divide(square, length, square)
    _finish(x, out, square, scale, epsilon)


def _finish(x: Array, out: Array, variance: Array, scale: Array | None, epsilon: float) -> None:
    np.add(variance, epsilon, variance)
    np.sqrt(variance, variance)
    np.divide(1.0, variance, variance)
    np.multiply(x, variance, out)
    if scale is not None:
        np.multiply(out, scale, out)
