"""Graphs that are odd, large, or both."""

from collections.abc import Iterator, Sequence

import pytest

from subgraphkit.ir import BoundGraph
from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import bound, graph_of, taking


def test_a_graph_of_nothing_but_constants_has_one_subgraph_that_hands_nothing_out() -> None:
    text = """
    constant () => (float[2] k) {
      k = Constant<value = float[2] {1, 2}>()
    }
    """
    found = partition(bound(text), [taking("*", "one"), taking("*", "rest")])
    (only,) = found.subgraphs
    assert (only.nodes, only.members, only.inputs, only.outputs) == ((0,), (), (), ())
    assert only.backend == "rest"
    assert "constant: travels with its first reader" in str(found.explain(0))


def test_a_constant_that_a_body_reads_travels_with_the_node_that_holds_the_body() -> None:
    text = """
    branches (bool c, float[4] x) => (float[4] z) {
      k = Constant<value = float[4] {1, 2, 3, 4}>()
      a = Relu(x)
      y = If (c) <
        then_branch = yes () => (float[4] t) { t = Add(a, k) },
        else_branch = no () => (float[4] e) { e = Identity(a) }
      >
      z = Relu(y)
    }
    """
    found = partition(bound(text), [taking("Relu", "one"), taking("*", "rest")])
    assert found.home_of(0) is found.home_of(2)
    assert set(found.home_of(0).constants) == {"k"}


@pytest.fixture(scope="module")
def chain(pytestconfig: pytest.Config) -> BoundGraph:
    count = pytestconfig.getoption("--chained-nodes")
    return graph_of(_Chain(count), [f"v{count}"])


@pytest.mark.parametrize("connectivity", ["any", "connected"])
def test_a_chain_of_very_many_nodes(chain: BoundGraph, connectivity: str) -> None:
    found = partition(chain, [taking("Exp", "one", connectivity=connectivity)])
    (only,) = found.subgraphs
    assert len(only.nodes) == len(chain.nodes)
    assert (only.inputs, only.outputs) == (("v0",), (f"v{len(chain.nodes)}",))


class _Chain(Sequence[tuple[str, Sequence[str], Sequence[str]]]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        return (("Exp", (f"v{at}",), (f"v{at + 1}",)) for at in range(self.count))

    def __getitem__(self, at: object) -> object:
        raise NotImplementedError
