"""Pins and exclusions."""

import pytest

from subgraphkit.errors import ConfigError
from subgraphkit.partitioning import Constraints, Partitioning, partition
from tests.unit.partitioning.pass_support import bound, regions, taking

NAMED = """
named (float[4] x) => (float[4] d) {
  [head] a = Relu(x)
  [body] b = Neg(a)
  [Neg] c = Abs(b)
  d = Neg(c)
}
"""


def divide(**constraints: object) -> Partitioning:
    backends = [taking("Relu Neg Abs", "one"), taking("*", "two")]
    return partition(bound(NAMED), backends, constraints=Constraints(**constraints))  # type: ignore[arg-type]


def refused(**constraints: object) -> str:
    with pytest.raises(ConfigError) as caught:
        divide(**constraints)
    assert caught.value.code == "SGK123"
    return str(caught.value)


def test_a_node_can_be_pinned_by_name() -> None:
    found = divide(pins={"body": "two"})
    assert regions(found, "two") == [[1]]
    assert [str(one.refusal) for one in found.refusals[1]] == ["pinned: pinned to backend 'two'"]


def test_a_nodes_name_goes_before_an_operator() -> None:
    assert regions(divide(pins={"Neg": "two"}), "two") == [[2]]


def test_nodes_can_be_pinned_by_operator_place_and_predicate() -> None:
    assert regions(divide(pins={"Relu": "two"}), "two") == [[0]]
    assert regions(divide(pins={3: "two"}), "two") == [[3]]
    found = divide(pins={(lambda node: node.id > 1): "two"})
    assert regions(found, "two") == [[2, 3]]


def test_a_pinned_node_is_not_offered_to_others_even_if_they_come_first() -> None:
    found = divide(pins={"head": "two"})
    assert [asked.verdict for asked in found.explain(0).asked] == ["refused", "claimed"]


def test_nodes_can_be_excluded() -> None:
    found = divide(exclusions={"one": ["Abs", "head"]})
    assert regions(found, "one") == [[1], [3]]
    (only,) = found.refusals[2]
    assert str(only.refusal) == "excluded: excluded from backend 'one' by a constraint"


def test_a_single_selector_may_stand_for_a_list_of_one() -> None:
    assert regions(divide(exclusions={"one": "Abs"}), "two") == [[2]]


def test_an_unknown_name_is_refused_with_a_guess() -> None:
    text = refused(pins={"haed": "two"})
    assert "'haed', which is neither a node nor an operator of the model" in text
    assert "did you mean 'head'?" in text


def test_an_unknown_backend_is_refused_with_a_guess() -> None:
    text = refused(exclusions={"twoo": ["head"]})
    assert "backend 'twoo', which takes no part; did you mean 'two'?" in text


def test_a_place_outside_the_model_is_refused() -> None:
    assert "names node 4; the model has 4 nodes" in refused(pins={4: "two"})


def test_contradicting_demands_are_refused() -> None:
    text = refused(pins={"head": "two", 0: "one"})
    assert "node #0 Relu 'head' is pinned to 'two' and to 'one'" in text
    text = refused(pins={"head": "two"}, exclusions={"two": ["Relu"]})
    assert "node #0 Relu 'head' is pinned to 'two' and excluded from it" in text


def test_a_pin_that_the_backend_refuses_is_an_error_with_its_reason() -> None:
    backends = [taking("Relu", "one"), taking("*", "two")]
    with pytest.raises(ConfigError) as caught:
        partition(bound(NAMED), backends, constraints=Constraints(pins={"body": "one"}))
    assert "is pinned to 'one', which refused it" in str(caught.value)
    assert "operator Neg is not in the list" in str(caught.value)
