"""Tuning by a clock that made-up backends advance: what is chosen, what is out, what is found."""

import json
from dataclasses import replace

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend.progress import Progress, ProgressEvent
from subgraphkit.errors import BackendUnavailableError, ConfigError
from subgraphkit.partitioning.plan_files import Placement, read_placement
from subgraphkit.placing import Tuning, tune, tuning_loop
from tests.models import parsed
from tests.unit.placing.made_up import CHAIN, COMPUTED, bind, chain, homes, summed


def test_what_measures_best_is_kept_found_again_and_written(register, clock, tmp_path):
    register("left", summed(1, 5))
    register("right", summed(5, 1.5))
    told: list[ProgressEvent] = []
    found = tune(bind(tmp_path), backends="left,right", progress=Progress(told.append))
    assert homes(found) == {"right": 4, "left": 4}
    assert found.placement.nodes["left"] == ("v1", "v2", "v3", "v4")
    assert found.figures["single"] == "left"
    assert found.gain == pytest.approx(1 - 10 / 24, abs=0.01)
    assert {event.phase for event in told} >= {"opening", "measuring backends"}

    rows = found.figures["regions"]
    assert [row["places"] for row in rows] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert rows[0]["seconds"]["left"][0] == pytest.approx(1e-3)
    assert rows[1]["seconds"]["right"][0] == pytest.approx(1.5e-3)
    assert [row["chosen"] for row in rows] == [["left"], ["right"]]
    report = found.report()
    assert report.startswith("left 1-4, right 5-8 is 2.40 times (2.40 to 2.40) as fast as left")
    assert "1, 2, 3, 4  v1           v1 " in report

    spent = clock.runs
    again = tune(bind(tmp_path), backends="left,right")
    assert not again.measured
    assert again.figures == json.loads(json.dumps(found.figures))
    partitioning = sk.partition(bind(tmp_path))  # auto
    assert [one.backend for one in partitioning.subgraphs] == ["left", "right"]
    assert clock.runs == spent
    path = tmp_path / "plan.json"
    path.write_text(found.placement.to_json())
    assert read_placement(path) == again.placement
    assert tune(bind(tmp_path), backends="right,left").measured
    assert tune(bind(tmp_path), backends="left,right", again=True).measured


def test_what_regions_gain_one_by_one_is_not_believed(register, tmp_path):
    def fused(operators):
        return summed(2, 2)(operators) * (0.4 if len(operators) == len(CHAIN.graph.node) else 1.0)

    register("whole", fused)
    register("other", summed(1.5, 1.5))
    found = tune(bind(tmp_path), backends="whole,other")
    assert homes(found) == {"whole": 8}
    assert found.gain == 0
    assert "No mix of backends is faster." in found.report()
    assert all(
        row["seconds"]["other"][0] < row["seconds"]["whole"][0] for row in found.figures["regions"]
    )


def test_the_usual_backend_is_chosen_where_only_the_last_comparison_proves_it(
    register, tmp_path, monkeypatch
):
    monkeypatch.setattr(tuning_loop, "_USUAL", "usual")
    phases: list[ProgressEvent] = []
    register("a", summed(1, 1))
    register(
        "usual",
        lambda names: len(names) * (8e-4 if phases[-1].phase == "comparing the best" else 1.1e-3),
    )
    bound = bind(tmp_path, fallback="none")
    found = tune(bound, backends="a,usual", progress=Progress(phases.append))
    assert (found.figures["single"], found.figures["best"]) == ("a", "usual")
    assert found.answer.startswith("usual is 1.25 times (1.25 to 1.25) as fast as a.")


def test_noise_is_no_gain(register, clock, tmp_path):
    clock.noise = 0.3
    register("one", summed(2, 2))
    register("other", summed(2.001, 2))
    found = tune(bind(tmp_path), backends="one,other")
    assert len(homes(found)) == 1
    assert found.gain == 0


def test_what_is_wrong_slow_or_broken_is_out_with_a_word(register, tmp_path):
    def broken(operators):
        raise RuntimeError("out of luck")

    register("right", summed(2, 2))
    register("wrong", summed(0.1, 0.1), off=0.5)
    register("slow", summed(18, 18))
    register("broken", broken)
    register("idle", summed(2, 2), takes=["Conv"])
    found = tune(bind(tmp_path), backends="idle,wrong,slow,broken,right")
    assert homes(found) == {"right": 8}
    out = found.figures["out"]
    assert out["wrong"].startswith("out, because its results differ: ")
    assert "9 times slower than right" in out["slow"]
    assert "out of luck" in out["broken"]
    assert out["idle"].startswith("takes no node: operator ")
    assert "idle" not in str(found.figures["candidates"])
    assert "9 times slower than right" in found.report()
    with pytest.raises(BackendUnavailableError, match=r"SGK104.*wrong: out, because"):
        tune(bind(tmp_path), backends="wrong")


def test_most_are_right_whoever_is_the_fallback(register, tmp_path):
    register("odd", summed(0.1, 0.1), off=0.5)
    for name in ("one", "two", "three"):
        register(name, summed(2, 2))
    found = tune(bind(tmp_path, fallback="odd"), backends="odd,one,two,three")
    assert found.figures["out"]["odd"].startswith("out, because its results differ: ")
    assert homes(found) == {"one": 8}


def test_who_runs_for_too_long_is_out_even_the_one_all_are_held_to(register, tmp_path, monkeypatch):
    """NumPy takes seconds for a DeformConv of this size."""
    model = parsed(
        "agraph (float[1, 64, 20, 20] x) => (float[1, 64, 20, 20] y)"
        " { y = DeformConv <pads = [12, 12, 12, 12], kernel_shape = [25, 25]> (x, w, o) }",
        opset=22,
        w=np.zeros((64, 64, 25, 25), np.float32),
        o=np.zeros((1, 1250, 20, 20), np.float32),
    )
    monkeypatch.setitem(COMPUTED, "DeformConv", lambda x: x)
    monkeypatch.setattr(tuning_loop, "_LEAST_TIMEOUT", 0.05)
    register("quick", lambda _: 0.001, takes=["DeformConv"])
    found = tune(
        sk.bind(sk.load(model), backend="auto", cache_dir=tmp_path), backends="quick", seconds=0.1
    )
    assert homes(found) == {"quick": 1}
    assert "took longer" in found.figures["out"]["numpy"]


def test_who_takes_part_of_it_is_tried_with_the_best_alone_behind(register, tmp_path):
    register("last", summed(3, 3))
    register("all", summed(2, 2))
    register("some", summed(1, 1), takes=["Tanh"])
    found = tune(bind(tmp_path, fallback="last"), backends="all,some")
    assert homes(found) == {"some": 4, "all": 4}
    assert found.placement.nodes["some"] == ("v5", "v6", "v7", "v8")


def test_who_is_slow_for_what_others_run_for_it_is_tried_with_the_best_behind(register, tmp_path):
    register("last", summed(3, 300))
    register("all", summed(2, 2))
    register("some", summed(0.5, 0.5), takes=["Sigmoid"])
    bound = bind(tmp_path, chain(["Sigmoid"] * 12 + ["Tanh"]), fallback="last")
    found = tune(bound, backends="all,some")
    assert homes(found) == {"some": 12, "all": 1}


def test_who_stops_it_gets_the_best_so_far(register, tmp_path):
    register("left", summed(1, 5))
    register("right", summed(5, 1.5))

    def stop_at(phase):
        def listen(event):
            if event.phase == phase:
                progress.cancel()

        progress = Progress(listen)
        return progress

    found = tune(bind(tmp_path), backends="left,right", progress=stop_at("exchanging regions"))
    assert homes(found) == {"left": 8}
    assert "stopped: this is the best so far" in found.report()
    assert tune(bind(tmp_path), backends="left,right").measured  # it was not complete
    with pytest.raises(KeyboardInterrupt):
        tune(bind(tmp_path), backends="left,right", again=True, progress=stop_at("opening"))


def test_a_model_without_work_is_placed_without_a_word(tmp_path):
    model = parsed("agraph () => (float[1] y) { y = Constant<value = float[1] {1}>() }")
    bound = sk.bind(sk.load(model), cache_dir=tmp_path)
    assert tune(bound, backends="numpy", seconds=1).gain == 0


def test_a_short_time_is_kept_and_demands_are_refused(register, clock, tmp_path):
    register("left", summed(1, 5))
    register("right", summed(5, 1.5))
    found = tune(bind(tmp_path), backends="left,right", seconds=1.0)
    assert homes(found) == {"left": 8}
    assert clock.now < 3
    assert found.figures["notes"] == ["no time was left to try parts on right"]
    with pytest.raises(ConfigError, match="tune places every node"):
        tune(bind(tmp_path, pin="Tanh=left"), backends="left,right")
    with pytest.raises(ConfigError, match="tune measures backends, and a plan is none"):
        tune(bind(tmp_path), backends="@plan.json")


def test_a_tuning_says_who_won_and_why_in_a_line_and_on_a_page():
    won = [0.91, 0.88, 0.95]
    figures = {
        "complete": True,
        "spent": 17.2,
        "single": "slow",
        "best": "quick 1, slow 2",
        "present": "slow",
        "times": {"quick 1, slow 2": [1, 1, 1], "slow": [1.1, 1.05, 1.14]},
        "ratio": won,
        "error": 0.0,
        "max_error": 0.0,
        "busy": 0.0,
        "kept": True,
        "sizes": {"batch": 1},
        "errors": [],
        "candidates": [
            {"label": "quick 1, slow 2", "seconds": [2, 1, 3], "ratio": won, "subgraphs": 2},
            {"label": "slow", "seconds": [3, 2, 4], "ratio": None, "subgraphs": 1},
            {"label": "near", "seconds": [3, 2, 4], "ratio": [1.0, 0.9, 1.1], "subgraphs": 1},
        ],
        "out": {"gone": "no device"},
        "regions": [
            {
                "places": [1],
                "from": "a",
                "to": "b",
                "nodes": 4,
                "seconds": {"slow": [2, 1, 3]},
                "chosen": ["quick"],
            }
        ],
        "handing": {"quick": 1e-5},
        "notes": [],
    }
    placement = Placement(backends={}, nodes={}, circumstances={}, figures=figures)
    found = Tuning(placement, measured=True, model="m.onnx")
    assert repr(found) == (
        "Tuning('m.onnx', 'quick 1, slow 2' at 0.910 (0.880 to 0.950) of 'slow' alone)"
    )
    page = found.to_html()
    for words in (
        "m.onnx: the fastest backend",
        "quick 1, slow 2 is 1.10 times (1.05 to 1.14) as fast as slow.",
        "measured for batch=1 only",
        "not reliably faster",
        "no device",
        "slow, s",
        "17.2",
    ):
        assert words in page
    alone = {**figures, "best": "slow", "ratio": [1.0, 1.0, 1.0]}
    told = replace(found, placement=replace(placement, figures=alone))._repr_html_()
    assert "slow stays: no other is reliably faster." in told
    assert "<script" not in told
