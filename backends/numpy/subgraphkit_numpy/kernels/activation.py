"""Activation functions and the softmax family.

Source: ONNX operators ``Relu`` to ``Swish``, ``Softmax``, ``LogSoftmax``; their function bodies.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.mathematics import erf
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import arrayed, is_half, widened

__all__: list[str] = []

LONGEST_HALF_ROW: Final = 2048
"""Longer rows of float16 are normalised in float32."""

Elementwise = Callable[[Array, Array | None], Array]


@kernel("Relu")
def relu(site: Site) -> Made:
    """Return the larger of x and 0; NaN stays NaN."""
    dtype = site.dtype()
    if dtype is not None and site.output_rank():
        return Kernel(np.maximum, (np.zeros((), dtype),), takes_out=True)
    return lambda x: np.asarray(np.maximum(x, np.zeros((), x.dtype)))


@kernel("LeakyRelu")
def leaky_relu(site: Site) -> Made:
    """Return x, or ``alpha`` times x below 0."""
    alpha = site.attribute("alpha", 0.01)

    def compute(x: Array, out: Array | None = None) -> Any:
        scaled = np.multiply(x, x.dtype.type(alpha))
        # for slopes up to 1 the larger of the two is the right one, in one pass
        if 0 <= alpha <= 1:
            return np.maximum(x, scaled, out=out if out is not None else scaled)
        np.copyto(scaled, x, where=x >= 0)
        return scaled

    return widened(site, compute)


@kernel("PRelu")
def p_relu(site: Site) -> Made:
    """Return x, or ``slope`` times x below 0; one slope per channel before opset 7."""

    def compute(x: Array, slope: Array) -> Any:
        if slope.ndim == 1 and site.opset < 7 and x.ndim > 1:  # noqa: PLR2004 (an opset)
            slope = slope.reshape(slope.shape + (1,) * (x.ndim - 2))
        return np.where(x < 0, x * slope, x)

    return arrayed(site, compute)


@kernel("ThresholdedRelu")
def thresholded_relu(site: Site) -> Made:
    """Return x above ``alpha``, else 0."""
    alpha = site.attribute("alpha", 1.0)
    return lambda x: np.where(x > x.dtype.type(alpha), x, x.dtype.type(0))


def _sigmoid(x: Array, out: Array | None = None) -> Array:
    y = np.negative(x, out)
    np.exp(y, y)
    np.add(y, y.dtype.type(1), y)
    return np.reciprocal(y, y)


@kernel("Sigmoid")
def sigmoid(site: Site) -> Made:
    """Return 1 / (1 + exp(-x))."""
    return widened(site, _sigmoid)


@kernel("Swish")
def swish(site: Site) -> Made:
    """Return x * sigmoid(alpha * x)."""
    alpha = site.attribute("alpha", 1.0)

    def compute(x: Array, out: Array | None = None) -> Array:
        y = np.multiply(x, x.dtype.type(alpha))
        return np.multiply(x, _sigmoid(y, y), out if out is not None else y)

    return widened(site, compute)


@kernel("HardSigmoid")
def hard_sigmoid(site: Site) -> Made:
    """Return alpha * x + beta, limited to 0 and 1."""
    return widened(site, _hard_sigmoid(site.attribute("alpha", 0.2), site.attribute("beta", 0.5)))


def _hard_sigmoid(alpha: float, beta: float) -> Elementwise:
    def compute(x: Array, out: Array | None = None) -> Any:
        scalar = x.dtype.type
        y = np.multiply(x, scalar(alpha), out)
        np.add(y, scalar(beta), y)
        np.maximum(y, scalar(0), out=y)
        return np.minimum(y, scalar(1), out=y)

    return compute


@kernel("HardSwish")
def hard_swish(site: Site) -> Made:
    """Return x times the hard sigmoid with slope 1/6."""
    gate = _hard_sigmoid(1 / 6, 0.5)

    def compute(x: Array, out: Array | None = None) -> Array:
        y = gate(x, None)
        return np.multiply(x, y, out if out is not None else y)

    return widened(site, compute)


def _exponential_below_zero(alpha: float, scale: float, width: float = 1.0) -> Elementwise:
    """Return scale * x above 0, else scale * alpha * (exp(x / width) - 1)."""

    def compute(x: Array, out: Array | None = None) -> Any:
        scalar = x.dtype.type
        y = np.minimum(x, scalar(0))
        if width != 1.0:
            np.divide(y, scalar(width), y)
        np.expm1(y, y)
        np.multiply(y, scalar(alpha * scale), y)
        positive = np.maximum(x, scalar(0), out=out)
        if scale != 1.0:
            np.multiply(positive, scalar(scale), positive)
        return np.add(positive, y, positive)

    return compute


@kernel("Elu")
def elu(site: Site) -> Made:
    """Return x, or alpha * (exp(x) - 1) below 0."""
    return widened(site, _exponential_below_zero(site.attribute("alpha", 1.0), 1.0))


@kernel("Celu")
def celu(site: Site) -> Made:
    """Return x, or alpha * (exp(x / alpha) - 1) below 0."""
    alpha = site.attribute("alpha", 1.0)
    return widened(site, _exponential_below_zero(alpha, 1.0, alpha))


@kernel("Selu")
def selu(site: Site) -> Made:
    """Return the scaled exponential linear unit."""
    alpha = site.attribute("alpha", 1.67326319217681884765625)
    gamma = site.attribute("gamma", 1.05070102214813232421875)
    return widened(site, _exponential_below_zero(alpha, gamma))


def _softplus(x: Array, out: Array | None = None) -> Any:
    # log(1 + exp(x)) without overflow
    y = np.abs(x)
    np.negative(y, y)
    np.exp(y, y)
    np.log1p(y, y)
    return np.add(np.maximum(x, x.dtype.type(0), out=out), y, y)


@kernel("Softplus")
def softplus(site: Site) -> Made:
    """Return log(1 + exp(x))."""
    return widened(site, _softplus)


@kernel("Softsign")
def softsign(site: Site) -> Made:
    """Return x / (1 + |x|)."""

    def compute(x: Array, out: Array | None = None) -> Array:
        y = np.abs(x)
        np.add(y, y.dtype.type(1), y)
        return np.divide(x, y, out if out is not None else y)

    return widened(site, compute)


@kernel("Mish")
def mish(site: Site) -> Made:
    """Return x * tanh(softplus(x))."""

    def compute(x: Array, out: Array | None = None) -> Any:
        y = _softplus(x)
        np.tanh(y, y)
        return np.multiply(x, y, out if out is not None else y)

    return widened(site, compute)


@kernel("Gelu")
def gelu(site: Site) -> Made:
    """Return x times the normal distribution function, exact or by tanh."""
    tanh = site.attribute("approximate", "none") == "tanh"
    return widened(site, _gelu_tanh if tanh else _gelu_erf)


def _gelu_erf(x: Array, out: Array | None = None) -> Any:
    scalar = x.dtype.type
    y = np.multiply(x, scalar(np.sqrt(0.5)))
    erf(y, y)
    np.add(y, scalar(1), y)
    np.multiply(y, scalar(0.5), y)
    return np.multiply(x, y, out if out is not None else y)


def _gelu_tanh(x: Array, out: Array | None = None) -> Array:
    scalar = x.dtype.type
    y = np.multiply(x, x)
    np.multiply(y, scalar(0.044715), y)
    np.add(y, scalar(1), y)
    np.multiply(y, x, y)
    np.multiply(y, scalar(np.sqrt(2 / np.pi)), y)
    np.tanh(y, y)
    np.add(y, scalar(1), y)
    np.multiply(y, scalar(0.5), y)
    return np.multiply(x, y, out if out is not None else y)


@kernel("Softmax")
def softmax(site: Site) -> Made:
    """Normalise exponentials along an axis; before opset 13 along all axes from it on."""
    return _along_axis(site, _softmax)


@kernel("LogSoftmax")
def log_softmax(site: Site) -> Made:
    """Return the logarithm of softmax."""
    return _along_axis(site, _log_softmax)


def _softmax(x: Array, axis: int) -> Array:
    y: Array = np.subtract(x, np.maximum.reduce(x, axis, keepdims=True))
    np.exp(y, y)
    return np.divide(y, np.add.reduce(y, axis, keepdims=True), y)


def _log_softmax(x: Array, axis: int) -> Array:
    y: Array = np.subtract(x, np.maximum.reduce(x, axis, keepdims=True))
    total = np.add.reduce(np.exp(y), axis, keepdims=True)
    return np.subtract(y, np.log(total, total), y)


def _along_axis(site: Site, function: Callable[[Array, int], Array]) -> Made:
    if site.opset >= 13:  # noqa: PLR2004 (an opset)
        axis = site.attribute("axis", -1)
        return _precise(site, lambda x: function(x, axis), axis)
    first = site.attribute("axis", 1)

    def flattened(x: Array) -> Array:
        start = first + x.ndim if first < 0 else first
        rows = int(np.prod(x.shape[:start]))
        return function(x.reshape(rows, -1), 1).reshape(x.shape)

    return _precise(site, flattened, first)


def _precise(site: Site, function: Callable[[Array], Array], axis: int) -> Made:
    dtype = site.dtype()
    if dtype is not None and not is_half(dtype):
        return function

    def compute(x: Array) -> Array:
        # The definition rounds every step to the element type, which float16 bears as long as the
        # sum of a row is a number it can count to.
        short = x.dtype == np.float16 and x.ndim and x.shape[axis] <= LONGEST_HALF_ROW
        if is_half(x.dtype) and not short:
            return function(x.astype(np.float32)).astype(x.dtype)
        return function(x)

    return compute
