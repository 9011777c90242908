"""What a tuning compares with, what it allows shorter floats, and what it does not keep."""

import os

import pytest
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_value_info

import subgraphkit as sk
from subgraphkit.errors import BackendUnavailableError, ExecutionError
from subgraphkit.placing import measuring, tune, tuning
from tests.unit.placing import made_up
from tests.unit.placing.made_up import REAL, bind, chain, homes, summed


def test_the_present_choice_stays_unless_another_is_surely_faster(register, tmp_path):
    for name, seconds in (("a", 1.0), ("b", 0.98), ("c", 3.0)):
        register(name, summed(seconds, seconds))
    alone = {"fallback": "a", "block": [*REAL, "numpy"]}
    bound = bind(tmp_path, **alone)
    assert homes(tune(bound, backends="a,c")) == {"a": 8}
    found = tune(bound)
    assert found.figures["present"] == "a"
    assert found.report().startswith("a stays: no other is reliably faster.")
    assert homes(found) == {"a": 8}
    narrow = tune(bound, backends="c")  # auto keeps what was measured of all
    assert homes(narrow) == {"c": 8}
    assert "as fast as a" in narrow.answer
    assert [one.backend for one in sk.partition(bind(tmp_path, **alone)).subgraphs] == ["a"]


def test_shorter_floats_take_part_within_the_error_allowed(register, tmp_path):
    register("exact", summed(1, 1))
    register("short", summed(1, 1), short=lambda _: (0.5, 1e-3))
    names = "exact,short"
    assert homes(tune(bind(tmp_path), backends=names)) == {"exact": 8}
    found = tune(bind(tmp_path, max_error=1e-2), backends=names)
    assert found.figures["best"] == "short:precision=bf16"
    assert 1e-4 < found.figures["error"] < 1e-2
    assert "you allow 0.01; in float32 exact is the fastest backend" in found.answer
    options = {one.backend: one for one in sk.partition(bind(tmp_path, max_error=1e-2)).subgraphs}
    assert list(options) == ["short"]
    assert [one.backend for one in sk.partition(bind(tmp_path)).subgraphs] == ["exact"]
    # what was not tuned for this error is placed as in float32
    assert [it.backend for it in sk.partition(bind(tmp_path, max_error=0.1)).subgraphs] == ["exact"]
    narrow = tune(bind(tmp_path, max_error=1e-6), backends=names)
    assert homes(narrow) == {"exact": 8}
    assert "more than 1e-06" in narrow.figures["out"]["short:precision=bf16"]


def test_a_backend_whose_device_cannot_be_tried_takes_part_in_float32_with_a_word(
    register, tmp_path, monkeypatch
):
    def untried(record, **_):
        raise BackendUnavailableError("SGK104", f"{record.name} is gone", backend=record.name)

    register("short", summed(1, 1), short=lambda _: (0.5, 1e-3))
    monkeypatch.setattr(tuning, "probe_record", untried)
    found = tune(bind(tmp_path, max_error=1e-2), backends="short")
    assert found.figures["best"] == "short"
    assert "short takes part in float32 alone: short is gone" in found.report()


def test_shorter_floats_are_out_where_results_vary(register, tmp_path):
    noise = iter(range(1, 10_000))
    register("exact", summed(1, 1))
    register("short", summed(1, 1), short=lambda _: (0.5, 1e-3))
    varying = made_up.COMPUTED["Tanh"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(made_up.COMPUTED, "Tanh", lambda x: varying(x) + next(noise))
        bound = bind(tmp_path, max_error=1e-2, fallback="exact", block=[*REAL, "numpy"])
        found = tune(bound, backends="exact,short")
    assert "not known" in found.figures["out"]["short:precision=bf16"]
    assert found.figures["best"] != "short:precision=bf16"


def test_who_fails_while_its_own_part_is_timed_is_out(register, monkeypatch, tmp_path):
    def own_part(*_):
        raise ExecutionError("SGK131", "out of memory", backend="slow")

    register("right", summed(1, 1))
    register("slow", summed(9, 9))
    monkeypatch.setattr(measuring.Candidate, "own_part", own_part)
    found = tune(bind(tmp_path), backends="right,slow")
    assert "out of memory" in found.figures["out"]["slow"]


def test_regions_that_spend_most_of_the_error_go_back_to_float32(register, tmp_path):
    register("exact", summed(1, 1))
    wrong = {"Sigmoid": 0.2, "Tanh": 1e-4}
    register("short", summed(1, 1), short=lambda names: (0.5, max(map(wrong.get, names))))
    model = chain(["Tanh"] * 8 + ["Sigmoid"] * 2)
    model.graph.node.insert(0, make_node("Constant", [], ["constant"], value_float=1.0))
    model.graph.output.append(make_tensor_value_info("constant", TensorProto.FLOAT, []))
    found = tune(bind(tmp_path, model, max_error=1e-2), backends="exact,short")
    assert found.figures["error"] < 1e-2
    assert found.placement.backends["short"]["precision"] == "bf16"
    assert set(found.placement.nodes["exact"]) >= {"v9", "v10"}
    assert homes(found)["short"] >= 6
    assert max(found.figures["errors"], key=lambda one: one["error"])["to"] == "v10"


def test_what_other_programs_disturbed_is_told_and_not_kept(register, clock, monkeypatch, tmp_path):
    for name in ("a", "b"):
        register(name, summed(1, 1))
    monkeypatch.setattr(measuring, "_others_seconds", lambda: clock.now * (os.cpu_count() or 1) / 2)
    found = tune(bind(tmp_path), backends="a,b")
    assert "Other programs took 50% of the processors" in found.report()
    assert tune(bind(tmp_path), backends="a,b").measured
    assert tune(bind(tmp_path), backends="a,b", keep=True).measured
    assert not tune(bind(tmp_path), backends="a,b").measured
