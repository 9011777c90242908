"""Inference by onnx, past the operators at which it ends the process.

It looks into what they read without asking whether anything is known of it. In a graph such nodes
are not asked about; in bodies, where onnx itself goes from node to node, they are written as nodes
of an operator that it does not know, until it finds a type of what they read.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import onnx
from onnx import shape_inference

from subgraphkit.onnx_io.attributes import body_protos

__all__ = ["BLIND", "inferred"]

BLIND: Final = frozenset(
    {"DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"}
)
"""Operators whose inference ends the process where the type of what they read is not known."""

_HIDDEN: Final = "subgraphkit.hidden"
_MOST_ROUNDS: Final = 4
"""How many of them may read each other's results; of more no type is found."""


def inferred(
    model: onnx.ModelProto, places: Sequence[int], *, strict: bool, propagates: bool
) -> onnx.ModelProto:
    """Return a model with the types that onnx infers.

    Args:
        model: The model; nodes in its bodies may be hidden afterwards.
        places: The nodes that have bodies.
        strict: Whether a contradiction is an error.
        propagates: Whether onnx follows the contents of small values.

    Raises:
        InferenceError: The types of what a node reads contradict it.
    """
    blind = [node for node, _ in _blind_nodes(model.graph, places)]
    domains = [node.domain for node in blind]
    for node in blind:
        node.domain = _HIDDEN
    if blind:
        model.opset_import.add(domain=_HIDDEN, version=1)
    ask = partial(shape_inference.infer_shapes, model, strict_mode=strict, data_prop=propagates)
    result = ask()
    for _ in range(_MOST_ROUNDS if blind else 0):
        found = enumerate(_blind_nodes(result.graph, places))
        seen = [at for at, (node, typed) in found if typed and node.domain == _HIDDEN]
        if not seen:
            break
        for at in seen:
            blind[at].domain = domains[at]
        result = ask()
    for (node, _), domain in zip(_blind_nodes(result.graph, places), domains, strict=True):
        node.domain = domain
    return result


def _blind_nodes(
    graph: onnx.GraphProto, places: Sequence[int]
) -> Iterator[tuple[onnx.NodeProto, bool]]:
    """Yield such nodes in bodies, each with whether the type of what it reads is known."""
    return _inside([graph.node[place] for place in places], _typed(graph) if places else set())


def _inside(
    holders: Iterable[onnx.NodeProto], known: set[str]
) -> Iterator[tuple[onnx.NodeProto, bool]]:
    for holder in holders:
        for body in body_protos(holder).values():
            typed = known | _typed(body)
            for node in body.node:
                if node.op_type in BLIND:
                    yield node, typed.issuperset(node.input[:1])
            yield from _inside(body.node, typed)


def _typed(graph: onnx.GraphProto) -> set[str]:
    values = (*graph.input, *graph.value_info, *graph.output)
    stored = {tensor.name for tensor in graph.initializer}
    return stored.union(value.name for value in values if value.HasField("type"))
