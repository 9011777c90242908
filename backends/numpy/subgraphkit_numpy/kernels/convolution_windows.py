"""Convolution with larger windows: products on copies of the input shifted along its rows.

For every column of the window a copy of the input is made, shifted by that column's place. In the
copies a shift by rows is a shift by whole rows of memory, so that the product of one row of the
window reads them as they lie, and the products of all its rows add up to the result. That copies
less than writing out every window (*im2col*) by as much as a window has rows. Where the products
would be small, as with three channels, the shifted rows are put below each other and multiplied at
once; that is im2col.

With a stride, the rows of the copies are sorted by their remainder modulo the stride.

Source of im2col: K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural
networks for document processing", IWFHR 2006.
"""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.convolution_tiles import (
    LANES,
    TILE_BYTES,
    Finish,
    Prepared,
    Problem,
    Tile,
    Tiling,
    Workspace,
    WorkspacePool,
)
from subgraphkit_numpy.kernels.matrix import PRODUCTS_PER_NS
from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.parallel import parts_for, parts_of

_SHIFTED_BYTES: Final = 2 << 20
"""The shifted copies a tile needs are at most about this large."""

_SMALL_DEPTH: Final = 96
"""Products that sum over less than this are put together."""

_FEW_PIXELS: Final = 256
"""Outputs of less than this per channel are cut by filters, because reading the weights costs most
then."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Where the elements under one row of the window lie in the shifted copies."""

    phase: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Views:
    """What computing a tile needs of a workspace.

    Attributes:
        moves: Where shifted copies are written, and the part of the input that goes there.
        gathers: Where these are copied to, if they are multiplied at once.
        total: Room for the sum of products. It lies in one piece, which the tile does not, and
            working on it touches fewer pages.
    """

    moves: list[tuple[Array, tuple[Any, ...]]]
    zeros: list[Array]
    factors: list[Array]
    gathers: list[Array]
    gathered: Array | None
    product: Array
    total: Array


class Windowed:
    """A convolution over two axes with any windows, strides, dilations and groups.

    Making one costs nothing; the weights are read by ``tiling``.
    """

    packed = 0
    """The bytes of what is made of the weights, beyond their own size."""

    def __init__(self, problem: Problem, w: Array, b: Array | None, finish: Finish | None) -> None:
        self._problem = problem
        self._bias = None if b is None else b[:, None]
        self._finish = finish
        geometry, groups = problem.geometry, problem.groups
        self._depth = problem.channels // groups
        height, width = geometry.kernel
        stride, dilation = geometry.strides[0], geometry.dilations[0]
        phases = sorted({i * dilation % stride for i in range(height)})
        self._phases = phases
        self._rows = [
            _Row(phases.index(i * dilation % stride), i * dilation // stride) for i in range(height)
        ]
        self._reach = self._rows[-1].offset
        self._flat = geometry.strides == (1, 1) and geometry.out[1] == problem.size[1]
        per_group = problem.filters // groups
        self._gathers = height > 1 and (
            width * self._depth < _SMALL_DEPTH or per_group > 3 * self._depth
        )
        self._ordered = w.reshape(groups, per_group, self._depth, height, width)
        self._tiles = self._cut()
        self._by_number = {tile.number: tile for tile in self._tiles}
        needed = max(self._needed(tile) for tile in self._by_number.values())
        self._prepared = Prepared(self._prepare, needed)

    def scratch(self, threads: int) -> dict[WorkspacePool, int]:
        """Return the bytes it works in, by where they come from."""
        return self._prepared.most(self._tiles, threads)

    def tiling(self) -> Tiling:
        """Arrange the weights; return the tiles and what computes one."""
        problem, ordered = self._problem, self._ordered
        if self._gathers:
            weights = [ordered.transpose(0, 1, 3, 4, 2)]
        else:
            rows = range(problem.geometry.kernel[0])
            weights = [ordered[:, :, :, row].transpose(0, 1, 3, 2) for row in rows]
        self._weights = [np.ascontiguousarray(m).reshape(*ordered.shape[:2], -1) for m in weights]
        del self._ordered
        spatial = (prod(problem.size),) if self._flat else problem.size
        shape = (problem.batch, problem.groups, self._depth, *spatial)
        return Tiling(self._tiles, self._work, shape)

    # -- cutting -------------------------------------------------------------------------------

    def _cut(self) -> list[Tile]:
        problem = self._problem
        rows, columns = problem.geometry.out
        per_group = problem.filters // problem.groups
        products = problem.filters * self._depth * problem.taps * problem.pixels
        nanoseconds = problem.batch * products / PRODUCTS_PER_NS + problem.finishing_ns
        parts = -(-parts_for(nanoseconds) // problem.batch)
        groups, filters = [slice(0, problem.groups)], [slice(0, per_group)]
        if problem.groups > 1:
            groups = parts_of(problem.groups, parts)
        elif problem.pixels < _FEW_PIXELS and per_group >= 4 * LANES:
            filters = parts_of(per_group, parts, LANES, nanoseconds=nanoseconds)
        height = self._tile_rows(groups[0].stop, filters[0].stop)
        count = -(-rows // height)
        if len(groups) == len(filters) == 1:
            count = max(count, parts)
        rows_of = parts_of(rows, count, nanoseconds=nanoseconds)
        areas = [
            (g, slice(g.start * per_group + f.start, (g.stop - 1) * per_group + f.stop), r)
            for g, f, r in product(groups, filters, rows_of)
        ]
        return [
            Tile(image, g, f, r, slice(r.start * columns, r.stop * columns), number)
            for image in range(problem.batch)
            for number, (g, f, r) in enumerate(areas)
        ]

    def _tile_rows(self, groups: int, filters: int) -> int:
        """Return how many rows of the output a tile can have."""
        problem = self._problem
        itemsize, columns = problem.dtype.itemsize, problem.geometry.out[1]
        width = problem.geometry.kernel[1]
        copied = len(self._phases) * groups * self._depth * width * columns * itemsize
        if self._gathers:
            copied += groups * self._depth * problem.taps * columns * itemsize
        fitting = _SHIFTED_BYTES // copied - self._reach
        finished = TILE_BYTES // (groups * filters * columns * itemsize)
        least = -(-4 * LANES // columns)
        return max(1, least, min(fitting, finished))

    def _shapes(self, tile: Tile) -> list[tuple[int, ...]]:
        """Return the shapes of the shifted copies and of further scratch memory."""
        geometry = self._problem.geometry
        groups, rows = tile.groups.stop - tile.groups.start, tile.rows.stop - tile.rows.start
        height, width = geometry.kernel
        pixels = rows * geometry.out[1]
        shifted = (
            groups, width, self._depth, len(self._phases), rows + self._reach, geometry.out[1],
        )  # fmt: skip
        filters = (tile.filters.stop - tile.filters.start) // groups
        total = (groups, filters, pixels)
        if self._gathers:
            return [shifted, total, (groups, height, width * self._depth, pixels)]
        return [shifted, total, total]

    def _needed(self, tile: Tile) -> int:
        return sum(prod(shape) for shape in self._shapes(tile)) * self._problem.dtype.itemsize

    # -- preparing -----------------------------------------------------------------------------

    def _prepare(self, workspace: Workspace, number: int) -> _Views:
        tile = self._by_number[number]
        shifted, total, more = workspace.carve(*self._shapes(tile), dtype=self._problem.dtype)
        rows = tile.rows.stop - tile.rows.start
        moves: list[tuple[Array, tuple[Any, ...]]] = []
        zeros: list[Array] = []
        for phase in range(len(self._phases)):
            self._prepare_phase(tile, shifted, phase, moves, zeros)
        groups, width, depth, *_ = shifted.shape
        stacked = shifted.reshape(groups, width * depth, *shifted.shape[3:])
        factors = [
            stacked[:, :, row.phase, row.offset : row.offset + rows].reshape(
                groups, width * depth, -1
            )
            for row in self._rows
        ]
        gathers: list[Array] = []
        gathered = None
        if self._gathers:
            gathers = [more[:, i] for i in range(len(self._rows))]
            gathered = more.reshape(groups, -1, more.shape[-1])
        zeros = [part for part in zeros if part.size]
        return _Views(moves, zeros, factors, gathers, gathered, more, total)

    def _prepare_phase(
        self,
        tile: Tile,
        shifted: Array,
        phase: int,
        moves: list[tuple[Array, tuple[Any, ...]]],
        zeros: list[Array],
    ) -> None:
        """Note what goes into the rows of one remainder modulo the stride."""
        problem, geometry = self._problem, self._problem.geometry
        stride, pad = geometry.strides[0], geometry.begins[0] - self._phases[phase]
        begin = tile.rows.start
        low = max(begin, -(-pad // stride))
        high = min(begin + shifted.shape[4], (problem.size[0] - 1 + pad) // stride + 1)
        target = shifted[:, :, :, phase]
        if high <= low:
            zeros.append(target)
            return
        inside = slice(low - begin, high - begin)
        zeros += [target[:, :, :, : inside.start], target[:, :, :, inside.stop :]]
        source = slice(low * stride - pad, (high - 1) * stride - pad + 1, stride)
        for column in range(geometry.kernel[1]):
            self._prepare_column(column, target[:, column, :, inside], source, moves, zeros)

    def _prepare_column(
        self,
        column: int,
        target: Array,
        rows: slice,
        moves: list[tuple[Array, tuple[Any, ...]]],
        zeros: list[Array],
    ) -> None:
        """Note what goes into the copy for one column of the window."""
        problem, geometry = self._problem, self._problem.geometry
        stride, size = geometry.strides[1], problem.size[1]
        shift = column * geometry.dilations[1] - geometry.begins[1]
        low = max(0, -(shift // stride))
        high = min(geometry.out[1], (size - 1 - shift) // stride + 1)
        if high <= low:
            zeros.append(target)
            return
        zeros += [target[..., :low], target[..., high:]]
        if self._flat:
            # whole rows are moved as one run; what wraps around is set to zero afterwards
            length = (rows.stop - rows.start) * size
            first, last = max(0, -shift), min(length, length - shift)
            flat = target.reshape(*target.shape[:2], length)[..., first:last]
            start = rows.start * size + shift
            moves.append((flat, (slice(None), slice(None), slice(start + first, start + last))))
            return
        columns = slice(low * stride + shift, (high - 1) * stride + shift + 1, stride)
        moves.append((target[..., low:high], (slice(None), slice(None), rows, columns)))

    # -- computing -----------------------------------------------------------------------------

    def _work(self, tile: Tile, x: Array, y: Array, *operands: Array) -> None:
        self._prepared.use(tile.number, self._compute, tile, x, y, operands)

    def _compute(
        self, views: _Views, tile: Tile, x: Array, y: Array, operands: tuple[Array, ...]
    ) -> None:
        image = x[tile.image, tile.groups]
        for target, index in views.moves:
            target[...] = image[index]
        for part in views.zeros:
            part.fill(0)
        self._multiply(views, self._weights_of(tile))
        total = views.total.reshape(-1, views.total.shape[2])
        target = y[tile.place]
        if self._finish is not None:
            if self._bias is not None:
                np.add(total, self._bias[tile.filters], total)
            self._finish(total, tile.place, *operands)
            target[...] = total
        elif self._bias is not None:
            np.add(total, self._bias[tile.filters], target)
        else:
            target[...] = total

    def _weights_of(self, tile: Tile) -> list[Array]:
        if self._problem.groups > 1:
            return [weights[tile.groups] for weights in self._weights]
        return [weights[:, tile.filters] for weights in self._weights]

    @staticmethod
    def _multiply(views: _Views, weights: list[Array]) -> None:
        total = views.total
        if views.gathered is not None:
            for into, factor in zip(views.gathers, views.factors, strict=True):
                into[...] = factor
            np.matmul(weights[0], views.gathered, total)
            return
        np.matmul(weights[0], views.factors[0], total)
        for weight, factor in zip(weights[1:], views.factors[1:], strict=True):
            np.matmul(weight, factor, views.product)
            np.add(total, views.product, total)
