"""Block functions of powers with exponents that models use."""

from math import inf
from typing import Final

import numpy as np

from subgraphkit_numpy.kernels.elementwise import Block, scratch
from subgraphkit_numpy.kernels.registry import Array

__all__ = ["power"]


def power(exponent: float) -> tuple[Block, float] | None:
    """Return a block function of x to a power and its nanoseconds per element, or None.

    There is one for -1, -0.5, 0, 0.5, 1, 2, 3 and 4; special values follow ``pow`` of C.
    """
    return _POWERS.get(exponent)


def _cube(x: Array, out: Array) -> None:
    square = scratch(x)
    np.multiply(x, x, square)
    np.multiply(square, x, out)


def _fourth(x: Array, out: Array) -> None:
    np.square(x, out)
    np.square(out, out)


def _root(x: Array, out: Array) -> None:
    # unlike sqrt, pow gives inf for -inf, and 0 for -0
    lowest = x == -inf
    np.sqrt(x, out)
    np.add(out, 0.0, out)
    if lowest.any():
        out[lowest] = inf


def _inverse_root(x: Array, out: Array) -> None:
    _root(x, out)
    np.divide(1.0, out, out)


def _inverse(x: Array, out: Array) -> None:
    np.divide(1.0, x, out)


def _one(x: Array, out: Array) -> None:
    del x
    out.fill(1.0)


def _itself(x: Array, out: Array) -> None:
    np.copyto(out, x)


_POWERS: Final[dict[float, tuple[Block, float]]] = {
    -1.0: (_inverse, 0.2), -0.5: (_inverse_root, 0.7), 0.0: (_one, 0.1), 0.5: (_root, 0.6),
    1.0: (_itself, 0.1), 2.0: (np.square, 0.1), 3.0: (_cube, 0.2), 4.0: (_fourth, 0.2),
}  # fmt: skip
