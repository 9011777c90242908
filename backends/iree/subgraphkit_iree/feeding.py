"""Feeds that IREE 3.13 does not look at, and what they decide: indices, sizes and places."""

from collections.abc import Collection
from typing import Final

import subgraphkit as sk

FED_SIZES: Final = "sizes that are fed; IREE does not look at them, and knows no -1 there"
"""What is said of operators that are told how large their results are."""


def index_problem(node: sk.Node) -> str:
    """Look whether all indices are in range, because IREE does not, and reads what is there."""
    data, indices = node.shape(0), node.constant(1)
    if indices is None:
        return "indices that are not constant; IREE does not look whether they are in range"
    if data is None:
        return "indices into an array whose rank is not known"
    if "Scatter" in node.op_type and not indices.size:
        return "no indices, at which IREE's compiler ends"
    if node.op_type in {"GatherND", "ScatterND"}:
        batch = node.attribute("batch_dims", 0)
        columns = [(data[batch + k], indices[..., k]) for k in range(indices.shape[-1])]
    else:
        columns = [(data[node.attribute("axis", 0)], indices)]
    for size, column in columns:
        if not isinstance(size, int):
            return "indices into a dimension that is not known before running"
        if column.size and not (-size <= column.min() and column.max() < size):
            return "an index that is out of range"
    return ""


def scatter_problem(node: sk.Node) -> str:
    """Look whether others read what is scattered over, and whether indices are in range."""
    maker = node.producer(0)
    if maker and (node.graph.is_output(node.inputs[0]) or len(maker.consumers()) > 1):
        return "an array that is read elsewhere as well, over which IREE may write"
    return index_problem(node)


def is_fed(node: sk.Node, place: int, inside: Collection[int] | None = None) -> bool:
    """Say whether an input may depend on more than constants and the shapes of what is fed.

    ``inside``: The nodes of a region, all else being fed to it; None for those of the graph.
    """
    asked, seen = [(node, place)], set[int]()
    while asked:
        reader, at = asked.pop()
        if reader.is_constant(at) or not reader.inputs[at]:
            continue
        maker = reader.producer(at)
        if maker is None or not (inside is None or maker.id in inside):
            return True
        if maker.op_type not in {"Shape", "Size"} and maker.id not in seen:
            seen.add(maker.id)
            asked += [(maker, one) for one in range(len(maker.inputs))]
    return False


def size_problem(node: sk.Node) -> str:
    """Look for sizes that are fed: IREE does not look whether they mean anything."""
    places = range(0 if node.op_type in {"ConstantOfShape", "Range"} else 1, len(node.inputs))
    return FED_SIZES if any(is_fed(node, place) for place in places) else ""
