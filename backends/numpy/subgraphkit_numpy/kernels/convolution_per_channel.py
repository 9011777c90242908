"""The common parts of convolutions with one filter, or a few, per channel."""

from abc import ABC, abstractmethod
from typing import Any

from subgraphkit_numpy.kernels.convolution_tiles import (
    Finish,
    Prepared,
    Problem,
    Tile,
    Tiling,
    WorkspacePool,
)
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.parallel import parts_for, parts_of

__all__ = ["PerChannel"]


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
        """Return which of some places along an axis exist, and the elements of the input there.

        Args:
            axis: 0 for rows, 1 for columns.
            first: The first place; negative in the padding.
            count: How many.
            step: Elements from one place to the next.
        """
        size = self._problem.size[axis]
        low = min(max(0, -(first // step)), count)
        high = max(low, min(count, (size - 1 - first) // step + 1))
        if high == low:
            return slice(low, low), slice(0, 0)
        return slice(low, high), slice(first + low * step, first + (high - 1) * step + 1, step)
