"""Inputs that hold indices, axes or sizes, and how far OpenVINO follows them.

OpenVINO narrows them to int32, so that 2**32 is zero. Of what is then out of range, Gather makes
zeros and others an error, but GatherND reads and ScatterElements writes outside of the array.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from subgraphkit.ir import BoundGraph, Bounds, Node, body_graphs

INDICES: Final[Mapping[str, frozenset[int]]] = {
    "ConstantOfShape": frozenset({0}),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), frozenset({4})),
    **dict.fromkeys(("CumSum", "Expand", "Gather", "GatherElements", "GatherND", "ReduceL1",
        "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape", "ReverseSequence", "Scatter",
        "ScatterElements", "ScatterND", "Split", "Squeeze", "Tile", "TopK", "Trilu",
        "Unsqueeze"), frozenset({1})),
    "Pad": frozenset({1, 3}),
    "Resize": frozenset({3}),
    "RoiAlign": frozenset({2}),
}  # fmt: skip
"""Inputs that hold indices, axes or sizes: more than 31 bits would be out of range anyway."""

_FORWARDING: Final = frozenset(
    {"Cast", "Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape", "Slice"}
    | {"Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Operators whose results are numbers of their first input, and nothing else."""

_ALONG_AN_AXIS: Final = frozenset({"Gather", "GatherElements", "Scatter", "ScatterElements"})
UNCHECKED: Final = frozenset({"GatherND", "Scatter", "ScatterElements"})
"""Operators at which OpenVINO leaves the array."""

OPEN: Final = "indices into an axis of open size, which OpenVINO does not check"


def index_problem(node: Node, known: Bounds | None) -> str:
    """Return why OpenVINO must not be given the indices of a node; empty if it may.

    ``known``: Bounds of its indices; None if they are checked before every run.
    """
    if node.op_type not in _ALONG_AN_AXIS | UNCHECKED:
        return ""
    limits = reach(node)
    is_unchecked = node.op_type in UNCHECKED
    if limits is None:
        return OPEN if is_unchecked else ""
    if known is None or (limits[0] <= known[0] and known[1] <= limits[1]):
        return ""
    if node.is_constant(1):
        return f"indices from {known[0]} to {known[1]}, of which some are not in {list(limits)}"
    told = f"computed indices that may not be in {list(limits)}, which OpenVINO does not check"
    return told if is_unchecked else ""


def index_limits(nodes: Iterable[Node], otherwise: Bounds) -> dict[str, Bounds]:
    """Return the range that each index must keep, for nodes and those in their bodies."""
    found: dict[str, Bounds] = {}
    for node in nodes:
        for place in INDICES.get(node.op_type, ()):
            name = node.inputs[place] if place < len(node.inputs) else ""
            limits = (reach(node) if place == 1 else None) or otherwise
            found[name] = _both(limits, found.get(name, limits))
        for body in body_graphs(node):
            for name, limits in index_limits(body.nodes, otherwise).items():
                found[name] = _both(limits, found.get(name, limits))
    return found


def _both(some: Bounds, others: Bounds) -> Bounds:
    return max(some[0], others[0]), min(some[1], others[1])


def reach(node: Node) -> Bounds | None:
    """Return the least and the greatest index that is in range; None if it is not known."""
    if (shape := node.shape(0)) is None:
        return None
    if node.op_type in _ALONG_AN_AXIS:
        sizes = {shape[node.attribute("axis", 0)]} if shape else set()
    elif node.op_type == "GatherND":
        indices, first = node.shape(1), node.attribute("batch_dims", 0)
        depth = indices[-1] if indices else None
        sizes = set(shape[first : first + depth]) if isinstance(depth, int) else set()
    else:
        return None
    known = [size for size in sizes if isinstance(size, int)]
    return (-min(known), min(known) - 1) if known and len(known) == len(sizes) else None


def open_axis(node: Node) -> str:
    """Return the name of the size of the one axis that indices go along; empty if it has none."""
    shape = node.shape(0) or ()
    if node.op_type in _ALONG_AN_AXIS:
        sizes = shape[node.attribute("axis", 0) :][:1]
    else:
        first, depth = node.attribute("batch_dims", 0), (node.shape(1) or (0,))[-1]
        sizes = shape[first : first + 1] if node.op_type == "GatherND" and depth == 1 else ()
    return next((size for size in sizes if isinstance(size, str)), "")


def summed_values(graph: BoundGraph) -> set[str]:
    """Return the values whose numbers CumSum adds up, or make a mask of rows by columns."""
    nodes = [node for node in graph.nodes if not node.domain]
    sums = {source(node, (), 0) for node in nodes if node.op_type == "CumSum"}
    products = (one for one in nodes if one.op_type == "Mul" and one.shape(0) != one.shape(1))
    masks = (one for one in products if {it.op_type for it in one.consumers()} == {"Cast"})
    return sums | {source(it, (), 0) for it in masks if source(it, (), 0) == source(it, ())}


def source(node: Node, ends: Collection[str], place: int = 1) -> str:
    """Return the value whose numbers an input of a node has; one of ``ends`` is not left."""
    name, maker = node.inputs[place], node.producer(place)
    while name not in ends and maker is not None and maker.op_type in _FORWARDING and maker.inputs:
        name, maker = maker.inputs[0], maker.producer(0)
    return name
