"""The geometry of windows that slide over spatial axes, shared by convolution and pooling."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from subgraphkit.ir import Node
from subgraphkit.types import TensorType, ValueType
from subgraphkit_numpy.kernels.registry import Array


@dataclass(frozen=True, slots=True)
class Geometry:
    """Windows on an array of known shape.

    Attributes:
        overhang: Elements the last window reads beyond ``ends``, per axis (ceil mode).
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    out: tuple[int, ...]
    overhang: tuple[int, ...]

    @property
    def is_padded(self) -> bool:
        """Whether any window reads outside the array."""
        return any(self.begins) or any(self.ends) or any(self.overhang)

    def tap(self, axis: int, place: int) -> slice:
        """Return the places of the elements under one tap of all windows, along a padded axis."""
        start = place * self.dilations[axis]
        stop = start + max((self.out[axis] - 1) * self.strides[axis] + 1, 0)
        return slice(start, stop, self.strides[axis])


def known_shape(type_: ValueType | None) -> tuple[int, ...] | None:
    """Return a shape that has elements and no open size; None for any other."""
    shape = type_.shape if isinstance(type_, TensorType) else None
    dims = tuple(dim for dim in shape or () if isinstance(dim, int) and dim)
    return dims if shape and len(dims) == len(shape) else None


class WindowAttributes:
    """The attributes of a node that slides windows."""

    def __init__(self, node: Node) -> None:
        self.kernel: tuple[int, ...] = tuple(node.attribute("kernel_shape") or ())
        self.groups: int = node.attribute("group", 1)
        self.auto_pad: str = node.attribute("auto_pad", "NOTSET")
        self.ceil_mode = bool(node.attribute("ceil_mode", 0))
        self.strides: Sequence[int] | None = node.attribute("strides")
        self.dilations: Sequence[int] | None = node.attribute("dilations")
        self.pads: Sequence[int] | None = node.attribute("pads")

    @lru_cache(maxsize=256)  # noqa: B019 (it is small, and so is what it keeps alive)
    def on(self, spatial: tuple[int, ...], kernel: tuple[int, ...] | None = None) -> Geometry:
        """Return the geometry on an array with these spatial dimensions.

        Along an axis on which the padded array is shorter than a window, there is none.
        """
        taps = tuple(kernel or self.kernel)
        rank = len(spatial)
        strides = tuple(self.strides or (1,) * rank)
        dilations = tuple(self.dilations or (1,) * rank)
        extents = tuple((k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True))
        rows = map(self._along, range(rank), spatial, extents, strides)
        begins, ends, out, overhang = (tuple(column) for column in zip(*rows, strict=True))
        return Geometry(taps, strides, dilations, begins, ends, out, overhang)

    def stated_padding(self, axis: int) -> tuple[int, int]:
        """Return the padding before and after that attributes state for an axis."""
        if not self.pads or self.auto_pad == "VALID":
            return 0, 0
        return self.pads[axis], self.pads[axis + len(self.pads) // 2]

    def _along(self, axis: int, size: int, extent: int, stride: int) -> tuple[int, int, int, int]:
        """Return padding before and after, windows, and overhang along one axis."""
        if self.auto_pad in {"SAME_UPPER", "SAME_LOWER"}:
            out = -(-size // stride)
            total = max((out - 1) * stride + extent - size, 0)
            small, large = total // 2, total - total // 2
            before, after = (small, large) if self.auto_pad == "SAME_UPPER" else (large, small)
            return before, after, out, 0
        before, after = self.stated_padding(axis)
        room = size + before + after - extent
        out = room // stride + 1
        if not self.ceil_mode:
            return before, after, max(out, 0), 0
        out = max(-(-room // stride) + 1, 0)
        # a window that starts in the padding at the end is dropped
        if out and (out - 1) * stride >= size + before:
            out -= 1
        return before, after, out, max(0, (out - 1) * stride - room) if out else 0


def pad_spatial(x: Array, geometry: Geometry, value: Any) -> Array:
    """Return the array with everything windows read around it; itself if that is nothing."""
    if not geometry.is_padded:
        return x
    begins, ends = geometry.begins, geometry.ends
    spatial = x.shape[2:]
    sizes = map(sum, zip(begins, spatial, ends, geometry.overhang, strict=True))
    y = np.full((*x.shape[:2], *sizes), value, dtype=x.dtype)
    y[:, :, *(slice(begin, begin + size) for begin, size in zip(begins, spatial, strict=True))] = x
    return y
