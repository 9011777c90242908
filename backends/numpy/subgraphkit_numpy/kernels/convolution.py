"""Convolution: which way a node is computed.

* Windows of one element are a matrix product on the input as it lies (``convolution_products``).
* One filter, or a few, per channel is a sum of shifted products (``convolution_depthwise``).
* Other windows over one or two axes are products on shifted copies (``convolution_windows``).
* Windows over more axes are written out as columns and multiplied (``convolution_products``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.kernels.convolution_depthwise import depthwise
from subgraphkit_numpy.kernels.convolution_per_channel import PerChannel
from subgraphkit_numpy.kernels.convolution_products import by_columns, pointwise
from subgraphkit_numpy.kernels.convolution_tiles import (
    TILE_BYTES,
    Finish,
    Problem,
    Tiling,
    WorkspacePool,
)
from subgraphkit_numpy.kernels.convolution_windows import Windowed
from subgraphkit_numpy.kernels.matrix import UNCUT
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.repeats import find_repeats
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import Geometry, WindowAttributes, known_shape
from subgraphkit_numpy.kernels.wrapping import is_half
from subgraphkit_numpy.parallel import cut, share

__all__ = ["Finish", "convolution", "convolver", "working_memory"]

_REMEMBERED: Final = 8
"""Input shapes for which what was planned is kept, where shapes are not known beforehand."""

Convolve = Callable[..., Array]
"""Takes the input and operands of ``Finish``; returns the output."""


@dataclass(frozen=True, slots=True)
class _Follows:
    """What a convolution continues with.

    Attributes:
        nanoseconds: What it takes for an element.
    """

    finish: Finish | None = None
    nanoseconds: float = 0.0


_NOTHING: Final = _Follows()


@kernel("Conv")
def conv(site: Site) -> Made:
    """Convolve over any number of spatial axes."""
    return convolution(site)


def convolution(
    site: Site,
    finish: Finish | None = None,
    scale: Array | None = None,
    shift: Array | None = None,
    *,
    finish_ns: float = 0.0,
) -> Kernel:
    """Make the kernel of a convolution that continues with what follows.

    With ``finish`` or ``scale`` the weights have to be constant, and with ``finish`` the shape of
    the input has to be known. The kernel then takes the input and the operands of ``finish``.

    ``finish``: Called once for every tile of the output, on the thread that computed it, after the
    bias was added. Not called for outputs without elements.

    Thread-safety: the kernel may be called by several threads.
    """
    windows, groups = WindowAttributes(site.node), site.attribute("group", 1)
    dtype = site.dtype()
    if dtype is None or not site.settled(1, 2):
        return Kernel(lambda x, w, b=None: _converted(x, w, b, windows, groups), shares=True)
    w, b = site.absorb(1, 2)
    assert w is not None  # noqa: S101 (the weights of Conv are not optional)
    weights, bias = _folded(w, b, scale, shift)
    if is_half(dtype):
        wide = convolver(windows, groups, weights.astype(np.float32), _widened(bias))
        return Kernel(lambda x: wide(x.astype(np.float32)).astype(x.dtype), shares=True)
    shape = site.shape()
    if shape is None:
        return Kernel(convolver(windows, groups, weights, bias), shares=True)
    follows = _Follows(finish, finish_ns)
    call, shares = _convolve(shape, weights, bias, windows, groups, follows)
    return Kernel(call, shares=shares)


def _folded(
    w: Array, b: Array | None, scale: Array | None, shift: Array | None
) -> tuple[Array, Array | None]:
    """Return weights and bias after scale and shift, computed in float64 and rounded once."""
    if scale is None and shift is None:
        return w, b
    filters = w.shape[0]
    factors = np.ones(filters) if scale is None else scale.astype(np.float64)
    bias = np.zeros(filters) if b is None else b.astype(np.float64)
    bias = bias * factors + (0.0 if shift is None else shift.astype(np.float64))
    weights = w.astype(np.float64) * factors.reshape((-1,) + (1,) * (w.ndim - 1))
    return weights.astype(w.dtype), bias.astype(w.dtype)


def _widened(b: Array | None) -> Array | None:
    return None if b is None else b.astype(np.float32)


def _converted(
    x: Array, w: Array, b: Array | None, windows: WindowAttributes, groups: int
) -> Array:
    """Convolve with weights that are known only now."""
    if is_half(x.dtype):
        wide = _converted(x.astype(np.float32), w.astype(np.float32), _widened(b), windows, groups)
        return wide.astype(x.dtype)
    return _convolve(x.shape, w, b, windows, groups)[0](x)


def convolver(windows: WindowAttributes, groups: int, w: Array, b: Array | None) -> Convolve:
    """Return a convolution for inputs of any shape."""
    known: dict[tuple[int, ...], Convolve] = {}

    def convolve(x: Array) -> Array:
        found = known.get(x.shape)
        if found is None:
            found = _convolve(x.shape, w, b, windows, groups)[0]
            if len(known) >= _REMEMBERED:
                known.clear()
            known[x.shape] = found
        return found(x)

    return convolve


def _convolve(
    shape: tuple[int, ...],
    w: Array,
    b: Array | None,
    windows: WindowAttributes,
    groups: int,
    follows: _Follows = _NOTHING,
) -> tuple[Convolve, bool]:
    """Return a convolution for inputs of one shape, and whether it wants BLAS alone."""
    found = find_repeats(w, groups)
    if found is not None and 0 not in shape:
        distinct = _convolve_all(shape, w[found.kept], None, windows, groups)[0]
        return _repeating(distinct, found.places, b, follows.finish), True
    return _convolve_all(shape, w, b, windows, groups, follows)


def _repeating(
    distinct: Convolve, places: Array, b: Array | None, finish: Finish | None
) -> Convolve:
    """Return a convolution some of whose filters are equal, from one of those that differ."""
    bias = None if b is None else b[:, None]

    def work(tile: tuple[int, slice], x: Array, y: Array, *operands: Array) -> None:
        image, filters = tile
        target = y[tile]
        np.take(x[image], places[filters], 0, target, "clip")
        if bias is not None:
            np.add(target, bias[filters], target)
        if finish is not None:
            finish(target, (*tile, slice(0, y.shape[2])), *operands)

    def convolve(x: Array, *operands: Array) -> Array:
        computed = distinct(x)
        batch, kept, *out = computed.shape
        y = np.empty((batch, len(places), prod(out)), computed.dtype)
        bands = cut(len(places), -(-y[0].nbytes // TILE_BYTES))
        tiles = [(image, band) for image in range(batch) for band in bands]
        share(work, tiles, computed.reshape(batch, kept, y.shape[2]), y, *operands)
        return y.reshape(batch, len(places), *out)

    return convolve


def _convolve_all(
    shape: tuple[int, ...],
    w: Array,
    b: Array | None,
    windows: WindowAttributes,
    groups: int,
    follows: _Follows = _NOTHING,
) -> tuple[Convolve, bool]:
    """Do as ``_convolve``, whether or not filters are equal."""
    geometry = windows.on(shape[2:], w.shape[2:])
    out_shape, dtype = (shape[0], w.shape[0], *geometry.out), w.dtype
    flat_shape = (shape[0], w.shape[0], prod(geometry.out))
    if 0 in flat_shape:
        return lambda x, *operands: np.zeros(out_shape, dtype), False  # noqa: ARG005 (as called)
    tiling = _tiling(shape, geometry, groups, w, b, follows)
    tiles, work, in_shape = tiling.tiles, tiling.work, tiling.shape

    def convolve(x: Array, *operands: Array) -> Array:
        y = np.empty(flat_shape, dtype)
        share(work, tiles, x.reshape(in_shape), y, *operands)
        return y.reshape(out_shape)

    multiplications = prod(flat_shape) * prod(w.shape[1:])
    return convolve, len(tiles) > 1 or multiplications >= UNCUT


def _tiling(
    shape: tuple[int, ...],
    geometry: Geometry,
    groups: int,
    w: Array,
    b: Array | None,
    follows: _Follows,
) -> Tiling:
    finish = follows.finish
    is_point = prod(geometry.kernel) == 1 and prod(geometry.strides) == 1 and not geometry.is_padded
    if len(shape) > 4 and not is_point:  # noqa: PLR2004 (images, channels, rows, columns)
        return by_columns(shape, geometry, groups, w, b, finish)
    problem = _problem(shape, geometry, groups, w, follows.nanoseconds)
    if is_point:
        return pointwise(problem, w, b, finish)
    return _in_tiles(problem, w, b, finish).tiling()


def _in_tiles(
    problem: Problem, w: Array, b: Array | None, finish: Finish | None
) -> PerChannel | Windowed:
    if problem.groups == problem.channels and problem.groups > 1:
        return depthwise(problem, w, b, finish)
    return Windowed(problem, w, b, finish)


def working_memory(node: Node, threads: int) -> tuple[dict[WorkspacePool, int], int]:
    """Say what a convolution takes beside its values, before it is made.

    Returns:
        The bytes it works in on so many threads, by where they come from, which other convolutions
        may share, and those of what is made of its weights beyond their own size. Nothing for what
        is not computed in tiles of an output of known size.
    """
    shape, of_weights = known_shape(node.input_type(0)), known_shape(node.input_type(1))
    made = known_shape(node.output_type())
    if node.op_type != "Conv" or shape is None or of_weights is None or made is None:
        return {}, 0
    if len(shape) > 4 or prod(of_weights[2:]) == 1:  # noqa: PLR2004 (as in _tiling)
        return {}, 0
    dtype = node.dtype(1).numpy
    w = np.broadcast_to(np.zeros((), np.float32 if is_half(dtype) else dtype), of_weights)
    geometry = WindowAttributes(node).on(shape[2:], of_weights[2:])
    problem = _problem(shape, geometry, node.attribute("group", 1), w, 0.0)
    planned = _in_tiles(problem, w, None, None)
    return planned.scratch(threads), planned.packed


def _problem(
    shape: tuple[int, ...], geometry: Geometry, groups: int, w: Array, finish_ns: float
) -> Problem:
    size = shape[2:]
    if len(size) != 2:  # noqa: PLR2004 (rows and columns)
        # windows of one element know no neighbours, so any axes will do
        ones, zeros = (1, 1), (0, 0)
        last = size[-1] if len(size) == 1 else prod(size)
        size = (1, last)
        if len(shape) == 3:  # noqa: PLR2004 (images, channels, columns)
            geometry = Geometry(
                (1, *geometry.kernel),
                (1, *geometry.strides),
                (1, *geometry.dilations),
                (0, *geometry.begins),
                (0, *geometry.ends),
                (1, *geometry.out),
                (0, *geometry.overhang),
            )
        else:
            geometry = Geometry(ones, ones, ones, zeros, zeros, (1, last), zeros)
    rows, columns = size
    filters = w.shape[0]
    return Problem(
        shape[0], shape[1], filters, groups, (rows, columns), geometry, w.dtype, finish_ns
    )
