"""Convolution over three axes or more: windows are written out as columns and multiplied.

Source: K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for
document processing", IWFHR 2006.
"""

from itertools import product
from math import prod
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_tiles import Finish, Tile, Tiling
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.windows import Geometry, pad_spatial
from subgraphkit_numpy.parallel import parts_of

__all__ = ["by_columns"]

_COLUMNS_BYTES: Final = 1 << 20
"""Columns are written in blocks of about this size."""


def by_columns(
    shape: tuple[int, ...],
    geometry: Geometry,
    groups: int,
    w: Array,
    b: Array | None,
    finish: Finish | None,
) -> Tiling:
    """Plan a convolution over any number of axes, cut along the first of them."""
    batch, channels = shape[:2]
    filters, rows = w.shape[0], geometry.out[0]
    matrices = np.ascontiguousarray(w).reshape(groups, filters // groups, -1)
    row_size = prod(geometry.out[1:])
    row_bytes = channels * prod(geometry.kernel) * row_size * w.dtype.itemsize
    bias = None if b is None else b[:, None]
    everything = (slice(None),) * (1 + len(geometry.kernel))
    tiles = [
        Tile(
            image,
            slice(0, groups),
            slice(0, filters),
            part,
            slice(part.start * row_size, part.stop * row_size),
            number,
        )
        for image, (number, part) in product(
            range(batch), enumerate(parts_of(rows, -(-rows * row_bytes // _COLUMNS_BYTES)))
        )
    ]

    def work(tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        # only what the rows of the tile read is padded
        windows = _windows(x[tile.image], geometry, tile.rows)[(*everything, slice(None))]
        columns = windows.reshape(groups, matrices.shape[2], -1)
        target = y[tile.place]
        np.matmul(matrices, columns, target.reshape(groups, -1, columns.shape[2]))
        if bias is not None:
            np.add(target, bias, target)
        if finish is not None:
            finish(target, tile.place, *operands)

    return Tiling(tiles, work, shape)


def _windows(image: Array, geometry: Geometry, rows: slice) -> Array:
    """Return (channels, taps..., windows...) of some rows of windows, without copying twice."""
    size, stride = image.shape[1], geometry.strides[0]
    first = rows.start * stride - geometry.begins[0]
    last = (rows.stop - 1) * stride - geometry.begins[0]
    last += (geometry.kernel[0] - 1) * geometry.dilations[0] + 1
    inside = slice(min(max(first, 0), size), min(max(last, 0), size))
    part = Geometry(
        geometry.kernel,
        geometry.strides,
        geometry.dilations,
        (inside.start - first, *geometry.begins[1:]),
        (last - inside.stop, *geometry.ends[1:]),
        (rows.stop - rows.start, *geometry.out[1:]),
        geometry.overhang,
    )
    padded = pad_spatial(image[None, :, inside], part, 0)[0]
    spatial = padded.strides[1:]
    taps = tuple(s * d for s, d in zip(spatial, geometry.dilations, strict=True))
    steps = tuple(s * d for s, d in zip(spatial, geometry.strides, strict=True))
    return as_strided(
        padded,
        (padded.shape[0], *part.kernel, *part.out),
        (padded.strides[0], *taps, *steps),
        writeable=False,
    )
