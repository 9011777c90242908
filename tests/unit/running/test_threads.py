"""One session, many threads."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.lazy import cached_property
from subgraphkit.running.gate import Gate
from tests.fakes import ReferenceOperator, WeightedOperator, claiming
from tests.interrupting import interrupt
from tests.models import CHAIN, LINEAR, parsed
from tests.scripts import in_child


class Crowded(ReferenceOperator):
    """Counts how many threads are inside at once."""

    inside = 0
    most = 0

    def run(self, inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
        type(self).inside += 1
        type(self).most = max(self.most, self.inside)
        time.sleep(0.001)
        type(self).inside -= 1
        return super().run(inputs)


def test_an_operator_that_is_not_thread_safe_runs_alone() -> None:
    session = sk.InferenceSession(parsed(CHAIN), [claiming(["Relu", "Neg"], make=Crowded)])
    feeds = [{"x": np.full((1, 4), i, np.float32)} for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda feed: session.run(None, feed)[0][0, 0], feeds))
    assert results == [0] * 24
    assert Crowded.most == 1


def test_a_run_sees_all_new_weights_or_none() -> None:
    session = sk.InferenceSession(
        parsed(LINEAR),
        [
            claiming(["MatMul"], "one", make=WeightedOperator),
            claiming(["Add"], "two", make=WeightedOperator),
        ],
    )
    x = np.ones((1, 3), np.float32)
    stop = threading.Event()
    seen: set[tuple[float, float]] = set()

    def run() -> None:
        while not stop.is_set():
            seen.add(tuple(session.run(None, {"x": x})[0][0]))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(run)
        for value in (0.0, 1.0, 2.0) * 5:
            session.update_weights(
                {
                    "w": np.full((3, 2), value, np.float32),
                    "bias": np.full(2, 100 * value, np.float32),
                }
            )
        stop.set()
    assert seen <= {(19.0, 32.0), (0.0, 0.0), (103.0, 103.0), (206.0, 206.0)}


def test_a_change_waits_for_the_runs_inside() -> None:
    gate = Gate()
    order: list[str] = []
    with ThreadPoolExecutor(1) as pool:

        def run(_: object) -> Future[None]:
            pending = pool.submit(gate.alone, lambda: order.append("change"))
            time.sleep(0.05)
            order.append("run ends")
            return pending

        gate.through(run, None).result(5)
    assert order == ["run ends", "change"]


def test_runs_interrupted_anywhere_keep_nobody_out_and_nothing_waiting() -> None:
    gate = Gate()

    def run() -> None:
        gate.through(int, 0)

    with ThreadPoolExecutor(1) as pool:
        for number in range(60):
            interrupt(run, after=number * 1e-5)
            assert pool.submit(gate.alone, lambda: True).result(10)
            assert gate.alone(lambda: True)


def test_changes_interrupted_anywhere_keep_no_run_out() -> None:
    gate = Gate()

    def run() -> bool:
        return gate.through(bool, 1)

    with ThreadPoolExecutor(1) as pool:
        for number in range(60):
            assert pool.submit(run).result(10)
            interrupt(lambda: gate.alone(lambda: None), after=number * 1e-5)
            assert pool.submit(run).result(10)
            assert run()


def test_a_busy_session_cannot_put_a_change_off() -> None:
    gate = Gate()
    stop = threading.Event()

    def run_for_ever() -> None:
        while not stop.is_set():
            gate.through(time.sleep, 0.0001)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(run_for_ever)
        try:
            for _ in range(50):
                gate.alone(lambda: None)
        finally:
            stop.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_runs_what_has_no_threads_and_refuses_the_rest() -> None:
    feeds = {"x": np.full((1, 4), 2, np.float32)}
    ours = sk.InferenceSession(parsed(CHAIN), "numpy")
    expected = ours.run(None, feeds)
    crowded = claiming(["Relu", "Neg"], "crowded", make=Crowded)
    sk.register_backend(crowded)
    theirs = sk.InferenceSession(parsed(CHAIN), "crowded")

    def elsewhere() -> str:
        said = [str(np.array_equal(ours.run(None, feeds), expected))]
        for call in (theirs.run, theirs.run):
            with pytest.raises(sk.SubgraphkitError) as caught:
                call(None, feeds)
            said.append(caught.value.code)
            theirs.close()
        # another thread was inside, so even a new session might wait for ever
        with pytest.raises(sk.SubgraphkitError) as caught:
            sk.InferenceSession(parsed(CHAIN), "crowded")
        return " ".join([*said, caught.value.code])

    inside, go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        inside.set()
        go_on.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(theirs._gate.through, partial(ours._gate.through, hold), None)
        inside.wait()
        try:
            assert in_child(elsewhere) == "True SGK127 SGK127 SGK127"
        finally:
            go_on.set()
    assert in_child(lambda: repr(sk.InferenceSession(parsed(CHAIN), "crowded"))[:16]) == (
        "InferenceSession"
    )
    sk.unregister_backend("crowded")
    assert np.array_equal(theirs.run(None, feeds), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("backend", ["onednn", "onnxruntime", "openvino"])
def test_a_forked_child_opens_what_its_parent_opened_and_closed(backend: str) -> None:
    feeds = {"x": np.full((1, 4), 2, np.float32)}

    def run() -> str:
        with sk.InferenceSession(parsed(CHAIN), backend, cache="off") as session:
            return str(session.run(None, feeds)[0].tolist())

    def elsewhere() -> str:
        signal.alarm(30)  # a thread that the library waits for is not there
        return run()

    assert in_child(elsewhere) == run() == in_child(elsewhere)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_computes_the_properties_that_a_thread_of_the_parent_was_computing() -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self) -> int:
            inside.set()
            go_on.wait()
            return 5

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: Slow().value)
        inside.wait()

        def elsewhere() -> str:
            go_on.set()
            return str(Slow().value)

        try:
            assert in_child(elsewhere) == "5"
        finally:
            go_on.set()
        assert asked.result() == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_answers_and_counts_without_the_threads_of_its_parent() -> None:
    feeds = {"x": np.full((1, 4), 2, np.float32)}
    with sk.InferenceSession(parsed(CHAIN), "numpy") as session:
        session.stats()
        expected = asyncio.run(session.arun(feeds))
        stream = session.stream([feeds] * 5, depth=2)
        next(stream)
        tally = session._observer.tally
        assert tally is not None

        def elsewhere() -> str:
            (result,) = asyncio.run(session.arun(feeds, timeout=60))
            ran = session.stats().runs
            assert session.ping()
            with pytest.raises(sk.SubgraphkitError, match="SGK127"):
                next(stream)
            session.close()
            return f"{np.array_equal(result, expected[0])} {session.stats().runs - ran}"

        with tally._lock:  # as another thread may have it at that moment
            assert in_child(elsewhere) == "True 1"
        assert len(list(stream)) == 4
