"""Transposed convolution: every element is spread over a window, and overlaps are summed."""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import WindowAttributes
from subgraphkit_numpy.kernels.wrapping import in_wide


@kernel("ConvTranspose")
def conv_transpose(site: Site) -> Made:
    """Spread every input element over a window and sum what overlaps."""
    layout = _TransposedWindows(site.node)

    def compute(x: Array, w: Array, b: Array | None = None) -> Array:
        y = _spread(x, w, layout)
        return y if b is None else np.add(y, b.reshape((-1,) + (1,) * (x.ndim - 2)), y)

    return Kernel(in_wide(compute), shares=True)


class _TransposedWindows(WindowAttributes):
    """The attributes of a transposed convolution.

    Source: ONNX operator ``ConvTranspose``, the formulas of ``pads``.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.more: Sequence[int] | None = node.attribute("output_padding")
        self.shape: Sequence[int] | None = node.attribute("output_shape")

    def along(self, axis: int, size: int, taps: int, rank: int) -> tuple[int, int, int, int]:
        """Return stride, dilation, elements cut off before, and elements kept along an axis."""
        stride = self.strides[axis] if self.strides else 1
        dilation = self.dilations[axis] if self.dilations else 1
        more = self.more[axis] if self.more else 0
        full = stride * (size - 1) + more + (taps - 1) * dilation + 1
        if self.shape is None and self.auto_pad not in {"SAME_UPPER", "SAME_LOWER"}:
            before, after = self.stated_padding(axis)
            return stride, dilation, before, full - before - after
        # SAME pads; it does not make more than there is
        kept = self.shape[-rank:][axis] if self.shape else min(size * stride, full)
        total = max(0, full - kept)
        before = total // 2 if self.auto_pad == "SAME_UPPER" else total - total // 2
        return stride, dilation, before, kept


def _spread(x: Array, w: Array, layout: _TransposedWindows) -> Array:
    (batch, channels, *spatial), groups = x.shape, layout.groups
    kernel_shape, rank = w.shape[2:], len(spatial)
    filters = w.shape[1] * groups
    rows = [layout.along(a, spatial[a], kernel_shape[a], rank) for a in range(rank)]
    sizes = [
        max(stride * (size - 1) + (taps - 1) * dilation + 1, before + kept)
        for (stride, dilation, before, kept), size, taps in zip(
            rows, spatial, kernel_shape, strict=True
        )
    ]
    matrices = w.reshape(groups, channels // groups, prod(w.shape[1:])).transpose(0, 2, 1)
    flat = x.reshape(batch, groups, channels // groups, prod(spatial))
    taps = multiply(matrices, flat).reshape(batch, filters, *kernel_shape, *spatial)
    y = np.zeros((batch, filters, *sizes), x.dtype)
    for tap in product(*map(range, kernel_shape)):
        index = tuple(
            slice(p * dilation, p * dilation + stride * size, stride)
            for p, (stride, dilation, _, _), size in zip(tap, rows, spatial, strict=True)
        )
        y[(slice(None), slice(None), *index)] += taps[(slice(None), slice(None), *tap)]
    cut = tuple(slice(before, before + kept) for _, _, before, kept in rows)
    return np.ascontiguousarray(y[(slice(None), slice(None), *cut)])
