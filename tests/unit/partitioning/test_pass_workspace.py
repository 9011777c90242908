"""The partition state, the sizes, and the verifier of edges."""

from dataclasses import replace

import pytest

from subgraphkit.errors import InternalError
from subgraphkit.partitioning import partition
from subgraphkit.partitioning.algorithms.levels import bytes_of
from subgraphkit.partitioning.claiming.graph import PartitionState, Region
from subgraphkit.partitioning.outcome import partitioning_data
from subgraphkit.partitioning.outcome.verification import verify_regions
from subgraphkit.types import DataType, SequenceType, TensorType
from tests.unit.partitioning.pass_support import bound, graph_of, taking

SPLIT = """
outputs (float[6] x) => (float[2] d, float[2] e, float[2] f) {
  a, b, c = Split<axis = 0, num_outputs = 3>(x)
  d = Exp(a)
  e = Cos(b)
  f = Add(a, b)
}
"""


@pytest.mark.parametrize(("type_", "size"), [
    (TensorType(DataType.FLOAT, (2, 3)), 24),
    (TensorType(DataType.FLOAT, ("N", 3)), 12),
    (TensorType(DataType.INT4, (3,)), 2),
    (TensorType(DataType.FLOAT, (0, 3)), 1),
    (TensorType(DataType.STRING, (2,)), 32),
    (TensorType(DataType.UNDEFINED), 16),
    (SequenceType(None), 16),
    (None, 16),
])  # fmt: skip
def test_a_value_weighs_its_bytes_and_never_nothing(type_, size):
    assert bytes_of(type_) == size


@pytest.mark.parametrize(("field", "values"), [
    ("inputs", ()),
    ("inputs", ("x", "a")),
    ("inputs", ("a", "a", "b")),
    ("inputs", ("a", "b", "d")),
    ("inputs", ("a", "b", "x")),
    ("outputs", ("f",)),
    ("outputs", ("d", "f", "b")),
    ("outputs", ("d", "f", "x")),
])  # fmt: skip
def test_wrong_edges_are_a_bug_and_are_found(field, values, monkeypatch):
    make = partitioning_data.make_subgraph

    def damaged(*given, **named):
        subgraph = make(*given, **named)  # type: ignore[arg-type]
        return replace(subgraph, **{field: values}) if 3 in subgraph.nodes else subgraph

    monkeypatch.setattr(partitioning_data, "make_subgraph", damaged)
    with pytest.raises(InternalError, match=f"the {field} of subgraph 'one_1' differ"):
        partition(bound(SPLIT), [taking("Exp Add", "one", connectivity="any"), taking("*", "rest")])


@pytest.mark.parametrize(("regions", "message"), [
    ([[0, 3], [1, 2]], "cycle.*#3 Add"),
    ([[0], [1, 2], [3]], "disconnected.*#1 Exp > #2 Cos"),
    ([[0], [1]], "disjoint"),
    ([[0], [1, 2], [2, 3]], "disjoint"),
])  # fmt: skip
def test_wrong_regions_are_a_bug_and_are_found(regions, message):
    rows = [("Exp", ["x"], ["a"]), ("Exp", ["a"], ["b"]), ("Cos", ["a"], ["c"])]
    graph = graph_of([*rows, ("Add", ["b", "c"], ["d"])], ["d"])
    state = PartitionState(graph)
    for ranks in regions:
        state.regions.append(Region(0, ranks, connected=len(ranks) == 2))
    with pytest.raises(InternalError, match=message) as caught:
        verify_regions(state, state.regions)
    assert "bug in subgraphkit" in str(caught.value)
