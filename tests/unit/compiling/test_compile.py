"""Compiling: one operator per subgraph, and what happens when a backend cannot."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import CompileError, SelectorContractError
from tests.fakes import ReferenceOperator, claiming, extended
from tests.models import CHAIN, bound, parsed

ALL = ("Relu", "Neg", "Abs", "Add")


def refusing(*nodes: int) -> Any:
    """A maker of operators that gives back the nodes, where they are in the subgraph."""

    def make(subgraph: sk.Subgraph) -> sk.SubgraphOperator:
        mine = tuple(node for node in nodes if node in subgraph.nodes)
        if mine:
            raise sk.Unsupported("too hard", nodes=mine)
        return ReferenceOperator(subgraph)

    return make


def failing(subgraph: sk.Subgraph) -> sk.SubgraphOperator:
    raise RuntimeError(f"no kernel for {len(subgraph.nodes)} nodes")


def test_there_is_one_operator_per_subgraph_in_order() -> None:
    partitioning = sk.partition(bound(CHAIN, N=2), [claiming(["Relu"], "a"), claiming(ALL, "b")])
    operators = sk.compile_subgraphs(partitioning)
    assert operators.partitioning is partitioning
    assert [operator.subgraph for operator in operators] == list(partitioning.subgraphs)  # type: ignore[attr-defined]


def test_nodes_given_back_go_to_the_next_backend_and_nothing_else_moves() -> None:
    graph = bound(CHAIN, N=2)
    picky = claiming(ALL, "picky", make=refusing(1))
    partitioning = sk.partition(graph, [picky, claiming(ALL, "rest")])
    assert [s.id for s in partitioning.subgraphs] == ["picky_0"]
    operators = sk.compile_subgraphs(partitioning)
    assert [s.id for s in operators.partitioning.subgraphs] == ["picky_0", "rest_1", "picky_2"]
    assert len(operators) == 3
    assert operators.origin is partitioning
    assert "too hard" in operators.partitioning.report(details=True)
    x = np.ones((2, 4), np.float32)
    session = sk.Session(sk.plan(partitioning, operators))
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.zeros((2, 4)))


def test_a_failure_is_raised_with_subgraph_nodes_and_cause() -> None:
    partitioning = sk.partition(bound(CHAIN, N=2), [claiming(ALL, "bad", make=failing)])
    with pytest.raises(CompileError, match="no kernel for 3 nodes") as failure:
        sk.compile_subgraphs(partitioning)
    assert failure.value.code == "SGK130"
    assert (failure.value.backend, failure.value.subgraph) == ("bad", "bad_0")
    assert isinstance(failure.value.__cause__, RuntimeError)


def test_a_failure_moves_the_region_where_the_policy_says_so() -> None:
    graph = sk.bind(sk.load(parsed(CHAIN)), on_compile_error="fallback")
    partitioning = sk.partition(graph, [claiming(ALL, "bad", make=failing), claiming(ALL, "good")])
    operators = sk.compile_subgraphs(partitioning)
    assert [s.backend for s in operators.partitioning.subgraphs] == ["good"]


def test_giving_back_is_an_error_where_the_policy_says_so() -> None:
    graph = sk.bind(sk.load(parsed(CHAIN)), on_unsupported="raise")
    partitioning = sk.partition(graph, [claiming(ALL, "picky", make=refusing(1))])
    with pytest.raises(CompileError, match="too hard"):
        sk.compile_subgraphs(partitioning)


@pytest.mark.parametrize("nodes", [12, "ab", (0, "a"), (1.0,), (None,)])
def test_giving_back_what_is_no_node_index_breaks_the_contract(nodes: Any) -> None:
    def make(subgraph: sk.Subgraph) -> sk.SubgraphOperator:
        raise sk.Unsupported("odd", nodes=nodes)

    partitioning = sk.partition(bound(CHAIN, N=2), [claiming(ALL, "odd", make=make)])
    with pytest.raises(SelectorContractError, match=r"SGK122.*expected indices of nodes"):
        sk.compile_subgraphs(partitioning)


def test_something_that_is_not_an_operator_breaks_the_contract() -> None:
    partitioning = sk.partition(
        bound(CHAIN, N=2),
        [claiming(ALL, "odd", make=lambda subgraph: subgraph)],  # type: ignore[arg-type,return-value]
    )
    with pytest.raises(SelectorContractError, match="returned a Subgraph"):
        sk.compile_subgraphs(partitioning)


class Listener:
    """Collects the events of compiling."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    @sk.hookimpl
    def subgraphkit_compiled(self, event: Any) -> None:
        self.events.append(("compiled", event.subgraph))

    @sk.hookimpl
    def subgraphkit_fallback(self, event: Any) -> None:
        self.events.append((event.level, event.subgraph))

    @sk.hookimpl
    def subgraphkit_run_end(self, event: Any) -> None:
        self.events.append(("run", event.run))


@pytest.fixture
def listener() -> Iterator[Listener]:
    with extended(Listener()) as heard:
        yield heard


def test_extensions_hear_of_compiling_giving_back_and_running(listener: Listener) -> None:
    picky = claiming(ALL, "picky", make=refusing(1))
    partitioning = sk.partition(bound(CHAIN, N=2), [picky, claiming(ALL, "rest")])
    session = sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning)))
    session.run(None, {"x": np.ones((2, 4), np.float32)})
    assert listener.events[0] == ("unsupported", "picky_0")
    assert sorted(listener.events[1:4]) == [
        ("compiled", "picky_0"),
        ("compiled", "picky_2"),
        ("compiled", "rest_1"),
    ]
    assert listener.events[4:] == [("run", 0)]
