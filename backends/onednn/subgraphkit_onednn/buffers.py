"""Memory of intermediate values: one block, shared by values that are never alive at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

ALIGNMENT: Final = 64
"""Bytes; a cache line, and what oneDNN's kernels like best."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value that lives from the step that makes it to the last that reads it."""

    number: int
    size: int
    first: int
    last: int


def plan_places(lifetimes: Sequence[Lifetime]) -> tuple[dict[int, int], int]:
    """Give every value a place so that no two that live at once overlap; large values first.

    Returns:
        Offsets in bytes by tensor number, and the size of the block.
    """
    placed: list[tuple[int, Lifetime]] = []
    total = 0
    for value in sorted(lifetimes, key=lambda value: (-value.size, value.number)):
        offset = 0
        for start, other in sorted(placed, key=lambda entry: entry[0]):
            if other.last < value.first or value.last < other.first:
                continue
            if offset + value.size <= start:
                break
            offset = max(offset, -(-(start + other.size) // ALIGNMENT) * ALIGNMENT)
        placed.append((offset, value))
        total = max(total, offset + value.size)
    return {value.number: offset for offset, value in placed}, total


def aligned_block(size: int) -> npt.NDArray[Any]:
    """Allocate bytes that start at a multiple of ``ALIGNMENT``."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array to be written to, which lies where kernels of any library like it best."""
    return aligned_block(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
