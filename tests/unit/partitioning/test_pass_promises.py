"""What a property is promised holds in every corner: copies, sizes, borders, groups."""

from collections.abc import Callable
from typing import Any

import pytest

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.refusal import Refusal
from subgraphkit.errors import InternalError, SelectorContractError
from subgraphkit.ir import Node
from subgraphkit.partitioning import Constraints, Partitioning, partition
from subgraphkit.partitioning.algorithms.quotient import tied_groups
from subgraphkit.partitioning.claiming import turn
from subgraphkit.partitioning.claiming.copies import pull_in
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.work_table import Region, WorkTable
from subgraphkit.partitioning.outcome.verification import verify_borders
from tests.unit.partitioning.pass_support import (
    bound,
    described,
    graph_of,
    regions,
    shown,
    taking,
)

FAILED = Refusal("compile_failed", "the compiler gave up")
TRIPLE = [("Exp", ["x"], ["a"]), ("Neg", ["a"], ["b"]), ("Abs", ["b"], ["c"])]


def having(made: Backend, **answers: Callable[..., Any]) -> Backend:
    """Give the property of a backend methods of its own."""
    for name, answer in answers.items():
        setattr(made.properties()[0], name, answer)
    return made


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


def test_giving_back_a_constant_that_nobody_reads_is_refused() -> None:
    text = """
    constants (float[4] x) => (float[4] c) {
      k = Constant<value = float[4] {1, 2, 3, 4}>()
      c = Neg(x)
    }
    """
    found = partition(bound(text), [taking("Neg", "one")])
    assert found.subgraphs[0].nodes == (0, 1)
    with pytest.raises(SelectorContractError, match=r"gave back #0 Constant .*takes nothing away"):
        found.repartition("one_0", {0: FAILED})


COPIED = [
    ("Exp", ["x"], ["s"]),
    ("Neg", ["s"], ["a"]),
    ("Abs", ["a"], ["z"]),
    ("Sin", ["z"], ["b"]),
    ("Add", ["b", "s"], ["y"]),
]


def test_of_a_copied_node_given_back_the_backend_runs_no_copy_any_more() -> None:
    one = having(taking("Exp Neg Sin Add", "one"), duplicable=lambda node: node.op_type == "Exp")
    found = partition(graph_of(COPIED, ["y", "z"]), [one, taking("*", "rest")])
    (reader,) = (one for one in found.subgraphs if one.copies)
    assert (reader.id, reader.copies) == ("one_3", (0,))
    after = found.repartition("one_3", {0: FAILED})
    assert all(one.backend != "one" for one in after.subgraphs if one.copies)
    assert after.home_of(0).backend == "one"
    assert 0 not in after.refusals


def test_a_node_excluded_from_a_backend_is_not_copied_there_either() -> None:
    first = taking("Exp Neg", "first")
    second = having(taking("Exp Add Sin", "second"), duplicable=lambda node: True)
    graph = graph_of(COPIED, ["y", "z"])
    backends = [first, second, taking("*", "rest")]
    assert any(0 in one.copies for one in partition(graph, backends).subgraphs)
    kept = Constraints(exclusions={"second": [0]})
    found = partition(graph, backends, constraints=kept)
    assert not any(0 in one.copies for one in found.subgraphs)


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


def test_bounds_are_struck_out_from_the_property_on_that_gave_nodes_back() -> None:
    backends = [taking("Exp", "one"), taking("Neg Abs", "two"), taking("*", "rest")]
    found = partition(graph_of(TRIPLE, ["c"]), backends)
    after = found.repartition("two_1", {1: FAILED})

    def bounds(partitioning: Partitioning) -> list[int | None]:
        return [one.lower_bound if one else -1 for one in partitioning.turns.outcomes]

    assert bounds(found) == [1, 1, -1]
    assert bounds(after) == [1, None, 1]
    assert bounds(after.repartition("one_0", {0: FAILED})) == [None, None, None]


def test_a_partitioning_counts_one_node_in_words() -> None:
    found = partition(graph_of(TRIPLE[:1], ["a"]), [taking("*", "one")])
    assert repr(found) == "Partitioning('made', 1 node in 1 subgraph: one 1)"


# Sizes


def test_a_match_that_may_not_be_cut_is_given_back_if_it_is_too_large() -> None:
    one = described("one: ; pattern=Exp>Neg>Abs; max_nodes=2")
    found = partition(graph_of(TRIPLE, ["c"]), [one, taking("*", "rest")])
    assert regions(found, "one") == []
    assert reasons(found, 1, "one") == [
        "too_large: a region that may not be cut has 3 nodes, the property's maximum is 2"
    ]


RESHAPES = """
shapes (float[N, 4] x) => (float[M, K] y) {
  s = Shape(x)
  a = Cos(x)
  b = Reshape(a, s)
  c = Exp(b)
  y = Reshape(c, s)
}
"""


def test_copies_count_towards_the_maximum() -> None:
    def found(limit: int) -> Partitioning:
        one = described(f"one: Shape Reshape Exp; border=int64; copy=Shape; max_nodes={limit}")
        return partition(bound(RESHAPES), [one, taking("*", "rest")])

    def sizes(limit: int) -> list[int]:
        return [len(one.nodes) for one in found(limit).subgraphs if one.backend == "one"]

    assert sizes(4) == [4]
    assert max(sizes(3)) <= 3
    assert max(sizes(2)) == 2
    assert regions(found(1), "one") == [[3]]
    (reason,) = reasons(found(1), 4, "one")
    assert reason == (
        "too_large: a region has 1 node and cannot do without copies of others, "
        "the property's maximum is 1"
    )


def test_copies_that_a_region_can_do_without_are_left_out_where_there_is_no_room() -> None:
    one = having(taking("Exp Neg Sin Add", "one", max_nodes=2), duplicable=lambda node: True)
    found = partition(graph_of(COPIED, ["y", "z"]), [one, taking("*", "rest")])
    assert all(len(one.nodes) <= 2 for one in found.subgraphs if one.backend == "one")
    assert regions(found, "one") == [[0, 1], [3, 4]]
    assert found.home_of(4).inputs == ("z", "s")


# Groups


def test_no_node_of_a_group_is_copied_or_pulled_in_without_the_others() -> None:
    rows = [("Exp", ["x"], ["s"]), ("Add", ["s", "x"], ["y"]), ("Sin", ["x"], ["z"])]
    one = having(
        taking("Exp Add", "one"), duplicable=lambda node: True, groups=lambda graph: [(0, 2)]
    )
    found = partition(graph_of(rows, ["y", "z"]), [one, taking("*", "rest")])
    assert regions(found, "one") == [[1]]
    assert not any(one.copies for one in found.subgraphs)
    assert reasons(found, 0, "one")[0].startswith("group: stays together with #2 Sin")


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


def test_groups_on_cycles_are_named_knot_by_knot() -> None:
    graph = graph_of([("Exp", [f"v{at}"], [f"v{at + 1}"]) for at in range(9)], ["v9"])
    assert tied_groups(graph.adjacency, [[0, 2], [3, 4], [6, 8], [5, 7]]) == [[0], [2, 3]]
    assert tied_groups(graph.adjacency, [[0, 1], [2, 3]]) == []


# Borders


def test_a_copy_does_not_pull_a_forbidden_value_out_of_an_earlier_region() -> None:
    rows = [("Exp", ["x"], ["p"]), ("Neg", ["p"], ["q"]), ("Abs", ["q"], ["y"])]
    copying = having(taking("Abs Neg", "two"), duplicable=lambda node: node.op_type == "Neg")

    def copies(first: Backend, outputs: list[str]) -> list[int]:
        found = partition(graph_of(rows, outputs), [first, copying, taking("*", "rest")])
        return [node for one in found.subgraphs for node in one.copies]

    assert copies(taking("Exp Neg", "one"), ["y", "q"]) == [1]
    refusing = having(taking("Exp Neg", "one"), accept_output=lambda node, value: value != "p")
    assert copies(refusing, ["y", "q"]) == []
    agreeing = having(taking("Exp Neg", "one"), accept_output=lambda node, value: True)
    assert copies(agreeing, ["y", "q"]) == [1]


SPREAD = [
    ("Exp", ["x"], ["q"]),
    ("Neg", ["q"], ["p"]),
    ("Cos", ["p"], ["z"]),
    ("Add", ["z", "p"], ["y"]),
    ("Add", ["y", "y"], ["w"]),
]


def test_a_copy_does_not_pull_a_forbidden_value_out_of_a_region_beside_it() -> None:
    def found(answer: Callable[[Node, str], bool]) -> Partitioning:
        one = having(
            taking("Exp Neg Add", "one"),
            duplicable=lambda node: node.op_type == "Neg",
            accept_output=answer,
        )
        return partition(graph_of(SPREAD, ["w", "p"]), [one, taking("*", "rest")])

    assert [one.copies for one in found(lambda node, value: True).subgraphs][-1] == (1,)
    refusing = found(lambda node, value: value != "q")
    assert regions(refusing, "one") == [[0, 1], [3, 4]]
    assert refusing.home_of(0).outputs == ("p",)


def test_a_value_that_an_earlier_copy_reads_leaves_the_region_of_a_later_backend() -> None:
    first = having(
        taking("Neg Add", "first", min_nodes=2), duplicable=lambda node: node.op_type == "Neg"
    )
    second = having(taking("Exp Neg", "second"), accept_output=lambda node, value: value != "q")
    found = partition(graph_of(SPREAD, ["w", "p"]), [first, second, taking("*", "rest")])
    assert found.home_of(3).copies == (1,)
    assert regions(found, "second") == [[1]]
    assert reasons(found, 0, "second") == [
        "border: value 'q' (float32[4]) may not leave a subgraph of the backend here"
    ]


def test_a_node_that_a_copy_elsewhere_reads_is_not_pulled_in() -> None:
    graph = graph_of([("Exp", ["x"], ["s"]), ("Neg", ["s"], ["y"])], ["y"])

    def pulled(wanted: tuple[str, ...]) -> list[int]:
        work = WorkTable(graph, wanted=wanted)
        region = Region(0, [1], frozenset({0}))
        work.claim(region)
        pull_in(work, [region], RefusalColumn(2))
        return region.ranks

    assert pulled(()) == [0, 1]
    assert pulled(("s",)) == [1]


@pytest.mark.parametrize(("question", "value"), [("accept_input", "a"), ("accept_output", "b")])
def test_a_forbidden_value_at_an_edge_is_a_bug_and_is_found(question: str, value: str) -> None:
    graph = graph_of(TRIPLE, ["c"])
    one = taking("Neg", "one")
    found = partition(graph, [one, taking("*", "rest")])
    made = list(zip(found.subgraphs, found.claimed_by, strict=True))
    verify_borders(WorkTable(graph, found.turns.claims), made)
    having(one, **{question: lambda node, name: name != value})
    with pytest.raises(InternalError, match=f"value '{value}' crosses the edge of .*'one_1'"):
        verify_borders(WorkTable(graph, found.turns.claims), made)


# Last resorts


def test_after_the_last_review_what_counted_on_a_rejected_region_goes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def divide() -> Partitioning:
        one = having(
            taking("Exp Neg Add", "one"),
            duplicable=lambda node: node.op_type == "Neg",
            accept_output=lambda node, value: value != "p",
            accept=lambda subgraph: 3 not in subgraph.nodes,
        )
        rows = [*SPREAD[:2], ("Cos", ["x"], ["z"]), *SPREAD[3:]]
        rows[3] = ("Add", ["t", "p"], ["y"])
        rows.append(("Sin", ["u"], ["t"]))
        rows.append(("Neg", ["q"], ["u"]))
        return partition(graph_of(rows, ["w", "z"]), [one, taking("*", "rest")])

    settled = divide()
    monkeypatch.setattr(turn, "_REVIEW_ROUNDS", 1)
    resorted = divide()
    for found in (settled, resorted):
        for subgraph in found.subgraphs:
            assert subgraph.backend != "one" or "p" not in subgraph.outputs
    assert reasons(resorted, 1, "one") == [
        "border: value 'p' (float32[4]) may not leave a subgraph of the backend here"
    ]


def test_after_the_last_review_a_pair_parted_by_it_goes_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "_REVIEW_ROUNDS", 1)
    backends = [taking("QuantizeLinear DequantizeLinear", "one"), taking("*", "rest")]
    assert regions(partition(bound(LOOPED), backends), "one") == []


def test_without_rounds_left_whole_regions_are_dropped_for_one_bad_edge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("Exp", ["x"], ["a"]), ("Neg", ["a"], ["b"]), ("Cos", ["b"], ["u"])]
    rows += [("Add", ["b", "u"], ["y"]), ("Exp", ["y"], ["w"])]

    def divide() -> Partitioning:
        one = having(taking("Exp Neg Add", "one"), accept_output=lambda node, value: value != "b")
        one.properties()[0].accept_input = lambda node, value: value != "b"  # type: ignore[method-assign]
        return partition(graph_of(rows, ["w"]), [one, taking("*", "rest")])

    settled = shown(divide())
    monkeypatch.setattr(turn, "_BORDER_ROUNDS", 0)
    dropped = divide()
    for subgraph in dropped.subgraphs:
        assert subgraph.backend != "one" or "b" not in (*subgraph.inputs, *subgraph.outputs)
    assert "one" in settled
