"""Convolution with one filter, or a few, per channel.

Each channel and block of output rows is one small matrix product. One factor holds the weights as
a band in a matrix that is otherwise zero. The other holds copies of the input rows, one shifted by
each column of the window. Two thirds of the multiplications are with zeros. It is still several
times as fast as multiplying and adding arrays, because BLAS keeps sums in registers. Zero times
infinity is not zero, so a tile with a result that is not finite is computed again, tap by tap.
"""

from math import isfinite, prod
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_tiles import TILE_BYTES, Problem, Tile, Tiling
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.parallel import parts_for, parts_of

_BLOCK_ROWS: Final = (4, 5, 6, 7, 8)
"""Rows of a block. Few keep the share of zeros low; very few make the products too small."""

_HIGH: Final = 7
"""Rows of a window from which on higher blocks are better."""

_PRODUCTS_PER_NS: Final = 30.0
"""Multiplications with the bands that one thread does in a nanosecond, roughly."""

_COPIES_PER_NS: Final = 3.0
"""Elements that one thread copies in a nanosecond, roughly."""


def depthwise(problem: Problem, w: Array, b: Array | None) -> Tiling:
    """Plan a convolution over two axes with as many groups as channels."""
    bands = _Bands(problem, w, b)
    tiles = bands.tiles()
    scratch = max(prod(bands.shape(tile)) for tile in tiles) * problem.dtype.itemsize
    packed = sum(prod(bands.band_shape(height)) for height in bands.heights) * w.itemsize
    shape = (problem.batch, problem.channels, *problem.size)
    return Tiling(tiles, bands.work, shape, scratch, packed, bands.prepare)


class _Bands:
    """Small matrix products per channel."""

    def __init__(self, problem: Problem, w: Array, b: Array | None) -> None:
        self._problem = problem
        self._bias = b
        self._multiplier = problem.filters // problem.channels
        self._weights = w.reshape(problem.filters, *problem.geometry.kernel)
        rows = problem.geometry.out[0]
        wanted = _BLOCK_ROWS if problem.geometry.kernel[0] < _HIGH else _BLOCK_ROWS[::-1]
        self._block = min(rows, next((block for block in wanted if rows % block == 0), wanted[0]))
        self.heights = {height for height in (self._block, rows % self._block) if height}
        self._of_height: dict[int, Array] = {}

    def band_shape(self, height: int) -> tuple[int, int, int, int]:
        """Return the shape of the bands of a block: filters, rows, and a window's reach."""
        problem = self._problem
        return problem.filters, height, problem.reach(0, height), problem.geometry.kernel[1]

    def prepare(self) -> None:
        """Arrange the weights."""
        self._of_height = {height: self._make_band(height) for height in self.heights}

    def _make_band(self, height: int) -> Array:
        """Return the left factors of blocks: (filters, 1, rows, elements under the block)."""
        geometry, weights = self._problem.geometry, self._weights
        band = np.zeros(self.band_shape(height), weights.dtype)
        for row in range(height):
            first = row * geometry.strides[0]
            stop = first + (geometry.kernel[0] - 1) * geometry.dilations[0] + 1
            band[:, row, first : stop : geometry.dilations[0]] = weights
        return band.reshape(len(weights), 1, height, -1)

    def tiles(self) -> list[Tile]:
        """Cut the output by channels, and by blocks of rows where one channel is large."""
        problem, geometry, multiplier = self._problem, self._problem.geometry, self._multiplier
        rows, columns = geometry.out
        depth = geometry.kernel[1] * problem.reach(0, self._block)
        nanoseconds = (problem.batch * problem.filters * problem.pixels) * (
            depth / _PRODUCTS_PER_NS + geometry.kernel[1] / _COPIES_PER_NS
        )
        row_bytes = multiplier * geometry.kernel[1] * columns * problem.dtype.itemsize
        fitting = TILE_BYTES // (row_bytes * problem.reach(0, rows))
        height, parts = rows, -(-parts_for(nanoseconds) // problem.batch)
        if not fitting:
            height = TILE_BYTES // (row_bytes * geometry.strides[0]) // self._block * self._block
            height = max(self._block, height)
        parts = max(parts, -(-problem.channels // max(1, fitting)))
        return [
            Tile(
                image,
                c,
                slice(c.start * multiplier, c.stop * multiplier),
                slice(r, min(r + height, rows)),
                slice(r * columns, min(r + height, rows) * columns),
            )
            for image in range(problem.batch)
            for c in parts_of(problem.channels, parts, nanoseconds=nanoseconds)
            for r in range(0, rows, height)
        ]

    def shape(self, tile: Tile) -> tuple[int, int, int, int]:
        """Return the shape of the shifted copies: filters, input rows, taps, output columns."""
        reach = self._problem.reach(0, tile.rows.stop - tile.rows.start)
        filters = tile.filters.stop - tile.filters.start
        return filters, reach, self._problem.geometry.kernel[1], self._problem.geometry.out[1]

    def work(self, tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        """Compute a tile."""
        problem, stride = self._problem, self._problem.geometry.strides[0]
        shifted = self._shift_rows(tile, x)
        target = y[tile.image, tile.filters, tile.pixels]
        filters, _, width, columns = shifted.shape
        rows = target.reshape(filters, -1, columns)
        per_filter, per_row, _, per_column = shifted.strides
        whole, rest = divmod(rows.shape[1], self._block)
        for first, count, height in ((0, whole, self._block), (whole * self._block, 1, rest)):
            if not count or not height:
                continue
            factor = as_strided(
                shifted[:, first * stride :],
                (filters, count, problem.reach(0, height) * width, columns),
                (per_filter, height * stride * per_row, columns * per_column, per_column),
                writeable=False,
            )
            part = rows[:, first : first + count * height]
            into = part.reshape(filters, count, height, columns)
            np.matmul(self._of_height[height][tile.filters], factor, into)
        # squares of large numbers may be infinite, too; that costs time only
        flat = target.reshape(-1)
        if not isfinite(np.dot(flat, flat)):
            self._sum_exactly(shifted, tile, rows)
        problem.complete(tile, y, self._bias, operands)

    def _shift_rows(self, tile: Tile, x: Array) -> Array:
        """Return copies of the input rows of a tile, shifted by each column of the window."""
        geometry = self._problem.geometry
        filters, reach, width, columns = self.shape(tile)
        shifted = np.zeros((filters, reach, width, columns), x.dtype)
        by_channel = shifted.reshape(-1, self._multiplier, reach, width, columns)
        image = x[tile.image, tile.groups, None]
        first = tile.rows.start * geometry.strides[0] - geometry.begins[0]
        into_rows, rows = self._existing(0, first, reach)
        for column in range(width):
            shift = column * geometry.dilations[1] - geometry.begins[1]
            into, taken = self._existing(1, shift, columns, geometry.strides[1])
            by_channel[:, :, into_rows, column, into] = image[:, :, rows, taken]
        return shifted

    def _existing(self, axis: int, first: int, count: int, step: int = 1) -> tuple[slice, slice]:
        """Return which of some places along an axis exist, and the elements of the input there."""
        size = self._problem.size[axis]
        low = min(max(0, -(first // step)), count)
        high = max(low, min(count, (size - 1 - first) // step + 1))
        if high == low:
            return slice(low, low), slice(0, 0)
        return slice(low, high), slice(first + low * step, first + (high - 1) * step + 1, step)

    def _sum_exactly(self, shifted: Array, tile: Tile, y: Array) -> None:
        """Compute a tile again without the zeros, which turn infinite elements nearby into NaNs."""
        geometry, weights = self._problem.geometry, self._weights[tile.filters]
        step, reach = geometry.strides[0], (y.shape[1] - 1) * geometry.strides[0] + 1
        y.fill(0)
        for row, column in np.ndindex(geometry.kernel):
            first = row * geometry.dilations[0]
            taps = shifted[:, first : first + reach : step, column]
            np.add(y, taps * weights[:, row, column, None, None], y)
