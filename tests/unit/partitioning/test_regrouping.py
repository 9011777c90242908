"""Partitionings changed by hand, compared, kept in a file, and opened again."""

import json
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import ConfigError
from tests.models import parsed
from tests.unit.partitioning.pass_support import taking

DIAMOND = (
    "diamond (float[4] x) => (float[4] y) "
    "{ a = Exp(x) b = Neg(a) c = Abs(a) d = Add(b, c) y = Exp(d) }"
)
X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)


def divided(*taken):
    backends = [taking(operators, f"b{at}") for at, operators in enumerate(taken)]
    return sk.partition(parsed(DIAMOND), [*backends, "numpy"])


def nodes_of(partitioning):
    return [(one.backend, one.nodes) for one in partitioning]


def refusal(call, *given):
    with pytest.raises(ConfigError) as raised:
        call(*given)
    assert raised.value.code in {"SGK123", "SGK124"}
    return raised.value.message


def test_what_is_split_and_merged_again_is_equal_and_computes_the_same():
    whole = divided("*")
    parts = whole.split("b0_0", [0, 1])
    assert nodes_of(parts) == [("b0", (0, 1)), ("b0", (2, 3, 4))]
    assert parts != whole
    again = parts.merge("b0_0", "b0_2")
    assert (again == whole, hash(again) == hash(whole)) == (True, True)
    assert whole != divided("*").graph
    plain = sk.InferenceSession(parsed(DIAMOND), "numpy").run(None, {"x": X})
    for one in (parts, again, parts.move("b0_2", "numpy")):
        with sk.Session(one) as session:
            np.testing.assert_allclose(session.run(None, {"x": X})[0], plain[0], rtol=1e-6)


def test_regions_that_would_wait_on_each_other_are_refused():
    assert "in a circle" in refusal(divided("*").split, "b0_0", [0, 3])
    assert "in a circle" in refusal(divided("Exp Add", "Neg Abs").merge, "b0_0", "b0_3")


def test_what_is_no_part_of_a_subgraph_or_of_several_backends_is_refused():
    found = divided("Exp Add", "Neg Abs")
    for nodes in ([], [0, 1], list(found["b0_0"].nodes)):
        assert "not a part of subgraph 'b0_0'" in refusal(found.split, "b0_0", nodes)
    assert "several backends (b0, b1)" in refusal(found.merge, "b0_0", "b1_1")
    assert "no subgraph 'b0_9'" in refusal(found.move, "b0_9", "numpy")
    assert "names 2 backends" in refusal(found.move, "b0_0", "numpy,onnxruntime")


def test_a_backend_that_refuses_a_node_or_the_whole_has_its_word():
    found = divided("*")
    assert "pinned to 'b9', which refused it" in refusal(found.move, "b0_0", taking("Exp", "b9"))
    property_ = found.passes.claims[0].property

    def accept(node, value, side):
        return (side, value) != ("output", "a")

    property_.accept_boundary = accept  # type: ignore[method-assign]
    assert "value 'a' may not cross" in refusal(found.split, "b0_0", [0])
    del property_.accept_boundary
    property_.accept = lambda subgraph: len(subgraph.nodes) > 1  # type: ignore[method-assign]
    assert "backend 'b0' refuses subgraph 'b0_0'" in refusal(found.split, "b0_0", [0])


def test_one_region_moves_and_the_others_stay_the_same_objects():
    found = divided("Exp Add", "Neg Abs")
    moved = found.move("b1_1", "onnxruntime:optimization=basic")
    kept = {one.id: one for one in found if one.backend == "b0"}
    assert all(moved[name] is one for name, one in kept.items())
    assert [move.nodes for move in moved.diff(found)] == [(1,)]
    assert moved.home_of(1).backend == "onnxruntime"
    options: Any = moved.claim_of(moved["onnxruntime_1"]).backend.option_values
    assert options.optimization == "basic"
    assert moved.move("onnxruntime_1", "b1") == found


def test_a_kept_partitioning_opens_with_other_weights_and_not_as_another_model(tmp_path):
    text = "g (float[3] x) => (float[3] y) <float[3] w = {WEIGHTS}> { a = Mul(x, w) y = Exp(a) }"
    model = parsed(text.replace("WEIGHTS", "1, 2, 3"))
    parts = sk.partition(model, "onnxruntime,numpy").split("onnxruntime_0", [0])
    path = tmp_path / "plan.json"
    parts.save(path)
    assert sk.partition(parsed(text.replace("WEIGHTS", "3, 2, 1")), f"@{path}") == parts
    assert "another model" in refusal(sk.partition, parsed(DIAMOND), f"@{path}")
    plan = json.loads(path.read_text())
    assert [region["nodes"] for region in plan["regions"]] == [["a"], ["y"]]
    plan["regions"][0]["backend"], plan["backends"]["onednn"] = "onednn", {}
    path.write_text(json.dumps(plan))
    with sk.InferenceSession(model, f"@{path}", on_fallback="ok") as session:
        np.testing.assert_allclose(session.run(None, {"x": X[:3]})[0], np.exp(X[:3] * [1, 2, 3]))


def test_what_a_backend_refuses_by_now_is_an_error_with_its_reason(tmp_path):
    path = tmp_path / "plan.json"
    divided("*").move("b0_0", "onnxruntime").save(path)
    plan = json.loads(path.read_text())
    plan["regions"][0]["backend"], plan["backends"] = "onednn", {"onednn": {}, "numpy": {}}
    plan["regions"][0]["nodes"] = ["a", "b", "c", "d", "y"]
    path.write_text(json.dumps(plan))
    message = refusal(sk.partition, parsed(DIAMOND.replace("Abs", "Sign")), f"@{path}")
    assert "refuses it now" in message
