"""Windows that ONNX Runtime lets slide otherwise than ONNX says."""

import re
from operator import ge
from typing import Final
from weakref import WeakKeyDictionary

from subgraphkit.backend import RegionFallback
from subgraphkit.ir import Graph, Node

POOLS: Final = ("AveragePool", "LpPool", "MaxPool")
EMPTYING: Final = ("CenterCropPad", "Compress", "Expand", "Slice", "TopK")
_BEFORE_POOLS: Final[WeakKeyDictionary[Graph, set[int]]] = WeakKeyDictionary()
_GLIDING: Final = re.compile("Conv|Pool|Resize")


def window_problem(node: Node) -> str:
    """Return what ONNX Runtime does otherwise with what slides; empty if it does nothing."""
    filters = node.shape(3 if node.op_type == "QLinearConv" else 1) or ()
    taps = node.attribute("kernel_shape", None) or filters[2:]
    pairs = zip(node.attribute("strides", None) or (), taps, strict=False)
    spare = 0 if "Pool" in node.op_type else 1  # a step between windows of Conv is cut at the end
    goes_far = any(not isinstance(count, int) or step > count + spare for step, count in pairs)
    dilated = any(one > 1 for one in node.attribute("dilations", None) or ())
    if (goes_far or dilated) and node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        return "padding to the same size is wrong with dilations or steps beyond a window"
    emptied = RegionFallback.emptied_by(node) if not spare and makes_an_element(node) else None
    maker = node.producer(0) if emptied and not is_cut(emptied) else None
    while maker and maker != emptied and not _GLIDING.search(maker.op_type):
        maker = maker.producer(0)
    if maker and maker == emptied:
        return f"of less than a window, which {maker.op_type} may leave, it makes an element"
    summed = filters[1:] if node.op_type in {"ConvInteger", "QLinearConv"} else taps
    if not all(isinstance(size, int) and size for size in summed):
        return "sums of nothing are left unwritten, or go on for ever"
    if 0 in (node.graph.shape(node.outputs[0]) or ())[2:]:
        return "a window larger than what it slides over is an error, or makes an element"
    return ""


def is_cut(node: Node) -> bool:
    """Say whether it makes sizes that only a run tells, so that it is left to others."""
    is_told = all(map(node.is_constant, range(1, len(node.inputs))))
    return node.op_type in EMPTYING and not is_told and bool(node.graph.shape(node.outputs[0]))


def empties_pools(node: Node) -> str:
    """Look for pools behind sizes that only a run tells: those are looked at where they are fed."""
    is_any = is_cut(node) and node.id in _before_pools(node.graph)
    return "a pool behind it makes an element of less than a window, which it may leave" * is_any


def _before_pools(graph: Graph) -> set[int]:
    """Return the nodes that may leave less than a window to a pool that makes an element of it."""
    if graph not in _BEFORE_POOLS:
        pools = (one for one in graph.nodes if one.op_type in POOLS and makes_an_element(one))
        makers = filter(None, map(RegionFallback.emptied_by, pools))
        _BEFORE_POOLS[graph] = {one.id for one in makers}
    return _BEFORE_POOLS[graph]


def makes_an_element(node: Node) -> bool:
    """Say whether a pool makes an element of less than a window: its steps go on before 0."""
    pads, steps = (node.attribute(name, None) or (0,) for name in ("pads", "strides"))
    return max(steps) > 1 and max(node.attributes["kernel_shape"]) > 1 + 2 * min(pads)


def stated_size(node: Node) -> str:
    """Return what it does otherwise with the size of a transposed convolution."""
    stated, sizes = node.attribute("output_shape", None) or (), (node.shape(0) or ())[2:]
    is_less = any(isinstance(it, int) and new < it for new, it in zip(stated, sizes, strict=False))
    added = node.attribute("output_padding", None) or ()
    if is_less or (any(added) and node.attribute("auto_pad", "NOTSET").startswith("SAME")):
        return "of what it makes it tells another size, and takes no buffers of the right one"
    made = (node.graph.shape(node.outputs[0]) or ())[2:]
    if {0, None}.intersection(made) and all(isinstance(it, int) for it in sizes):
        return "of padding that leaves nothing a run fails"
    is_long = any(map(ge, added, node.attribute("strides", None) or (1,) * len(added)))
    return "a run fails if output_padding is no less than the strides" if is_long else ""
