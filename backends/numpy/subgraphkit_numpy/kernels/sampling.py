"""Images that are read between their elements, and patches that are added up to images.

Source: ONNX operators ``GridSample``, ``DeformConv`` and ``Col2Im``; for cubics, R. Keys: Cubic
convolution interpolation for digital image processing (IEEE Transactions on Acoustics, 1981).
"""

from collections.abc import Callable
from functools import partial, reduce
from itertools import product
from math import prod
from operator import and_, mul
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

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
        return _read(x, [near(one) for one in places], inside).astype(x.dtype)

    return compute


@kernel("DeformConv")
def deform(site: Site) -> Made:
    """Convolve what is read at places that are moved, each by an offset of its own."""
    groups, parts = site.attribute("group", 1), site.attribute("offset_group", 1)

    def compute(x: Array, w: Array, offset: Array, bias: Any = None, mask: Any = None) -> Array:
        many, out, rank = len(x) * parts, offset.shape[2:], x.ndim - 2
        taps = np.indices(w.shape[2:]).reshape(rank, -1, *[1] * rank)
        wide = offset.astype(np.promote_types(offset.dtype, np.float32))
        moved = np.moveaxis(wide.reshape(many, taps.shape[1], rank, *out), 2, 0)
        ways = zip(moved, np.indices(out), taps, *_geometry(site, rank), strict=False)
        places = [by + (at * s + tap * d - pad).astype(by.dtype) for by, at, tap, s, d, pad in ways]
        apart = x.reshape(many, x.shape[1] // parts, *x.shape[2:])
        read = _read(apart, list(map(_linear, places)), partial(_zeros, 0))
        if mask is not None:
            read = read * mask.reshape(many, 1, taps.shape[1], *out)
        columns = read.reshape(len(x), groups, w[:1].size, prod(out))
        y = w.reshape(groups, len(w) // groups, w[:1].size) @ columns
        y = y.reshape(len(x), len(w), *out)
        return (y if bias is None else y + bias.reshape(-1, *[1] * rank)).astype(x.dtype)

    return compute


@kernel("Col2Im")
def fold(site: Site) -> Made:
    """Add up what patches have for each element of the images that they lie on."""

    def compute(x: Array, image: Array, block: Array) -> Array:
        strides, steps, pads = _geometry(site, len(image))
        before = pads[: len(image)]
        whole = image + before + pads[len(image) :]
        many = (whole - steps * (block - 1) - 1) // strides + 1
        columns = x.reshape(len(x), x.shape[1] // prod(block.tolist()), *block, *many)
        y = np.zeros((*columns.shape[:2], *whole), x.dtype)
        for place in np.ndindex(*block):
            y[_box(steps * place, steps * place + strides * many, strides)] += columns[:, :, *place]
        return np.asarray(y[_box(before, before + image)])

    return compute


def _box(*bounds: Array) -> Any:
    return ..., *map(slice, *bounds)


def _geometry(site: Site, rank: int) -> list[Any]:
    """Return strides, dilations and pads; those that are not stated leave things as they are."""
    usual = {"strides": [1] * rank, "dilations": [1] * rank, "pads": [0] * 2 * rank}
    return [np.array(site.attribute(name) or value) for name, value in usual.items()]


def _read(x: Array, near: list[list[_Found]], inside: Callable[[Array, int], _Found]) -> Array:
    """Return images, read around places.

    Args:
        x: The images, with axes for images and channels first.
        near: By axis, for each image, the places of the elements around, and what these count.
        inside: Returns where in an axis such a place is, and whether it is there.
    """
    shape = near[0][0][0].shape
    batch = np.arange(len(x)).reshape(-1, *[1] * (len(shape) - 1))
    total: Any = np.zeros((*shape, x.shape[1]), x.dtype)
    for corner in product(*near) if x.size else ():
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
    pairs = [(low + step, np.abs(places - low - step)) for step in range(-1, 3)]
    return [
        (at, np.where(d <= 1, (1.25 * d - 2.25) * d * d + 1, ((3.75 - 0.75 * d) * d - 6) * d + 3))
        for at, d in pairs
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


_NEAR = {"nearest": lambda places: [(np.rint(places), 1)], "linear": _linear, "cubic": _cubic}
_INSIDE = {"zeros": _zeros, "border": _border, "reflection": _reflected}
