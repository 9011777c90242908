"""Arithmetic on quantised numbers: products, convolutions and pools; weights of a few bits.

A product of integers is computed in floating point, in the narrowest type in which every sum is
exact. What follows is float32 in the order of ONNX Runtime, bit for bit, halves rounded to even.

Source: ONNX Runtime's kernels without VNNI; ONNX operators ``QLinearConv``, ``QLinearMatMul``.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels import fused
from subgraphkit_numpy.kernels.attention import attend_projected
from subgraphkit_numpy.kernels.convolution import convolver
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.pooling import window_counts
from subgraphkit_numpy.kernels.quantization import dequantize, quantize
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import WindowAttributes, pad_spatial
from subgraphkit_numpy.kernels.wrapping import pad_values, widen
from subgraphkit_numpy.parallel import cut, share

_BYTE: Final = 255
_EXACT: Final = 1 << 24
"""Whole numbers up to this are float32."""


# -- products --------------------------------------------------------------------------------------


def _whole(x: Array, zero: Array | None, dtype: Any = np.float64) -> Array:
    """Return integers less their zero point as floating-point numbers."""
    y = x.astype(dtype)
    return y if zero is None else np.subtract(y, zero.astype(dtype), y)


def _exactly(x: Array, zero: Array | None, terms: int) -> Array:
    """Return weights less their zero point, as float32 if sums of that many terms are exact."""
    y = _whole(x, zero)
    return y.astype(np.float32) if terms * _BYTE * float(np.abs(y).max(initial=0.0)) < _EXACT else y


def _factor(
    site: Site, place: int, zero: int, *, flip: bool = False
) -> Callable[[Array, Array | None], Array]:
    """Return what makes the right factor of a product, which is made now if it is constant."""

    def make(b: Array, zero: Array | None) -> Array:
        b = b.T if flip else b
        return _exactly(b, zero, b.shape[-2:][0])

    known = site.constant(place)
    if known is None or not site.settled(zero):
        return make
    made = make(known, site.constant(zero))
    return lambda *_: made


def _product(a: Array, zero: Array | None, b: Array) -> Array:
    """Return the exact product of integers and a factor, as float64."""
    return np.asarray(multiply(_whole(a, zero, b.dtype), b)).astype(np.float64, copy=False)


@kernel("QGemm", domain=MICROSOFT)
def q_gemm(site: Site) -> Made:
    """Return ``alpha`` A' B' + C in integers, scaled, and quantised if there is a scale for it."""
    alpha, flips = np.float32(site.attribute("alpha", 1.0)), bool(site.attribute("transA", 0))
    factor = _factor(site, 3, 5, flip=bool(site.attribute("transB", 0)))

    def compute(*given: Any) -> Array:
        a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = pad_values(given, 9)
        total = _product(a.T if flips else a, a_zero, factor(b, b_zero))
        if c is not None:
            np.add(total, c, total)
        scale = alpha * a_scale.reshape(()) * b_scale.reshape(-1)
        if y_scale is None:
            return np.asarray(total.astype(np.float32) * scale)
        return quantize(total.astype(np.float32) * (scale / y_scale.reshape(())), y_zero, a.dtype)

    return Kernel(compute, shares=True)


@kernel("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(site: Site) -> Made:
    """Return the scaled product of integers, plus a bias."""
    factor = _factor(site, 1, 5)

    def compute(*given: Any) -> Array:
        a, b, a_scale, b_scale, a_zero, b_zero, bias = pad_values(given, 7)
        total = _product(a, a_zero, factor(b, b_zero))
        return _scale_total(total, a_scale, b_scale, bias).astype(a_scale.dtype, copy=False)

    return Kernel(compute, shares=True)


def _scale_total(total: Array, a_scale: Array, b_scale: Array, bias: Array | None) -> Array:
    scale = np.multiply(a_scale.reshape(()), b_scale, dtype=np.float32)
    y = np.asarray(np.multiply(total.astype(np.float32), scale))
    return y if bias is None else np.add(y, bias, dtype=np.float32)


@kernel("DynamicQuantizeLinear")
def dynamic_quantize_linear(_site: Site) -> Made:
    """Quantise by the own range, and return scale and zero point as well."""

    def compute(x: Array) -> tuple[Array, ...]:
        scale, zero = _range_of(x)
        return quantize(x / scale, zero), scale, zero

    return compute


@kernel("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(site: Site) -> Made:
    """Quantise the left factor by its own range, and return the scaled product plus a bias."""
    factor = _factor(site, 1, 3)

    def compute(
        a: Array, b: Array, b_scale: Array, b_zero: Array | None = None, bias: Array | None = None
    ) -> Array:
        return _dynamic_product(a, factor(b, b_zero), b_scale, bias)

    return Kernel(compute, shares=True)


def _dynamic_product(a: Array, b: Array, b_scale: Array, bias: Array | None = None) -> Array:
    """Return the scaled product of numbers, quantised by their own range, and a factor."""
    scale, zero = _range_of(a)
    return _scale_total(_product(quantize(a / scale, zero), zero, b), scale, b_scale, bias)


class BytesFactor:
    """Scaled bytes on the right of ``@``: what is on its left is quantised by its own range."""

    __array_ufunc__ = None  # so that NumPy asks __rmatmul__

    def __init__(self, b: Array, scale: Array, zero: Array) -> None:
        self.shape = b.shape
        self._whole, self._scale = _exactly(b, zero, len(b)), scale

    def __rmatmul__(self, a: Array) -> Array:
        return _dynamic_product(a, self._whole, self._scale)


def _range_of(x: Array) -> tuple[Array, Array]:
    """Return scale and zero point for an array and 0 in bytes, as ``DynamicQuantizeLinear``."""
    low, high = (np.float32(f(x, initial=0.0)) for f in (np.min, np.max))
    scale = (high - low) / np.float32(_BYTE) if high > low else np.float32(1)
    return np.asarray(scale), np.asarray(np.rint(np.clip(-low / scale, 0, _BYTE))).astype(np.uint8)


@kernel("QAttention", domain=MICROSOFT)
def q_attention(site: Site) -> Made:
    """Project quantised inputs to queries, keys and values, and attend."""
    factor = _factor(site, 1, 7)

    def compute(*given: Any) -> Any:
        x, w, bias, x_scale, w_scale, mask, x_zero, w_zero, past = pad_values(given, 9)
        scaled = _scale_total(_product(x, x_zero, factor(w, w_zero)), x_scale, w_scale, bias)
        return attend_projected(site, scaled, bias.dtype, mask, past)

    return Kernel(compute, shares=True)


@kernel("QEmbedLayerNormalization", domain=MICROSOFT)
def q_embed_layer_normalization(site: Site) -> Made:
    """Normalise the sum of quantised embeddings."""

    def compute(*given: Any) -> Any:
        ids, segments, *tables, gamma, beta, mask = given[:8]
        scales, zeros = given[8:13], given[13:18]
        found = fused.rows_looked_up(tables[: 2 if segments is None else 3], ids, segments, None)
        parts = [dequantize(*one) for one in zip(found, scales, zeros, strict=False)]
        total = sum(parts[1:], parts[0])
        norm = [dequantize(x, scales[place], zeros[place]) for place, x in ((3, gamma), (4, beta))]
        return fused.normalized_embeddings(site, total, (norm[0], norm[1]), mask, np.dtype("f4"))

    return Kernel(compute, shares=True)


# -- convolutions and pools ------------------------------------------------------------------------


def _rows(parameter: Array) -> Array:
    """Return what has an element for each row in a shape that broadcasts to them."""
    return parameter.reshape(-1, 1) if parameter.ndim == 1 else parameter


@kernel("MatMulInteger")
def mat_mul_integer(site: Site) -> Made:
    """Multiply integers, less their zero points."""
    factor = _factor(site, 1, 3)

    def compute(*given: Any) -> Array:
        a, b, a_zero, b_zero = pad_values(given, 4)
        is_of_rows = a_zero is not None and a.ndim > 1
        total = _product(a, _rows(a_zero) if is_of_rows else a_zero, factor(b, b_zero))
        return total.astype(np.int64).astype(np.int32)

    return Kernel(compute, shares=True)


@kernel("QLinearMatMul")
def q_linear_mat_mul(_site: Site) -> Made:
    """Multiply integers; scale and round the products. Rows and columns may have scales."""

    def compute(*given: Any) -> Array:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = given
        total = np.matmul(_whole(a, _rows(a_zero)), _whole(b, b_zero))
        wide = np.float32 if y_scale.dtype.itemsize < 4 else y_scale.dtype  # noqa: PLR2004 (bytes)
        scales = (_rows(a_scale).astype(wide), b_scale.astype(wide), _rows(y_scale).astype(wide))
        return quantize(total.astype(wide) * (scales[0] * scales[1] / scales[2]), _rows(y_zero))

    return compute


def _convolution(site: Site, place: int, zero: int) -> Callable[..., Array]:
    """Return the exact convolution of integers, as float64; weights are at these places."""
    windows = WindowAttributes(site.node)

    def prepare(w: Array, zero: Array | None) -> Callable[[Array], Array]:
        rest = (-1,) + (1,) * (w.ndim - 1)
        zero = zero if zero is None or zero.size == 1 else zero.reshape(rest)
        weights = _exactly(w, zero, prod(w.shape[1:]))
        convolve = convolver(windows, weights, None)
        return lambda x: convolve(x.astype(weights.dtype)).astype(np.float64)

    w = site.constant(place)
    ready = None if w is None or not site.settled(zero) else prepare(w, site.constant(zero))
    return lambda x, x_zero, *weights: (ready or prepare(*weights))(_whole(x, x_zero, np.float32))


@kernel("ConvInteger")
def conv_integer(site: Site) -> Made:
    """Convolve integers, less their zero points."""
    convolve = _convolution(site, 1, 3)

    def compute(*given: Any) -> Array:
        x, w, x_zero, w_zero = pad_values(given, 4)
        return convolve(x, x_zero, w, w_zero).astype(np.int64).astype(np.int32)

    return Kernel(compute, shares=True)


@kernel("QLinearConv")
@kernel("QLinearConv", domain=MICROSOFT)
def q_linear_conv(site: Site) -> Made:
    """Convolve integers; scale and round the sums."""
    convolve = _convolution(site, 3, 5)

    def compute(*given: Any) -> Array:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = pad_values(given, 9)
        total = convolve(x, x_zero, w, w_zero)
        rest = (-1,) + (1,) * (x.ndim - 2)
        if bias is not None:
            np.add(total, bias.reshape(rest), total)
        scale = x_scale.reshape(()) * w_scale.reshape(-1) / y_scale.reshape(())
        return quantize(total.astype(np.float32) * scale.reshape(rest), y_zero)

    return Kernel(fused.with_channels_first(site, compute), shares=True)


@kernel("QLinearAveragePool", domain=MICROSOFT)
def q_linear_average_pool(site: Site) -> Made:
    """Return averages under windows, whose elements are added up one after the other.

    ONNX Runtime computes a window that covers everything as ``QLinearGlobalAveragePool``.
    """
    with_padding = bool(site.attribute("count_include_pad", 0))
    windows = WindowAttributes(site.node)

    def compute(
        x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None
    ) -> Array:
        geometry = windows.on(x.shape[2:])
        if geometry.kernel == x.shape[2:] and not geometry.is_padded:
            return _whole_average(x, x_scale, x_zero, y_scale, y_zero)
        y = dequantize(x, x_scale, x_zero)
        padded = pad_spatial(y, geometry, 0)
        total = np.zeros((*y.shape[:2], *geometry.out), np.float32)
        for tap in product(*map(range, geometry.kernel)):
            places = tuple(geometry.tap(axis, place) for axis, place in enumerate(tap))
            np.add(total, padded[slice(None), slice(None), *places], total)
        count = window_counts(y.shape[2:], geometry, with_padding=with_padding)
        y = total / count.astype(np.float32) / y_scale
        # the one operator that rounds after the zero point was added, which shows in halves
        return quantize(y if y_zero is None else y + y_zero.astype(np.float32), None, x.dtype)

    return fused.with_channels_first(site, compute)


@kernel("QLinearGlobalAveragePool", domain=MICROSOFT)
def q_linear_global_average_pool(site: Site) -> Made:
    """Return the average of every channel."""
    return fused.with_channels_first(site, _whole_average)


def _whole_average(
    x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None
) -> Array:
    """Return the average of every channel, from the sum of its integers."""
    count = prod(x.shape[2:])
    total = x.sum(tuple(range(2, x.ndim)), np.int64, keepdims=True)
    if x_zero is not None:
        total = total - count * x_zero.astype(np.int64)
    scale = x_scale / (y_scale * np.float32(count))
    return quantize(total.astype(np.float32) * scale, y_zero, x.dtype)


_PACKED = (2, 4, 8)


@kernel("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(site: Site) -> Made:
    """Multiply by weights that have a scale, and maybe a zero point, for every block of a column.

    They stay packed: a few columns are unpacked at a time, for each product anew.
    """
    bits = site.attribute("bits", 4)
    if bits not in _PACKED:
        raise Unsupported(f"{site.node.label} has weights of {bits} bits", code="attribute")
    is_packed = site.has(3) and site.dtype(3) in {None, np.dtype(np.uint8)}
    if site.has(4) and (bits == min(_PACKED) or is_packed):
        # what ONNX Runtime computes then is not what it documents
        what = "packed zero points" if is_packed else f"weights of {bits} bits"
        text = f"{site.node.label} has groups given by g_idx and {what}: nothing implements both"
        raise Unsupported(text, code="attribute")
    sizes = (site.attribute("K"), site.attribute("N"), site.attribute("block_size"))
    if site.settled(1, 2, 3, 4):
        weights = _by_row(bits, sizes, *site.absorb(1, 2, 3, 4))
        return Kernel(partial(_product_of_packed, bits, weights), shares=True)

    def compute(*given: Any) -> Array:
        a, *packed, bias = pad_values(given, 6)
        return _product_of_packed(bits, _by_row(bits, sizes, *packed), a, bias)

    return Kernel(compute, shares=True)


_UNPACKED: Final = 1 << 18
"""Weights that are unpacked at a time: more is memory that the system hands out anew each time."""


def _by_row(bits: int, sizes: Any, b: Any, scales: Any, zeros: Any, groups: Any) -> list[Any]:
    """Return packed weights, (bytes, N), scales and zero points, (blocks, N), and ``groups``.

    ``b``: Packed weights, (N, blocks, bytes of a block).
    ``zeros``: Zero points, likewise, packed if they are bytes; None for half the range.
    ``groups``: The block of every row, or None where blocks follow one another.
    """
    rows, columns, length = sizes
    shape = columns, -(-rows // length)
    if zeros is None:
        zeros = np.full(shape, 1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        numbers = zeros.reshape(columns, -1, 1) >> np.arange(0, 8, bits, dtype=np.uint8)
        zeros = (numbers & (1 << bits) - 1).reshape(columns, -1)[:, : shape[1]]
    of_blocks = [one.reshape(shape).T.astype(np.float32, "C") for one in (scales, zeros)]
    return [np.ascontiguousarray(b.reshape(columns, -1).T), *of_blocks, groups]


def _product_of_packed(bits: int, weights: list[Any], a: Array, bias: Any = None) -> Array:
    rows, columns = a.shape[-1], weights[0].shape[1]
    y = np.zeros((*a.shape[:-1], columns), np.float32)
    parts = cut(columns, -(-rows * columns // _UNPACKED))
    share(_multiply_part, parts, bits, weights, widen(a).reshape(-1, rows), y.reshape(-1, columns))
    return (y if bias is None else y + widen(bias)).astype(a.dtype, copy=False)


def _multiply_part(part: slice, bits: int, weights: list[Any], a: Array, y: Array) -> None:
    packed, scales, zeros = (one[:, part] for one in weights[:-1])
    for at in range(each := 8 // bits):  # of the numbers in a byte
        factor, blocks = a[:, at::each], np.s_[:, None]
        unpacked = (packed >> at * bits & (1 << bits) - 1).astype(np.float32)
        by_block = unpacked.reshape(len(scales), -1, unpacked.shape[1])
        unpacked = unpacked[: factor.shape[1]]
        if weights[-1] is not None:
            by_block, blocks = unpacked, weights[-1][at : a.shape[1] : each]
        by_block -= zeros[blocks]
        by_block *= scales[blocks]
        y[:, part] += factor @ unpacked
