"""Products with weights of a few bits, several to a byte.

Source: operator ``MatMulNBits`` of the domain ``com.microsoft``.
"""

from typing import Any

import numpy as np

from subgraphkit.backend import Unsupported
from subgraphkit_numpy.kernels.fused import wide
from subgraphkit_numpy.kernels.matrix import multiply
from subgraphkit_numpy.kernels.microsoft import MICROSOFT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site

_PACKED = (2, 4, 8)


@kernel("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(site: Site) -> Made:
    """Multiply by weights that have a scale, and maybe a zero point, for every block of a column.

    Constant weights are unpacked once.
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
    sizes = (site.attribute("K"), site.attribute("N"), site.attribute("block_size"), bits)
    if site.settled(1, 2, 3, 4):
        weights = _weights(sizes, *site.absorb(1, 2, 3, 4))
        return Kernel(lambda a, bias=None: _product(a, weights, bias), shares=True)

    def compute(
        a: Array, b: Array, scales: Array, zeros: Array | None = None, groups: Array | None = None,
        bias: Array | None = None,
    ) -> Array:  # fmt: skip
        return _product(a, _weights(sizes, b, scales, zeros, groups), bias)

    return Kernel(compute, shares=True)


def _product(a: Array, weights: Array, bias: Array | None) -> Array:
    y = np.asarray(multiply(wide(a), weights))
    if bias is not None:
        np.add(y, wide(bias), y)
    return y.astype(a.dtype, copy=False)


def _weights(
    sizes: tuple[int, int, int, int], b: Any, scales: Any, zeros: Any = None, groups: Any = None
) -> Array:
    """Return the weights as a matrix of (K, N) in float32.

    Args:
        sizes: K, N, rows of a block, bits.
        b: Packed weights, (N, blocks, bytes of a block).
        scales: One for every block of a column.
        zeros: Zero points, likewise, packed if they are bytes; None for half the range.
        groups: The block of every row, or None where blocks follow one another.
    """
    rows, columns, length, bits = sizes
    blocks = -(-rows // length)
    values = _unpacked(b, bits).reshape(columns, blocks * length)
    levels = wide(scales).reshape(columns, blocks)
    if zeros is None:
        middle = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    elif zeros.dtype == np.uint8:
        middle = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks]
    else:
        middle = wide(zeros).reshape(columns, blocks)
    block = np.repeat(np.arange(blocks), length)[:rows] if groups is None else groups[:rows]
    unscaled = values[:, :rows] - middle[:, block]
    return np.ascontiguousarray(np.multiply(unscaled, levels[:, block], dtype=np.float32).T)


def _unpacked(x: Array, bits: int) -> Array:
    """Return the numbers in bytes, the lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (x[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*x.shape[:-1], -1).astype(np.float32)
