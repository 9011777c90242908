"""Padding and cropping at the edges."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from subgraphkit_numpy.kernels.registry import Array, Made, kernel
from subgraphkit_numpy.kernels.site import Site

__all__ = ["pad"]


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
    if mode == "constant":
        return _pad_constant(cropped, widths, value)
    return np.array(np.pad(cropped, widths, mode=mode))  # type: ignore[call-overload] # mode is text


def _pad_constant(x: Array, widths: Sequence[tuple[int, int]], value: Any) -> Array:
    dims = [before + dim + after for dim, (before, after) in zip(x.shape, widths, strict=True)]
    y = np.full(dims, value, dtype=x.dtype)
    y[tuple(slice(b, b + dim) for dim, (b, _) in zip(x.shape, widths, strict=True))] = x
    return y
