"""Values that may not cross the edge of a region."""

import pytest

from subgraphkit.backend.refusal import Refusal
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
