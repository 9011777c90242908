"""Geometry of sliding windows: strides, dilations and padding as ONNX states them."""

from dataclasses import dataclass
from typing import Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.registry import require

__all__ = ["Windows", "is_spatial", "windows_of"]

_LEAST_AXES: Final = 3
_MOST_AXES: Final = 5


@dataclass(frozen=True, slots=True)
class Windows:
    """One entry per spatial axis in each.

    Attributes:
        kernel: Lengths of the window.
        strides: Steps between windows.
        dilations: Steps within a window.
        pads_begin: Padding before.
        pads_end: Padding after.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Lengths of the window with its gaps."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def is_spatial(dims: tuple[int, ...]) -> bool:
    """Say whether there are one to three axes after batch and channels."""
    return _LEAST_AXES <= len(dims) <= _MOST_AXES


def windows_of(
    node: Node, kernel: tuple[int, ...], source: tuple[int, ...], result: tuple[int, ...]
) -> Windows:
    """Read the geometry of a convolution or a pool, and settle its padding from what it makes.

    Args:
        node: The node.
        kernel: Lengths of the window.
        source: Spatial lengths of the input.
        result: Spatial lengths of the output.

    Raises:
        RefusedError: Padding is negative.
    """
    rank = len(kernel)
    strides = tuple(node.attribute("strides", None) or (1,) * rank)
    dilations = tuple(node.attribute("dilations", None) or (1,) * rank)
    auto = node.attribute("auto_pad", "NOTSET")
    pads = tuple(node.attribute("pads", None) or (0,) * 2 * rank)
    bare = Windows(kernel, strides, dilations, pads[:rank], pads[rank:])
    begin, end = [], []
    for axis in range(rank):
        spanned = (result[axis] - 1) * strides[axis] + bare.reach[axis] - source[axis]
        if auto == "NOTSET":
            first = pads[axis]
        elif auto == "VALID":
            first = 0
        else:
            total = max(spanned, 0)
            first = total // 2 if auto == "SAME_UPPER" else total - total // 2
        begin.append(first)
        # What the last window does not reach needs no padding, what it reaches beyond does.
        end.append(max(spanned - first, 0))
    require(min(begin) >= 0 and min(pads) >= 0, "attribute", "padding is negative")
    return Windows(kernel, strides, dilations, tuple(begin), tuple(end))
