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
from subgraphkit_numpy.kernels.wrapping import in_arrays, in_wide

ACTIVATIONS: Final[Mapping[str, tuple[Callable[..., Block], Mapping[str, float], float]]] = {
    "Celu": (lambda alpha: elementwise.elu(alpha, width=alpha), {"alpha": 1.0}, 0.8),
    "Elu": (elementwise.elu, {"alpha": 1.0}, 0.8),
    "HardSigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}, 0.3),
    "HardSwish": (lambda: elementwise.hard_swish, {}, 0.4),
    "LeakyRelu": (elementwise.leaky_relu, {"alpha": 0.01}, 0.3),
    "Mish": (lambda: elementwise.mish, {}, 1.2),
    "Selu": (elementwise.elu, {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}, 0.8),
    "Sigmoid": (lambda: elementwise.sigmoid, {}, 0.7),
    "Softplus": (lambda: elementwise.softplus, {}, 1.2),
    "Softsign": (lambda: elementwise.softsign, {}, 0.3),
    "Swish": (elementwise.swish, {"alpha": 1.0}, 0.8),
    "ThresholdedRelu": (elementwise.thresholded_relu, {"alpha": 1.0}, 0.4),
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

    return in_arrays(site, compute)


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


_BY_ROWS: Final[Mapping[str, rows.RowBlock]] = {
    "Hardmax": rows.hardmax,
    "LogSoftmax": rows.log_softmax,
    "Softmax": rows.softmax,
}


@kernel(*_BY_ROWS)
def along_axis(site: Site) -> Made:
    """Compute a function along an axis; before opset 13 along all axes from it on."""
    by_rows = _BY_ROWS[site.node.op_type]
    flat = site.opset < 13  # noqa: PLR2004 (an opset)
    axis = site.attribute("axis", 1 if flat else -1)

    def compute(x: Array, out: Array | None = None) -> Array:
        along = axis + x.ndim if axis < 0 else axis
        if flat or prod(x.shape[along + 1 :]) == 1:
            return rows.in_rows(by_rows, x, prod(x.shape[along:]), out)
        y = rows.in_rows(by_rows, np.moveaxis(x, along, -1), x.shape[along])
        return np.ascontiguousarray(np.moveaxis(y, -1, along))

    shares = may_share(site, 1.0)
    if site.dtype() in FLOATS:
        return Kernel(compute, takes_out=True, shares=shares)
    return Kernel(in_wide(compute), shares=shares)
