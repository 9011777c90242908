"""Values that may not cross the edge of a region."""

from subgraphkit.backend.refusal import Refusal
from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import bound, described, regions

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
