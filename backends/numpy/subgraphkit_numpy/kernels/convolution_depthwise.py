"""Convolution with one filter, or a few, per channel.

Two ways, because the products are too few for a matrix product of the usual kind:

* *Bands*: per channel and block of output rows, a small matrix product of weights, arranged as a
  band in a matrix that is otherwise zero, with copies of the input rows shifted by each column of
  the window. Two thirds of the multiplications are with zeros, and it still is several times as
  fast as multiplying and adding arrays, because BLAS keeps sums in registers. Zero times infinity
  is not zero; a tile that comes out with anything that is not finite is computed again, tap by tap.
* *Channels last*: ``numpy.einsum`` multiplies and adds in one pass, in a loop over channels. Better
  for small images, where the matrices would be too small.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_per_channel import ChannelsLast, PerChannel
from subgraphkit_numpy.kernels.convolution_tiles import (
    Finish,
    Prepared,
    Problem,
    Tile,
    Workspace,
    WorkspacePool,
    zeroed_pool,
)
from subgraphkit_numpy.kernels.registry import Array

_SMALL_COLUMNS: Final = 9
"""Outputs with at most this many columns are computed with channels last."""

_SMALL_CHANNELS: Final = 32
"""Fewer channels are not worth a loop over them."""

_BAND_ROWS: Final = (4, 5, 6, 7, 8)
"""Rows of a block. Few keep the share of zeros low; very few make the products too small."""

_HIGH_BAND_ROWS: Final = (8, 7, 6, 5, 4)
"""The same for windows with many rows."""

_HIGH: Final = 7

_PRODUCTS_PER_NS: Final = 30.0
"""Multiplications with the bands that one thread does in a nanosecond, roughly."""

_COPIES_PER_NS: Final = 3.0
"""Elements that one thread copies in a nanosecond, roughly."""

_BANDS_BYTES: Final = 1 << 20
"""Scratch memory a tile needs, at most if possible."""


def depthwise(problem: Problem, w: Array, b: Array | None, finish: Finish | None) -> PerChannel:
    """Plan a convolution over two axes with as many groups as channels."""
    is_small = problem.geometry.out[1] <= _SMALL_COLUMNS
    if is_small and problem.filters >= _SMALL_CHANNELS:
        return ChannelsLast(problem, w, b, finish)
    return _Bands(problem, w, b, finish)


@dataclass(frozen=True, slots=True)
class _BandViews:
    """What computing a tile needs of a workspace.

    Attributes:
        moves: Where the input is written, and the part of it that goes there.
        shifted: All of them: (filters, input rows, columns of the window, output columns).
    """

    moves: list[tuple[Array, tuple[Any, ...]]]
    factors: list[Array]
    shifted: Array


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of output rows of the same height."""

    first: int
    count: int
    height: int

    @property
    def rows(self) -> slice:
        """All rows, counted in the tile."""
        return slice(self.first, self.first + self.count * self.height)


class _Bands(PerChannel):
    """Small matrix products per channel."""

    def __init__(self, problem: Problem, w: Array, b: Array | None, finish: Finish | None) -> None:
        super().__init__(problem, w, b, finish)
        height, rows = problem.geometry.kernel[0], problem.geometry.out[0]
        wanted = _HIGH_BAND_ROWS if height >= _HIGH else _BAND_ROWS
        divisors = [block for block in wanted if rows % block == 0]
        self._block = min(rows, divisors[0] if divisors else wanted[0])
        products = problem.batch * problem.filters * problem.pixels
        depth = problem.geometry.kernel[1] * self._reach(0, self._block)
        self._planned(
            products * (depth / _PRODUCTS_PER_NS + problem.geometry.kernel[1] / _COPIES_PER_NS)
        )
        pools: dict[Hashable, WorkspacePool] = {}
        for number, tile in self._by_number.items():
            pools[number] = self._pool(tile)
        self._prepared = Prepared(self._prepare, 0, pools)

    @property
    def packed(self) -> int:
        """The bytes of the bands."""
        sizes = (
            prod(self._band(tile, blocks.height))
            for tile in self._by_number.values()
            for blocks in self._blocks(tile)
        )
        return sum(sizes) * self._problem.dtype.itemsize

    def _arrange(self) -> None:
        bias = self._bias
        self._bands = {number: self._banded(tile) for number, tile in self._by_number.items()}
        self._biases = {
            number: None if bias is None else bias[tile.filters, None]
            for number, tile in self._by_number.items()
        }

    def _compute(
        self, views: _BandViews, tile: Tile, x: Array, y: Array, operands: tuple[Array, ...]
    ) -> None:
        image, target = x[tile.image, self._channels(tile)], y[tile.place]
        for into, index in views.moves:
            into[...] = image[index]
        filters, columns = target.shape[0], self._problem.geometry.out[1]
        rows = target.reshape(filters, -1, columns)
        for blocks, band, factor in zip(
            self._blocks(tile), self._bands[tile.number], views.factors, strict=True
        ):
            part = rows[:, blocks.rows].reshape(filters, blocks.count, blocks.height, columns)
            np.matmul(band, factor, part)
        flat = target.reshape(-1)
        # squares of large numbers may be infinite, too; that costs time only
        if not isfinite(np.dot(flat, flat)):
            self._sum_exactly(views.shifted, tile, rows)
        bias = self._biases[tile.number]
        if bias is not None:
            np.add(target, bias, target)
        if self._finish is not None:
            self._finish(target, tile.place, *operands)

    def _sum_exactly(self, shifted: Array, tile: Tile, y: Array) -> None:
        """Compute a tile again without the zeros, which turn infinite elements nearby into NaNs."""
        geometry, weights = self._problem.geometry, self._weights[tile.filters]
        step, reach = geometry.strides[0], (y.shape[1] - 1) * geometry.strides[0] + 1
        y.fill(0)
        for row, column in np.ndindex(geometry.kernel):
            first = row * geometry.dilations[0]
            taps = shifted[:, first : first + reach : step, column]
            np.add(y, taps * weights[:, row, column, None, None], y)

    def _blocks(self, tile: Tile) -> list[_Blocks]:
        rows, block = tile.rows.stop - tile.rows.start, self._block
        count, rest = divmod(rows, block)
        blocks = [_Blocks(0, count, block), _Blocks(count * block, 1, rest)]
        return [some for some in blocks if some.count and some.height]

    def _banded(self, tile: Tile) -> list[Array]:
        """Return the left factors of the products: (filters, 1, rows, elements under the block)."""
        geometry, weights = self._problem.geometry, self._weights[tile.filters]
        factors = []
        for blocks in self._blocks(tile):
            band = np.zeros(self._band(tile, blocks.height), weights.dtype)
            for row in range(blocks.height):
                first = row * geometry.strides[0]
                stop = first + (geometry.kernel[0] - 1) * geometry.dilations[0] + 1
                band[:, row, first : stop : geometry.dilations[0]] = weights
            factors.append(band.reshape(len(weights), 1, blocks.height, -1))
        return factors

    def _band(self, tile: Tile, height: int) -> tuple[int, int, int, int]:
        """Return the shape of the left factor of a block: filters, rows, and a window's reach."""
        filters = tile.filters.stop - tile.filters.start
        return filters, height, self._reach(0, height), self._problem.geometry.kernel[1]

    def _shape(self, tile: Tile) -> tuple[int, int, int, int]:
        """Return the shape of the shifted copies: filters, input rows, taps, output columns."""
        geometry = self._problem.geometry
        reach = self._reach(0, tile.rows.stop - tile.rows.start)
        filters = tile.filters.stop - tile.filters.start
        return filters, reach, geometry.kernel[1], geometry.out[1]

    def _places(self, tile: Tile) -> list[tuple[tuple[slice, slice], tuple[slice, slice]]]:
        """Return, for each column of the window, the places written to and what is read."""
        geometry = self._problem.geometry
        first = tile.rows.start * geometry.strides[0] - geometry.begins[0]
        into_rows, rows = self._existing(0, first, self._shape(tile)[1])
        places = []
        for column in range(geometry.kernel[1]):
            shift = column * geometry.dilations[1] - geometry.begins[1]
            into, columns = self._existing(1, shift, geometry.out[1], geometry.strides[1])
            places.append(((into_rows, into), (rows, columns)))
        return places

    def _pool(self, tile: Tile) -> WorkspacePool:
        shape, dtype = self._shape(tile), self._problem.dtype
        written = tuple((r.start, r.stop, c.start, c.stop) for (r, c), _ in self._places(tile))
        return zeroed_pool((shape, dtype, written), prod(shape) * dtype.itemsize + 4096)

    def _tile_size(self, parts: int) -> tuple[int, int]:
        problem, geometry = self._problem, self._problem.geometry
        row = geometry.kernel[1] * geometry.out[1] * problem.dtype.itemsize
        one = self._multiplier * self._reach(0, geometry.out[0]) * row
        if one <= _BANDS_BYTES:
            wanted = -(-problem.filters // parts)
            return min(_BANDS_BYTES // one * self._multiplier, wanted), geometry.out[0]
        rows = _BANDS_BYTES // (self._multiplier * row * geometry.strides[0])
        return self._multiplier, max(1, rows // self._block) * self._block

    def _prepare(self, workspace: Workspace, number: int) -> _BandViews:
        tile, geometry = self._by_number[number], self._problem.geometry
        (shifted,) = workspace.carve(self._shape(tile), dtype=self._problem.dtype)
        filters, _, width, columns = shifted.shape
        by_channel = shifted.reshape(-1, self._multiplier, *shifted.shape[1:])
        moves = [
            (by_channel[:, :, into_rows, column, into], (slice(None), None, rows, taken))
            for column, ((into_rows, into), (rows, taken)) in enumerate(self._places(tile))
        ]
        per_filter, per_row, _, per_column = shifted.strides
        factors = [
            as_strided(
                shifted[:, blocks.first * geometry.strides[0] :],
                (filters, blocks.count, self._reach(0, blocks.height) * width, columns),
                (
                    per_filter,
                    blocks.height * geometry.strides[0] * per_row,
                    columns * per_column,
                    per_column,
                ),
                writeable=False,
            )
            for blocks in self._blocks(tile)
        ]
        return _BandViews(moves, factors, shifted)
