"""A session that answers while it is being built."""

import logging
import os
import threading

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Footprint, Traits
from subgraphkit.backend.footprint import ValuesPeak
from subgraphkit.backend.progress import Progress
from tests.fakes import ReferenceOperator, WeightedOperator, claiming
from tests.models import LINEAR, parsed
from tests.scripts import in_child

X = np.ones((1, 3), np.float32)
BOTH = ("MatMul", "Add")
BIAS = {"bias": np.zeros(2, np.float32)}


class Slow:
    """Makes backends that keep engines, and compile a region when they are allowed to."""

    def __init__(self):
        self.allowed = threading.Event()
        self.asked = threading.Event()
        self.compiled: list[str] = []
        self.operators: list[ReferenceOperator] = []

    def backend(self, operators, name, make=ReferenceOperator):
        slow = self

        def compile_(subgraph):
            self.asked.set()
            assert self.allowed.wait(30)
            self.compiled.append(subgraph.id)
            self.operators.append(make(subgraph))
            return self.operators[-1]

        class Storing(claiming(operators, name, make=compile_)):  # type: ignore[misc]
            def deserialize(self, blob, subgraph, context):
                slow.operators.append(make(subgraph))
                return slow.operators[-1]

        Storing.name = name
        return Storing


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.allowed.set()


def opened(*backends, **settings):
    return sk.InferenceSession(parsed(LINEAR), list(backends), build="background", **settings)


def value(session):
    return list(session.run(None, {"x": X})[0][0])


def states(session):
    """Say of each subgraph who runs it, who is to, and how far that is."""
    return {n: f"{s.backend} {s.wanted} {s.state}" for n, s in session.status().items()}


def test_a_session_answers_before_its_backends_have_compiled(slow):
    quick = claiming(BOTH, "quick")
    one, two = slow.backend(["MatMul"], "one"), slow.backend(["Add"], "two")
    with opened(one, two, quick) as session:
        assert slow.asked.wait(30)
        first = session.plan
        assert value(session) == [19, 32]
        assert not session.ready
        assert not session.wait(0)
        assert states(session) == {"one_0": "quick one compiling", "two_1": "quick two waiting"}
        assert slow.compiled == []
        slow.allowed.set()
        assert session.wait(30)
        assert session.ready
        assert slow.compiled == ["one_0", "two_1"]
        assert states(session) == {"one_0": "one one ready", "two_1": "two two ready"}
        assert [step.operator for step in session.plan.steps] == slow.operators
        assert [s.backend for s in session.partitioning.subgraphs] == ["one", "two"]
        assert value(session) == [19, 32]
        assert [step.operator.closed for step in first.steps] == [1]
    assert [operator.closed for operator in slow.operators] == [1, 1]


def refusing(error):
    def make(subgraph):
        raise error

    return make


def test_a_session_stays_as_it_is_where_a_backend_fails_with_a_reason(slow, caplog):
    slow.allowed.set()
    quick = claiming(BOTH, "quick")
    early = slow.backend(["MatMul"], "early")
    broken = slow.backend(["Add"], "broken", refusing(ValueError("no such kernel")))
    good = slow.backend(["Add"], "good")
    with (
        caplog.at_level(logging.WARNING, "subgraphkit.placement"),
        opened(early, broken, quick) as session,
    ):
        assert session.wait(30)
        assert states(session) == {
            "early_0": "quick early failed",
            "broken_1": "quick broken failed",
        }
        assert [one.closed for one in slow.operators] == [1]
        reason = session.status()["early_0"].reason
        assert "no such kernel" in reason
        assert [one.message for one in caplog.records] == [f"the session stays on quick: {reason}"]
        assert value(session) == [19, 32]

    # What is given back goes to who is next in the list, as in a session that is built before.
    giving = slow.backend(BOTH, "giving", refusing(sk.Unsupported("not that one")))
    caplog.clear()
    with opened(giving, good, quick) as session:
        assert session.wait(30)
        # Of the start nothing is reported, which nobody asked for; of what came of it once.
        (record,) = [one for one in caplog.records if one.name == "subgraphkit.placement"]
        assert "giving" in record.message
        assert states(session) == {"quick_0": "quick quick ready", "good_1": "good good ready"}
        assert value(session) == [19, 32]

    # Where nobody can be asked at all, everything stays.
    class Absent(good):  # type: ignore[misc, valid-type]
        def properties(self):
            raise OSError("the library is gone")

    with opened(Absent, quick) as session:
        assert session.wait(30)
        (status,) = session.status().values()
        assert (status.backend, status.wanted, status.state) == ("quick", "", "failed")
        assert "the library is gone" in status.reason
        assert value(session) == [19, 32]


def test_what_would_need_more_memory_than_allowed_is_not_built(slow):
    huge = slow.backend(["MatMul"], "huge")
    huge.footprint = lambda *_: Footprint(1 << 40, 0, ValuesPeak(0), 0)  # type: ignore[assignment]
    with opened(huge, claiming(BOTH, "quick"), max_memory="1GiB") as session:
        slow.allowed.set()
        assert session.wait(30)
        status = session.status()["huge_0"]
        assert (status.backend, status.state, slow.compiled) == ("quick", "failed", [])
        assert "SGK134" in status.reason
        assert value(session) == [19, 32]


def test_a_session_is_built_at_once_where_nothing_is_to_be_waited_for(slow):
    slow.allowed.set()
    quick = claiming(BOTH, "quick")
    with opened(quick) as session:
        assert session.wait(30)
        assert states(session) == {"quick_0": "quick quick ready"}
    with sk.InferenceSession(parsed(LINEAR), [quick]) as session:
        assert session.ready
        assert session.wait()
        assert states(session) == {"quick_0": "quick quick ready"}
    # Pins hold from the first run on.
    with opened(slow.backend(BOTH, "slow"), quick, pin="MatMul=slow") as session:
        assert session.ready
        assert states(session) == {"slow_0": "slow slow ready"}
    with opened(slow.backend(BOTH, "slow"), quick, require={"slow": 1.0}) as session:
        assert session.ready
    with pytest.raises(sk.errors.BackendNotFoundError):
        opened("nonesuch", quick)
    # The fallback starts where every backend of the list keeps engines.
    slow.allowed.clear()
    with opened(slow.backend(["MatMul"], "slow")) as session:
        assert value(session) == [19, 32]
        slow.allowed.set()
        assert session.wait(30)
        assert states(session) == {"slow_0": "slow slow ready", "numpy_1": "numpy numpy ready"}


@pytest.mark.parametrize("make", [WeightedOperator, ReferenceOperator])
def test_weights_that_change_meanwhile_hold_after_it(slow, make):
    one, two = slow.backend(["MatMul"], "one", make), slow.backend(["Add"], "two", make)
    with opened(one, two, claiming(BOTH, "quick")) as session:
        assert slow.asked.wait(30)
        session.update_weights(BIAS)
        assert value(session) == [9, 12]
        slow.allowed.set()
        assert session.wait(30)
        assert {one.state for one in session.status().values()} == {"ready"}
        assert value(session) == [9, 12]
        assert session.weight_versions == {"bias": 1}


class Stored(ReferenceOperator):
    def serialize(self):
        return b"engine"


def test_engines_of_the_cache_are_not_compiled_again(slow, tmp_path):
    slow.allowed.set()
    backends = [slow.backend(BOTH, "slow", Stored), claiming(BOTH, "quick")]
    for _ in range(2):
        with opened(*backends, cache_dir=tmp_path) as session:
            assert session.wait(30)
            assert states(session) == {"slow_0": "slow slow ready"}
            assert value(session) == [19, 32]
    assert slow.compiled == ["slow_0"]
    assert [operator.closed for operator in slow.operators] == [1, 1, 1]  # one for the proof


def test_closing_stops_the_build_and_leaves_nothing(slow):
    before = threading.active_count()
    backends = [slow.backend(["MatMul"], "one"), slow.backend(["Add"], "two")]
    session = opened(*backends, claiming(BOTH, "quick"))
    first = session.plan
    assert slow.asked.wait(30)
    threading.Timer(0.05, slow.allowed.set).start()
    session.close()
    assert session.ready
    assert slow.compiled == ["one_0"]
    assert [operator.closed for operator in slow.operators] == [1]
    assert [step.operator.closed for step in first.steps] == [1]
    assert {one.state for one in session.status().values()} == {"failed"}
    assert threading.active_count() <= before + 1  # the timer, at most


class Forkable(ReferenceOperator):
    traits = Traits(thread_safe=True, fork_safe=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_waits_for_nothing(slow):
    quick = claiming(BOTH, "quick", make=Forkable)
    with opened(slow.backend(["MatMul"], "one"), quick) as session:

        def elsewhere():
            waited, status = session.wait(30), session.status()["one_0"]
            return f"{waited} {value(session) == [19, 32]} {status.backend} {status.state}"

        assert slow.asked.wait(30)
        said = in_child(elsewhere)
        assert said == "True True quick failed"
        slow.allowed.set()
        assert session.wait(30)
        assert states(session)["one_0"] == "one one ready"


def test_the_caller_is_told_how_far_it_is_and_may_stop_it(slow):
    slow.allowed.set()
    told: list[tuple[int, int | None, str]] = []
    progress = Progress(lambda event: told.append((event.done, event.total, event.message)))
    backends = [slow.backend(["MatMul"], "one"), slow.backend(["Add"], "two")]
    with opened(*backends, claiming(BOTH, "quick"), progress=progress) as session:
        assert session.wait(30)
    assert told == [(0, 2, "one_0"), (1, 2, "two_1"), (2, 2, "")]

    def stop(event):
        if event.message == "one_0":
            progress.cancel(TimeoutError("enough"))

    progress = Progress(stop)
    with opened(*backends, claiming(BOTH, "quick"), progress=progress) as session:
        assert session.wait(30)
        assert states(session) == {"one_0": "quick one failed", "two_1": "quick two failed"}
        assert session.status()["two_1"].reason == "TimeoutError: enough"
        assert value(session) == [19, 32]
