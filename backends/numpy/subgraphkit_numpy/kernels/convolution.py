"""Convolution as matrix products.

A window of one element is a product on the input as it lies. Larger windows are first written out
as columns (*im2col*), in blocks of output rows that stay in cache. One filter per channel
(*depthwise*) is a sum of shifted products.

Source: K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for
document processing", IWFHR 2006.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import Geometry, Windows, pad_spatial
from subgraphkit_numpy.kernels.wrapping import is_half

__all__: list[str] = []

COLUMNS_BYTES: Final = 4 << 20
"""Columns are written in blocks of about this size."""

Convolve = Callable[[Array, Array, Array | None], Array]
"""Takes the input, the weights as one matrix per group, and the bias; returns the output."""


@kernel("Conv")
def conv(site: Site) -> Made:
    """Convolve over any number of spatial axes."""
    windows, groups = Windows(site), site.attribute("group", 1)
    plans: dict[Any, Convolve] = {}

    def plan(shape: tuple[int, ...], kernel_shape: tuple[int, ...], filters: int) -> Convolve:
        key = (shape, kernel_shape, filters)
        found = plans.get(key)
        if found is None:
            geometry = windows.on(shape[2:], kernel_shape)
            found = plans[key] = _choose(shape, geometry, groups, filters)
        return found

    dtype = site.dtype()
    if dtype is None or is_half(dtype) or not site.settled(1, 2):
        return lambda x, w, b=None: _run(x, w, b, groups, plan)
    w, b = site.absorb(1, 2)
    assert w is not None  # noqa: S101 (the weights of Conv are not optional)
    matrices, kernel_shape, filters = _matrices(w, groups), w.shape[2:], w.shape[0]
    shape = site.shape()
    if shape is not None:
        return Kernel(plan(shape, kernel_shape, filters), (matrices, b))
    return lambda x: plan(x.shape, kernel_shape, filters)(x, matrices, b)


def _run(x: Array, w: Array, b: Array | None, groups: int, plan: Callable[..., Convolve]) -> Array:
    convolve = plan(x.shape, w.shape[2:], w.shape[0])
    if is_half(x.dtype):
        wide = None if b is None else b.astype(np.float32)
        matrices = _matrices(w.astype(np.float32), groups)
        return convolve(x.astype(np.float32), matrices, wide).astype(x.dtype)
    return convolve(x, _matrices(w, groups), b)


def _matrices(w: Array, groups: int) -> Array:
    """Return weights as (groups, filters per group, channels per group * taps)."""
    return np.ascontiguousarray(w).reshape(groups, w.shape[0] // groups, -1)


def _choose(shape: tuple[int, ...], geometry: Geometry, groups: int, filters: int) -> Convolve:
    if groups == shape[1] and groups > 1:
        return _depthwise(geometry, filters)
    is_point = all(k == 1 for k in geometry.kernel) and not geometry.is_padded
    if is_point:
        return _pointwise(geometry, groups, filters)
    return _by_columns(shape, geometry, groups, filters)


def _add_bias(y: Array, b: Array | None, rank: int) -> Array:
    return y if b is None else np.add(y, b.reshape((-1,) + (1,) * rank), y)


def _pointwise(geometry: Geometry, groups: int, filters: int) -> Convolve:
    rank = len(geometry.out)
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in geometry.strides))
    strided = any(s > 1 for s in geometry.strides)

    def convolve(x: Array, w: Array, b: Array | None) -> Array:
        if strided:
            x = x[steps]
        batch = x.shape[0]
        if groups == 1:
            y = np.matmul(w[0], x.reshape(batch, x.shape[1], -1))
        else:
            y = np.matmul(w, x.reshape(batch, groups, x.shape[1] // groups, -1))
        return _add_bias(y.reshape(batch, filters, *geometry.out), b, rank)

    return convolve


def _depthwise(geometry: Geometry, filters: int) -> Convolve:
    rank = len(geometry.out)
    taps = list(product(*map(range, geometry.kernel)))
    indices = [
        (slice(None), slice(None), *(geometry.tap(axis, place) for axis, place in enumerate(tap)))
        for tap in taps
    ]

    def convolve(x: Array, w: Array, b: Array | None) -> Array:
        batch, channels = x.shape[:2]
        multiplier = filters // channels
        padded = pad_spatial(x, geometry, 0)
        if multiplier > 1:
            padded = np.repeat(padded, multiplier, axis=1)
        weights = w.reshape(filters, len(taps)).T.reshape((len(taps), filters) + (1,) * rank)
        y = np.empty((batch, filters, *geometry.out), x.dtype)
        scratch = np.empty_like(y)
        for place, index in enumerate(indices):
            if place == 0:
                np.multiply(padded[index], weights[place], y)
            else:
                np.add(y, np.multiply(padded[index], weights[place], scratch), y)
        return _add_bias(y, b, rank)

    return convolve


def _by_columns(shape: tuple[int, ...], geometry: Geometry, groups: int, filters: int) -> Convolve:
    channels, rank = shape[1], len(geometry.out)
    taps = int(np.prod(geometry.kernel))
    rows, row_size = geometry.out[0], int(np.prod(geometry.out[1:]))
    block = max(1, min(rows, COLUMNS_BYTES // max(1, channels * taps * row_size * 4)))
    inner = (groups, channels // groups * taps)

    def convolve(x: Array, w: Array, b: Array | None) -> Array:
        padded = pad_spatial(x, geometry, 0)
        windows = _window_view(padded, geometry)
        y = np.empty((x.shape[0], filters, *geometry.out), x.dtype)
        by_group = y.reshape(x.shape[0], groups, filters // groups, rows * row_size)
        columns = np.empty((*inner, block * row_size), x.dtype)
        for example in range(x.shape[0]):
            for first in range(0, rows, block):
                last = min(first + block, rows)
                part = columns
                if last - first < block:
                    part = np.empty((*inner, (last - first) * row_size), x.dtype)
                view = windows[example][(slice(None),) * (rank + 1) + (slice(first, last),)]
                np.copyto(part.reshape(view.shape), view)
                target = by_group[example, :, :, first * row_size : last * row_size]
                np.matmul(w, part, target)
        return _add_bias(y, b, rank)

    return convolve


def _window_view(x: Array, geometry: Geometry) -> Array:
    """Return (batch, channels, taps..., windows...) without copying."""
    spatial = x.strides[2:]
    taps = tuple(s * d for s, d in zip(spatial, geometry.dilations, strict=True))
    steps = tuple(s * d for s, d in zip(spatial, geometry.strides, strict=True))
    return as_strided(
        x,
        (*x.shape[:2], *geometry.kernel, *geometry.out),
        (*x.strides[:2], *taps, *steps),
        writeable=False,
    )


@kernel("ConvTranspose")
def conv_transpose(site: Site) -> Made:
    """Spread every input element over a window and sum what overlaps."""
    layout = _TransposedWindows(site)
    groups = site.attribute("group", 1)

    def compute(x: Array, w: Array, b: Array | None = None) -> Array:
        if is_half(x.dtype):
            wide = None if b is None else b.astype(np.float32)
            y = _spread(x.astype(np.float32), w.astype(np.float32), layout, groups)
            return _add_bias(y, wide, x.ndim - 2).astype(x.dtype)
        return _add_bias(_spread(x, w, layout, groups), b, x.ndim - 2)

    return compute


class _TransposedWindows:
    """The attributes of a transposed convolution.

    Source: ONNX operator ``ConvTranspose``, the formulas of ``pads``.
    """

    def __init__(self, site: Site) -> None:
        self.auto_pad: str = site.attribute("auto_pad", "NOTSET")
        self.strides = site.ints("strides")
        self.dilations = site.ints("dilations")
        self.pads = site.ints("pads")
        self.more = site.ints("output_padding")
        self.shape = site.ints("output_shape")

    def along(self, axis: int, size: int, taps: int, rank: int) -> tuple[int, int, int, int]:
        """Return stride, dilation, elements cut off before, and elements kept along an axis."""
        stride = self.strides[axis] if self.strides else 1
        dilation = self.dilations[axis] if self.dilations else 1
        more = self.more[axis] if self.more else 0
        full = stride * (size - 1) + more + (taps - 1) * dilation + 1
        same = self.auto_pad in {"SAME_UPPER", "SAME_LOWER"}
        if self.shape is None and not same:
            before, after = 0, 0
            if self.pads and self.auto_pad != "VALID":
                before, after = self.pads[axis], self.pads[axis + rank]
            return stride, dilation, before, full - before - after
        kept = self.shape[-rank:][axis] if self.shape else size * stride
        total = max(0, full - kept)
        before = total // 2 if self.auto_pad == "SAME_UPPER" else total - total // 2
        return stride, dilation, before, kept


def _spread(x: Array, w: Array, layout: _TransposedWindows, groups: int) -> Array:
    batch, channels, *spatial = x.shape
    kernel_shape, rank = w.shape[2:], len(spatial)
    filters = w.shape[1] * groups
    rows = [layout.along(a, spatial[a], kernel_shape[a], rank) for a in range(rank)]
    sizes = [
        max(stride * (size - 1) + (taps - 1) * dilation + 1, before + kept)
        for (stride, dilation, before, kept), size, taps in zip(
            rows, spatial, kernel_shape, strict=True
        )
    ]
    matrices = w.reshape(groups, channels // groups, -1).transpose(0, 2, 1)
    values = np.matmul(matrices, x.reshape(batch, groups, channels // groups, -1))
    taps = values.reshape(batch, filters, *kernel_shape, *spatial)
    y = np.zeros((batch, filters, *sizes), x.dtype)
    for tap in product(*map(range, kernel_shape)):
        index = tuple(
            slice(p * dilation, p * dilation + stride * (size - 1) + 1, stride)
            for p, (stride, dilation, _, _), size in zip(tap, rows, spatial, strict=True)
        )
        y[(slice(None), slice(None), *index)] += taps[(slice(None), slice(None), *tap)]
    cut = tuple(slice(before, before + kept) for _, _, before, kept in rows)
    return np.ascontiguousarray(y[(slice(None), slice(None), *cut)])
