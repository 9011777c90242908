"""What our rules claim of the official cases of ONNX, and what TensorRT for RTX says to it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backends.tensorrt.tests.tensorrt_claims import loaded, workers
from backends.tensorrt.tests.tensorrt_models import build_engine, options, ranges_at_bind, rtx
from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit.testing.official_cases import OfficialCase
from subgraphkit_tensorrt.claiming.boundaries import BoundaryRules
from subgraphkit_tensorrt.claiming.parser_queries import ParserQueries
from subgraphkit_tensorrt.lowering import Conversions, rules_for

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one case.

    Attributes:
        claimed: Whether nothing we know speaks against its nodes and edges.
        problem: What parser or builder say against it; empty if nothing.
    """

    claimed: bool
    converted: bool = False
    problem: str = ""


def judge(case: OfficialCase) -> Verdict:
    """Look at a case with our rules, and if they claim it, ask parser and builder."""
    graph, library, chosen = loaded(case.model), rtx(), options(optimization_level=0)
    found = rules_for(library, chosen)
    conversions = Conversions(found)
    nodes = [node for node in graph.nodes if not graph.is_constant_node(node.id)]
    refused = [node for node in nodes if found.refusal(node) is not None]
    if not nodes or any(node.domain for node in nodes):
        return Verdict(claimed=False)
    subgraph = workers(graph)
    if not all(map(conversions.converts, refused)) or not all(
        _crossing(subgraph, BoundaryRules(graph, found))
    ):
        return Verdict(claimed=False)
    refusals = ParserQueries(graph, library, chosen, conversions, None).refusals_in(subgraph)
    problem = str(next(iter(refusals.values()))) if refusals else _built(subgraph, chosen)
    return Verdict(claimed=True, converted=bool(refused), problem=problem)


def _built(subgraph: Subgraph, chosen: Mapping[str, Any]) -> str:
    """Build an engine, if shapes are known before it runs; return what goes wrong."""
    ranges = ranges_at_bind(subgraph, chosen)
    if ranges is None or not subgraph.outputs:
        return ""
    try:
        build_engine(subgraph, chosen, rtx(), ranges)
    except CompileError as error:
        # Where shapes depend on elements of inputs, the engine is built at the first run.
        return "" if error.code == "SGK169" else str(error)
    return ""


def _crossing(subgraph: Subgraph, borders: BoundaryRules) -> Iterator[bool]:
    for node in subgraph.members:
        for value in set(node.inputs).intersection(subgraph.inputs):
            yield borders.may_enter(node, value) is True
        for value in set(node.outputs).intersection(subgraph.outputs):
            yield borders.may_leave(node, value) is True
