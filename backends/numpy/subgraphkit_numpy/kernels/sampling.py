"""Images that are read between their elements, and images put together of windows.

Source: ONNX operators ``GridSample``, ``DeformConv`` and ``Col2Im``; for cubics, R. Keys: Cubic
convolution interpolation for digital image processing (IEEE Transactions on Acoustics, 1981).
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from math import prod
from operator import and_, mul
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import WindowAttributes

_Found = tuple[Array, Any]
"""Places along an axis; and what elements there count, or whether any is there."""


@kernel("GridSample")
def sample(site: Site) -> Made:
    """Read images at the places of a grid, whose last axis counts from the last axis of them."""
    ends = bool(site.attribute("align_corners", 0))
    near = _NEAR[site.attribute("mode", "linear").removeprefix("bi")]
    inside = partial(_INSIDE[site.attribute("padding_mode", "zeros")], 0 if ends else 0.5)

    def compute(x: Array, grid: Array) -> Array:
        wide = grid.astype(np.promote_types(grid.dtype, np.float32))
        pairs = zip(np.moveaxis(wide, -1, 0)[::-1], x.shape[2:], strict=True)
        places = [((one + 1) * (size - ends) - (not ends)) / 2 for one, size in pairs]
        return _read(x, places, near, inside).astype(x.dtype)

    return compute


@kernel("DeformConv")
def deform(site: Site) -> Made:
    """Convolve what is read at places that are moved, each by an offset of its own."""
    windows, parts = WindowAttributes(site.node), site.attribute("offset_group", 1)

    def compute(x: Array, w: Array, offset: Array, bias: Any = None, mask: Any = None) -> Array:
        many, out, rank = len(x) * parts, offset.shape[2:], x.ndim - 2
        around = windows.on(x.shape[2:], w.shape[2:])
        taps = np.indices(w.shape[2:]).reshape(rank, -1, *[1] * rank)
        moved = offset.reshape(many, taps.shape[1], rank, *out)
        moved = moved.astype(np.promote_types(offset.dtype, np.float32))
        steps, apart = around.strides, around.dilations
        ways = zip(np.indices(out), steps, taps, apart, around.begins, strict=True)
        starts = [at * step + tap * far - before for at, step, tap, far, before in ways]
        places = [moved[:, :, at] + one.astype(moved.dtype) for at, one in enumerate(starts)]
        images = x.reshape(many, x.shape[1] // parts, *x.shape[2:])
        read = _read(images, places, _linear, partial(_zeros, 0))
        if mask is not None:
            read = read * mask.reshape(many, 1, taps.shape[1], *out)
        columns = read.reshape(len(x), windows.groups, prod(w.shape[1:]), prod(out))
        y = w.reshape(windows.groups, len(w) // windows.groups, prod(w.shape[1:])) @ columns
        y = y.reshape(len(x), len(w), *out)
        return (y if bias is None else y + bias.reshape(-1, *[1] * rank)).astype(x.dtype)

    return Kernel(compute, shares=True)


@kernel("Col2Im")
def fold(site: Site) -> Made:
    """Add up windows, each element where it was read in an image."""
    windows = WindowAttributes(site.node)

    def compute(x: Array, shape: Array, block: Array) -> Array:
        around = windows.on(tuple(shape.tolist()), tuple(block.tolist()))
        rows = [*zip(around.begins, shape.tolist(), around.ends, strict=True)]
        y = np.zeros((len(x), x.shape[1] // prod(around.kernel), *map(sum, rows)), x.dtype)
        parts = x.reshape(*y.shape[:2], *around.kernel, *around.out)
        for tap in np.ndindex(*around.kernel):
            y[:, :, *map(around.tap, range(len(tap)), tap)] += parts[:, :, *tap]
        return y[:, :, *(slice(before, before + size) for before, size, _ in rows)]

    return compute


def _read(
    x: Array,
    places: Sequence[Array],
    near: Callable[[Array], list[_Found]],
    inside: Callable[[Array, int], _Found],
) -> Array:
    """Return images, read at places along each of their axes.

    Args:
        x: The images, with axes for images and channels first.
        places: By axis, where to read, for each image.
        near: Returns the places of elements around, and what these count.
        inside: Returns where in an axis such a place is, and whether it is there.
    """
    batch = np.arange(len(x)).reshape(-1, *[1] * (places[0].ndim - 1))
    total: Any = np.zeros((len(x), *places[0].shape[1:], x.shape[1]), x.dtype)
    for corner in product(*map(near, places)) if x.size else ():
        found = [inside(at, size) for (at, _), size in zip(corner, x.shape[2:], strict=True)]
        is_there = np.asarray(reduce(and_, [one for _, one in found]))[..., None]
        share = np.asarray(reduce(mul, [share for _, share in corner]))[..., None]
        index: tuple[Any, ...] = batch, slice(None), *(at for at, _ in found)
        total = total + np.where(is_there, x[index], x.dtype.type(0)) * share
    return np.moveaxis(total, -1, 1)


def _linear(places: Array) -> list[_Found]:
    low = np.floor(places)
    return [(low, 1 - (places - low)), (low + 1, places - low)]


def _cubic(places: Array) -> list[_Found]:
    low = np.floor(places)
    part, rest = places - low, 1 - (places - low)
    return [
        (low - 1, -0.75 * part * rest * rest),
        (low, (1.25 * part - 2.25) * part * part + 1),
        (low + 1, (1.25 * rest - 2.25) * rest * rest + 1),
        (low + 2, -0.75 * rest * part * part),
    ]


def _zeros(_: float, places: Array, size: int) -> _Found:
    is_there = (places >= 0) & (places < size)
    return np.where(is_there, places, 0).astype(np.intp), is_there


def _border(_: float, places: Array, size: int) -> _Found:
    return np.nan_to_num(places).clip(0, size - 1).astype(np.intp), True


def _reflected(edge: float, places: Array, size: int) -> _Found:
    """Reflect places at the ends, ``edge`` beyond the middle of the last elements."""
    span = size - 1 + 2 * edge
    beyond = np.abs(places + edge) % (2 * span or 1)
    return _border(edge, np.minimum(beyond, 2 * span - beyond) - edge, size)


_NEAR = {
    "nearest": lambda places: [(np.rint(places), np.True_)],
    "linear": _linear,
    "cubic": _cubic,
}
_INSIDE = {"zeros": _zeros, "border": _border, "reflection": _reflected}
