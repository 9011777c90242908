"""Every official case that rules and parser claim is taken by the builder."""

import random

from backends.tensorrt.tests import tensorrt_models
from backends.tensorrt.tests.tensorrt_claims import ask, edges, loaded, workers
from subgraphkit.errors import CompileError
from subgraphkit.testing.official_cases import official_cases

pytestmark = tensorrt_models.needs_rtx


def test_what_our_rules_claim_is_taken_and_built(pytestconfig):
    cases = official_cases("node")
    wanted = min(pytestconfig.getoption("--claimed-cases"), len(cases))
    problems = {case.name: _problem(case) for case in random.Random(5).sample(cases, wanted)}
    claimed = [problem for problem in problems.values() if problem is not None]
    assert len(claimed) > wanted // 3
    assert {name: problem for name, problem in problems.items() if problem} == {}


def _problem(case):
    """Return what the builder says against a case; None if rules or parser do not claim it."""
    graph = loaded(case.model)
    queries, found, conversions = ask(graph)
    nodes = [node for node in graph.nodes if not graph.is_constant_node(node.id)]
    refused = [node for node in nodes if found.refusal(node) is not None]
    if not nodes or any(node.domain for node in nodes):
        return None
    subgraph = workers(graph)
    if not all(map(conversions.converts, refused)) or not all(_crossing(subgraph, graph)):
        return None
    return None if queries.refusals_in(subgraph) else _built(subgraph)


def _built(subgraph):
    """Build an engine, if shapes are known before it runs; return what goes wrong."""
    chosen = tensorrt_models.options(optimization_level=0)
    ranges = tensorrt_models.ranges_at_bind(subgraph, chosen)
    if ranges is None or not subgraph.outputs:
        return ""
    try:
        tensorrt_models.build_engine(subgraph, chosen, tensorrt_models.rtx(), ranges)
    except CompileError as error:
        # Where shapes depend on elements of inputs, the engine is built at the first run.
        return "" if error.code == "SGK169" else str(error)
    return ""


def _crossing(subgraph, graph):
    borders = edges(graph)
    for node in subgraph.members:
        for value in set(node.inputs).intersection(subgraph.inputs):
            yield borders.may_enter(node, value) is True
        for value in set(node.outputs).intersection(subgraph.outputs):
            yield borders.may_leave(node, value) is True
