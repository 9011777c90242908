"""From quantised numbers to numbers.

Source: ONNX operator ``DequantizeLinear``: one scale per array, per slice along an axis, or per
block of slices.
"""

from typing import Any

import ml_dtypes
import numpy as np

from subgraphkit.types import DataType
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__: list[str] = []

_WITHOUT_ZERO = frozenset(
    np.dtype(kind)
    for kind in (
        *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz),
        *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn),
    )
)
"""Element types that are floating: their zero point can only be zero."""


@kernel("DequantizeLinear")
@kernel("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(site: Site) -> Made:
    """Return (x - zero point) * scale."""
    axis, block = site.attribute("axis", 1), site.attribute("block_size", 0)
    number = site.attribute("output_dtype", 0)
    dtype = DataType(number).numpy if number else None

    def compute(x: Array, scale: Array, zero: Array | None = None) -> Any:
        y = x.astype(np.float32)
        if zero is not None and x.dtype not in _WITHOUT_ZERO:
            y = np.subtract(y, _spread(zero, x.shape, axis, block).astype(np.float32))
        y = np.multiply(y, _spread(scale, x.shape, axis, block).astype(np.float32))
        return np.asarray(y).astype(dtype or scale.dtype, copy=False)

    return compute


def _spread(parameter: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Return scales or zero points in a shape that broadcasts to the data."""
    if parameter.size == 1:
        return parameter.reshape(())
    if block:
        return np.repeat(parameter, block, axis)[tuple(slice(dim) for dim in shape)]
    along = axis + len(shape) if axis < 0 else axis
    return parameter.reshape((-1,) + (1,) * (len(shape) - along - 1))
