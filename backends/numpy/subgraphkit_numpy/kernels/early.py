"""Operators of the first operator sets, where they differ from later ones.

Source: ONNX operators ``Tile`` version 1, ``Upsample`` versions 1, 7 and 9, and ``Resize``
version 10, which is ``Upsample`` that may also shrink.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.wrapping import is_half


@kernel("Tile", until=5)
def tile_along_axis(site: Site) -> Made:
    """Repeat along one axis; both numbers come in the element type of the data."""
    del site

    def compute(x: Array, tiles: Array, axis: Array) -> Array:
        repeats = [1] * x.ndim
        repeats[int(axis.item())] = int(tiles.item())
        return np.tile(x, repeats)

    return compute


@kernel("Upsample", until=9)
@kernel("Resize", since=10, until=10)
def resize_by_scales(site: Site) -> Made:
    """Scale axes, where an index of the result divided by the scale is the one of the input.

    Mode ``nearest`` takes the element at the index rounded down, mode ``linear`` (``bilinear`` in
    version 1) interpolates between neighbours.
    """
    linear = site.attribute("mode", "nearest") != "nearest"
    given = site.attribute("scales")
    if "height_scale" in site.node.attributes:
        given = (1.0, 1.0, site.attribute("height_scale"), site.attribute("width_scale"))

    def compute(x: Array, scales: Array | None = None) -> Array:
        factors = given if scales is None else scales.tolist()
        return _linear(x, factors) if linear else _nearest(x, factors)

    return compute


def _nearest(x: Array, scales: Sequence[float]) -> Array:
    for axis, scale in enumerate(scales):
        if scale != 1:
            places = np.floor(_sources(x.shape[axis], scale)).astype(np.int64)
            x = x.take(np.minimum(places, x.shape[axis] - 1), axis)
    return x


def _linear(x: Array, scales: Sequence[float]) -> Array:
    exact = x.dtype.kind in "fc" and not is_half(x.dtype)
    y: Any = x if exact else x.astype(np.float32 if is_half(x.dtype) else np.float64)
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        last = x.shape[axis] - 1
        sources = np.minimum(_sources(x.shape[axis], scale), last)
        below = np.floor(sources).astype(np.int64)
        weights = (sources - below).astype(y.real.dtype)
        weights = weights.reshape((-1,) + (1,) * (x.ndim - axis - 1))
        low, high = y.take(below, axis), y.take(np.minimum(below + 1, last), axis)
        y = low + (high - low) * weights
    return np.asarray(y).astype(x.dtype, copy=False)


def _sources(count: int, scale: float) -> Array:
    return np.arange(int(count * scale)) / scale
