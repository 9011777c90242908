"""What extensions hear of sessions, runs and steps."""

import threading
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.backend import Event, RunEvent, StepEvent
from subgraphkit.errors import ExecutionError, InputError, SubgraphkitWarning
from tests.fakes import claiming, extended, failing
from tests.models import CHAIN, DIAMOND, parsed

FEEDS = {"x": np.array([[1, -2, 3, -4]], np.float32)}


class Clock:
    def __init__(self):
        self.runs: list[RunEvent] = []
        self.steps: list[StepEvent] = []

    @sk.hookimpl
    def subgraphkit_step(self, event):
        self.steps.append(event)

    @sk.hookimpl
    def subgraphkit_run_end(self, event):
        self.runs.append(event)


@pytest.fixture
def clock():
    with extended(Clock()) as heard:
        yield heard


def opened(*backends, **settings):
    return sk.InferenceSession(parsed(CHAIN), list(backends), {"N": 1}, **settings)


def test_every_step_is_told_inside_its_run_on_one_clock(clock):
    with opened(claiming(["Neg"], "one"), claiming(["Relu"], "two")) as session:
        session.run(None, FEEDS)
        session.run(None, FEEDS)
        binding = session.io_binding()
        binding.bind_cpu_input("x", FEEDS["x"])
        binding.bind_output("y")
        session.run_with_iobinding(binding)
    assert [run.run for run in clock.runs] == [0, 1, 2]
    for run in clock.runs:
        steps = [step for step in clock.steps if step.run == run.run]
        assert [(s.subgraph, s.backend) for s in steps] == [
            ("two_0", "two"),
            ("one_1", "one"),
            ("two_2", "two"),
        ]
        assert {(s.model, s.session, s.thread, s.error) for s in steps} == {
            ("chain", run.session, threading.get_ident(), None)
        }
        assert run.seconds is not None
        ends = [run.start, *(t for s in steps for t in (s.start, s.start + s.seconds))]
        assert sorted(ends) == ends
        assert ends[-1] <= run.start + run.seconds


def test_a_step_that_fails_says_why_and_the_failure_is_the_same(clock):
    make = failing(ValueError, "out of luck")
    with opened(claiming(["Neg"], "one", make=make)) as session:
        with pytest.raises(ExecutionError, match=r"subgraph 'one_1' .* failed while running"):
            session.run(None, FEEDS)
        assert clock.steps[-1].error == "ValueError: out of luck"
        session.exchange(lambda now: now)
    with opened(claiming(["Neg"], "one", make=make), on_run_error="fallback") as session:
        with pytest.warns(sk.errors.SubgraphkitWarning):
            session.run(None, FEEDS)
        assert clock.steps[-1].error is None


def test_without_a_listener_the_code_of_a_plan_runs_as_it_was_written(request):
    with opened("numpy") as session:
        plain = session._variants.plain
        assert session._execute is plain.execute
        assert plain.execute.__name__ == "execute"
        assert plain.execute.__globals__["run0"] == session.plan.steps[0].operator.run
    request.getfixturevalue("clock")
    with opened("numpy") as session:
        assert session._variants.plain.source == plain.source
        assert session._execute.__name__ == "execute_reported"


X = {"x": np.ones((2, 4), np.float32)}


class Listener:
    """Keeps what it hears, in order: the hook, and whom it is about."""

    def __init__(self):
        self.heard: list[tuple[str, tuple[str, int], Any]] = []

    def note(self, hook, told):
        self.heard.append((hook, (told.model, told.session), told))

    def about(self, session):
        whom = (session.partitioning.model, session.number)
        found = [(hook, told) for hook, who, told in self.heard if who == whom]
        return [(hook, told.subgraph if isinstance(told, Event) else "") for hook, told in found]

    @sk.hookimpl
    def subgraphkit_plan(self, partitioning):
        self.note("plan", partitioning)

    @sk.hookimpl
    def subgraphkit_fallback(self, event):
        self.note(event.level, event)

    subgraphkit_compiled = sk.hookimpl(lambda self, event: self.note("compiled", event))
    subgraphkit_run_start = sk.hookimpl(lambda self, event: self.note("start", event))
    subgraphkit_run_end = sk.hookimpl(lambda self, event: self.note("end", event))


@pytest.fixture
def listener():
    with extended(Listener()) as heard:
        yield heard


def test_an_observer_tells_sessions_and_models_apart(listener, tmp_path):
    onnx.save(parsed(CHAIN), tmp_path / "file.onnx")
    backends = [claiming(["Neg"], "one"), "absent?", "numpy"]
    first = sk.InferenceSession(tmp_path / "file.onnx", backends)
    second = sk.InferenceSession(tmp_path / "file.onnx", backends)
    other = sk.InferenceSession(parsed(DIAMOND), backends)
    again = sk.Session(first.plan)  # another session of the same bind
    for session in (second, first, again):
        session.run(None, X)
    assert len({first.number, second.number, other.number, again.number}) == 4
    opened = [
        ("selection", ""),
        ("plan", ""),
        ("compiled", "numpy_0"),
        ("compiled", "one_1"),
        ("compiled", "numpy_2"),
        ("partition", ""),  # who was named first has less than half
    ]
    runs = [("start", ""), ("end", "")]
    assert listener.about(first) == listener.about(second) == opened + runs
    assert listener.about(again) == runs
    assert {one for one, _ in listener.about(other)} == {one for one, _ in opened}
    models = [first.partitioning.model, again.partitioning.model, other.partitioning.model]
    assert models == ["file.onnx", "file.onnx", "diamond"]


Failing = failing(ZeroDivisionError, "a kernel divided by zero")


def test_a_run_that_fails_names_the_subgraph_if_one_failed(listener):
    session = sk.InferenceSession(parsed(CHAIN), [claiming(["Neg"], "bad", make=Failing)])
    with pytest.raises(ExecutionError):
        session.run(None, X)
    with pytest.raises(InputError):
        session.run(None, {})
    ends = [(it.run, it.subgraph, it.error) for hook, _, it in listener.heard if hook == "end"]
    assert ends[0] == (0, "bad_1", "ZeroDivisionError: a kernel divided by zero")
    assert ends[1][:2] == (1, "")
    assert ends[1][2].startswith("InputError: ")


def test_nodes_that_move_are_told_of_their_subgraph(listener):
    def given_back(subgraph):
        raise sk.Unsupported("too hard")

    picky = claiming(["Abs"], "picky", make=given_back)
    bad = claiming(["Neg"], "bad", make=Failing)
    settings = {"on_run_error": "fallback", "on_fallback": "warn"}
    session = sk.InferenceSession(parsed(DIAMOND), [bad, picky], **settings)
    with pytest.warns(SubgraphkitWarning, match="divided by zero"):
        session.run(None, {"x": np.ones((2, 3), np.float32)})
    moved = [it for it in listener.about(session) if it[0] in {"unsupported", "partition", "run"}]
    assert moved == [("unsupported", "picky_2"), *[("partition", "")] * 2, ("run", "bad_1")]
