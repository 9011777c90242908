"""Convolution, as products of matrices (``convolution_columns``).

One filter, or a few, per channel make bands of small matrices (``convolution_depthwise``).
"""

from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.kernels.convolution_columns import by_columns
from subgraphkit_numpy.kernels.convolution_depthwise import depthwise
from subgraphkit_numpy.kernels.convolution_tiles import Finish, Problem, Tiling
from subgraphkit_numpy.kernels.matrix import UNCUT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import WindowAttributes, known_shape
from subgraphkit_numpy.kernels.wrapping import in_wide, is_half, widen
from subgraphkit_numpy.parallel import share

_REMEMBERED: Final = 8
"""Input shapes for which what was planned is kept, where shapes are not known beforehand."""

Shape = tuple[int, ...]

Convolve = Callable[..., Array]
"""Takes the input and operands of ``Finish``; returns the output."""


@kernel("Conv")
def conv(site: Site) -> Made:
    """Convolve over any number of spatial axes."""
    return convolution(site)


def convolution(site: Site, finish: Finish | None = None) -> Kernel:
    """Make the kernel of a convolution that continues with what follows.

    With ``finish`` the weights have to be constant, and the shape of the input known. The kernel
    then takes the input and the operands of ``finish``.

    ``finish``: Called for the output in parts, each on the thread that computed it, after the bias
    was added. Not called for outputs without elements.

    Thread-safety: the kernel may be called by several threads.
    """
    windows, dtype = WindowAttributes(site.node), site.dtype()
    if dtype is None or not site.settled(1, 2):

        def convolve(x: Array, w: Array, b: Array | None = None) -> Array:
            return _convolve(x.shape, w, b, windows)[0](x)

        return Kernel(in_wide(convolve), shares=True)
    w, b = site.absorb(1, 2)
    assert w is not None  # noqa: S101 (the weights of Conv are not optional)
    if is_half(dtype):
        wide = convolver(windows, widen(w), None if b is None else widen(b))
        return Kernel(in_wide(wide), shares=True)
    if (shape := site.shape()) is None:
        return Kernel(convolver(windows, w, b), shares=True)
    call, shares = _convolve(shape, w, b, windows, finish)
    return Kernel(call, shares=shares)


def convolver(windows: WindowAttributes, w: Array, b: Array | None) -> Convolve:
    """Return a convolution for inputs of any shape."""
    known: dict[Shape, Convolve] = {}

    def convolve(x: Array) -> Array:
        if (found := known.get(x.shape)) is None:
            found = _convolve(x.shape, w, b, windows)[0]
            if len(known) >= _REMEMBERED:
                known.clear()
            known[x.shape] = found
        return found(x)

    return convolve


def _convolve(
    shape: Shape, w: Array, b: Array | None, windows: WindowAttributes, finish: Finish | None = None
) -> tuple[Convolve, bool]:
    """Return a convolution for inputs of one shape, and whether it wants BLAS alone."""
    problem, dtype = _problem(shape, w, windows, finish), w.dtype
    out_shape = (shape[0], w.shape[0], *problem.geometry.out)
    if 0 in out_shape:
        return lambda x, *operands: np.zeros(out_shape, dtype), False  # noqa: ARG005 (as called)
    flat_shape = (*out_shape[:2], problem.pixels)
    tiling = _tiling(problem, w, b)
    tiling.prepare()
    tiles, work, in_shape = tiling.tiles, tiling.work, tiling.shape

    def convolve(x: Array, *operands: Array) -> Array:
        y = np.empty(flat_shape, dtype)
        share(work, tiles, x.reshape(in_shape), y, *operands)
        return y.reshape(out_shape)

    return convolve, len(tiles) > 1 or prod(flat_shape) * prod(w.shape[1:]) >= UNCUT


def _problem(
    shape: Shape, w: Array, windows: WindowAttributes, finish: Finish | None = None
) -> Problem:
    geometry, groups = windows.on(shape[2:], w.shape[2:]), windows.groups
    return Problem(shape[0], shape[1], len(w), groups, shape[2:], geometry, w.dtype, finish)


def _tiling(problem: Problem, w: Array, b: Array | None = None) -> Tiling:
    is_flat = len(problem.size) == 2  # noqa: PLR2004 (rows, columns)
    if problem.channels == problem.groups > 1 and is_flat and not problem.is_point:
        return depthwise(problem, w, b)
    return by_columns(problem, w, b)


def working_memory(node: Node, threads: int) -> tuple[int, int]:
    """Say what a convolution takes beside its values, before it is made.

    Returns:
        The bytes it works in on so many threads, and those of what is made of its weights. Nothing
        for what is not computed in tiles of an output of known size.
    """
    shape, of_weights = known_shape(node.input_type(0)), known_shape(node.input_type(1))
    made = known_shape(node.output_type())
    if node.op_type != "Conv" or shape is None or of_weights is None or made is None or 0 in made:
        return 0, 0
    dtype = node.dtype(1).numpy
    w = np.broadcast_to(np.zeros((), np.float32 if is_half(dtype) else dtype), of_weights)
    tiling = _tiling(_problem(shape, w, WindowAttributes(node)), w)
    more = w.nbytes if is_half(dtype) else 0
    return tiling.scratch * min(threads, len(tiling.tiles)), tiling.packed + more
