"""Convolutions that are one matrix product for a tile.

Windows of one element are multiplied as the input lies; others are written out as columns first.

Source: K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for
document processing", IWFHR 2006.
"""

from itertools import product
from math import prod
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_tiles import TILE_BYTES, Problem, Tile, Tiling
from subgraphkit_numpy.kernels.matrix import PRODUCTS_PER_NS
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.windows import Geometry, pad_spatial
from subgraphkit_numpy.parallel import parts_for, parts_of

_LANES: Final = 16
"""Matrices are cut at multiples of this, which keeps BLAS on its fast paths."""

_HIGH: Final = 64
"""Products are cut by filters, which leaves the tiles in one piece, if so many are left."""

_WEIGHTS_PER_NS: Final = 4.0
"""Weights that one thread reads in a nanosecond, roughly."""

_WIDE: Final = 8192
"""Outputs with more pixels than this are cut by pixels, too."""


def by_columns(problem: Problem, w: Array, b: Array | None) -> Tiling:
    """Plan a convolution over any number of axes."""
    batch, channels, groups, pixels = (
        problem.batch, problem.channels, problem.groups, problem.pixels,
    )  # fmt: skip
    matrices = w.reshape(groups, problem.filters // groups, -1)
    is_point, complete = problem.is_point, problem.complete
    finishes = problem.finish is not None or b is not None
    tiles = _point_tiles(problem) if is_point else _row_tiles(problem)

    def work(tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        target = y[tile.image, tile.filters, tile.pixels]
        if is_point:
            columns = x[tile.image, tile.groups, :, tile.pixels]
        else:
            windows = _windows(x[tile.image], problem, tile.rows)
            columns = windows.reshape(groups, matrices.shape[2], target.shape[1])
        chosen = matrices[tile.groups] if groups > 1 else matrices[:, tile.filters]
        np.matmul(chosen, columns, target.reshape(len(chosen), -1, target.shape[1]))
        if finishes:
            complete(tile, y, b, operands)

    if is_point:
        return Tiling(tiles, work, (batch, groups, channels // groups, pixels))
    scratch = max(_scratch(problem, tile.rows) for tile in tiles)
    return Tiling(tiles, work, (batch, channels, *problem.size), scratch)


def _nanoseconds(problem: Problem) -> float:
    weights = problem.filters * problem.channels // problem.groups * problem.taps
    return problem.batch * problem.pixels * weights / PRODUCTS_PER_NS + weights / _WEIGHTS_PER_NS


def _point_tiles(problem: Problem) -> list[Tile]:
    """Cut by groups, by filters where there are many, else by pixels."""
    filters, pixels, groups = problem.filters, problem.pixels, problem.groups
    nanoseconds = _nanoseconds(problem)
    parts = -(-parts_for(nanoseconds) // problem.batch)
    rows, columns = [slice(0, filters)], [slice(0, pixels)]
    if groups > 1:
        image_bytes = filters * pixels * problem.dtype.itemsize
        of_groups = parts_of(groups, max(parts, -(-image_bytes // TILE_BYTES)))
        per_group = filters // groups
        rows = [slice(g.start * per_group, g.stop * per_group) for g in of_groups]
    else:
        columns = parts_of(pixels, -(-pixels // _WIDE), _LANES, nanoseconds=nanoseconds)
        if filters >= parts * _HIGH or filters > pixels:
            wanted = max(1, min(parts, filters // _LANES))
            rows = parts_of(filters, wanted, _LANES, nanoseconds=nanoseconds)
        elif len(columns) < parts:
            columns = parts_of(pixels, parts, _LANES, nanoseconds=nanoseconds)
    return [
        Tile(image, _groups_of(problem, f), f, slice(0, 0), p)
        for image, f, p in product(range(problem.batch), rows, columns)
    ]


def _groups_of(problem: Problem, filters: slice) -> slice:
    if problem.groups == 1:
        return slice(0, 1)
    per_group = problem.filters // problem.groups
    return slice(filters.start // per_group, filters.stop // per_group)


def _row_tiles(problem: Problem) -> list[Tile]:
    """Cut along the first axis, so that the columns of a tile stay in cache."""
    rows, nanoseconds = problem.geometry.out[0], _nanoseconds(problem)
    in_row = prod(problem.geometry.out[1:])
    row_bytes = problem.channels * problem.taps * in_row * problem.dtype.itemsize
    parts = -(-parts_for(nanoseconds) // problem.batch)
    parts = max(parts, -(-rows * row_bytes // TILE_BYTES))
    everything = slice(0, problem.groups), slice(0, problem.filters)
    return [
        Tile(image, *everything, part, slice(part.start * in_row, part.stop * in_row))
        for image in range(problem.batch)
        for part in parts_of(rows, parts, nanoseconds=nanoseconds)
    ]


def _scratch(problem: Problem, rows: slice) -> int:
    """Return the bytes of the columns of some rows, and of what they read, padded."""
    geometry = problem.geometry
    counts: tuple[int, ...] = (rows.stop - rows.start, *geometry.out[1:])
    read = prod([problem.reach(axis, windows) for axis, windows in enumerate(counts)])
    elements = problem.taps * prod(counts) + (read if geometry.is_padded else 0)
    return problem.channels * elements * problem.dtype.itemsize


def _windows(image: Array, problem: Problem, rows: slice) -> Array:
    """Return (channels, taps..., windows...) of some rows of windows, only what they read padded.

    The array is a view: writing it out is left to whoever reshapes it.
    """
    geometry = problem.geometry
    size, count = image.shape[1], rows.stop - rows.start
    first = rows.start * geometry.strides[0] - geometry.begins[0]
    last = first + problem.reach(0, count)
    inside = slice(min(max(first, 0), size), min(max(last, 0), size))
    part = Geometry(
        geometry.kernel,
        geometry.strides,
        geometry.dilations,
        (inside.start - first, *geometry.begins[1:]),
        (last - inside.stop, *geometry.ends[1:]),
        (count, *geometry.out[1:]),
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
