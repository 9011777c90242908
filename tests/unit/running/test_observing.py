"""Steps and runs, as extensions hear of them, and the code of a plan that nobody listens to."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import RunEvent, StepEvent
from subgraphkit.errors import ExecutionError
from tests.fakes import claiming, extended, failing
from tests.models import CHAIN, parsed

FEEDS = {"x": np.array([[1, -2, 3, -4]], np.float32)}


class Listener:
    def __init__(self) -> None:
        self.runs: list[RunEvent] = []
        self.steps: list[StepEvent] = []

    @sk.hookimpl
    def subgraphkit_step(self, event: StepEvent) -> None:
        self.steps.append(event)

    @sk.hookimpl
    def subgraphkit_run_end(self, event: RunEvent) -> None:
        self.runs.append(event)


@pytest.fixture
def listener() -> Iterator[Listener]:
    with extended(Listener()) as heard:
        yield heard


def opened(*backends: Any, **settings: Any) -> sk.InferenceSession:
    return sk.InferenceSession(parsed(CHAIN), list(backends), {"N": 1}, **settings)


def test_every_step_is_told_inside_its_run_on_one_clock(listener: Listener) -> None:
    with opened(claiming(["Neg"], "one"), claiming(["Relu"], "two")) as session:
        session.run(None, FEEDS)
        session.run(None, FEEDS)
        binding = session.io_binding()
        binding.bind_cpu_input("x", FEEDS["x"])
        binding.bind_output("y")
        session.run_with_iobinding(binding)
    assert [run.run for run in listener.runs] == [0, 1, 2]
    for run in listener.runs:
        steps = [step for step in listener.steps if step.run == run.run]
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


def test_a_step_that_fails_says_why_and_the_failure_is_the_same(listener: Listener) -> None:
    make = failing(ValueError, "out of luck")
    with opened(claiming(["Neg"], "one", make=make)) as session:
        with pytest.raises(ExecutionError, match=r"subgraph 'one_1' .* failed while running"):
            session.run(None, FEEDS)
        assert listener.steps[-1].error == "ValueError: out of luck"
        session.exchange(lambda now: now)
    with opened(claiming(["Neg"], "one", make=make), on_run_error="fallback") as session:
        with pytest.warns(sk.errors.SubgraphkitWarning):
            session.run(None, FEEDS)
        assert listener.steps[-1].error is None


def test_without_a_listener_the_code_of_a_plan_runs_as_it_was_written(
    request: pytest.FixtureRequest,
) -> None:
    with opened("numpy") as session:
        plain = session._variants.plain
        assert session._execute is plain.execute
        assert plain.execute.__name__ == "execute"
        assert plain.execute.__globals__["run0"] == session.plan.steps[0].operator.run
    request.getfixturevalue("listener")
    with opened("numpy") as session:
        assert session._variants.plain.source == plain.source
        assert session._execute.__name__ == "execute_reported"
