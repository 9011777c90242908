"""Arithmetic of pooling windows and resized axes, for rules about them."""

from collections.abc import Sequence
from typing import Final

from subgraphkit.ir import Node

__all__ = ["ceil_mode_drops_no_window", "resized_dims", "wide_axes"]

_SPATIAL: Final = 2
"""Axes before those that windows run along: batch and channels."""


def ceil_mode_drops_no_window(node: Node) -> bool | None:
    """Say whether a pooling rounds up to a number of windows that ONNX keeps.

    ONNX drops a last window that would start in the padding behind the input; TensorRT does not.

    Returns:
        None if the shape that decides it is not known.

    Source: ONNX operator MaxPool, version 22, output shape with ``ceil_mode``.
    """
    if not node.attribute("ceil_mode", 0) or _automatic(node):
        return True
    shape = node.shape(0)
    kernel = list(node.attribute("kernel_shape", ()))
    if shape is None or len(shape) != len(kernel) + _SPATIAL:
        return None
    axes = range(len(kernel))
    strides = list(node.attribute("strides", [1 for _ in axes]))
    dilations = list(node.attribute("dilations", [1 for _ in axes]))
    pads = list(node.attribute("pads", [0 for _ in (*axes, *axes)]))
    for axis in axes:
        size = shape[axis + _SPATIAL]
        ends = pads[axis], pads[axis + len(kernel)]
        if not isinstance(size, int):
            # Without padding behind the input no window can start there.
            if ends[1] == 0 and strides[axis] <= kernel[axis]:
                continue
            return None
        if _drops_one(size, kernel[axis], strides[axis], dilations[axis], ends):
            return False
    return True


def wide_axes(node: Node) -> dict[int, int]:
    """Return the axes along which a window is wider than the input, with the size of the input.

    Axes are counted behind batch and channels; those of sizes that are not known, or are padded by
    name, are left out.
    """
    shape, kernel = node.shape(0), list(node.attribute("kernel_shape", ()))
    if shape is None or len(shape) != len(kernel) + _SPATIAL or _automatic(node):
        return {}
    pads = list(node.attribute("pads", [0] * 2 * len(kernel)))
    sizes = enumerate(shape[_SPATIAL:])
    return {
        axis: size
        for axis, size in sizes
        if isinstance(size, int) and 0 < size + pads[axis] + pads[axis + len(kernel)] < kernel[axis]
    }


def _automatic(node: Node) -> bool:
    """Say whether padding is chosen by name, so that the number of windows follows from that."""
    given = node.attribute("auto_pad", "NOTSET")
    name = given.decode() if isinstance(given, bytes) else given
    return name not in {"NOTSET", "VALID", ""}


def _drops_one(size: int, kernel: int, stride: int, dilation: int, pads: Sequence[int]) -> bool:
    reach = dilation * (kernel - 1) + 1
    windows = -(-(size + pads[0] + pads[1] - reach) // stride) + 1
    return (windows - 1) * stride >= size + pads[0]


def resized_dims(node: Node) -> int:
    """Count the axes along which a Resize interpolates; all if that cannot be told."""
    axes = node.attribute("axes")
    if axes is not None:
        return len(axes)
    before, type_ = node.shape(0), node.output_type()
    after = getattr(type_, "shape", None)
    if before is None:
        return 0
    scales = node.constant(2 if node.opset > 10 else 1)  # noqa: PLR2004 (roi came with opset 11)
    if scales is not None and scales.size == len(before):
        return int((scales != 1).sum())
    if after is None or len(after) != len(before):
        return len(before)
    pairs = zip(before, after, strict=True)
    return sum(a is None or a != b for a, b in pairs)
