"""Dependencies, their order, and cycles."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from subgraphkit.ir import Adjacency


@st.composite
def directed_graphs(draw, *, acyclic):
    """Predecessors per node, numbered at random so that the numbering need not be an order."""
    count = draw(st.integers(0, 12))
    number = draw(st.permutations(range(count)))
    rows: list[list[int]] = [[] for _ in range(count)]
    for node in range(count):
        others = range(node) if acyclic else range(count)
        chosen = draw(st.sets(st.sampled_from(others), max_size=3)) if len(others) else set()
        rows[number[node]] = [number[other] for other in sorted(chosen)]
    return rows


def as_networkx(rows):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(rows)))
    graph.add_edges_from((pred, node) for node, row in enumerate(rows) for pred in row)
    return graph


@given(directed_graphs(acyclic=True))
def test_every_node_follows_its_predecessors(rows):
    order = Adjacency.from_predecessors(rows).topological_order()
    assert order is not None
    place = {node: i for i, node in enumerate(order)}
    assert sorted(order) == list(range(len(rows)))
    assert all(place[pred] < place[node] for node, row in enumerate(rows) for pred in row)


@given(directed_graphs(acyclic=False))
def test_a_cycle_is_found_exactly_where_networkx_finds_one(rows):
    adjacency = Adjacency.from_predecessors(rows)
    oracle = as_networkx(rows)
    cycle = adjacency.find_cycle()
    if nx.is_directed_acyclic_graph(oracle):
        assert cycle == []
        assert adjacency.topological_order() is not None
    else:
        assert adjacency.topological_order() is None
        assert all(
            oracle.has_edge(a, b) for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        )


@given(directed_graphs(acyclic=False))
def test_successors_are_predecessors_turned_round(rows):
    adjacency = Adjacency.from_predecessors(rows)
    for node in range(len(rows)):
        expected = [other for other, row in enumerate(rows) if node in row]
        assert list(adjacency.successors(node)) == expected


def test_an_order_that_stands_in_the_file_is_kept():
    rows = [[], [0], [], [1, 2]]
    assert list(Adjacency.from_predecessors(rows).topological_order() or []) == [0, 1, 2, 3]


def test_a_chain_of_a_million_nodes_needs_no_recursion():
    count = 1_000_000
    adjacency = Adjacency.from_predecessors([i - 1] if i else [] for i in range(count))
    assert len(adjacency.topological_order() or []) == count
    assert adjacency.find_cycle() == []
