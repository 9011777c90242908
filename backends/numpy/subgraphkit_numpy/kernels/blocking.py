"""Kernels made of block functions."""

from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.elementwise import SHARED_NANOSECONDS, Block, in_blocks
from subgraphkit_numpy.kernels.registry import Array, Kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import in_wide

FLOATS: Final = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
"""Element types that block functions take."""


def may_share(site: Site, nanoseconds: float) -> bool:
    """Say whether work that takes this long for an element of the first input may be shared."""
    shape = site.shape()
    return shape is None or int(np.prod(shape)) * nanoseconds >= SHARED_NANOSECONDS


def elementwise_kernel(site: Site, function: Block, nanoseconds: float) -> Kernel:
    """Make the kernel of a function of one array of floating-point numbers; halves round once.

    ``nanoseconds``: What one thread takes for an element of float32, roughly.
    """

    def compute(x: Array, out: Array | None = None) -> Array:
        return in_blocks(function, x, out, nanoseconds)

    def compute_any(x: Array) -> Any:
        return compute(x.reshape(x.shape or 1)).reshape(x.shape)

    shares = may_share(site, nanoseconds)
    if site.dtype() in FLOATS and site.rank():
        return Kernel(compute, takes_out=True, shares=shares, block=function)
    return Kernel(in_wide(compute_any), shares=shares)
