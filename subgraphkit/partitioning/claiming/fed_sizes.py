"""Nodes that make as much as the numbers they are fed say: kept from who does not look first.

A fed length may ask for any amount of memory, and a library allocates it. A property that holds
every size against the limits itself takes such nodes. Sizes that follow from constants are known at
bind, and those that follow from the shapes of what is there are bounded by these.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding import BoundModel
from subgraphkit.ir import Graph, Node
from subgraphkit.partitioning.claiming.claimants import Claim
from subgraphkit.types import DataType

__all__ = ["kept_for_size"]

_DECIDING: Final[Mapping[str, Sequence[int]]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1,),
    "ConstantOfShape": (0,),
    "DFT": (1,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "ImageDecoder": (0,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Tile": (1, 2),
    "Upsample": (1,),
}
"""Operators, and the inputs whose contents decide how large the output is."""

_DOMAINS: Final = frozenset({"", "com.microsoft"})
_MEASURING: Final = frozenset({"ArgMax", "ArgMin", "NonZero", "SequenceLength", "Shape", "Size"})
"""What these make is no larger than what they look at."""


def kept_for_size(claim: Claim, graph: BoundModel) -> Mapping[int, Refusal]:
    """Return the nodes that a property must not have, since it does not look how much they make."""
    if claim.property.holds_limits or not graph.settings.limits.value_bytes:
        return {}
    text = "how much {} makes is fed, and nothing here holds that against max_value_bytes"
    fed = (*graph.inputs, *graph.defaults)
    return {
        index: Refusal("fed_size", text.format(culprit.label))
        for index, culprit in _culprits(graph, fed)
    }


def _culprits(graph: Graph, entering: Collection[str]) -> Iterator[tuple[int, Node]]:
    """Yield nodes, each with itself or the node of a body of it whose size is fed."""
    table = graph.table
    if not table.bodies and _DECIDING.keys().isdisjoint(table.op_types):
        return
    fed = {one for one in entering if graph.dtype(one) is not DataType.BOOL}  # which asks for 1
    for index in graph.order:
        op, inputs, bodies = table.op_types[index], table.inputs[index], table.bodies.get(index)
        if fed.isdisjoint(graph.read_by(index) if bodies else inputs):
            continue
        places = _DECIDING.get(op, ()) if table.domains[index] in _DOMAINS else ()
        if any(inputs[place] in fed for place in places if place < len(inputs)):
            yield index, Node(graph, index)
        for body in (bodies or {}).values():
            carried = body.inputs[1:] if op == "Loop" else body.inputs  # the first one counts
            inner = next(_culprits(body, (*carried, *fed.intersection(body.captures))), None)
            if inner is not None:
                yield index, inner[1]
                break
        if op not in _MEASURING:
            fed.update(o for o in table.outputs[index] if graph.dtype(o) is not DataType.BOOL)
