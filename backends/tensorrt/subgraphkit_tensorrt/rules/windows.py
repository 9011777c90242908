"""Windows of poolings: their begin and end, by ONNX and by TensorRT."""

from collections.abc import Sequence
from typing import Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node

__all__ = ["rounded_up", "too_wide", "wide_axes"]

_SPATIAL: Final = 2
"""Axes before those that windows run along: batch and channels."""


def rounded_up(node: Node) -> Refusal | None:
    """Refuse a pooling that rounds up to a number of windows that ONNX does not keep."""
    drops_none = _drops_no_window(node)
    if drops_none:
        return None
    if drops_none is None:
        return Refusal(
            "dynamic_shape",
            f"{node.qualified_op_type} with ceil_mode=1 of a shape "
            "that is not known: TensorRT may round up to one window more than ONNX",
        )
    return Refusal(
        "attribute",
        f"{node.qualified_op_type} with ceil_mode=1 whose last window would start in the padding, "
        "which ONNX drops; TensorRT takes it and computes something else",
    )


def too_wide(node: Node) -> Refusal | None:
    """Refuse a pooling with a window that is wider than what it runs over."""
    if not wide_axes(node):
        return None
    window = " x ".join(map(str, node.attribute("kernel_shape")))
    over = " x ".join(map(str, (node.shape(0) or ())[_SPATIAL:]))
    text = f"{node.qualified_op_type} with a window of {window} over {over}, which is smaller"
    return Refusal("attribute", text)


def _drops_no_window(node: Node) -> bool | None:
    """Say whether ONNX keeps all windows; None if the shape that decides it is not known.

    ONNX drops a last window that would start in the padding behind the input; TensorRT does not.

    Source: ONNX operator MaxPool, version 22, output shape with ``ceil_mode``.
    """
    if not node.attribute("ceil_mode", 0) or _automatic(node):
        return True
    shape = node.shape(0)
    kernel = list(node.attribute("kernel_shape", ()))
    if shape is None or len(shape) != len(kernel) + _SPATIAL:
        return None
    strides = list(node.attribute("strides", [1] * len(kernel)))
    dilations = list(node.attribute("dilations", [1] * len(kernel)))
    pads = list(node.attribute("pads", [0] * 2 * len(kernel)))
    for axis, size in enumerate(shape[_SPATIAL:]):
        ends = pads[axis], pads[axis + len(kernel)]
        if not isinstance(size, int):
            # Without padding behind the input no window can start there.
            if ends[1] == 0 and strides[axis] <= kernel[axis]:
                continue
            return None
        if _drops_one(size, kernel[axis], strides[axis], dilations[axis], ends):
            return False
    return True


def _drops_one(size: int, kernel: int, stride: int, dilation: int, pads: Sequence[int]) -> bool:
    reach = dilation * (kernel - 1) + 1
    windows = -(-(size + pads[0] + pads[1] - reach) // stride) + 1
    return (windows - 1) * stride >= size + pads[0]


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
