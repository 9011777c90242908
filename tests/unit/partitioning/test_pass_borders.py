"""Values that may not cross the edge of a region."""

import pytest

from subgraphkit.backend import Side
from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node
from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import bound, described, graph_of, regions, taking

SHAPES = """
shapes (float[N, 4] x) => (float[M, K] y, int64[2] s) {
  s = Shape(x)
  a = Exp(x)
  u = Cos(a)
  y = Reshape(u, s)
}
"""


def test_the_reader_of_a_forbidden_value_stays_out() -> None:
    found = partition(
        bound(SHAPES), [described("main: Shape Reshape Exp; border=int64"), described("rest: *")]
    )
    assert regions(found, "main") == [[1]]
    (refused,) = found.refusals[3]
    assert refused.refusal == Refusal(
        "border", "value 's' (int64[2]) may not enter a subgraph of the backend here"
    )


def test_a_border_refusal_may_come_with_its_own_reason() -> None:
    def accept(node: Node, value: str, side: Side) -> bool | Refusal:
        return (side, value) != ("input", "u") or Refusal("dtype", "no cosines here")

    made = taking("Shape Reshape Exp", "main", accept_boundary=accept)
    found = partition(bound(SHAPES), [made, taking("*", "rest")])
    assert [str(one.refusal) for one in found.refusals[3]] == ["dtype: no cosines here"]


def test_borders_between_regions_of_one_backend_count_as_well() -> None:
    rows = [("Exp", ["x"], ["a"]), ("Cos", ["a"], ["u"]), ("Add", ["a", "u"], ["y"])]
    made = taking(
        "Exp Add", "main", accept_boundary=lambda node, value, side: (side, value) != ("input", "a")
    )
    found = partition(graph_of(rows, ["y"]), [made, taking("*", "rest")])
    assert regions(found, "main") == [[0]]
    assert [one.refusal.code for one in found.refusals[2]] == ["border"]


@pytest.mark.parametrize("forbidden", ["input", "output"])
def test_a_long_chain_of_forbidden_values_falls_and_takes_nothing_else_along(
    forbidden: str,
) -> None:
    count = 200
    rows = [("Neg", [f"s{at}"], [f"s{at + 1}"]) for at in range(count)]
    rows += [("Cos", [f"s{count}"], ["u"]), ("Exp", ["s0"], ["y"])]
    made = taking(
        "Neg Exp",
        "main",
        connectivity="any",
        accept_boundary=lambda node, value, side: node.op_type == "Exp" or side != forbidden,
    )
    found = partition(graph_of(rows, ["u", "y"]), [made, taking("*", "rest")])
    assert regions(found, "main") == [[count + 1]]
