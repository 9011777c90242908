"""Cuts through results: into parts for the threads, and into tiles for the caches."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

from subgraphkit_numpy.fusing.spaces import Shape
from subgraphkit_numpy.kernels.matrix import PRODUCTS_PER_NS, areas
from subgraphkit_numpy.parallel import cut, parts_for, thread_count

TILE: Final = 1 << 18
"""Elements in a tile at most: 1 MiB of float32, which is still in a cache when it is read again.

Smaller tiles would fit a nearer cache, but every call of NumPy ends with taking the interpreter's
lock back, and where threads do that often they wait for each other.
"""

ELEMENTS: Final = 8
"""Elements of one pass in a nanosecond."""

_TILES: Final = 4
_SMALLEST: Final = 1 << 15

_ROWS: Final = 16
"""Fewest rows in a block of a matrix of a stack."""

Place = tuple[Any, ...]


def is_worth_sharing(nanoseconds: float) -> bool:
    """Say whether several threads would be faster than one at what takes one that long."""
    return parts_for(nanoseconds) > 1


def nanoseconds(multiplications: int, passes: int, elements: int) -> float:
    """Return what one thread takes, roughly.

    ``passes``: Passes over the result; about eight elements a nanosecond each.
    """
    return multiplications / PRODUCTS_PER_NS + passes * elements / ELEMENTS


def matrix_parts(
    rows: int, columns: int, *, whole_rows: bool, nanoseconds: float
) -> list[tuple[slice, slice, list[Place]]]:
    """Cut a matrix product into parts that threads may share, each with its tiles.

    ``whole_rows``: Whether parts must hold whole rows.
    ``nanoseconds``: What one thread takes for all.
    """
    found = areas(rows, columns, nanoseconds, whole_rows=whole_rows)
    return [(row, column, _area_tiles(row, column)) for row, column in found]


def _area_tiles(rows: slice, columns: slice) -> list[Place]:
    height = max(1, TILE // max(1, columns.stop - columns.start))
    return [
        (slice(begin, min(begin + height, rows.stop)), columns)
        for begin in range(rows.start, rows.stop, height)
    ]


def _limit(total: int) -> int:
    """Return how large a tile may be, so that there are several to share. Depends on size alone."""
    return min(TILE, max(_SMALLEST, -(-total // _TILES)))


def leading_tiles(shape: Shape, *, whole_rows: bool) -> list[Place]:
    """Cut an array into tiles: whole trailing axes, pieces of one axis, one index of each before.

    ``whole_rows``: Whether the last axis must not be cut, however long it is.
    """
    limit = _limit(math.prod(shape))
    inner, axis = 1, len(shape)
    while axis and (inner * shape[axis - 1] <= limit or (whole_rows and axis == len(shape))):
        axis -= 1
        inner *= shape[axis]
    if not axis:
        return [(slice(None),) * len(shape)]
    pieces = cut(shape[axis - 1], -(-shape[axis - 1] // max(1, limit // inner)))
    before = [[slice(i, i + 1) for i in range(dim)] for dim in shape[: axis - 1]]
    after = (slice(None),) * (len(shape) - axis)
    return [(*place, *after) for place in itertools.product(*before, pieces)]


def stack_tiles(batch: Shape, rows: int, columns: int) -> list[Place]:
    """Cut a stack of matrices: several of them where they are small, blocks of rows where not.

    Returns:
        Places: a slice of every batch axis, of rows, and of columns, which are never cut.
    """
    size = max(1, rows * columns)
    limit = _limit(math.prod(batch) * size)
    if size <= limit:
        stacks = leading_tiles((*batch, size), whole_rows=True)
        return [(*place[:-1], slice(0, rows), slice(0, columns)) for place in stacks]
    height = max(_ROWS, limit // columns // _ROWS * _ROWS)
    blocks = [slice(begin, min(begin + height, rows)) for begin in range(0, rows, height)]
    single = [[slice(i, i + 1) for i in range(dim)] for dim in batch]
    return [(*place, slice(0, columns)) for place in itertools.product(*single, blocks)]


def in_parts(places: Sequence[Place], *, share: bool) -> list[Sequence[Place]]:
    """Deal places out to the threads, several parts each so that none waits long for another."""
    count = thread_count() * 4 if share else 1
    return [places[part] for part in cut(len(places), count)]
