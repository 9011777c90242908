"""The common parts of all convolutions: sizes, scratch memory, and tiles of an output.

How an output is cut depends on sizes alone, never on the number of threads, and so do the results.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array
from subgraphkit_numpy.kernels.windows import Geometry

Finish = Callable[..., None]
"""``finish(tile, place, *operands)`` continues in place with a finished tile of the output.

``place`` is (image, filters, pixels): an index and two slices of the output seen as an array of
(images, filters, pixels). The tile is the matrix there.
"""

LANES: Final = 16
"""Matrices are cut at multiples of this, which keeps BLAS on its fast paths."""

TILE_BYTES: Final = 1 << 20
"""Tiles of the output are at most about this large, so that they stay in cache until finished."""

_WORKSPACE_BYTES: Final = 6 << 20
_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """The sizes of a convolution over two spatial axes; one axis counts as rows of height 1.

    Attributes:
        finish_ns: Nanoseconds that what follows takes for an element of the output.
    """

    batch: int
    channels: int
    filters: int
    groups: int
    size: tuple[int, int]
    geometry: Geometry
    dtype: np.dtype[Any]
    finish_ns: float = 0.0

    @property
    def finishing_ns(self) -> float:
        """Nanoseconds that what follows takes."""
        return self.finish_ns * self.batch * self.filters * self.pixels

    @property
    def pixels(self) -> int:
        """Elements of one channel of the output."""
        return prod(self.geometry.out)

    @property
    def taps(self) -> int:
        """Elements of a window in one channel."""
        return prod(self.geometry.kernel)


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the output.

    Attributes:
        pixels: Which pixels: those of the rows, unless ``rows`` means nothing.
        number: Tiles of different images with the same number differ in nothing else.
    """

    image: int
    groups: slice
    filters: slice
    rows: slice
    pixels: slice
    number: int

    @property
    def place(self) -> tuple[int, slice, slice]:
        """Where the tile lies, as ``Finish`` wants it."""
        return self.image, self.filters, self.pixels


Work = Callable[..., None]
"""Takes a tile, the input, the output as (images, filters, pixels), and operands of ``Finish``."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles and what computes one of them."""

    tiles: Sequence[Tile]
    work: Work
    shape: tuple[int, ...]


class Workspace:
    """Scratch memory for one tile at a time."""

    def __init__(self, size: int) -> None:
        memory = np.zeros(size + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        self._memory = memory[start : start + size]

    def carve(self, *shapes: tuple[int, ...], dtype: np.dtype[Any]) -> list[Array]:
        """Return arrays one after the other in the memory."""
        arrays, start = [], 0
        for shape in shapes:
            stop = start + prod(shape) * dtype.itemsize
            arrays.append(self._memory[start:stop].view(dtype).reshape(shape))
            start = -(-stop // _ALIGNMENT) * _ALIGNMENT
        return arrays


class WorkspacePool:
    """Workspaces that are used again and again, and therefore stay in cache.

    There are never more than tiles were computed at the same time.

    Thread-safety: workspaces may be taken and given back by several threads.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[Workspace] = []

    def take(self) -> Workspace:
        """Return a workspace that nobody else uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return Workspace(self.size)

    def give_back(self, workspace: Workspace) -> None:
        """Let others use a workspace."""
        self._idle.append(workspace)


_COMMON: Final = WorkspacePool(_WORKSPACE_BYTES)
"""For scratch memory whose contents mean nothing before and after."""

_BY_CONTENTS: "weakref.WeakValueDictionary[Hashable, WorkspacePool]" = weakref.WeakValueDictionary()


def zeroed_pool(contents: Hashable, size: int) -> WorkspacePool:
    """Return the pool of workspaces in which the same places stay zero."""
    return _BY_CONTENTS.setdefault((contents, size), WorkspacePool(size))


class Prepared:
    """Views of workspaces, made once and used whenever the workspace comes up again."""

    def __init__(
        self,
        make: Callable[[Workspace, Any], Any],
        needed: int,
        pools: Mapping[Hashable, WorkspacePool] | None = None,
    ) -> None:
        self._make = make
        self._needed = needed + 4 * _ALIGNMENT
        self._pools = pools
        self._made: dict[tuple[Workspace, Hashable], Any] = {}

    def most(self, tiles: Sequence[Tile], threads: int) -> dict[WorkspacePool, int]:
        """Return the bytes that tiles take at the same time, by the pool they come from."""
        if self._pools is None:
            return {_COMMON: self._needed * min(threads, len(tiles))}
        found = Counter(self._pools[tile.number] for tile in tiles)
        return {pool: pool.size * min(threads, count) for pool, count in found.items()}

    def use(self, kind: Hashable, work: Callable[..., None], *arguments: object) -> None:
        """Call ``work(views, *arguments)`` with the views of a workspace for a kind of tile."""
        pool = _COMMON if self._pools is None else self._pools[kind]
        if self._needed > pool.size:
            work(self._make(Workspace(self._needed), kind), *arguments)
            return
        workspace = pool.take()
        try:
            views = self._made.get((workspace, kind))
            if views is None:
                views = self._made[workspace, kind] = self._make(workspace, kind)
            work(views, *arguments)
        finally:
            pool.give_back(workspace)
