"""Padding and cropping at the edges."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__ = ["pad"]

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
    """Return a copy with elements added, or for negative amounts removed, at the edges.

    Args:
        x: Any array.
        pads: Amounts at the beginning of every axis, then at the end of every axis.
        mode: ``constant``, ``edge``, ``reflect`` or ``wrap``.
        value: What to add in mode ``constant``.
    """
    rank = x.ndim
    inner = tuple(
        slice(max(0, -pads[axis]), x.shape[axis] - max(0, -pads[axis + rank]))
        for axis in range(rank)
    )
    cropped = x[inner]
    widths = [(max(0, pads[axis]), max(0, pads[axis + rank])) for axis in range(rank)]
    dims = [b + dim + e for dim, (b, e) in zip(cropped.shape, widths, strict=True)]
    y = np.full(dims, value, x.dtype) if mode == "constant" else np.empty(dims, x.dtype)
    y[tuple(slice(b, b + dim) for dim, (b, _) in zip(cropped.shape, widths, strict=True))] = cropped
    for axis in range(rank if mode != "constant" else 0):
        _extend(np.moveaxis(y, axis, 0), widths[axis][0], cropped.shape[axis], mode)
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
