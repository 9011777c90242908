"""Functions of single elements as block functions, and the driver that applies them to arrays.

A *block function* ``f(x, out)`` writes a function of every element of ``x`` to ``out`` and returns
nothing. Both arrays have one shape and one element type, float32 or float64; they may be the same
array. Each step goes over the whole block. So a block and two more of its size should fit in a
CPU's own cache: ``BLOCK`` elements. The result for an element does not depend on its place in a
block, so neither blocks nor threads show in results.

NumPy has no error function. In float32 it is ``tanh(x P(x^2))`` here, which needs no range
reduction and no limits: ``np.tanh`` is vectorised on every CPU that NumPy has vector code for, and
saturates where it should. Each P is the polynomial of degree 6 nearest to ``atanh(erf(x)) / x`` on
[0, 4.3] (Gelu: [0, 6.5]), weighted by how errors arrive in the result. It was fitted by reweighted
least squares (C. L. Lawson, "Contributions to the theory of linear least maximum approximation",
1961). Its leading coefficient is positive, so beyond that range it grows on.
"""

import threading
from collections.abc import Callable
from functools import partial
from math import ceil, inf, pi, sqrt
from math import erf as erf_of_number
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.parallel import cut, share, thread_count

Block = Callable[[Array, Array], object]
"""Writes a function of every element of its first argument to its second."""

BLOCK: Final = 1 << 17
"""Elements of a block: half a megabyte of float32.

Smaller blocks would fit a nearer cache, but every call of NumPy ends with taking the interpreter's
lock back, and where threads do that often they wait for each other.
"""

SHARED_NANOSECONDS: Final = 300_000
"""Work that takes less on one thread is not worth sharing."""


class _Buffers(threading.local):
    """Memory that each thread keeps for intermediate results, so that it stays in its cache."""

    def __init__(self) -> None:
        self.of: dict[tuple[np.dtype[Any], int], Array] = {}


_buffers = _Buffers()


def scratch(like: Array, place: int = 0) -> Array:
    """Return an uninitialised contiguous array of the shape and type of another.

    Thread-safety: every thread has its own. The array is good until the thread asks again for the
    same place, so functions that call each other must keep to different ones.
    """
    size = like.size
    if size > 2 * BLOCK:
        return np.empty(like.shape, like.dtype)
    if (buffer := _buffers.of.get((like.dtype, place))) is None:
        buffer = _buffers.of[like.dtype, place] = np.empty(2 * BLOCK, like.dtype)
    return buffer[:size].reshape(like.shape)


def in_blocks(block: Block, x: Array, out: Array | None = None, nanoseconds: float = 1.0) -> Array:
    """Apply a block function to an array of any size and layout, block by block.

    ``out``: Written to and returned if given; may be ``x``, and must not overlap it otherwise.
    ``nanoseconds``: What one thread takes for an element, roughly. Decides whether threads share
    the work.
    """
    if out is None:
        out = np.empty_like(x)
    if x.size <= BLOCK:
        block(x, out)
        return out
    source, target = _flat_views(x, out)
    do_blocks(partial(_apply, block, source, target), len(source), x.size, nanoseconds)
    return out


def do_blocks(work: Callable[[slice], None], length: int, size: int, nanoseconds: float) -> None:
    """Do the parts of an axis, each a block or less; each thread that shares them gets as many.

    ``nanoseconds``: What one thread takes for one of the ``size`` elements, roughly.
    """
    shares = size * nanoseconds >= SHARED_NANOSECONDS
    threads = thread_count() if shares else 1
    parts = cut(length, ceil(size / BLOCK / threads) * threads, 64 if length == size else 1)
    if shares:
        share(work, parts)
        return
    for part in parts:
        work(part)


def _apply(function: Block, source: Array, target: Array, part: slice) -> None:
    block = source[part]
    if block.size > 2 * BLOCK and block.ndim > 1:
        for inner, outer in zip(block, target[part], strict=True):
            in_blocks(function, inner, outer, 0.0)
    else:
        function(block, target[part])


def _flat_views(x: Array, out: Array) -> tuple[Array, Array]:
    """Return views of two arrays with one axis, or where that cannot be with the longest first."""
    if x.flags.c_contiguous and out.flags.c_contiguous:
        return x.reshape(-1), out.reshape(-1)
    longest = x.shape.index(max(x.shape))
    return np.moveaxis(x, longest, 0), np.moveaxis(out, longest, 0)


# -- limits ----------------------------------------------------------------------------------------


def relu(x: Array, out: Array) -> None:
    """Write the larger of x and 0; NaN stays NaN."""
    # against two bounds NumPy's loop is three times as fast as against one
    x.clip(0.0, inf, out=out)


def clip(low: Any, high: Any) -> Block:
    """Make a block function that limits values; where the bounds cross, the upper one holds."""
    return lambda x, out: x.clip(low, high, out=out)


def leaky_relu(alpha: float) -> Block:
    """Make a block function of x, or ``alpha`` x below 0."""

    def compute(x: Array, out: Array) -> None:
        scaled = scratch(x)
        x.clip(-inf, 0.0, out=scaled)
        np.multiply(scaled, alpha, scaled)
        relu(x, out)
        np.add(out, scaled, out)

    return compute


def thresholded_relu(alpha: float) -> Block:
    """Make a block function of x above ``alpha``, else 0."""
    return lambda x, out: np.copyto(out, np.where(x > alpha, x, 0))


def hard_sigmoid(alpha: float = 0.2, beta: float = 0.5) -> Block:
    """Make a block function of ``alpha`` x + ``beta``, limited to 0 and 1."""

    def compute(x: Array, out: Array) -> None:
        np.multiply(x, alpha, out)
        np.add(out, beta, out)
        out.clip(0.0, 1.0, out=out)

    return compute


_sixth = hard_sigmoid(float(np.float32(1 / 6)), 0.5)  # as the function of HardSwish states it


def hard_swish(x: Array, out: Array) -> None:
    """Write x times the hard sigmoid of slope 1/6."""
    gate = scratch(x)
    _sixth(x, gate)
    np.multiply(x, gate, out)


# -- sigmoid and its kin ---------------------------------------------------------------------------


def sigmoid(x: Array, out: Array) -> None:
    """Write 1 / (1 + exp(-x)), with a small relative error also where the result is small."""
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, 1.0, out)
    # NumPy's reciprocal takes twice as long
    np.divide(1.0, out, out)


def swish(alpha: float) -> Block:
    """Make a block function of x times the sigmoid of ``alpha`` x.

    The error in float32 is below 2e-7 of max(1, |x|): it is x/2 tanh(``alpha`` x/2) + x/2, because
    ``np.tanh`` is faster than ``np.exp``.
    """

    def compute(x: Array, out: Array) -> None:
        if x.dtype == np.float64:
            _swish_double(x, out, alpha)
            return
        gate = scratch(x)
        np.multiply(x, alpha / 2, gate)
        np.tanh(gate, gate)
        np.multiply(x, 0.5, out)
        np.multiply(gate, out, gate)
        np.add(gate, out, out)

    return compute


def _swish_double(x: Array, out: Array, alpha: float) -> None:
    gate = scratch(x)
    np.multiply(x, -alpha, gate)
    np.exp(gate, gate)
    np.add(gate, 1.0, gate)
    np.divide(x, gate, out)


def softplus(x: Array, out: Array) -> None:
    """Write log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)), which never overflows."""
    y = scratch(x)
    np.absolute(x, y)
    np.negative(y, y)
    np.exp(y, y)
    np.log1p(y, y)
    relu(x, out)
    np.add(out, y, out)


def mish(x: Array, out: Array) -> None:
    """Write x tanh(softplus(x))."""
    gate = scratch(x, 1)
    softplus(x, gate)
    np.tanh(gate, gate)
    np.multiply(x, gate, out)


def softsign(x: Array, out: Array) -> None:
    """Write x / (1 + |x|)."""
    y = scratch(x)
    np.absolute(x, y)
    np.add(y, 1.0, y)
    np.divide(x, y, out)


def elu(alpha: float = 1.0, scale: float = 1.0, width: float = 1.0) -> Block:
    """Make a block function of ``scale`` x, below 0 ``scale * alpha`` (exp(x / ``width``) - 1)."""

    def compute(x: Array, out: Array) -> None:
        y = scratch(x)
        x.clip(-inf, 0.0, out=y)
        if width != 1.0:
            np.divide(y, width, y)
        np.expm1(y, y)
        if alpha * scale != 1.0:
            np.multiply(y, alpha * scale, y)
        relu(x, out)
        if scale != 1.0:
            np.multiply(out, scale, out)
        np.add(out, y, out)

    return compute


# -- the error function ----------------------------------------------------------------------------

_ERF: Final = (
    1.1283792743001888, 0.10276905584530752, -0.00019183091836109533, -0.0006197845611384775,
    8.763729128573563e-05, -5.6684698085065e-06, 1.4185189592462191e-07,
)  # fmt: skip
_GELU: Final = (
    0.7978848409264909, 0.03633347431706702, -3.298734058027037e-05, -5.515285425405471e-05,
    3.938242401162714e-06, -1.3024973979021595e-07, 1.7019772761300128e-09,
)  # fmt: skip
_SLOPE: Final = sqrt(float(np.float32(2 / pi)))
_GELU_TANH: Final = (_SLOPE, float(np.float32(0.044715)) * _SLOPE)
"""Of numbers that the function of the operator states as float32, in float64 as well."""


def _odd(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Return x P(x^2) in memory of the thread; coefficients with the constant term first."""
    square, y = scratch(x), scratch(x, 1)
    np.multiply(x, x, square)
    np.multiply(square, coefficients[-1], y)
    for coefficient in coefficients[-2:0:-1]:
        np.add(y, coefficient, y)
        np.multiply(y, square, y)
    np.add(y, coefficients[0], y)
    np.multiply(y, x, y)
    return y


_erf_of_each: Final = np.vectorize(erf_of_number, otypes=[np.float64])
"""In float64, which networks seldom have, element by element."""


def erf(x: Array, out: Array) -> None:
    """Write the error function; the largest relative error in float32 is 2.5e-7."""
    if x.dtype == np.float64:
        np.copyto(out, _erf_of_each(x))
        return
    np.tanh(_odd(x, _ERF), out)


def _normal_gelu(x: Array, out: Array, coefficients: tuple[float, ...]) -> None:
    y = _odd(x, coefficients)
    np.tanh(y, y)
    np.add(y, 1.0, y)
    np.multiply(y, 0.5, y)
    np.multiply(x, y, out)


def gelu(x: Array, out: Array) -> None:
    """Write x times the normal distribution function.

    The largest error in float32 is 2.3e-7 of max(1, |x|).
    """
    if x.dtype != np.float64:
        _normal_gelu(x, out, _GELU)
        return
    y = scratch(x)
    np.multiply(x, sqrt(0.5), y)
    erf(y, y)
    np.add(y, 1.0, y)
    np.multiply(y, 0.5, y)
    np.multiply(x, y, out)


def gelu_tanh(x: Array, out: Array) -> None:
    """Write x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    _normal_gelu(x, out, _GELU_TANH)
