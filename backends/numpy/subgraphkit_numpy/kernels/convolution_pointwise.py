"""Convolution with windows of one element: a matrix product on the input, uncopied."""

from itertools import product
from typing import Final

import numpy as np

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
from subgraphkit_numpy.parallel import parts_for, parts_of

__all__ = ["pointwise"]

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
