"""From quantised numbers to numbers, and back.

Source: ONNX operator ``DequantizeLinear``: one scale per array, per slice along an axis, or per
block of slices; both operators of the domain ``com.microsoft``.
"""

from typing import Any

import ml_dtypes
import numpy as np

from subgraphkit.types import DataType
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__ = ["dequantized", "quantized", "saturated"]

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


@kernel("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(site: Site) -> Made:
    """Divide by a scale, one for all or one per slice, and round."""
    axis, dtype = site.attribute("axis", 1), site.output_dtype()

    def compute(x: Array, scale: Array, zero: Array | None = None) -> Array:
        if scale.size > 1:
            shape = [1] * x.ndim
            shape[axis] = -1
            scale, zero = scale.reshape(shape), None if zero is None else zero.reshape(shape)
        return quantized(x.astype(np.float32) / scale.astype(np.float32), zero, dtype)

    return compute


def dequantized(x: Array, scale: Array, zero: Array | None) -> Array:
    """Return the numbers that integers stand for, in float32."""
    y = x.astype(np.float32)
    return np.multiply(y if zero is None else y - zero.astype(np.float32), scale)


def quantized(x: Array, zero: Array | None, dtype: np.dtype[Any] | None = None) -> Array:
    """Round numbers that are scaled already, and add the zero point; what is too large saturates.

    Args:
        x: The numbers.
        zero: The zero point, or None for 0.
        dtype: The element type, where there is no zero point.
    """
    kind = np.dtype(np.uint8) if dtype is None else dtype
    kind = kind if zero is None else zero.dtype
    y = np.rint(x)
    if zero is not None:
        y = y + zero.astype(y.dtype)
    return saturated(np.asarray(y), kind)


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return whole numbers as integers of a type, the nearest where they do not fit."""
    limits = np.iinfo(dtype)
    return x.clip(limits.min, limits.max).astype(dtype)
