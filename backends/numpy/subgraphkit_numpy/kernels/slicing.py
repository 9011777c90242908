"""Cutting arrays along axes, and adding to their ends: Slice, Split and Pad."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

Index = tuple[Any, ...]


@kernel("Slice", until=9, aliases=True)
def slice_by_attributes(site: Site) -> Made:
    """Cut by attributes, in steps of 1."""
    starts, ends = site.ints("starts") or (), site.ints("ends") or ()
    axes = site.ints("axes") or tuple(range(len(starts)))
    return _slice(starts, ends, axes, (1,) * len(starts), site.rank())


@kernel("Slice", since=10, aliases=True)
def slice_by_inputs(site: Site) -> Made:
    """Cut by inputs, in any steps; bounds beyond the array are moved to its edge."""
    if site.settled(1, 2, 3, 4):
        starts = site.absorb_ints(1) or ()
        ends = site.absorb_ints(2) or ()
        axes = site.absorb_ints(3) or tuple(range(len(starts)))
        steps = site.absorb_ints(4) or (1,) * len(starts)
        return _slice(starts, ends, axes, steps, site.rank())

    def compute(
        x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
    ) -> Array:
        first, last = starts.tolist(), ends.tolist()
        along = list(range(len(first))) if axes is None else axes.tolist()
        step = [1] * len(first) if steps is None else steps.tolist()
        return x[_index(first, last, along, step, x.shape)]

    return compute


def _slice(
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    rank: int | None,
) -> Made:
    if rank is None or any(
        step < 0 and start < -1 for start, step in zip(starts, steps, strict=False)
    ):
        return lambda x: x[_index(starts, ends, axes, steps, x.shape)]
    index = _index(starts, ends, axes, steps, (0,) * rank)
    return lambda x: x[index]


def _index(
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    shape: Sequence[int],
) -> Index:
    """Return slices; Python moves bounds beyond the array as ONNX does, but where one goes back.

    Then ONNX begins at the first element, where Python has nothing.
    """
    rank = len(shape)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError(
            f"there are {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} "
            "steps, expected as many of each"
        )
    index = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} is outside an array of {rank} axes")
        begin = max(start, -shape[axis]) if step < 0 and start < -1 else start
        index[axis] = slice(begin, end, step)
    return tuple(index)


@kernel("Split", aliases=True)
def split(site: Site) -> Made:
    """Cut into parts: of given sizes, or as equal as possible with a smaller last one."""
    axis, count = site.attribute("axis", 0), site.output_count
    if site.settled(1):
        sizes = site.absorb_ints(1) if site.has(1) else site.ints("split")
        return _split(axis, count, sizes)

    def compute(x: Array, sizes: Array) -> Any:
        # in version 1 the sizes have the element type of the data
        parts = _parts(x, axis, sizes.astype(np.int64).tolist(), count)
        return parts if count > 1 else parts[0]

    return compute


def _split(axis: int, count: int, sizes: tuple[int, ...] | None) -> Made:
    def compute(x: Array) -> Any:
        if sizes is not None:
            return _parts(x, axis, sizes, count)
        size = -(-x.shape[axis] // count)
        equal = [min(size, max(0, x.shape[axis] - size * part)) for part in range(count)]
        return _parts(x, axis, equal, count)

    if count == 1:
        return lambda x: compute(x)[0]
    return compute


def _parts(x: Array, axis: int, sizes: Sequence[int], count: int) -> tuple[Array, ...]:
    if len(sizes) != count or min(sizes) < 0:
        raise ValueError(f"split sizes {list(sizes)} are not those of {count} outputs")
    if sum(sizes) != x.shape[axis]:
        raise ValueError(f"split sizes {list(sizes)} do not sum to dimension {x.shape[axis]}")
    along = axis + x.ndim if axis < 0 else axis
    ends = np.cumsum(sizes).tolist()
    before = (slice(None),) * along
    return tuple(
        x[(*before, slice(end - size, end))] for end, size in zip(ends, sizes, strict=True)
    )


_PART: Final = 1 << 18
"""Elements that are repeated at a time."""


@kernel("Pad", until=10)
def pad_by_attributes(site: Site) -> Made:
    """Pad by attributes; version 1 names them ``paddings``."""
    pads = site.ints("pads") or site.ints("paddings") or ()
    mode, value = site.attribute("mode", "constant"), site.attribute("value", 0.0)
    return lambda x: pad(x, pads, mode, value)


@kernel("Pad", since=11)
def pad_by_inputs(site: Site) -> Made:
    """Pad by inputs, along all axes or some."""
    mode = site.attribute("mode", "constant")

    def compute(
        x: Array, pads: Array, value: Array | None = None, axes: Array | None = None
    ) -> Array:
        amounts = pads.tolist()
        if axes is not None:
            amounts = _spread(amounts, axes.reshape(-1).tolist(), x.ndim)
        # an empty string means that no value is given
        fill: Any = 0 if value is None or value.size == 0 else value.reshape(-1)[0]
        return pad(x, amounts, mode, fill)

    return compute


def _spread(amounts: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    """Return amounts for all axes from amounts for some."""
    spread = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        spread[axis % rank] = amounts[place]
        spread[axis % rank + rank] = amounts[place + len(axes)]
    return spread


def pad(x: Array, pads: Sequence[int], mode: str, value: Any = 0) -> Array:
    """Return a copy with elements added, or for negative amounts removed, at the edges."""
    rank = x.ndim
    ends = list(zip(x.shape, pads[:rank], pads[rank:], strict=True))
    dims = [max(0, size + begin + end) for size, begin, end in ends]
    inner, place = [], []
    for made, (size, begin, end) in zip(dims, ends, strict=True):
        first, last = max(0, -begin), min(size, size + end)
        inner.append(slice(first, max(first, last)))
        at = min(max(0, begin), made)
        place.append(slice(at, at + max(0, last - first)))
    cropped = x[tuple(inner)]
    y = np.full(dims, value, x.dtype) if mode == "constant" else np.empty(dims, x.dtype)
    y[tuple(place)] = cropped
    for axis in range(rank if mode != "constant" else 0):
        _extend(np.moveaxis(y, axis, 0), place[axis].start, cropped.shape[axis], mode)
    return y


def _extend(y: Array, begin: int, length: int, mode: str) -> None:
    """Repeat what there is along the first axis before and behind it, a part at a time."""
    if not length and len(y):
        raise ValueError(f"an axis without elements cannot be padded in mode {mode!r}")
    places = np.arange(len(y)) - begin
    if mode == "edge":
        np.clip(places, 0, length - 1, out=places)
    else:
        period = length if mode == "wrap" else max(1, 2 * length - 2)
        places %= period
        if mode == "reflect":
            np.minimum(places, period - places, out=places)
    step = max(1, _PART // max(1, y[:1].size))
    for first, end in ((0, begin), (begin + length, len(y))):
        for at in range(first, end, step):
            part = slice(at, min(at + step, end))
            y[part] = y[places[part] + begin]
