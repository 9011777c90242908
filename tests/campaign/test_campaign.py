"""The engine of the campaign tells planted faults apart, and the page says what was counted."""

import json
import os
import time
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from tests.campaign import models, results
from tests.campaign.attacks import ATTACKS
from tests.campaign.engine import Engine
from tests.campaign.mutants import Mutants
from tests.campaign.trials import Outcome, Tally
from tests.fakes import ReferenceOperator, claiming
from tests.models import parsed

FAULTY = ("nothing", "crash", "exit", "hang", "wrong", "uncoded", "coded", "memory", "input")
TEXT = """
planted (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
  a = Relu(x)
  b = Abs(a)
  z = Neg(b)
  y = Neg(a)
}
"""


class _Operator(ReferenceOperator):
    """Does what the value fed says."""

    def run(self, inputs, outputs=None):
        fault = FAULTY[int(inputs[0][0, 0])]
        match fault:
            case "crash":
                os.abort()
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(60)
            case "wrong":
                return [result + 1 for result in super().run(inputs)]
            case "coded":
                raise ValueError(fault)
            case "memory":
                np.ones(50 << 20, np.uint8).sum()
            case "input":
                inputs[0].setflags(write=True)
                inputs[0][:] = 0
        return super().run(inputs)


class Planted(Mutants):
    """Models on a backend that does what it is told to."""

    wall, bytes = 1.5, 40 << 20

    def load(self):
        self._selection: Any = [claiming({"Relu", "Abs", "Neg"}, make=_Operator), "numpy"]
        with sk.InferenceSession(parsed(TEXT), self._selection, cache="off") as session:
            session.run(None, models.feeds_of(self.case(0)))  # what is imported now, children have

    def prepare(self, scratch, backend):
        selection = self._selection
        super().prepare(scratch, backend)
        self._selection = selection

    def case(self, seed):
        feeds = {"x": np.full((2, 3), seed, np.float32)}
        return models.case_of(parsed(TEXT).SerializeToString(), feeds)

    def attempt(self, case, backend):
        if FAULTY[int(models.feeds_of(case)["x"][0, 0])] == "uncoded":
            raise ZeroDivisionError
        return super().attempt(case, backend)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    engine = Engine(Planted(), "fake", folder, folder / "found", patience=1.0)
    return engine.run(range(len(FAULTY)), 60.0), folder / "found"


def test_each_planted_fault_is_told_for_what_it_is(planted):
    tally, _ = planted
    found = {FAULTY[seed]: outcome.kind for seed, outcome in tally.found}
    assert found == {
        "crash": "crash",
        "exit": "crash",
        "hang": "hang",
        "wrong": "wrong",
        "uncoded": "uncoded",
        "memory": "over-limit",
        "input": "wrong",
    }
    assert tally.counts["ran"] == 1
    assert tally.counts["coded"] == 1
    assert tally.trials == len(FAULTY)


def test_a_failure_is_kept_without_what_has_no_part_in_it(tmp_path):
    Engine(Planted(), "fake", tmp_path, tmp_path / "found").run([FAULTY.index("exit")], 60.0)
    (path,) = (tmp_path / "found").iterdir()
    kept = json.loads(path.read_text())
    assert (kept["was"], kept["key"]) == ("crash", "exit 3")
    assert len(onnx.load_from_string(models.model_of(kept["case"])).graph.node) == 1


def test_a_seed_is_the_same_case_for_ever():
    for name, attack in ATTACKS.items():
        if name not in {"mutants", "isolated"}:  # the official cases take long to compute
            assert [attack.case(seed) for seed in range(20)] == [
                attack.case(seed) for seed in range(20)
            ], name


def test_the_page_is_that_of_the_numbers():
    text = results.PAGE.read_text(encoding="utf-8")
    assert text == results.page(text, results.read(), ATTACKS)


def test_runs_add_up_for_each_revision_and_for_all(tmp_path):
    tally, path = Tally(), tmp_path / "results.json"
    for outcome in (Outcome("ran"), Outcome("coded", "SGK202"), Outcome("crash")):
        tally.add(outcome)
    for first, revision in ((0, "abc"), (3, "abd"), (10, "abd")):
        results.add(path, ("mutants", "numpy"), revision, first, tally)
    one = results.read(path)["mutants numpy"]
    assert (one["commit"], one["next"]) == ("abd", 13)
    for which, times in (("newest", 2), ("total", 3)):
        counts = {name: number for name, number in one[which].items() if number}
        assert counts == {"trials": 3 * times, "ran": times, "coded": times, "crash": times}
