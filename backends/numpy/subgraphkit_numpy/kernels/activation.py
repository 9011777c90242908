"""Activation functions and the softmax family.

Source: ONNX operators ``Relu`` to ``Swish``, ``Softmax``, ``LogSoftmax``; their function bodies.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels import elementwise, rows
from subgraphkit_numpy.kernels.blocking import FLOATS, elementwise_kernel, may_share
from subgraphkit_numpy.kernels.elementwise import Block
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import arrayed

LONGEST_HALF_ROW: Final = 2048
"""Longer rows of float16 are normalised in float32."""


ACTIVATIONS: Final[Mapping[str, tuple[Callable[..., Block], Mapping[str, float], float]]] = {
    "Celu": (lambda alpha: elementwise.elu(alpha, width=alpha), {"alpha": 1.0}, 0.8),
    "Elu": (elementwise.elu, {"alpha": 1.0}, 0.8),
    "HardSigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}, 0.3),
    "HardSwish": (lambda: elementwise.hard_swish, {}, 0.4),
    "LeakyRelu": (elementwise.leaky_relu, {"alpha": 0.01}, 0.3),
    "Mish": (lambda: elementwise.mish, {}, 1.2),
    "Selu": (
        elementwise.elu,
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
        0.8,
    ),
    "Sigmoid": (lambda: elementwise.sigmoid, {}, 0.7),
    "Softplus": (lambda: elementwise.softplus, {}, 1.2),
    "Softsign": (lambda: elementwise.softsign, {}, 0.3),
    "Swish": (elementwise.swish, {"alpha": 1.0}, 0.8),
}
"""By operator: what makes the block function, of which attributes with their defaults, and the
nanoseconds that an element takes."""


@kernel(*ACTIVATIONS)
def activation(site: Site) -> Made:
    """Make a kernel of a row of the table."""
    make, defaults, nanoseconds = ACTIVATIONS[site.node.op_type]
    parameters = (site.attribute(name, default) for name, default in defaults.items())
    return elementwise_kernel(site, make(*parameters), nanoseconds)


@kernel("Relu")
def relu(site: Site) -> Made:
    """Return the larger of x and 0; NaN stays NaN."""
    dtype = site.dtype()
    if dtype in FLOATS:
        return elementwise_kernel(site, elementwise.relu, 0.2)
    if dtype is not None and site.output_rank():
        return Kernel(np.maximum, (np.zeros((), dtype),), takes_out=True)
    return lambda x: np.asarray(np.maximum(x, np.zeros((), x.dtype)))


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


@kernel("QuickGelu", domain=MICROSOFT)
def quick_gelu(site: Site) -> Made:
    """Return x * sigmoid(alpha * x), where alpha is 1.702 if not given."""
    return elementwise_kernel(site, elementwise.swish(site.attribute("alpha", 1.702)), 0.8)


@kernel("Gelu")
@kernel("Gelu", domain=MICROSOFT)
def gelu(site: Site) -> Made:
    """Return x times the normal distribution function, exact or by tanh."""
    tanh = site.attribute("approximate", "none") == "tanh"
    function = elementwise.gelu_tanh if tanh else elementwise.gelu
    return elementwise_kernel(site, function, 1.2 if tanh else 1.8)


@kernel("Softmax")
def softmax(site: Site) -> Made:
    """Normalise exponentials along an axis; before opset 13 along all axes from it on."""
    return _along_axis(site, rows.softmax, _softmax)


@kernel("LogSoftmax")
def log_softmax(site: Site) -> Made:
    """Return the logarithm of softmax."""
    return _along_axis(site, rows.log_softmax, _log_softmax)


def _softmax(x: Array, axis: int) -> Array:
    y: Array = np.subtract(x, np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf))
    np.exp(y, y)
    return np.divide(y, np.add.reduce(y, axis, keepdims=True), y)


def _log_softmax(x: Array, axis: int) -> Array:
    y: Array = np.subtract(x, np.maximum.reduce(x, axis, keepdims=True, initial=-np.inf))
    total = np.add.reduce(np.exp(y), axis, keepdims=True)
    return np.subtract(y, np.log(total, total), y)


def _along_axis(
    site: Site, by_rows: rows.RowBlock, by_columns: Callable[[Array, int], Array]
) -> Made:
    flat = site.opset < 13  # noqa: PLR2004 (an opset)
    axis = site.attribute("axis", 1 if flat else -1)

    def compute(x: Array, out: Array | None = None) -> Array:
        along = axis + x.ndim if axis < 0 else axis
        if flat or prod(x.shape[along + 1 :]) == 1:
            return rows.in_rows(by_rows, x, prod(x.shape[along:]), out)
        return by_columns(x, along)

    def compute_any(x: Array) -> Array:
        # The definition rounds every step to the element type, which float16 bears as long as the
        # sum of a row is a number it can count to.
        if x.dtype in FLOATS:
            return compute(x)
        short = x.dtype == np.float16 and x.ndim and x.shape[axis] <= LONGEST_HALF_ROW
        if short and not flat:
            return by_columns(x, axis)
        return compute(x.astype(np.float32)).astype(x.dtype)

    shares = may_share(site, 1.0)
    if site.dtype() in FLOATS:
        return Kernel(compute, takes_out=True, shares=shares)
    return Kernel(compute_any, shares=shares)
