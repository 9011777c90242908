"""Pools, resizings and axes of scales that OpenVINO computes otherwise than ONNX says."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from subgraphkit.ir import Node

_CHANNELS: Final = 2
_SCALES: Final = 2
_SIZES: Final = 3
_VOLUMES: Final = 5
_TRIED: Final = 64


def resize_problem(node: Node) -> str:
    """Return what OpenVINO does otherwise with a resizing; empty if it does nothing."""
    if not _keeps_first_axis(node):
        return "a first axis that may change, with which OpenVINO writes elsewhere"
    if not _keeps_channels(node):
        return "channels that may change, which OpenVINO interpolates otherwise or not at all"
    unread = {"antialias": 0, "exclude_outside": 0, "keep_aspect_ratio_policy": "stretch"}
    if stated := [name for name, usual in unread.items() if node.attribute(name, usual) != usual]:
        return f"{stated[0]}, which OpenVINO does not read"
    if node.attribute("nearest_mode") == "round_prefer_ceil":
        return "round_prefer_ceil, for which OpenVINO takes halves for a little less"
    aligned = node.attribute("coordinate_transformation_mode", "half_pixel") == "align_corners"
    scales = node.attribute("scales", node.constant(_SCALES if len(node.inputs) > _SCALES else 1))
    if aligned and any(node.inputs[2:3]) and (scales is None or (scales % 1).any()):
        return "align_corners by scales that are no whole numbers, which OpenVINO rounds otherwise"
    shape = node.shape(0) or ()
    sizes = [shape[axis] for axis in node.attribute("axes", range(len(shape)))]
    pairs = zip(sizes, () if scales is None else scales, strict=False)
    keeps = any(s > 1 != n and (n if isinstance(n, int) else 2) * (s - 1) < 1 for n, s in pairs)
    return "a scale by which an axis may keep its size, and OpenVINO all in it" if keeps else ""


def _keeps_first_axis(node: Node) -> bool:
    """Say whether the first axis of what is resized is surely left as it is."""
    shape, made = node.shape(0) or (), node.graph.shape(node.outputs[0]) or ()
    axes = [axis % len(shape) for axis in node.attribute("axes", ())] or [*range(len(shape))]
    if 0 not in axes or made[:1] == shape[:1] != (None,):
        return True
    place = axes.index(0)
    for how, one in ((max(1, len(node.inputs[:3]) - 1), 1), (_SIZES, shape[0])):
        if node.shape(how) in {None, (0,)}:
            continue
        if (stated := node.constant(how)) is not None:
            return len(stated) > place and bool(stated[place] == one)
        return _own_sizes(node, how) > 0
    return bool(node.attribute("scales", (1,) * len(shape))[place] == 1)


def _keeps_channels(node: Node) -> bool:
    """Say whether the second axis is left as it is, or is open where OpenVINO needs no more.

    What is joined behind has as many elements as there were before, or fails to compile.
    """
    before, after = node.shape(0) or (), node.graph.shape(node.outputs[0]) or ()
    known = {size for size in (*before[1:2], *after[1:2]) if isinstance(size, int)}
    needs = (len(before), node.attribute("mode")) == (4, "cubic") or len(before) == _VOLUMES
    is_same = after[1:2] == before[1:2] != (None,) or _own_sizes(node) >= _CHANNELS
    return (not needs and len(known) < _CHANNELS) or is_same


def _own_sizes(node: Node, place: int = _SIZES) -> int:
    """Return how many sizes that are stated are surely those of what is resized, from the first."""
    maker = None if "axes" in node.attributes else node.producer(place)
    count = len(node.shape(0) or ())
    while maker is not None and maker.op_type in {"Cast", "Concat", "Gather", "Slice", "Unsqueeze"}:
        if maker.op_type in {"Gather", "Slice"}:
            begin, end = maker.constant(1), maker.constant(2)
            if begin is None or np.ravel(begin)[:1].tolist() != [0]:
                return 0
            count = 1 if end is None or end[0] < 0 else min(count, int(end[0]))
        maker = maker.producer(0)
    if maker is None or maker.op_type != "Shape" or maker.attribute("start", 0):
        return 0
    own = (node.shape(0) or ())[:count]
    is_same = None not in own and own == (maker.shape(0) or ())[:count]
    return count if is_same or maker.inputs[0] == node.inputs[0] else 0


def pool_problem(node: Node) -> str:
    """Return what OpenVINO does otherwise with a pool that rounds up; empty if it does nothing.

    ONNX drops a window that begins in the padding at the end. OpenVINO always keeps it if the size
    is known only when running. Otherwise it keeps the window if the shape of the output counts it,
    as onnx's own inference does before operator set 22. An average of OpenVINO also counts what
    lies beyond the padding.
    """
    if not node.attribute("ceil_mode", 0):
        return far_window(node)
    kernel = tuple(node.attribute("kernel_shape"))
    ones = (1,) * len(kernel)
    strides = tuple(node.attribute("strides", None) or ones)
    if node.attribute("auto_pad", "NOTSET") != "NOTSET":
        return "far steps, that OpenVINO rounds up" if any(map(int.__gt__, strides, kernel)) else ""
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
    return far_window(node)


def far_window(node: Node, filters: int = 1) -> str:
    """Refuse windows that reach beyond the size that OpenVINO compiles for where it is open."""
    sizes = (node.shape(0) or ())[_CHANNELS:]
    kernel = node.attribute("kernel_shape", None) or (node.shape(filters) or ())[_CHANNELS:]
    pads = node.attribute("pads", None) or (0,) * 2 * len(sizes)
    steps = node.attribute("dilations", None) or ()
    joined = _joined_pads(node.producer(0)) if node.op_type == "Conv" else None
    for axis, (size, taps, step) in enumerate(zip(sizes, kernel, steps, strict=False)):
        if not isinstance(size, int) and isinstance(taps, int):
            spare = max(taps, _TRIED) + pads[axis] + pads[axis + len(sizes)]
            spare += 0 if joined is None else sum(joined[axis + _CHANNELS :: len(joined) // 2])
            if (taps - 1) * step >= spare:
                return f"dilations beyond {_TRIED} places of an open size, which OpenVINO refuses"
    return ""


def _joined_pads(node: Node | None) -> Sequence[int] | None:
    """Return what a Pad adds at both ends if OpenVINO joins it to the convolution behind."""
    is_plain = node is not None and node.op_type == "Pad" and not any(node.inputs[2:])
    if node is None or not is_plain or node.attribute("mode", "constant") != "constant":
        return None
    return None if node.attribute("value", 0) else node.attribute("pads", node.constant(1))


def padded_point(node: Node) -> str:
    """Refuse padding wider than a window, and strides of one element, which go in front of it."""
    filters = node.shape(3 if node.op_type == "QLinearConv" else 1) or (None,)
    strides, pads = node.attribute("strides", None) or (), node.attribute("pads", None) or ()
    steps = tuple(node.attribute("dilations", None) or (1,) * len(pads))
    for pad, step, taps in zip(pads, steps * 2, filters[_CHANNELS:] * 2, strict=False):
        if isinstance(taps, int) and pad > (taps - 1) * step + 1:
            return "padding wider than a window, for which OpenVINO reads what lies beside"
    is_wide = any(isinstance(size, int) and size > 1 for size in filters[_CHANNELS:])
    is_plain = is_wide or not any(pads) or all(one == 1 for one in strides)
    return "" if is_plain else "strides of a filter of one element, which it takes before it pads"


def lost_point(node: Node) -> str:
    """Refuse padding that leaves nothing of one point, where a size is open."""
    sizes, taps = (node.shape(0) or ())[_CHANNELS:], (node.shape(1) or ())[_CHANNELS:]
    pads, steps = (node.attribute(name, None) or () for name in ("pads", "dilations"))
    for axis, (size, count) in enumerate(zip(sizes, taps, strict=False)):
        made = (count - 1) * (*steps, *(1,) * len(sizes))[axis] if isinstance(count, int) else 0
        if not isinstance(size, int) and sum(pads[axis :: len(sizes)]) > made:
            return "padding that may leave nothing of an open size, of which OpenVINO loses others"
    return ""


def other_steps(node: Node) -> str:
    """Refuse stored weights with scales along the axis that is added up, or not looked up."""
    is_looked_up = node.op_type == "Gather"
    before, turned = node.producer(int(not is_looked_up)), node.attribute("transB", is_looked_up)
    is_moved = before is not None and before.op_type in {"Reshape", "Transpose"}
    maker = before.producer(0) if before is not None and is_moved else before
    if maker is None or maker.op_type != "DequantizeLinear" or maker.attribute("block_size", 0):
        return ""
    rank, is_one = len(maker.shape(0) or (1,)), maker.shape(1) in {(), (1,)}
    is_along = (maker.attribute("axis", 1) % rank > 0) is (bool(turned) is not is_moved)
    is_other = is_along and not is_one and (is_looked_up or rank == _CHANNELS)
    reshapes = before is not None and before.op_type == "Reshape"
    told = "few bits with steps along another axis or of another shape, which OpenVINO mixes up"
    return told if maker.is_constant(0) and (is_other or reshapes) else ""


def dots_problem(node: Node) -> str:
    """Refuse an ellipsis of several axes in front of others, beside another ellipsis."""
    terms = node.attribute("equation").replace(" ", "").partition("->")[0].split(",")
    dotted = [(len(node.shape(at) or ()), one) for at, one in enumerate(terms) if "." in one]
    is_wide = any(rank > len(one) - 2 for rank, one in dotted if one[-1] != ".")
    told = "several axes of an ellipsis in front of others, which OpenVINO counts as one"
    return told if is_wide and len(dotted) > 1 else ""
