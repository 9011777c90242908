"""Resizings that ONNX Runtime fails at, or computes otherwise than ONNX says."""

from typing import Final

import numpy as np

from subgraphkit.ir import Node
from subgraphkit.types import DataType

_IMAGES: Final = 4
_VOLUMES: Final = 5


def resize_problem(node: Node) -> str:
    """Return what ONNX Runtime does otherwise with a resizing; empty if it does nothing."""
    sizes = node.constant(3)
    if sizes is not None and not sizes.all():
        return "sizes of 0 are an error"
    mode = node.attribute("coordinate_transformation_mode", "")
    keeps_ratio = node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
    if keeps_ratio and min(node.attribute("axes", (0,))) < 0:
        return "a ratio is kept along axes that are counted from the start alone"
    if mode == "tf_crop_and_resize" and not _crops_resized_axes(node):
        return "a region is left out along axes that keep their size"
    if not _resizes_few_axes(node):
        return "it interpolates along two axes, or the last three, and is an error for others"
    return cut_fractions(node) or _aligned_corners(node) or copied(node)


def _crops_resized_axes(node: Node) -> bool:
    """Say whether the region is known to be all of every axis that may keep its size."""
    region, scales = node.constant(1), node.constant(2)
    if region is None or scales is None or len(region) != 2 * len(scales):
        return False
    ends = zip(scales, *np.split(region, 2), strict=True)
    return all(scale != 1 or (start, end) == (0, 1) for scale, start, end in ends)


def _aligned_corners(node: Node) -> str:
    """Look for sizes that are rounded, where the last element lies on the last."""
    mode = node.attribute("coordinate_transformation_mode", "")
    if mode not in {"align_corners", "tf_crop_and_resize"} or not any(node.inputs[2:3]):
        return ""
    scales = node.constant(2)
    is_whole = scales is not None and (scales == scales.round()).all()
    return "" if is_whole else "corners are aligned by the rounded output size, not by the scales"


def copied(node: Node) -> str:
    """Look for scales by which all axes may keep their sizes: then it copies."""
    scales = node.attribute("scales", node.constant(len(node.inputs[:3]) - 1))
    shape = node.shape(0) or ()
    sizes = [shape[axis] for axis in node.attribute("axes", range(len(shape))) if shape]
    pairs = [*zip(sizes, () if scales is None else scales, strict=False)]
    keep = all(s >= 1 and (n if isinstance(n, int) else 2) * (s - 1) < 1 for n, s in pairs)
    moves = keep and any(s > 1 != n for n, s in pairs)
    return "scales by which all axes keep their sizes, for which it copies" if moves else ""


def cut_fractions(node: Node) -> str:
    """Look for whole numbers that are interpolated."""
    is_whole = "float" not in node.dtype(0).label and node.dtype(0) is not DataType.DOUBLE
    is_cut = is_whole and node.attribute("mode", "nearest") != "nearest"
    return "fractions between whole numbers are cut off, not rounded" if is_cut else ""


def _resizes_few_axes(node: Node) -> bool:
    """Say whether the axes that surely change are some that ONNX Runtime interpolates along."""
    mode, before = node.attribute("mode", "nearest"), node.shape(0) or ()
    after = node.graph.shape(node.outputs[0]) or ()
    if mode == "nearest" or node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return bool(mode == "nearest")
    shrinks = {
        axis: new < old
        for axis, (old, new) in enumerate(zip(before, after, strict=False))
        if isinstance(old, int) and isinstance(new, int) and old != new
    }
    changed = shrinks.keys()
    if len(before) == _IMAGES:
        fails = mode == "cubic" and any(shrinks.values()) and not node.attribute("antialias", 0)
        return changed <= {2, 3} or (changed <= {1, 2} and not fails)
    is_volume = mode == "linear" and len(before) == _VOLUMES
    return changed <= {2, 3, 4} if is_volume else len(before) in {2, 2 + (mode == "linear")}
