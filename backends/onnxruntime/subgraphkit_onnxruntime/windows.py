"""Windows that ONNX Runtime lets slide otherwise than ONNX says."""

from operator import ge
from typing import Final
from weakref import WeakKeyDictionary

from subgraphkit.backend import RegionFallback
from subgraphkit.ir import Graph, Node

POOLS: Final = ("AveragePool", "LpPool", "MaxPool")
_BEFORE_POOLS: Final[WeakKeyDictionary[Graph, set[int]]] = WeakKeyDictionary()


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
    summed = filters[1:] if node.op_type in {"ConvInteger", "QLinearConv"} else taps
    if not all(isinstance(size, int) and size for size in summed):
        return "sums of nothing are left unwritten, or go on for ever"
    if 0 in (node.graph.shape(node.outputs[0]) or ())[2:]:
        return "a window larger than what it slides over is an error, or makes an element"
    return ""


def empties_pools(node: Node) -> str:
    """Look for pools behind sizes that only a run tells: those are looked at where they are fed."""
    told = "a pool behind it makes an element of less than a window, which it may leave"
    return told if node.id in _before_pools(node.graph) else ""


def _before_pools(graph: Graph) -> set[int]:
    """Return the nodes that may leave less than a window to a pool that makes an element of it."""
    if graph not in _BEFORE_POOLS:
        pools = (one for one in graph.nodes if one.op_type in POOLS and makes_an_element(one))
        found = {one.id for it in pools if (one := RegionFallback.emptied_by(it, of_less=True))}
        _BEFORE_POOLS[graph] = found
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
