"""The common parts of convolutions with one filter, or a few, per channel."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from subgraphkit_numpy.kernels.convolution_tiles import (
    LANES,
    Finish,
    Prepared,
    Problem,
    Tile,
    Tiling,
    Workspace,
    WorkspacePool,
)
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.parallel import parts_for, parts_of


class PerChannel(ABC):
    """Cuts the output into tiles and computes each in a workspace.

    Making one costs nothing; the weights are read by ``tiling``.
    """

    def __init__(self, problem: Problem, w: Array, b: Array | None, finish: Finish | None) -> None:
        self._problem = problem
        self._multiplier = problem.filters // problem.channels
        self._weights = w.reshape(problem.filters, *problem.geometry.kernel)
        self._finish = finish
        self._bias = b
        self._tiles: list[Tile] = []
        self._by_number: dict[int, Tile] = {}
        self._prepared: Prepared

    def _planned(self, nanoseconds: float) -> None:
        """Cut the output into tiles for work that takes one thread this long."""
        problem, columns = self._problem, self._problem.geometry.out[1]
        nanoseconds += problem.finishing_ns
        parts = -(-parts_for(nanoseconds) // problem.batch)
        filters, rows = self._tile_size(parts)
        height = problem.geometry.out[0]
        channels = parts_of(
            problem.channels, -(-problem.filters // filters), nanoseconds=nanoseconds
        )
        areas = [
            (
                slice(c.start * self._multiplier, c.stop * self._multiplier),
                slice(r, min(r + rows, height)),
            )
            for c in channels
            for r in range(0, height, rows)
        ]
        self._tiles = [
            Tile(image, f, f, r, slice(r.start * columns, r.stop * columns), number)
            for image in range(problem.batch)
            for number, (f, r) in enumerate(areas)
        ]
        self._by_number = {tile.number: tile for tile in self._tiles}

    def scratch(self, threads: int) -> dict[WorkspacePool, int]:
        """Return the bytes it works in, by where they come from."""
        return self._prepared.most(self._tiles, threads)

    @property
    def packed(self) -> int:
        """The bytes of what is made of the weights, beyond their own size."""
        return 0

    def tiling(self) -> Tiling:
        """Arrange the weights; return the tiles and what computes one."""
        self._arrange()
        problem = self._problem
        return Tiling(self._tiles, self._work, (problem.batch, problem.channels, *problem.size))

    def _work(self, tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        self._prepared.use(tile.number, self._compute, tile, x, y, operands)

    @abstractmethod
    def _arrange(self) -> None:
        """Make of the weights what tiles are computed with."""

    @abstractmethod
    def _compute(
        self, views: Any, tile: Tile, x: Array, y: Array, operands: tuple[Array, ...]
    ) -> None:
        """Compute a tile with the views of a workspace made for it."""

    @abstractmethod
    def _tile_size(self, parts: int) -> tuple[int, int]:
        """Return how many filters and rows a tile should have if ``parts`` tiles are wanted."""

    def _channels(self, tile: Tile) -> slice:
        """Return the channels that the filters of a tile read."""
        filters, multiplier = tile.filters, self._multiplier
        return slice(filters.start // multiplier, filters.stop // multiplier)

    def _reach(self, axis: int, count: int) -> int:
        """Return how many elements ``count`` windows read along an axis."""
        geometry = self._problem.geometry
        extent = (geometry.kernel[axis] - 1) * geometry.dilations[axis]
        return (count - 1) * geometry.strides[axis] + extent + 1

    def _existing(self, axis: int, first: int, count: int, step: int = 1) -> tuple[slice, slice]:
        """Return which of some places along an axis exist, and the elements of the input there."""
        size = self._problem.size[axis]
        low = min(max(0, -(first // step)), count)
        high = max(low, min(count, (size - 1 - first) // step + 1))
        if high == low:
            return slice(low, low), slice(0, 0)
        return slice(low, high), slice(first + low * step, first + (high - 1) * step + 1, step)


_SUMS_PER_NS: Final = 6.0
"""Multiplications and additions that one thread does in a nanosecond, roughly."""

_LAST_BYTES: Final = 2 << 20
"""Scratch memory a tile needs, at most if possible."""


@dataclass(frozen=True, slots=True)
class _LastViews:
    """What computing a tile needs of a workspace.

    Attributes:
        inside: The part of it that is not padding, as (channels, multiplier, rows, columns).
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
