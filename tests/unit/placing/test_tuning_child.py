"""A session on auto that measures first, or beside its runs; the measuring itself is given."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.partitioning import Constraints
from subgraphkit.partitioning.placements import circumstances, keep_placement
from subgraphkit.partitioning.plan_files import Placement, placement_of
from subgraphkit.placing import tune, tuning_child
from subgraphkit.processes import NoAnswer
from tests.models import parsed

CHAIN = parsed(
    "agraph (float[N, 3] x) => (float[N, 3] v5) {"
    + "".join(f"v{at} = Sigmoid({f'v{at - 1}' if at else 'x'})" for at in range(6))
    + "}"
)
X = np.ones((2, 3), np.float32)


def halves(bound, *_, **__):
    """Return what ``tune`` would: half on NumPy and half on ONNX Runtime."""
    names = [bound.table.outputs[node][0] for node in bound.order]
    placement = Placement(
        backends={"numpy": {}, "onnxruntime": {}},
        nodes={"numpy": tuple(names[:3]), "onnxruntime": tuple(names[3:])},
        circumstances=circumstances(bound, bound.settings),
        figures={},
    )
    return SimpleNamespace(placement=placement)


class Child:
    """Stands for the child process: it answers when it is allowed to, or has gone."""

    def __init__(self):
        self.called = threading.Event()
        self.allowed = threading.Event()
        self.says: Callable[[], Any] = lambda: tuning_child.measure_placement(self.job)
        self.stopped = False

    def call(self, function, job, *, timeout):
        assert function is tuning_child.measure_placement
        self.job = json.loads(json.dumps(job))
        self.called.set()
        assert self.allowed.wait(min(timeout, 30))
        return self.says()

    def stop(self):
        if not self.allowed.is_set():
            self.says = self.gone
        self.stopped = True
        self.allowed.set()

    @staticmethod
    def gone():
        raise NoAnswer(-9)


@pytest.fixture(autouse=True)
def children(monkeypatch):
    started: list[Child] = []

    def start():
        started.append(Child())
        return started[-1]

    monkeypatch.setattr(tuning_child, "Child", start)
    monkeypatch.setattr(tuning_child.os, "nice", lambda _: 0)
    monkeypatch.setattr(tuning_child, "tune", halves)
    yield started
    for child in started:
        child.stop()


def opened(folder, **settings):
    given: dict[str, Any] = {"backend": "auto", "cache_dir": folder, "tune": "background"}
    return sk.InferenceSession(CHAIN, shapes={"N": 2}, **{**given, **settings})


def homes(session):
    return [(one.backend, len(one.nodes)) for one in session.partitioning.subgraphs]


def first(children):
    waiting = threading.Event()
    while not children:
        waiting.wait(0.01)
    assert children[0].called.wait(30)
    return children[0]


def test_a_session_takes_over_what_was_measured_beside_it(tmp_path, children):
    options = {"onnxruntime": {"optimization": "basic"}}
    with opened(tmp_path, threads=2, options=options, block=["tvm"]) as session:
        expected = session.run(None, {"x": X})[0]
        before = homes(session)
        assert len(before) == 1
        child = first(children)
        assert session.tuning == "measuring"
        assert not session.wait(0)
        job = child.job
        # the child measures under the circumstances of the session
        there = placement_of(tuning_child.measure_placement(job)).circumstances
        assert there == circumstances(session.graph, session.graph.settings)
        child.allowed.set()
        assert session.wait(30)
        assert session.tuning == "exchanged"
        assert homes(session) == [("numpy", 3), ("onnxruntime", 3)]
        assert {one.state for one in session.status().values()} == {"ready"}
        np.testing.assert_allclose(session.run(None, {"x": X})[0], expected, rtol=1e-6)
    assert child.stopped
    assert not Path(job["model"]).exists()


@pytest.mark.parametrize(
    ("says", "told"),
    [(Child.gone, "its process ended with status -9"), (lambda: "{}", "ValueError")],
)
def test_a_session_stays_as_it_is_where_measuring_fails(says, told, tmp_path, children, caplog):
    with caplog.at_level(logging.WARNING, "subgraphkit.placement"), opened(tmp_path) as session:
        before, child = homes(session), first(children)
        child.says = says
        child.allowed.set()
        assert session.wait(30)
        assert session.tuning == "failed"
        assert homes(session) == before
    assert "measuring in the background failed, the session stays" in caplog.text
    assert told in caplog.text


def test_closing_ends_the_measuring(tmp_path, children, caplog):
    session = opened(tmp_path)
    child = first(children)
    session.close()
    assert child.stopped
    assert (session.tuning, session.wait(0)) == ("stopped", True)
    assert not caplog.records


def test_first_measures_before_the_session_opens_with_and_without_a_cache(tmp_path, children):
    for cache in (True, False):
        with opened(tmp_path, tune="first", cache=cache) as session:
            assert homes(session) == [("numpy", 3), ("onnxruntime", 3)]
            assert not session.tuning
    assert not children


def test_nothing_is_measured_for_named_backends_pins_and_what_is_known(tmp_path, children, caplog):
    with caplog.at_level(logging.INFO, "subgraphkit.placement"):
        with opened(tmp_path, backend="numpy") as named:
            assert not named.tuning
        pinned = Constraints(pins={0: "numpy"})
        with opened(tmp_path, tune="first", constraints=pinned) as demanded:
            assert homes(demanded)[0] == ("numpy", 1)
    assert caplog.text.count("measures for backend='auto' without demands alone") == 2
    bound = sk.bind(sk.load(CHAIN), {"N": 2}, backend="auto", cache_dir=tmp_path)
    keep_placement(halves(bound).placement, bound.settings)
    with opened(tmp_path) as known:
        assert not known.tuning
        assert homes(known) == [("numpy", 3), ("onnxruntime", 3)]
    assert not children
    stopped = replace(halves(bound).placement, figures={"complete": False})
    keep_placement(stopped, bound.settings)
    with opened(tmp_path) as unfinished:
        assert unfinished.tuning


def test_who_stops_a_session_that_measures_gets_none_and_no_arrays_no_measuring(
    tmp_path, monkeypatch, caplog
):
    def stopped(bound, **_):
        placement = replace(halves(bound).placement, figures={"complete": False})
        return SimpleNamespace(placement=placement)

    monkeypatch.setattr(tuning_child, "tune", stopped)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path, tune="first")
    monkeypatch.setattr(tuning_child, "tune", tune)
    text = parsed("agraph (string[2] x) => (string[2] y) { y = Identity(x) }")
    with sk.InferenceSession(text, "auto", tune="first", cache_dir=tmp_path) as session:
        assert session.run(None, {"x": np.array(["a", "b"], object)})[0].tolist() == ["a", "b"]
    assert "nothing was measured: input 'x' is string[2]" in caplog.text
