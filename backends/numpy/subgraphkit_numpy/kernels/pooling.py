"""Pooling: maxima, averages and norms under sliding windows.

Maxima and sums are taken axis by axis, so a window of k x k costs 2 k passes instead of k x k.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import floor, prod
from typing import Any, Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit_numpy.kernels.reduction import least
from subgraphkit_numpy.kernels.registry import Array, Kernel, Made, kernel
from subgraphkit_numpy.kernels.rows import row_sums
from subgraphkit_numpy.kernels.site import Site
from subgraphkit_numpy.kernels.windows import Geometry, WindowAttributes, known_shape, pad_spatial
from subgraphkit_numpy.kernels.wrapping import in_wide
from subgraphkit_numpy.parallel import parts_for, parts_of, share

_ELEMENTS_PER_NS: Final = 6.0
"""Elements that one thread combines in a nanosecond, roughly."""

_PART_BYTES: Final = 2 << 20
"""Channels are taken in parts of about this size. Threads hinder each other in smaller ones, whose
calls are short, more than caches gain."""


def _along_axes(x: Array, geometry: Geometry, combine: np.ufunc, y: Array) -> None:
    """Combine the elements under every window of (planes, padded spatial axes...)."""
    for axis in range(len(geometry.kernel)):
        x = _along_axis(x, geometry, axis, combine)
    np.copyto(y, x)


def _along_axis(x: Array, geometry: Geometry, axis: int, combine: np.ufunc) -> Array:
    before = (slice(None),) * (axis + 1)
    total: Array = x[(*before, geometry.tap(axis, 0))]
    for place in range(1, geometry.kernel[axis]):
        tap = x[(*before, geometry.tap(axis, place))]
        total = combine(total, tap, out=None if place == 1 else total)
    return total


def _combine_windows(
    x: Array, geometry: Geometry, combine: np.ufunc, value: Any, count: Array | None = None
) -> Array:
    """Combine the elements under every window, and divide the results if there is a count.

    Channels are taken in parts that stay in cache.
    """
    y = np.empty((*x.shape[:2], *geometry.out), x.dtype)
    planes, results = (
        array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]) for array in (x, y)
    )
    if not results.size:
        return y

    def work(part: slice) -> None:
        padded = pad_spatial(planes[None, part], geometry, value)[0]
        _along_axes(padded, geometry, combine, results[part])
        if count is not None:
            np.divide(results[part], count, results[part])

    nanoseconds = planes.size * sum(geometry.kernel) / _ELEMENTS_PER_NS
    parts = max(parts_for(nanoseconds), -(-planes.nbytes // _PART_BYTES))
    share(work, parts_of(len(planes), parts, nanoseconds=nanoseconds))
    return y


def pooling_memory(node: Node, threads: int) -> int:
    """Return the bytes that pooling takes, its input and output too; 0 for other nodes."""
    shape, made = known_shape(node.input_type(0)), known_shape(node.output_type())
    if node.op_type not in {"AveragePool", "MaxPool"} or shape is None or made is None:
        return 0
    geometry, itemsize = WindowAttributes(node).on(shape[2:]), node.dtype().numpy.itemsize
    size = prod(shape) * itemsize
    part = min(size, threads * _PART_BYTES)
    # padded, then along all axes but the last, then along it
    copies = part * geometry.is_padded + 2 * part // geometry.strides[0]
    return size + prod(made) * itemsize + copies


def _covers_everything(spatial: tuple[int, ...], geometry: Geometry) -> bool:
    """Say whether there is one window, under which every element lies, however large it is."""
    rows = (geometry.out, geometry.dilations, geometry.begins, geometry.kernel, spatial)
    return all(
        out == 1 and dilation == 1 and begin >= 0 and taps - begin >= size
        for out, dilation, begin, taps, size in zip(*rows, strict=True)
    )


def _totals(x: Array) -> Array:
    """Return the sum of every channel, each added up alike, as a product with ones would not."""
    totals = row_sums(x.reshape(prod(x.shape[:2]), prod(x.shape[2:])))
    return totals.reshape(*x.shape[:2], *(1,) * (x.ndim - 2))


def _maxima(x: Array) -> Array:
    axes, lowest = tuple(range(2, x.ndim)), least(x.dtype)
    return np.asarray(np.maximum.reduce(x, axes, keepdims=True, initial=lowest))


@kernel("MaxPool")
def max_pool(site: Site) -> Kernel | Callable[..., Any]:
    """Return maxima under windows, and where they are if asked."""
    windows = WindowAttributes(site.node)
    by_columns = bool(site.attribute("storage_order", 0))

    def compute(x: Array) -> Array:
        geometry = windows.on(x.shape[2:])
        if _covers_everything(x.shape[2:], geometry):
            return _maxima(x)
        return _combine_windows(x, geometry, np.maximum, least(x.dtype))

    def compute_with_places(x: Array) -> tuple[Array, Array]:
        return _maxima_and_places(x, windows.on(x.shape[2:]), by_columns=by_columns)

    return compute_with_places if site.output_count > 1 else Kernel(compute, shares=True)


def _maxima_and_places(x: Array, geometry: Geometry, *, by_columns: bool) -> tuple[Array, Array]:
    spatial = x.shape[2:]
    if 0 in geometry.out:
        nowhere = np.zeros((*x.shape[:2], *geometry.out), np.int64)
        return nowhere.astype(x.dtype), nowhere
    places = np.arange(prod(spatial)).reshape((1, 1, *spatial), order="F" if by_columns else "C")
    padded = pad_spatial(x, geometry, least(x.dtype)), pad_spatial(places, geometry, -1)
    best, found = (np.empty((*x.shape[:2], *geometry.out), one.dtype) for one in padded)
    for tap in product(*map(range, geometry.kernel)):
        index = tuple(geometry.tap(axis, place) for axis, place in enumerate(tap))
        values, at = (one[(slice(None), slice(None), *index)] for one in padded)
        # an element counts even if it is no more than what is padded with
        better = (values > best) | ((at >= 0) & (found < 0)) if any(tap) else True
        np.copyto(best, values, where=better)
        np.copyto(found, at, where=better)
    offsets = np.arange(prod(x.shape[:2])) * prod(spatial)
    return best, found + offsets.reshape(*x.shape[:2], *(1,) * len(spatial))


@kernel("AveragePool")
def average_pool(site: Site) -> Made:
    """Return averages under windows; padding counts only if asked, overhang never."""
    windows = WindowAttributes(site.node)
    counts_padding = bool(site.attribute("count_include_pad", 0))

    def compute(x: Array) -> Array:
        geometry = windows.on(x.shape[2:])
        counted = window_counts(x.shape[2:], geometry, with_padding=counts_padding)
        count: Array = counted.astype(x.dtype)
        if _covers_everything(x.shape[2:], geometry):
            y = _totals(x)
            return np.divide(y, count, y)
        return _combine_windows(x, geometry, np.add, 0, count)

    return Kernel(in_wide(compute), shares=True)


@lru_cache(maxsize=64)
def window_counts(spatial: tuple[int, ...], geometry: Geometry, *, with_padding: bool) -> Array:
    """Return how many elements each window averages."""
    total = np.ones((), np.int64)
    for axis, size in enumerate(spatial):
        first = np.arange(geometry.out[axis]) * geometry.strides[axis] - geometry.begins[axis]
        taps = np.arange(geometry.kernel[axis]) * geometry.dilations[axis]
        place = first[:, None] + taps
        low, high = 0, size
        if with_padding:
            low, high = -geometry.begins[axis], size + geometry.ends[axis]
        total = total[..., None] * ((place >= low) & (place < high)).sum(axis=1)
    return total


@kernel("GlobalLpPool")
@kernel("LpPool", since=2)
def lp_pool(site: Site) -> Made:
    """Return p-norms under windows, or of every channel."""
    windows = None if site.node.op_type == "GlobalLpPool" else WindowAttributes(site.node)
    order = site.attribute("p", 2)

    def compute(x: Array) -> Any:
        powers = np.power(np.abs(x), x.dtype.type(order))
        if windows is None:
            y = np.add.reduce(powers, tuple(range(2, x.ndim)), keepdims=True)
        else:
            y = _combine_windows(powers, windows.on(x.shape[2:]), np.add, 0)
        return np.power(y, x.dtype.type(1 / order))

    return in_wide(compute)


@kernel("GlobalAveragePool")
def global_average_pool(_site: Site) -> Made:
    """Return the average of every channel."""

    def compute(x: Array) -> Array:
        y = _totals(x)
        return np.divide(y, prod(x.shape[2:]), y)

    return in_wide(compute)


@kernel("GlobalMaxPool")
def global_max_pool(_site: Site) -> Made:
    """Return the maximum of every channel."""
    return _maxima


@kernel("MaxRoiPool")
def max_roi_pool(site: Site) -> Made:
    """Return maxima over a grid of bins in regions of interest; an empty bin gives 0.

    Source: R. Girshick, "Fast R-CNN", ICCV 2015, section 2.1.
    """
    rows, columns = site.ints("pooled_shape") or (1, 1)
    scale, half = np.float32(site.attribute("spatial_scale", 1.0)), np.float32(0.5)

    def compute(x: Array, rois: Array) -> Array:
        y = np.zeros((rois.shape[0], x.shape[1], rows, columns), x.dtype)
        for place, roi in enumerate(rois):
            left, top, right, bottom = (floor(v) for v in roi[1:] * scale + half)
            height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
            for i, j in product(range(rows), range(columns)):
                part = x[
                    int(roi[0]), :,
                    _bin(top, height, i, rows, x.shape[2]),
                    _bin(left, width, j, columns, x.shape[3]),
                ]  # fmt: skip
                if part.size:
                    y[place, :, i, j] = part.max(axis=(1, 2))
        return y

    return compute


def _bin(start: int, size: int, place: int, count: int, limit: int) -> slice:
    low = start + place * size // count
    high = start - (-(place + 1) * size // count)
    return slice(min(max(low, 0), limit), min(max(high, 0), limit))
