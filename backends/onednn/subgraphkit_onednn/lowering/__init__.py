"""From nodes of ONNX to operations of oneDNN's graph: one function per family of operators."""

from importlib import import_module

from subgraphkit.backend import Answer, Refusal
from subgraphkit.ir import Graph, Node
from subgraphkit.types import DataType
from subgraphkit_onednn.lowering.draft import (
    LOWERINGS,
    DraftOperation,
    DraftTensor,
    GraphDraft,
    RefusedError,
)

__all__ = ["LOWERINGS", "DraftOperation", "DraftTensor", "GraphDraft", "can_lower", "lower"]

for _family in ("elementwise", "normalizing", "products", "shaping", "spatial"):
    import_module(f"{__name__}.{_family}")  # which registers its functions


def lower(draft: GraphDraft, node: Node) -> None:
    """Write a node's operations into a draft; RefusedError, a part written, if it cannot be."""
    if (lowering := None if node.domain else LOWERINGS.get(node.op_type)) is None:
        raise RefusedError("op_unsupported", f"oneDNN has no {node.qualified_op_type}")
    draft.node = node.id
    lowering(draft, node)


def can_lower(graph: Graph, node: Node, dtypes: frozenset[DataType]) -> Answer:
    """Say whether a node can be lowered, by doing it; weights are not read."""
    try:
        lower(GraphDraft(graph, dtypes), node)
    except RefusedError as refused:
        reason: Refusal = refused.refusal
        return reason
    return True
