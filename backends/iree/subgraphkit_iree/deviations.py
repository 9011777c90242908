"""Uses of operators that IREE 3.13 takes and computes otherwise than ONNX says, each with a reason.

Found with the official cases of ONNX's operators and with the conformance kit. What IREE refuses by
itself is not here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import subgraphkit as sk

__all__ = ["LOSES_NAN", "deviation"]

LOSES_NAN: Final = frozenset({"Clip", "Max", "Min", "Sign"})
"""Operators that make a number of NaN."""


def deviation(node: sk.Node) -> str:
    """Return why a node that IREE takes is not to be given to it; an empty text if it is."""
    rule = _RULES.get(node.op_type)
    return rule(node) if rule else ""


def _indices(node: sk.Node) -> str:
    """Look whether all indices are in range, because IREE does not, and reads what is there."""
    data, indices = node.shape(0), node.constant(1)
    if indices is None:
        return "indices that are not constant; IREE does not look whether they are in range"
    if data is None:
        return "indices into an array whose rank is not known"
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


_RULES: Final[Mapping[str, Callable[[sk.Node], str]]] = MappingProxyType(
    dict.fromkeys(
        ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"),
        _indices,
    )
)
