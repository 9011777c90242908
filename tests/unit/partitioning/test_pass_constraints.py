"""Pins and exclusions."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import ConfigError
from subgraphkit.partitioning import Constraints, partition
from tests.models import parsed
from tests.unit.partitioning.pass_support import bound, regions, taking

NAMED = """
named (float[4] x) => (float[4] d) {
  [head] a = Relu(x)
  [body] b = Neg(a)
  [Neg] c = Abs(b)
  d = Neg(c)
}
"""


def divide(**constraints):
    backends = [taking("Relu Neg Abs", "one"), taking("*", "two")]
    return partition(bound(NAMED), backends, constraints=Constraints(**constraints))  # type: ignore[arg-type]


def refused(**constraints):
    with pytest.raises(ConfigError, match="SGK123") as caught:
        divide(**constraints)
    return str(caught.value)


def test_a_node_can_be_pinned_by_name():
    found = divide(pins={"body": "two"})
    assert regions(found, "two") == [[1]]
    assert [str(one.refusal) for one in found.refusals[1]] == ["pinned: pinned to backend 'two'"]


def test_a_nodes_name_goes_before_an_operator():
    assert regions(divide(pins={"Neg": "two"}), "two") == [[2]]


def test_nodes_can_be_pinned_by_operator_place_and_predicate():
    assert regions(divide(pins={"Relu": "two"}), "two") == [[0]]
    assert regions(divide(pins={3: "two"}), "two") == [[3]]
    found = divide(pins={(lambda node: node.id > 1): "two"})
    assert regions(found, "two") == [[2, 3]]


def test_a_pinned_node_is_not_offered_to_others_even_if_they_come_first():
    found = divide(pins={"head": "two"})
    assert [asked.verdict for asked in found.explain(0).asked] == ["refused", "claimed"]
    made = found.graph.nodes[0].outputs[0]
    assert found.explain(made) == found.explain(found.graph.nodes[0]) == found.explain(0)
    with pytest.raises(ConfigError, match=r"SGK123.*did you mean"):
        found.explain(made + "x")


def test_nodes_can_be_excluded():
    found = divide(exclusions={"one": ["Abs", "head"]})
    assert regions(found, "one") == [[1], [3]]
    (only,) = found.refusals[2]
    assert str(only.refusal) == "excluded: excluded from backend 'one' by a constraint"


def test_an_unknown_name_is_refused_with_a_guess():
    text = refused(pins={"haed": "two"})
    assert "'haed', which is neither a node nor an operator of the model" in text
    assert "did you mean 'head'?" in text


def test_an_unknown_backend_is_refused_with_a_guess():
    text = refused(exclusions={"twoo": ["head"]})
    assert "backend 'twoo', which is not among the backends used; did you mean 'two'?" in text


def test_a_place_outside_the_model_is_refused():
    assert "names node 4; the model has 4 nodes" in refused(pins={4: "two"})


def test_contradicting_demands_are_refused():
    text = refused(pins={"head": "two", 0: "one"})
    assert "node #0 Relu 'head' is pinned to 'two' and to 'one'" in text
    text = refused(pins={"head": "two"}, exclusions={"two": ["Relu"]})
    assert "node #0 Relu 'head' is pinned to 'two' and excluded from it" in text


def test_a_pin_that_the_backend_refuses_is_an_error_with_its_reason():
    backends = [taking("Relu", "one"), taking("*", "two")]
    told = "(?s)is pinned to 'one', which refused it.*operator Neg is not in the list"
    with pytest.raises(ConfigError, match=told):
        partition(bound(NAMED), backends, constraints=Constraints(pins={"body": "one"}))


def test_a_pin_that_would_cut_a_group_says_to_pin_the_whole_group():
    model = """
    g (float[4] x, float s, int8 z) => (float[4] y) {
      q = QuantizeLinear(x, s, z)
      y = DequantizeLinear(q, s, z)
    }
    """
    backends = [taking("QuantizeLinear DequantizeLinear", "one"), taking("*", "two")]
    with pytest.raises(ConfigError, match="Pin every node of the group to the same backend"):
        partition(bound(model), backends, constraints=Constraints(pins={0: "one", 1: "two"}))


ABS = ["Abs", 2, np.int64(2), lambda node: node.op_type == "Abs", iter([2])]


@pytest.mark.parametrize("selector", ABS)
def test_a_selector_of_any_form_may_stand_for_a_list_of_one(selector):
    assert regions(divide(exclusions={"one": selector}), "two") == [[2]]


@pytest.mark.parametrize("selector", [None, 1.5, True])
def test_what_names_no_nodes_is_refused(selector):
    kind = type(selector).__name__
    assert f"names nodes by {selector!r}, which is a {kind}" in refused(pins={selector: "two"})
    assert f"names nodes by {selector!r}" in refused(exclusions={"one": selector})


def test_a_predicate_that_raises_is_named_with_the_node():
    def is_large(node):
        raise KeyError(node.op_type)

    with pytest.raises(
        ConfigError, match=r"SGK123.*predicate 'is_large' .* raised KeyError for node #0"
    ) as caught:
        divide(pins={is_large: "two"})
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_predicate_that_holds_for_no_node_is_refused_like_an_unknown_name():
    def is_large(node):
        return node.id > 99

    assert "predicate 'is_large' of a constraint holds for no node" in refused(
        exclusions={"two": [is_large]}
    )


def test_a_predicate_is_not_asked_about_constants():
    text = """
    constants (float[4] x) => (float[4] b) {
      k = Constant<value = float[4] {1, 2, 3, 4}>()
      b = Add(x, k)
    }
    """
    backends = [taking("Add", "one"), taking("*", "two")]
    wanted = Constraints(pins={lambda node: f"{node.dtype()}" == "float32": "two"})
    assert regions(partition(bound(text), backends, constraints=wanted), "two") == [[0, 1]]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"pins": {}}, "constraints is a dict, expected Constraints"),
        (Constraints(pins=[("head", "two")]), "pins of the constraints is a list"),  # type: ignore[arg-type]
        (Constraints(exclusions="one"), "exclusions of the constraints is a str"),  # type: ignore[arg-type]
        (Constraints(pins={"head": ["two"]}), r"names backend \['two'\], expected the name"),  # type: ignore[dict-item]
    ],
)
def test_constraints_of_another_kind_are_refused(given, problem):
    with pytest.raises(ConfigError, match=f"SGK123.*{problem}"):
        partition(bound(NAMED), [taking("*", "two")], constraints=given)


def configured(**settings):
    model = bound(NAMED, **settings)
    return partition(model, [taking("Relu Neg Abs", "one"), taking("*", "two")])


@pytest.mark.parametrize(
    "pin",
    ["body=two", " #1 = two ,", ["body=two"], {"body": "two"}, {1: "two"}, {"#1": "two"}],
    ids=str,
)
def test_a_setting_pins_in_text_or_as_a_mapping(pin):
    assert regions(configured(pin=pin), "two") == [[1]]


def test_a_setting_keeps_nodes_off_backends():
    found = configured(keep_off={"body": ["one"], "head": "one"})
    assert regions(found, "two") == [[0, 1]]
    assert [one.refusal.code for one in found.refusals[1]] == ["excluded"]


def test_the_environment_pins_and_says_so(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_PIN", "body=two,Abs=two")
    model = bound(NAMED)
    found = partition(model, [taking("Relu Neg Abs", "one"), taking("*", "two")])
    assert regions(found, "two") == [[1, 2]]
    told = {key: value for key, value, *_ in model.settings.as_table()}
    assert told["pin"] == "body=two,Abs=two"


def test_what_a_call_demands_wins_over_a_setting_of_the_same_node():
    model = bound(NAMED, pin="body=one,head=two")
    found = partition(
        model,
        [taking("Relu Neg Abs", "one"), taking("*", "two")],
        constraints=Constraints(pins={"body": "two"}, exclusions={"one": "Abs"}),
    )
    assert regions(found, "two") == [[0, 1, 2]]


def test_a_session_takes_constraints():
    demands = Constraints(pins={"body": "two"})
    backends = [taking("Relu Neg Abs", "one"), taking("*", "two"), "numpy"]
    with sk.InferenceSession(parsed(NAMED), backends, constraints=demands) as session:
        assert session.partitioning.home_of(1).backend == "two"
        (y,) = session.run(None, {"x": np.array([1, -2, 3, 0], np.float32)})
    np.testing.assert_array_equal(y, [-1, 0, -3, 0])


UNREADABLE = ["Conv", "=numpy", "Conv=", "Conv=NumPy", {"Conv": 3}, {"": "one"}, 7]


@pytest.mark.parametrize("pin", UNREADABLE, ids=str)
def test_a_pin_that_cannot_be_read_is_an_error_of_the_setting(pin):
    expected = r"such as 'Conv=numpy, #12=openvino'|a list of strings"
    with pytest.raises(ConfigError, match=f"SGK108.*({expected})"):
        bound(NAMED, pin=pin)
