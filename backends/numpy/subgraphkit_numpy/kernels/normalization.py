"""Normalisation over batches, layers, groups and channels.

Source: ONNX operators of these names; their function bodies.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels import rows
from subgraphkit_numpy.kernels.blocking import FLOATS, may_share
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import widen


@kernel("BatchNormalization")
def batch_normalization(site: Site) -> Made:
    """Scale and shift channels by running statistics, or in training by those of the batch.

    Before opset 14, a node trains if it has more than one output and ``is_test`` is 0. Statistics
    of a batch divide by its size; the running ones follow them with ``momentum``.
    """
    epsilon, by_channel = site.attribute("epsilon", 1e-5), site.attribute("spatial", 1)

    def normalize(x: Array, *statistics: Array, out: Array | None = None) -> Any:
        # a factor and an addend, both of which are computed in float64
        wide = widen(x)
        scale, bias, mean, variance = (array.astype(np.float64) for array in statistics)
        factor = scale / np.sqrt(variance + epsilon)
        shift = bias - mean * factor
        dims = (-1,) + (1,) * (x.ndim - 2) if by_channel else factor.shape
        factor, shift = (array.astype(wide.dtype).reshape(dims) for array in (factor, shift))
        y = np.multiply(wide, factor, out)
        return np.add(y, shift, y).astype(x.dtype, copy=False)

    is_test = site.output_count == 1 or site.attribute("is_test", 0)
    if is_test and not site.attribute("training_mode", 0):
        return Kernel(normalize, takes_out=site.dtype() in FLOATS)
    return _batch_training(site, normalize)


def _batch_training(site: Site, normalize: Callable[..., Any]) -> Made:
    by_channel = site.attribute("spatial", 1)
    momentum, count = site.attribute("momentum", 0.9), site.output_count

    def compute(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
        axes = (0, *range(2, x.ndim)) if by_channel else (0,)
        batch_mean = x.mean(axis=axes, dtype=np.float64)
        batch_variance = x.var(axis=axes, dtype=np.float64)
        y = normalize(x, scale, bias, batch_mean, batch_variance)
        kept = [
            (old * momentum + new * (1 - momentum)).astype(old.dtype)
            for old, new in ((mean, batch_mean), (variance, batch_variance))
        ]
        saved = [value.astype(mean.dtype) for value in (batch_mean, batch_variance)]
        return (y, *kept, *saved)[:count] if count > 1 else y

    return compute


@kernel("LayerNormalization")
def layer_normalization(site: Site) -> Made:
    """Standardise over the axes from ``axis`` on, in float32 at least; then scale and shift."""
    axis, epsilon = site.attribute("axis", -1), site.attribute("epsilon", 1e-5)
    count = site.output_count
    stashed = [site.output_dtype(1), site.output_dtype(2)]

    def compute(x: Array, scale: Array, bias: Array | None = None) -> Any:
        wide, axes = widen(x), tuple(range(axis % x.ndim, x.ndim))
        mean = wide.mean(axes, keepdims=True)
        variance = np.square(wide - mean).mean(axes, keepdims=True)
        inverse = 1 / np.sqrt(variance + wide.dtype.type(epsilon))
        y = (wide - mean) * inverse
        np.multiply(y, scale, y)
        if bias is not None:
            np.add(y, bias, y)
        y = y.astype(x.dtype, copy=False)
        if count == 1:
            return y
        typed = zip((mean, inverse), stashed, strict=True)
        kept = (one if dtype is None else one.astype(dtype, copy=False) for one, dtype in typed)
        return (y, *kept)[:count]

    def compute_rows(
        x: Array, scale: Array, bias: Array | None = None, out: Array | None = None
    ) -> Any:
        factor = _columns(x, axis, scale)
        shift = None if bias is None else _columns(x, axis, bias)
        if factor is None or (shift is None) != (bias is None):
            return compute(x, scale, bias)
        function = rows.layer_normalize
        # the parameters are still needed when rows are written
        target = x if out is x else None
        return rows.in_rows(function, x, factor.size, target, 1.0, factor, shift, epsilon)

    if count == 1 and site.dtype() in FLOATS:
        return Kernel(compute_rows, takes_out=True, shares=may_share(site, 1.0))
    return compute


def _columns(x: Array, axis: int, values: Array) -> Array | None:
    """Return parameters of rows from an axis on, one a column; None if they differ."""
    dims = x.shape[axis:]
    if values.ndim > len(dims):
        if prod(values.shape[: -len(dims)]) != 1:
            return None
        values = values.reshape(values.shape[-len(dims) :])
    return (values if values.shape == dims else np.broadcast_to(values, dims)).reshape(-1)


@kernel("RMSNormalization")
def rms_normalization(site: Site) -> Kernel | Callable[..., Any]:
    """Divide by the root mean square over the axes from ``axis`` on, then scale."""
    axis, epsilon = site.attribute("axis", -1), site.attribute("epsilon", 1e-5)

    def compute(x: Array, scale: Array) -> Any:
        wide = widen(x)
        square = np.square(wide).mean(tuple(range(axis % x.ndim, x.ndim)), keepdims=True)
        y = wide / np.sqrt(square + square.dtype.type(epsilon))
        return np.multiply(y.astype(x.dtype, copy=False), scale).astype(scale.dtype, copy=False)

    def compute_rows(x: Array, scale: Array, out: Array | None = None) -> Any:
        if (factor := _columns(x, axis, scale)) is None:
            return compute(x, scale)
        target = x if out is x else None
        return rows.in_rows(rows.rms_normalize, x, factor.size, target, 0.6, factor, epsilon)

    if site.dtype() in FLOATS and site.dtype(1) == site.dtype():
        return Kernel(compute_rows, takes_out=True, shares=may_share(site, 0.6))
    return compute


@kernel("GroupNormalization")
@kernel("InstanceNormalization", since=6)
def group_normalization(site: Site) -> Made:
    """Standardise groups of channels, or each, then scale and shift: by group before opset 21."""
    epsilon, groups = site.attribute("epsilon", 1e-5), site.attribute("num_groups")

    def compute(x: Array, *parameters: Array) -> Array:
        wide = widen(x)
        if not wide.size:
            return x.copy()
        pieces = (one.reshape(groups or one.size, -1) for one in parameters)
        by_row = [np.tile(one.astype(wide.dtype, copy=False), (len(x), 1)) for one in pieces]
        length = x.size // len(by_row[0])
        y = rows.in_rows(rows.normalize_groups, wide, length, None, 1.0, epsilon, by_row=by_row)
        return y.astype(x.dtype, copy=False)

    return Kernel(compute, shares=may_share(site, 1.0))


@kernel("MeanVarianceNormalization")
def mean_variance_normalization(site: Site) -> Made:
    """Standardise over axes, with 1e-9 added to the deviation."""
    axes = site.ints("axes") or (0, 2, 3)

    def compute(x: Array) -> Any:
        wide = widen(x)
        y: Array = wide - wide.mean(axis=axes, keepdims=True)
        deviation = np.sqrt(np.square(y).mean(axis=axes, keepdims=True))
        return (y / (deviation + wide.dtype.type(1e-9))).astype(x.dtype, copy=False)

    return compute


@kernel("LpNormalization")
def lp_normalization(site: Site) -> Made:
    """Divide by the 1- or 2-norm along an axis; a norm of 0 gives 0."""
    axis, order = site.attribute("axis", -1), site.attribute("p", 2)

    def compute(x: Array) -> Array:
        wide = widen(x)
        size: Array = np.linalg.norm(wide, order, axis, keepdims=True)
        y = np.divide(wide, size, out=np.zeros_like(wide), where=size != 0)
        return y.astype(x.dtype, copy=False)

    return compute


@kernel("LRN")
def local_response_normalization(site: Site) -> Made:
    """Divide by a power of the sum of squares of neighbouring channels."""
    size = site.attribute("size")
    alpha, beta = site.attribute("alpha", 1e-4), site.attribute("beta", 0.75)
    bias = site.attribute("bias", 1.0)
    before, after = (size - 1) // 2, size // 2

    def compute(x: Array) -> Any:
        wide = widen(x)
        scalar = wide.dtype.type
        channels = x.shape[1]
        square = np.square(wide)
        total = np.zeros_like(square)
        for shift in range(-before, after + 1):
            low, high = max(0, -shift), min(channels, channels - shift)
            if low < high:
                total[:, low:high] += square[:, low + shift : high + shift]
        np.multiply(total, scalar(alpha / size), total)
        np.add(total, scalar(bias), total)
        return (wide / np.power(total, scalar(beta))).astype(x.dtype, copy=False)

    return compute
