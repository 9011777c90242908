"""Refusals of pools whose last windows OpenVINO counts or divides otherwise than ONNX."""

from typing import Final

from subgraphkit.ir import Node

__all__ = ["pool_problem"]

_CHANNELS: Final = 2


def pool_problem(node: Node) -> str:
    """Return what OpenVINO does otherwise with a pool that rounds up; empty if it does nothing.

    ONNX drops a window that begins in the padding at the end, OpenVINO keeps it: always if the size
    is known when running, and by the shape that onnx's own inference says before operator set 22.
    OpenVINO divides by what lies outside of the padding as well.
    """
    if not node.attribute("ceil_mode", 0) or node.attribute("auto_pad", "NOTSET") != "NOTSET":
        return ""
    kernel = tuple(node.attribute("kernel_shape"))
    ones = (1,) * len(kernel)
    strides = tuple(node.attribute("strides", None) or ones)
    dilations = tuple(node.attribute("dilations", None) or ones)
    pads = tuple(node.attribute("pads", None) or (0,) * 2 * len(kernel))
    sizes = (node.shape(0) or ())[_CHANNELS:] or (None,) * len(kernel)
    divides = node.op_type == "LpPool" or bool(node.attribute("count_include_pad", 0))
    for axis, size in enumerate(sizes):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        step, first, last = strides[axis], pads[axis], pads[axis + len(kernel)]
        length = first + size + last if isinstance(size, int) else None
        over = step - 1 if length is None else -(length - reach) % step
        if over >= reach - last:
            return "a window may begin in the padding at the end, which OpenVINO keeps"
        if divides and over:
            return "a window may reach beyond the padding, by which OpenVINO divides as well"
    return ""
