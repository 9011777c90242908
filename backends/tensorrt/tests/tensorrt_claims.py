"""What the tests of claims share: models in text, and what TensorRT for RTX gets of them."""

from collections.abc import Mapping
from typing import Any

import onnx

import subgraphkit as sk
from backends.tensorrt.tests.tensorrt_models import options, rtx
from subgraphkit.ir import BoundGraph, Subgraph, make_subgraph
from subgraphkit.partitioning import Partitioning
from subgraphkit_tensorrt.claiming.boundaries import BoundaryRules
from subgraphkit_tensorrt.claiming.parser_queries import ParserQueries
from subgraphkit_tensorrt.lowering import Conversions
from subgraphkit_tensorrt.rules.static_rules import Rules


def parsed(body: str, opset: int = 17) -> onnx.ModelProto:
    """Return a model from ONNX's own textual form."""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}, "com.acme": 1]> {body}'
    )


def loaded(model: Any) -> BoundGraph:
    """Bind a model, or a graph in textual form."""
    model = parsed(model) if isinstance(model, str) else model
    with sk.config(backend="numpy", cache=False):
        return sk.bind(sk.load(model))


def divided(model: Any, settings: Mapping[str, Any] | None = None, **given: Any) -> Partitioning:
    """Partition a model with TensorRT for RTX in front of NumPy."""
    model = parsed(model) if isinstance(model, str) else model
    options = {"tensorrt": {"flavour": "tensorrt_rtx", "build_only": True, **given}}
    chosen = {"cache": False, **(settings or {})}
    with sk.config(backend="tensorrt,numpy", options=options, **chosen):
        return sk.partition(sk.bind(sk.load(model)))


def taken(partitioning: Partitioning) -> list[tuple[int, ...]]:
    """Return the nodes of TensorRT's subgraphs."""
    return [one.nodes for one in partitioning.subgraphs if one.backend == "tensorrt"]


def homes(partitioning: Partitioning) -> set[int]:
    """Return the nodes at home on TensorRT."""
    return {node for nodes in taken(partitioning) for node in nodes}


def reasons(partitioning: Partitioning, node: int) -> list[str]:
    """Return why TensorRT did not take a node."""
    return [str(one.refusal) for one in partitioning.refusals.get(node, ())]


def static_refusal(body: str) -> str:
    """Return why the rules refuse the last node of a graph; empty if they do not."""
    graph = loaded(body)
    refusal = Rules(rtx()).refusal(graph.nodes[len(graph.nodes) - 1])
    return "" if refusal is None else str(refusal)


def ask(
    graph: BoundGraph, given: Mapping[str, Any] | None = None
) -> tuple[ParserQueries, Rules, Conversions]:
    """Return what asks TensorRT for RTX about a graph."""
    found = Rules(rtx())
    conversions = Conversions(found)
    chosen = options(**(given or {}))
    return ParserQueries(graph, rtx(), chosen, conversions, None), found, conversions


def workers(graph: BoundGraph) -> Subgraph:
    """Return all nodes of a graph as one subgraph."""
    nodes = [node for node in graph.order if not graph.is_constant_node(node)]
    return make_subgraph(graph, nodes, "tensorrt")


def edges(graph: BoundGraph) -> BoundaryRules:
    """Return what judges the values at edges of a graph."""
    return BoundaryRules(graph, Rules(rtx()))
