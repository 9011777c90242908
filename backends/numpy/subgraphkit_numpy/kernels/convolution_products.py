"""Convolutions that are one matrix product for a tile.

Windows of one element are multiplied as the input lies. Windows over three axes or more are written
out as columns first.

Source: K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for
document processing", IWFHR 2006.
"""

from itertools import product
from math import prod
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_tiles import (
    LANES,
    TILE_BYTES,
    Finish,
    Problem,
    Tile,
    Tiling,
)
from subgraphkit_numpy.kernels.matrix import PRODUCTS_PER_NS
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.windows import Geometry, pad_spatial
from subgraphkit_numpy.parallel import parts_for, parts_of

_HIGH: Final = 64
"""Products are cut by filters, which leaves the tiles in one piece, if so many are left."""

_WEIGHTS_PER_NS: Final = 4.0
"""Weights that one thread reads in a nanosecond, roughly."""

_WIDE: Final = 8192
"""Outputs with more pixels than this are cut by pixels, too."""


def pointwise(problem: Problem, w: Array, b: Array | None, finish: Finish | None) -> Tiling:
    """Plan a convolution whose windows are one element, one step apart, without padding."""
    groups = problem.groups
    matrices = np.ascontiguousarray(w).reshape(groups, -1, problem.channels // groups)
    bias = None if b is None else b[:, None]
    if groups > 1:
        return _grouped(problem, matrices, bias, finish)
    tiles = _tiles(problem)
    weights = {tile.number: matrices[0, tile.filters] for tile in tiles}
    bands = {tile.number: _bands(tile, problem.dtype.itemsize) for tile in tiles}

    def work(tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        target = y[tile.place]
        np.matmul(weights[tile.number], x[tile.image, :, tile.pixels], target)
        if bias is not None and finish is None:
            np.add(target, bias[tile.filters], target)
        if finish is None:
            return
        for rows in bands[tile.number]:
            band = y[tile.image, rows, tile.pixels]
            if bias is not None:
                np.add(band, bias[rows], band)
            finish(band, (tile.image, rows, tile.pixels), *operands)

    return Tiling(tiles, work, (problem.batch, problem.channels, problem.pixels))


def _bands(tile: Tile, itemsize: int) -> list[slice]:
    """Cut a tile into rows that are finished one after the other."""
    width = tile.pixels.stop - tile.pixels.start
    height = max(1, TILE_BYTES // (width * itemsize))
    stop = tile.filters.stop
    return [slice(f, min(f + height, stop)) for f in range(tile.filters.start, stop, height)]


def _nanoseconds(problem: Problem) -> float:
    weights = problem.filters * problem.channels // problem.groups
    products = problem.batch * problem.pixels * weights
    return products / PRODUCTS_PER_NS + weights / _WEIGHTS_PER_NS + problem.finishing_ns


def _tiles(problem: Problem) -> list[Tile]:
    filters, pixels = problem.filters, problem.pixels
    nanoseconds = _nanoseconds(problem)
    parts = -(-parts_for(nanoseconds) // problem.batch)
    columns = parts_of(pixels, -(-pixels // _WIDE), LANES, nanoseconds=nanoseconds)
    rows = [slice(0, filters)]
    if filters >= parts * _HIGH or filters > pixels:
        wanted = max(1, min(parts, filters // LANES))
        rows = parts_of(filters, wanted, LANES, nanoseconds=nanoseconds)
    elif len(columns) < parts:
        columns = parts_of(pixels, parts, LANES, nanoseconds=nanoseconds)
    return [
        Tile(image, slice(0, 1), f, slice(0, 0), p, number)
        for image in range(problem.batch)
        for number, (f, p) in enumerate(product(rows, columns))
    ]


def _grouped_tiles(problem: Problem) -> list[Tile]:
    groups, pixels = problem.groups, problem.pixels
    per_group = problem.filters // groups
    parts = -(-parts_for(_nanoseconds(problem)) // problem.batch)
    group_bytes = per_group * pixels * problem.dtype.itemsize
    by_size = max(parts, -(-groups * group_bytes // TILE_BYTES))
    columns = parts_of(pixels, min(-(-by_size // groups), -(-pixels // (6 * LANES))), LANES)
    areas = list(product(parts_of(groups, by_size), columns))
    return [
        Tile(image, g, slice(g.start * per_group, g.stop * per_group), slice(0, 0), p, number)
        for image in range(problem.batch)
        for number, (g, p) in enumerate(areas)
    ]


def _grouped(
    problem: Problem, matrices: Array, bias: Array | None, finish: Finish | None
) -> Tiling:
    batch, groups, pixels = problem.batch, problem.groups, problem.pixels

    def work(tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        place = (tile.image, tile.groups, slice(None), tile.pixels)
        by_group = y.reshape(batch, groups, -1, pixels)
        np.matmul(matrices[tile.groups], x[place], by_group[place])
        target = y[tile.place]
        if bias is not None:
            np.add(target, bias[tile.filters], target)
        if finish is not None:
            finish(target, tile.place, *operands)

    shape = (batch, groups, problem.channels // groups, pixels)
    return Tiling(_grouped_tiles(problem), work, shape)


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
