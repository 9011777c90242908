"""Changes of shape that leave the elements alone; results are views where NumPy can make one."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Known, Made, Same, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import copy_of

_AT_A_STROKE: Final = 1 << 24
"""Elements that NumPy may repeat by its quickest way, which keeps the interpreter from all else."""


@kernel("Identity", aliases=True)
def identity(_site: Site) -> Made:
    """Return the input."""
    return Same()


@kernel("Reshape", aliases=True)
def reshape(site: Site) -> Made:
    """Give the elements another shape; 0 keeps a dimension unless ``allowzero``, -1 is computed."""
    keeps_zeros = bool(site.attribute("allowzero", 0))
    if site.opset < 5:  # noqa: PLR2004 (an opset)
        return _reshape_to(site.ints("shape") or (), keeps_zeros=False)
    if not site.settled(1):
        return lambda x, shape: _reshape(x, shape.tolist(), keeps_zeros=keeps_zeros)
    return _reshape_to(site.absorb_ints(1) or (), keeps_zeros=keeps_zeros)


def _reshape_to(target: Sequence[int], *, keeps_zeros: bool) -> Made:
    if keeps_zeros or 0 not in target:
        fixed = tuple(target)
        return lambda x: x.reshape(fixed)
    return partial(_reshape, target=list(target), keeps_zeros=False)


def _reshape(x: Array, target: list[int], *, keeps_zeros: bool) -> Array:
    if keeps_zeros or 0 not in target:
        return x.reshape(target)
    return x.reshape([dim or x.shape[axis] for axis, dim in enumerate(target)])


@kernel("Flatten", aliases=True)
def flatten(site: Site) -> Made:
    """Make a matrix: axes before ``axis`` become rows."""
    axis = site.attribute("axis", 1)

    def compute(x: Array) -> Array:
        rows = 1
        for dim in x.shape[:axis]:
            rows *= dim
        return x.reshape(rows, -1 if x.size else prod(x.shape[axis:]))

    return compute


@kernel("Squeeze", aliases=True)
def squeeze(site: Site) -> Made:
    """Drop axes of size 1: those given, or all."""
    if not site.settled(1):
        return lambda x, axes: x.squeeze(tuple(axes.reshape(-1).tolist()))
    axes = site.absorb_ints(1) if site.has(1) else site.ints("axes")
    return lambda x: x.squeeze(axes)


@kernel("Unsqueeze", aliases=True)
def unsqueeze(site: Site) -> Made:
    """Insert axes of size 1, numbered as in the result."""
    if not site.settled(1):
        return lambda x, axes: np.expand_dims(x, tuple(axes.reshape(-1).tolist()))
    axes = (site.absorb_ints(1) if site.has(1) else site.ints("axes")) or ()
    if (rank := site.rank()) is None:
        return lambda x: np.expand_dims(x, axes)
    places = {axis % (rank + len(axes)) for axis in axes}
    index = tuple(None if i in places else slice(None) for i in range(rank + len(axes)))
    return lambda x: x[index]


@kernel("Transpose", aliases=True)
def transpose(site: Site) -> Made:
    """Permute axes; reverse them if no permutation is given."""
    if (perm := site.ints("perm")) is None:
        return lambda x: x.T
    return Same() if perm == tuple(range(len(perm))) else lambda x: x.transpose(perm)


@kernel("Expand", aliases=True)
def expand(site: Site) -> Made:
    """Broadcast to a shape, both ways."""
    if not site.settled(1):
        return lambda x, shape: _expand(x, tuple(shape.tolist()))
    return partial(_expand, shape=site.absorb_ints(1) or ())


def _expand(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))


@kernel("Tile", until=5)
def tile_along_axis(_site: Site) -> Made:
    """Repeat along one axis; both numbers come in the element type of the data."""

    def compute(x: Array, tiles: Array, axis: Array) -> Array:
        repeats = [1] * x.ndim
        repeats[int(axis.item())] = int(tiles.item())
        return np.tile(x, repeats)

    return compute


@kernel("Tile", since=6)
def tile(site: Site) -> Made:
    """Repeat along every axis."""
    if not site.settled(1):
        return lambda x, repeats: _tile_array(x, repeats.tolist())
    repeats = site.absorb_ints(1) or ()
    return lambda x: _tile_array(x, repeats)


def _tile_array(x: Array, repeats: Sequence[int]) -> Array:
    if x.dtype != object and x.size * prod(repeats) <= _AT_A_STROKE:
        return np.tile(x, repeats)
    pairs = list(zip(repeats, x.shape, strict=True))
    apart = x.reshape([part for _, dim in pairs for part in (1, dim)])
    spread = np.broadcast_to(apart, [part for pair in pairs for part in pair])
    return copy_of(spread).reshape([times * dim for times, dim in pairs])


@kernel("Concat")
def concat(site: Site) -> Made:
    """Join along an axis."""
    axis = site.attribute("axis", 1)
    concatenate: Callable[..., Array] = np.concatenate
    return lambda *arrays: concatenate(arrays, axis)


@kernel("Shape")
def shape(site: Site) -> Made:
    """Return the shape, or part of it, as int64."""
    part = slice(site.attribute("start", 0), site.attribute("end"))
    if (known := site.shape()) is not None:
        return Known(np.array(known[part], dtype=np.int64))
    return lambda x: np.array(x.shape[part], dtype=np.int64)


@kernel("Size")
def size(site: Site) -> Made:
    """Return the number of elements as int64."""
    if (known := site.shape()) is not None:
        return Known(np.array(prod(known), dtype=np.int64))
    return lambda x: np.array(x.size, dtype=np.int64)


@kernel("DepthToSpace", "SpaceToDepth")
def move_blocks(site: Site) -> Made:
    """Move blocks of channels into space, or blocks of space into channels."""
    block = site.attribute("blocksize")
    columns_first = site.attribute("mode", "DCR") == "CRD"

    def to_space(x: Array) -> Any:
        batch, channels, height, width = x.shape
        kept = channels // (block * block)
        dims = (kept, block, block) if columns_first else (block, block, kept)
        order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
        moved = copy_of(x.reshape(batch, *dims, height, width).transpose(order))
        return moved.reshape(batch, kept, height * block, width * block)

    def to_depth(x: Array) -> Any:
        batch, channels, height, width = x.shape
        rows, columns = height // block, width // block
        order = (0, 1, 3, 5, 2, 4) if columns_first else (0, 3, 5, 1, 2, 4)
        moved = copy_of(x.reshape(batch, channels, rows, block, columns, block).transpose(order))
        return moved.reshape(batch, channels * block * block, rows, columns)

    return to_space if site.node.op_type == "DepthToSpace" else to_depth
