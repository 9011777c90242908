"""Convolution with one filter, or a few, per channel: sums of products in loops over channels."""

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_per_channel import PerChannel
from subgraphkit_numpy.kernels.convolution_tiles import (
    LANES,
    Finish,
    Prepared,
    Problem,
    Tile,
    Workspace,
)
from subgraphkit_numpy.kernels.registry import Array

__all__ = ["ChannelsLast"]

_SUMS_PER_NS: Final = 6.0
"""Multiplications and additions that one thread does in a nanosecond, roughly."""

_LAST_BYTES: Final = 2 << 20
"""Scratch memory a tile needs, at most if possible."""


@dataclass(frozen=True, slots=True)
class _LastViews:
    """What computing a tile needs of a workspace.

    Attributes:
        padded: The padded input.
        inside: The part of it that is not padding, as (channels, multiplier, rows, columns).
        windows: All windows of it.
        total: Where the sums go.
        arranged: The same as (filters, rows, columns).
    """

    padded: Array
    inside: Array
    windows: Array
    total: Array
    arranged: Array


class ChannelsLast(PerChannel):
    """Sums of products in loops over channels."""

    def __init__(self, problem: Problem, w: Array, b: Array | None, finish: Finish | None) -> None:
        super().__init__(problem, w, b, finish)
        products = problem.batch * problem.filters * problem.pixels * problem.taps
        moved = problem.batch * problem.filters * (prod(problem.size) + problem.pixels)
        self._planned(products / _SUMS_PER_NS + moved / 2)
        needed = max(
            sum(prod(shape) for shape in self._shapes(tile)) for tile in self._by_number.values()
        )
        self._prepared = Prepared(self._prepare, needed * problem.dtype.itemsize)

    def _arrange(self) -> None:
        self._factors = {
            number: np.ascontiguousarray(self._weights[tile.filters].transpose(1, 2, 0))
            for number, tile in self._by_number.items()
        }

    def _compute(
        self, views: _LastViews, tile: Tile, x: Array, y: Array, operands: tuple[Array, ...]
    ) -> None:
        _, (rows, columns) = self._places(tile)
        views.padded.fill(0)
        views.inside[...] = x[tile.image, self._channels(tile), None, rows, columns]
        np.einsum("hwijc,ijc->hwc", views.windows, self._factors[tile.number], out=views.total)
        if self._bias is not None:
            np.add(views.total, self._bias[tile.filters], views.total)
        target = y[tile.place]
        target.reshape(views.arranged.shape)[...] = views.arranged
        if self._finish is not None:
            self._finish(target, tile.place, *operands)

    def _shapes(self, tile: Tile) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of the padded input and of the sums."""
        columns = self._problem.geometry.out[1]
        filters, rows = tile.filters.stop - tile.filters.start, tile.rows.stop - tile.rows.start
        padded = (self._reach(0, rows), self._reach(1, columns), filters)
        return padded, (rows, columns, filters)

    def _places(self, tile: Tile) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Return the rows and columns that are not padding, and what is read there."""
        geometry = self._problem.geometry
        first = tile.rows.start * geometry.strides[0] - geometry.begins[0]
        height, width, _ = self._shapes(tile)[0]
        into_rows, rows = self._existing(0, first, height)
        into_columns, columns = self._existing(1, -geometry.begins[1], width)
        return (into_rows, into_columns), (rows, columns)

    def _tile_size(self, parts: int) -> tuple[int, int]:
        problem, rows = self._problem, self._problem.geometry.out[0]
        room = _LAST_BYTES // problem.dtype.itemsize
        one = self._reach(0, rows) * self._reach(1, problem.geometry.out[1]) + problem.pixels
        filters = min(room // one, -(-problem.filters // parts))
        if filters < min(LANES, problem.filters):
            return min(problem.filters, LANES), max(1, rows * room // (one * LANES))
        return filters, rows

    def _prepare(self, workspace: Workspace, number: int) -> _LastViews:
        tile, geometry = self._by_number[number], self._problem.geometry
        padded, total = workspace.carve(*self._shapes(tile), dtype=self._problem.dtype)
        down, right, along = padded.strides
        windows = as_strided(
            padded,
            (*total.shape[:2], *geometry.kernel, total.shape[2]),
            (
                down * geometry.strides[0],
                right * geometry.strides[1],
                down * geometry.dilations[0],
                right * geometry.dilations[1],
                along,
            ),
            writeable=False,
        )
        (rows, columns), _ = self._places(tile)
        by_channel = padded.reshape(*padded.shape[:2], -1, self._multiplier).transpose(2, 3, 0, 1)
        inside = by_channel[:, :, rows, columns]
        return _LastViews(padded, inside, windows, total, total.transpose(2, 0, 1))
