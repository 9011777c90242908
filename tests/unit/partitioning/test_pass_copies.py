"""Borders and copies of cheap nodes."""

import pytest

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node
from subgraphkit.partitioning import Partitioning, partition
from tests.unit.partitioning.pass_support import bound, described, graph_of, regions, taking

SHAPES = """
shapes (float[N, 4] x) => (float[M, K] y, int64[2] s) {
  s = Shape(x)
  a = Exp(x)
  u = Cos(a)
  y = Reshape(u, s)
}
"""
COPYING = "main: Shape Reshape Exp; border=int64; copy=Shape"


def divide(*lines: str) -> Partitioning:
    return partition(bound(SHAPES), [described(line) for line in (*lines, "rest: *")])


def test_a_copied_node_is_at_home_once_and_runs_where_it_is_needed() -> None:
    found = divide(COPYING)
    (reshape,) = (one for one in found.subgraphs if 3 in one.home)
    assert reshape.nodes == (0, 3)
    assert reshape.copies == (0,)
    assert reshape.home == (3,)
    assert reshape.id == "main_3"
    assert reshape.inputs == ("x", "u")
    assert found.home_of(0).backend == "rest"
    assert found.quality.copied_nodes == 1


def test_a_copy_is_written_into_the_model_of_its_subgraph() -> None:
    found = divide(COPYING)
    model = found.subgraph("main_3").to_model()
    assert [node.op_type for node in model.graph.node] == ["Shape", "Reshape"]
    assert [value.name for value in model.graph.input] == ["x", "u"]


def test_a_copy_is_explained() -> None:
    explained = divide(COPYING).explain(0)
    assert explained.copies == ("main_3",)
    assert [asked.verdict for asked in explained.asked] == ["copied", "claimed"]
    assert str(explained) == (
        "#0 Shape: in subgraph rest_0\n"
        "  main (main): copied\n"
        "  rest (main): claimed\n"
        "  copied into main_3"
    )


def test_without_copies_the_reader_of_a_forbidden_value_stays_out() -> None:
    found = divide("main: Shape Reshape Exp; border=int64")
    assert regions(found, "main") == [[1]]
    (refused,) = found.refusals[3]
    assert refused.refusal == Refusal(
        "border", "value 's' (int64[2]) may not enter a subgraph of the backend here"
    )


def test_a_node_the_selector_refuses_is_not_copied() -> None:
    found = divide("main: Reshape Exp; border=int64; copy=Shape")
    assert regions(found, "main") == [[1]]


def test_a_copy_that_would_need_a_forbidden_value_is_not_made() -> None:
    text = """
    chained (int64[2] s, float[4] x) => (float[M, K] y) {
      t = Identity(s)
      a = Exp(x)
      u = Cos(a)
      y = Reshape(u, t)
    }
    """
    backends = [
        described("main: Identity Reshape; border=int64; copy=Identity"),
        taking("*", "rest"),
    ]
    assert regions(partition(bound(text), backends), "main") == []


def test_a_long_chain_of_cheap_nodes_is_copied_without_recursion() -> None:
    count = 5_000
    rows = [("Neg", [f"s{at}"], [f"s{at + 1}"]) for at in range(count)]
    rows += [("Exp", ["x"], ["a"]), ("Cos", ["a"], ["u"]), ("Add", ["u", f"s{count}"], ["y"])]
    made = taking("Neg Exp Add", "main")
    made.properties()[0].duplicable = lambda node: node.op_type == "Neg"  # type: ignore[method-assign]
    found = partition(graph_of(rows, ["y", f"s{count}"]), [made, taking("*", "rest")])
    assert sum(len(one.home) for one in found.subgraphs) == len(rows)


def test_a_border_refusal_may_come_with_its_own_reason() -> None:
    made = taking("Shape Reshape Exp", "main")

    def accept(node: Node, value: str) -> bool | Refusal:
        return value != "u" or Refusal("dtype", "no cosines here")

    made.properties()[0].accept_input = accept  # type: ignore[method-assign]
    found = partition(bound(SHAPES), [made, taking("*", "rest")])
    assert [str(one.refusal) for one in found.refusals[3]] == ["dtype: no cosines here"]


def test_borders_between_regions_of_one_backend_count_as_well() -> None:
    rows = [("Exp", ["x"], ["a"]), ("Cos", ["a"], ["u"]), ("Add", ["a", "u"], ["y"])]
    made = taking("Exp Add", "main")
    made.properties()[0].accept_input = lambda node, value: value != "a"  # type: ignore[method-assign]
    found = partition(graph_of(rows, ["y"]), [made, taking("*", "rest")])
    assert regions(found, "main") == [[0]]
    assert [one.refusal.code for one in found.refusals[2]] == ["border"]


def test_giving_back_a_region_with_copies_takes_the_copies_along() -> None:
    text = """
    shapes (float[N, 4] x) => (float[M, K] y) {
      s = Shape(x)
      a = Exp(x)
      u = Cos(a)
      t = Identity(s)
      v = Neg(u)
      y = Reshape(v, t)
      w = Neg(y)
    }
    """
    first = described("first: Shape Exp Identity Reshape; copy=Shape,Identity")
    found = partition(bound(text), [first, described("rest: *")])
    reader = found.home_of(5)
    assert reader.backend == "first"
    again = found.give_back(reader.id, Refusal("compile_failed", "no"))
    known = {"x"}
    for one in again.subgraphs:
        assert set(one.inputs) <= known
        known |= set(one.outputs)
    assert again.home_of(5).backend == "rest"


@pytest.mark.parametrize("question", ["accept_input", "accept_output"])
def test_a_long_chain_of_forbidden_values_falls_and_takes_nothing_else_along(question: str) -> None:
    count = 200
    rows = [("Neg", [f"s{at}"], [f"s{at + 1}"]) for at in range(count)]
    rows += [("Cos", [f"s{count}"], ["u"]), ("Exp", ["s0"], ["y"])]
    made = taking("Neg Exp", "main", connectivity="any")
    setattr(made.properties()[0], question, lambda node, value: node.op_type == "Exp")
    found = partition(graph_of(rows, ["u", "y"]), [made, taking("*", "rest")])
    assert regions(found, "main") == [[count + 1]]
