"""Cutting arrays along axes, and adding to their ends: Slice, Split and Pad."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

Index = tuple[Any, ...]


@kernel("Slice", aliases=True)
def slice_along_axes(site: Site) -> Made:
    """Cut in any steps; bounds beyond the array are moved to its edge."""
    if not site.settled(1, 2, 3, 4):
        return lambda x, *bounds: x[
            _index(x.shape, *(None if one is None else one.tolist() for one in bounds))
        ]
    if site.opset < 10:  # noqa: PLR2004 (an opset)
        bounds = [*map(site.ints, ("starts", "ends", "axes")), None]
    else:
        bounds = [site.absorb_ints(place) for place in range(1, 5)]
    rank, pairs = site.rank(), zip(bounds[0] or (), bounds[3] or (), strict=False)
    if rank is None or any(step < 0 and start < -1 for start, step in pairs):
        return lambda x: x[_index(x.shape, *bounds)]
    index = _index((0,) * rank, *bounds)
    return lambda x: x[index]


def _index(
    shape: Sequence[int],
    starts: Sequence[int] | None,
    ends: Sequence[int] | None,
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Index:
    """Return slices; Python moves bounds beyond the array as ONNX does, but where one goes back.

    Then ONNX begins at the first element, where Python has nothing.
    """
    rank, starts, ends = len(shape), starts or (), ends or ()
    axes, steps = axes or range(len(starts)), steps or (1,) * len(starts)
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
    known = None
    if site.settled(1):
        known = site.absorb_ints(1) if site.has(1) else site.ints("split")

    def compute(x: Array, given: Array | None = None) -> Any:
        sizes: Sequence[int] | None = known
        if given is not None:  # in version 1 of the element type of the data
            sizes = given.astype(np.int64).tolist()
        elif sizes is None:
            size = -(-x.shape[axis] // count)
            sizes = [min(size, max(0, x.shape[axis] - size * part)) for part in range(count)]
        parts = _parts(x, axis, sizes, count)
        return parts if count > 1 else parts[0]

    return compute


def _parts(x: Array, axis: int, sizes: Sequence[int], count: int) -> tuple[Array, ...]:
    if len(sizes) != count or min(sizes) < 0:
        raise ValueError(f"split sizes {list(sizes)} are not those of {count} outputs")
    if sum(sizes) != x.shape[axis]:
        raise ValueError(f"split sizes {list(sizes)} do not sum to dimension {x.shape[axis]}")
    along = axis + x.ndim if axis < 0 else axis
    ends = np.cumsum(sizes).tolist()
    before = (slice(None),) * along
    return tuple(x[(*before, slice(end - n, end))] for end, n in zip(ends, sizes, strict=True))


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
        spread[axis % rank :: rank] = amounts[place :: len(axes)]
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
    fill = value or "" if x.dtype == object else value
    y = np.full(dims, fill, x.dtype) if mode == "constant" else np.empty(dims, x.dtype)
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
