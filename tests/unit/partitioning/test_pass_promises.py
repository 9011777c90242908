"""What a property is promised holds in every corner: copies, sizes, borders, groups."""

import pytest

from subgraphkit.backend.refusal import Refusal
from subgraphkit.errors import InternalError
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.algorithms.quotient import cyclic_groups
from subgraphkit.partitioning.claiming import claim
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.outcome.verification import verify_borders
from tests.unit.partitioning.pass_support import (
    bound,
    described,
    graph_of,
    regions,
    taking,
)

FAILED = Refusal("compile_failed", "the compiler gave up")
TRIPLE = [("Exp", ["x"], ["a"]), ("Neg", ["a"], ["b"]), ("Abs", ["b"], ["c"])]


def reasons(found: Partitioning, node: int, name: str) -> list[str]:
    return [str(one.refusal) for one in found.refusals.get(node, ()) if one.backend == name]


# What is given back


def constants() -> Partitioning:
    text = """
    constants (float[4] x) => (float[4] c) {
      k = Constant<value = float[4] {1, 2, 3, 4}>()
      a = Neg(x)
      c = Add(a, k)
    }
    """
    return partition(bound(text), [taking("Add Neg", "one"), taking("*", "rest")])


LOOPED = """
looped (float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}> {
  q = QuantizeLinear(x, s, z)
  c = Cast<to = 1>(q)
  m = ReduceMax<keepdims = 0>(c)
  y = DequantizeLinear(q, m, z)
}
"""
"""A quantised pair that cannot stay together: the scale of its second half comes from its first."""


def test_giving_back_a_constant_gives_back_what_reads_it() -> None:
    after = constants().repartition("one_0", {0: FAILED})
    assert regions(after, "one") == [[1]]
    assert reasons(after, 2, "one") == [str(FAILED)]
    assert after.home_of(0).backend == "rest"


def test_a_property_whose_first_turn_comes_late_sees_the_partitioning_too() -> None:
    one, two, rest = taking("*", "one"), taking("Neg", "two"), taking("*", "rest")
    found = partition(graph_of(TRIPLE, ["c"]), [one, two, rest])
    (late,), (early,) = two.properties(), one.properties()
    assert (late.prepared, late.finished) == (0, [])  # type: ignore[attr-defined]
    after = found.repartition("one_0", {1: FAILED})
    assert (late.prepared, late.finished) == (1, [after])  # type: ignore[attr-defined]
    assert early.finished == [found]  # type: ignore[attr-defined]
    again = after.repartition("two_1", {1: FAILED})
    assert late.finished == [after]  # type: ignore[attr-defined]
    assert again.home_of(1).backend == "rest"


# Sizes


def test_a_match_that_may_not_be_cut_is_given_back_if_it_is_too_large() -> None:
    one = described("one: ; pattern=Exp>Neg>Abs; max_nodes=2")
    found = partition(graph_of(TRIPLE, ["c"]), [one, taking("*", "rest")])
    assert regions(found, "one") == []
    assert reasons(found, 1, "one") == [
        "too_large: a region that may not be cut has 3 nodes, the property's maximum is 2"
    ]


# Groups


def test_a_quantized_pair_that_a_path_parts_stays_out_and_says_so() -> None:
    pair = "QuantizeLinear DequantizeLinear"
    found = partition(bound(LOOPED), [taking(pair, "one"), taking("*", "rest")])
    assert regions(found, "rest") == [[0, 1, 2, 3]]
    (reason,) = reasons(found, 0, "one")
    assert reason.startswith("group: QuantizeLinear and DequantizeLinear stay together")
    whole = partition(bound(LOOPED), [taking(f"{pair} Cast ReduceMax", "one"), taking("*", "rest")])
    assert regions(whole, "one") == [[0, 1, 2, 3]]
    alone = partition(bound(LOOPED), [taking("Cast ReduceMax", "one"), taking(pair, "last")])
    assert regions(alone, "last") == [[0], [3]]


def test_groups_on_cycles_are_named_by_strong_component() -> None:
    graph = graph_of([("Exp", [f"v{at}"], [f"v{at + 1}"]) for at in range(9)], ["v9"])
    assert cyclic_groups(graph.adjacency, [[0, 2], [3, 4], [6, 8], [5, 7]]) == [[0], [2, 3]]
    assert cyclic_groups(graph.adjacency, [[0, 1], [2, 3]]) == []


# Borders


@pytest.mark.parametrize("crossing", [("input", "a"), ("output", "b")])
def test_a_forbidden_value_at_an_edge_is_a_bug_and_is_found(crossing: tuple[str, str]) -> None:
    graph = graph_of(TRIPLE, ["c"])
    one = taking("Neg", "one")
    found = partition(graph, [one, taking("*", "rest")])
    made = list(zip(found.subgraphs, found.claimed_by, strict=True))
    verify_borders(PartitionState(graph, found.passes.claims), made)
    refusing = one.properties()[0]
    refusing.accept_boundary = lambda node, name, side: (side, name) != crossing  # type: ignore[method-assign]
    with pytest.raises(InternalError, match=f"value '{crossing[1]}' crosses the edge of .*'one_1'"):
        verify_borders(PartitionState(graph, found.passes.claims), made)


# Last resorts


def test_without_rounds_left_whole_regions_are_dropped_for_one_bad_edge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("Exp", ["x"], ["a"]), ("Neg", ["a"], ["b"]), ("Cos", ["b"], ["u"])]
    rows += [("Add", ["b", "u"], ["y"]), ("Exp", ["y"], ["w"])]

    def divide() -> Partitioning:
        one = taking(
            "Exp Neg Add",
            "one",
            accept=lambda subgraph: 3 not in subgraph.nodes,
            accept_boundary=lambda node, value, side: (side, value) != ("input", "b"),
        )
        return partition(graph_of(rows, ["w"]), [one, taking("*", "rest")])

    assert regions(divide(), "one") == [[0, 1], [4]]
    monkeypatch.setattr(claim, "_ROUNDS", 1)
    assert regions(divide(), "one") == [[0, 1]]
