"""From quantised numbers to numbers, and back; functions of bytes, which are tables.

Results agree with ONNX Runtime's bit for bit.

Source: ONNX operator ``DequantizeLinear``: one scale per array, per slice along an axis, or per
block of slices; operators of the domain ``com.microsoft``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from subgraphkit.types import DataType
from subgraphkit_numpy.kernels import elementwise
from subgraphkit_numpy.kernels.elementwise import in_blocks
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.reference import reference_kernel
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import pad_values

_FEW_BITS: Final = tuple(one.numpy for one in DataType if one.name.startswith(("FLOAT8", "FLOAT4")))
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
        if zero is not None and x.dtype not in _FEW_BITS:
            y = np.subtract(y, _spread(zero, x.shape, axis, block).astype(np.float32))
        y = np.multiply(y, _spread(scale, x.shape, axis, block).astype(np.float32))
        return np.asarray(y).astype(dtype or scale.dtype, copy=False)

    return compute


def _spread(parameter: Array, shape: tuple[int, ...], axis: int, block: int = 0) -> Array:
    """Return scales or zero points in a shape that broadcasts to the data."""
    if parameter.size == 1:
        return parameter.reshape(())
    if block:
        return np.repeat(parameter, block, axis)[tuple(slice(dim) for dim in shape)]
    along = axis + len(shape) if axis < 0 else axis
    return parameter.reshape((-1,) + (1,) * (len(shape) - along - 1))


@kernel("QuantizeLinear")
@kernel("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(site: Site) -> Made:
    """Divide by a scale, one for all, or one per slice or block, and round."""
    axis, block = site.attribute("axis", 1), site.attribute("block_size", 0)
    number = 1 if site.node.domain else site.attribute("precision", 0)
    wide = DataType(number).numpy if number else None
    if (dtype := site.output_dtype()) in _FEW_BITS:
        return reference_kernel(site)

    def compute(x: Array, scale: Array, zero: Array | None = None) -> Array:
        scale = _spread(scale, x.shape, axis, block)
        zero = None if zero is None else _spread(zero, x.shape, axis, block)
        y = x / scale if wide is None else x.astype(wide) / scale.astype(wide)
        return quantize(y, zero, dtype)

    return compute


def dequantize(x: Array, scale: Array, zero: Array | None) -> Array:
    """Return the numbers that integers stand for, in float32."""
    y = x.astype(np.float32)
    return np.multiply(y if zero is None else y - zero.astype(np.float32), scale)


def quantize(x: Array, zero: Array | None, dtype: np.dtype[Any] | None = None) -> Array:
    """Round numbers that are scaled already, and add the zero point; what is too large saturates.

    ``zero``: The zero point, or None for 0.
    """
    kind = np.dtype(np.uint8) if dtype is None else dtype
    kind = kind if zero is None else zero.dtype
    y = np.rint(x).astype(np.float32, copy=False)
    if zero is not None:
        y = y + zero.astype(np.float32)
    return saturate(y, kind)


def saturate(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return whole numbers as integers of a type, the nearest where they do not fit."""
    limits = cast("Any", ml_dtypes).iinfo(dtype)
    return np.asarray(np.fmin(np.fmax(x, limits.min), limits.max)).astype(dtype)


_BYTE: Final = 255


@kernel("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def q_linear_binary(site: Site) -> Made:
    """Return the sum or the product of what two arrays of bytes stand for."""
    combine = _sum if site.node.op_type == "QLinearAdd" else _multiple

    def compute(*given: Any) -> Array:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = pad_values(given, 8)
        none = np.zeros((), a.dtype)
        zeros = [none if zero is None else zero.reshape(()) for zero in (a_zero, b_zero, y_zero)]
        scales = [scale.reshape(()) for scale in (a_scale, b_scale, y_scale)]
        y = combine((a, b), scales, [zero.astype(np.float32) for zero in zeros])
        return quantize(y, None, a.dtype)

    return compute


def _sum(factors: tuple[Array, Array], scales: list[Array], zeros: list[Array]) -> Array:
    ratio_a, ratio_b = scales[0] / scales[2], scales[1] / scales[2]
    fixed = zeros[2] - (ratio_a * zeros[0] + ratio_b * zeros[1])
    a, b = (factor.astype(np.float32) for factor in factors)
    return np.add(a * ratio_a, b * ratio_b + fixed)


def _multiple(factors: tuple[Array, Array], scales: list[Array], zeros: list[Array]) -> Array:
    ratio = scales[0] * scales[1] / scales[2]
    a, b = (f.astype(np.float32) - zero for f, zero in zip(factors, zeros, strict=False))
    return a * b * ratio + zeros[2]


def _map_bytes(x: Array, table: Array) -> Array:
    return np.asarray(table.take(x.view(np.uint8)))  # a scalar makes a scalar


def _byte_table(
    function: Callable[[Array], Array], dtype: np.dtype[Any], x_scale: Array,
    x_zero: Array | None, y_scale: Array, y_zero: Array | None = None,
) -> Array:  # fmt: skip
    """Return for every byte the byte that stands for a function of what it stands for."""
    every = np.arange(_BYTE + 1, dtype=np.uint8).view(dtype)  # in the order of bits
    y = function(dequantize(every, x_scale.reshape(()), x_zero))
    return quantize(y / y_scale.reshape(()), y_zero, dtype)


@kernel("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def q_linear_function(site: Site) -> Made:
    """Look every byte up in a table of the function."""
    slope = site.attribute("alpha", 0.01)
    is_sigmoid = site.node.op_type == "QLinearSigmoid"
    block = elementwise.sigmoid if is_sigmoid else elementwise.leaky_relu(slope)
    tabulate = partial(_byte_table, lambda x: in_blocks(block, x))
    dtype = site.dtype()
    if dtype is None or not site.settled(1, 2, 3, 4):
        return lambda x, *scales: _map_bytes(x, tabulate(x.dtype, *scales))
    scales: list[Any] = site.absorb(1, 2, 3, 4)
    return Kernel(_map_bytes, (tabulate(dtype, *scales),))


@kernel("QLinearSoftmax", domain=MICROSOFT)
def q_linear_softmax(site: Site) -> Made:
    """Normalise exponentials, as integers out of a table, along an axis or all axes from it on."""
    axis, flat = site.attribute("axis", -1), site.attribute("opset") < 13  # noqa: PLR2004 (an opset)

    def compute(
        x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array
    ) -> Array:
        del x_zero
        along = axis + x.ndim if axis < 0 else axis
        rows = x.reshape(*x.shape[:along], -1) if flat else np.moveaxis(x, along, -1)
        whole = rows.astype(np.int64)
        below = whole - whole.max(-1, initial=np.iinfo(x.dtype).min, keepdims=True)
        parts = _exponentials(float(x_scale.item()), rows.shape[-1]).take(below + _BYTE)
        total = parts.sum(-1, keepdims=True)
        scaled = parts * int(np.floor(np.float32(1) / y_scale.item())) + total // 2
        y = saturate(scaled // np.maximum(total, 1) + int(y_zero.item()), x.dtype)
        return y.reshape(x.shape) if flat else np.moveaxis(y, -1, along)

    return compute


def _exponentials(scale: float, length: int) -> Array:
    """Return the exponential of every difference from -255 to 0, so that sums fit 32 bits."""
    largest = min(np.iinfo(np.uint32).max / max(length, 1), 0x7FFFFF)
    return np.asarray(np.rint(largest * np.exp(np.arange(-_BYTE, 1) * scale)), np.int64)


@kernel("QLinearConcat", domain=MICROSOFT)
def q_linear_concat(site: Site) -> Made:
    """Concatenate arrays, brought to one scale and zero point."""
    axis = site.attribute("axis")

    def compute(y_scale: Array, y_zero: Array, *rest: Array) -> Array:
        parts = []
        for x, scale, zero in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            table = _byte_table(lambda x: x, x.dtype, scale, zero, y_scale, y_zero)
            parts.append(_map_bytes(x, table))
        return np.concatenate(parts, axis)

    return compute
