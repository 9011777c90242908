"""Places from which ONNX Runtime takes elements otherwise than ONNX says."""

import numpy as np

from subgraphkit.ir import Node


def takes_parts(node: Node) -> bool:
    """Say whether an index stands for more than one element."""
    shape, axis = node.shape(0), node.attribute("axis", 0)
    return shape is None or any(size != 1 for size in shape[axis:][1:])


def grid_problem(node: Node) -> str:
    """Return what is wrong with its way of sampling; empty if nothing is known."""
    if "cubic" in node.attribute("mode", "") and (node.shape(0) or ())[4:]:
        return "volumes are not interpolated by cubes, and a run fails"
    widens = "places of another type than the elements, which it widens before it computes"
    return "" if node.dtype(0) is node.dtype(1) else widens


def pad_problem(node: Node) -> str:
    """Look for what is mirrored or repeated further than there is something."""
    mode, shape = node.attribute("mode", "constant"), node.shape(0) or ()
    pads = node.attribute("pads", node.constant(1)) if mode != "constant" else None
    axes = node.constant(3) if shape and any(node.inputs[3:]) else np.arange(len(shape))
    halves = np.split(np.asarray(() if pads is None else pads, int), 2)
    for axis, low, high in zip(() if axes is None else axes, *halves, strict=False):
        wide, size = max(low, high, 0), shape[axis]
        least = wide * (mode == "reflect") - min(low, 0) - min(high, 0)
        if (wide or least) and isinstance(size, int) and (size <= least or 0 in shape):
            return f"mode {mode} by more elements than there are is an error"
    return ""
