"""One session, many threads, and several runs under way at once."""

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import CallerError
from subgraphkit.lazy import cached_property
from subgraphkit.running.gate import Gate
from tests.fakes import ReferenceOperator, WeightedOperator, claiming
from tests.interrupting import interrupt
from tests.models import CHAIN, LINEAR, parsed
from tests.scripts import in_child
from tests.unit.running.test_answering import PATIENCE, item, opened


class Crowded(ReferenceOperator):
    """Counts how many threads are inside at once."""

    inside = 0
    most = 0

    def run(self, inputs, outputs=None):
        type(self).inside += 1
        type(self).most = max(self.most, self.inside)
        time.sleep(0.001)
        type(self).inside -= 1
        return super().run(inputs)


def test_an_operator_that_is_not_thread_safe_runs_alone():
    session = sk.InferenceSession(parsed(CHAIN), [claiming(["Relu", "Neg"], make=Crowded)])
    feeds = [{"x": np.full((1, 4), i, np.float32)} for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda feed: session.run(None, feed)[0][0, 0], feeds))
    assert results == [0] * 24
    assert Crowded.most == 1


def test_a_run_sees_all_new_weights_or_none():
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

    def run():
        while not stop.is_set():
            seen.add(tuple(session.run(None, {"x": x})[0][0]))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(run)
        for value in (0.0, 1.0, 2.0) * 5:
            w = np.full((3, 2), value, np.float32)
            session.update_weights({"w": w, "bias": np.full(2, 100 * value, np.float32)})
        stop.set()
    assert seen <= {(19.0, 32.0), (0.0, 0.0), (103.0, 103.0), (206.0, 206.0)}


def test_a_change_waits_for_the_runs_inside():
    gate = Gate()
    order: list[str] = []
    with ThreadPoolExecutor(1) as pool:

        def run(_):
            pending = pool.submit(gate.alone, lambda: order.append("change"))
            time.sleep(0.05)
            order.append("run ends")
            return pending

        gate.through(run, None).result(5)
    assert order == ["run ends", "change"]


def test_runs_interrupted_anywhere_keep_nobody_out_and_nothing_waiting():
    gate = Gate()

    def run():
        gate.through(int, 0)

    with ThreadPoolExecutor(1) as pool:
        for number in range(60):
            interrupt(run, after=number * 1e-5)
            assert pool.submit(gate.alone, lambda: True).result(10)
            assert gate.alone(lambda: True)


def test_changes_interrupted_anywhere_keep_no_run_out():
    gate = Gate()

    def run():
        return gate.through(bool, 1)

    with ThreadPoolExecutor(1) as pool:
        for number in range(60):
            assert pool.submit(run).result(10)
            interrupt(lambda: gate.alone(lambda: None), after=number * 1e-5)
            assert pool.submit(run).result(10)
            assert run()


def test_a_busy_session_cannot_put_a_change_off():
    gate = Gate()
    stop = threading.Event()

    def run_for_ever():
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
def test_a_forked_child_runs_what_has_no_threads_and_refuses_the_rest():
    feeds = {"x": np.full((1, 4), 2, np.float32)}
    ours = sk.InferenceSession(parsed(CHAIN), "numpy")
    expected = ours.run(None, feeds)
    crowded = claiming(["Relu", "Neg"], "crowded", make=Crowded)
    sk.register_backend(crowded)
    theirs = sk.InferenceSession(parsed(CHAIN), "crowded")

    def elsewhere():
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

    def hold(_):
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
def test_a_forked_child_opens_what_its_parent_opened_and_closed(backend):
    feeds = {"x": np.full((1, 4), 2, np.float32)}

    def run():
        with sk.InferenceSession(parsed(CHAIN), backend, cache="off") as session:
            return str(session.run(None, feeds)[0].tolist())

    def elsewhere():
        signal.alarm(30)  # a thread that the library waits for is not there
        return run()

    assert in_child(elsewhere) == run() == in_child(elsewhere)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_computes_the_properties_that_a_thread_of_the_parent_was_computing():
    inside, go_on = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self):
            inside.set()
            go_on.wait()
            return 5

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: Slow().value)
        inside.wait()

        def elsewhere():
            go_on.set()
            return str(Slow().value)

        try:
            assert in_child(elsewhere) == "5"
        finally:
            go_on.set()
        assert asked.result() == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_answers_and_counts_without_the_threads_of_its_parent():
    feeds = {"x": np.full((1, 4), 2, np.float32)}
    with sk.InferenceSession(parsed(CHAIN), "numpy") as session:
        session.stats()
        expected = asyncio.run(session.arun(feeds))
        stream = session.stream([feeds] * 5, depth=2)
        next(stream)
        tally = session._observer.tally
        assert tally is not None

        def elsewhere():
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


def test_a_stream_keeps_the_order_and_reads_no_further_than_it_runs():
    read: list[int] = []

    def items():
        for number in range(30):
            read.append(number)
            yield item(number)

    with opened() as session:
        for place, (y,) in enumerate(session.stream(items(), depth=3)):
            assert (y, len(read) <= place + 3) == (-place, True)
        assert (place, list(session.stream([], 2))) == (29, [])
        with pytest.raises(CallerError, match=r"SGK142.*depth"):
            session.stream(items(), depth=0)


def test_two_subgraphs_of_a_stream_work_at_the_same_time():
    # Each waits in its run for the other: on the item before it, or after it.
    both = threading.Barrier(2, timeout=PATIENCE)

    def meeting(*, first):
        class Meeting(ReferenceOperator):
            def run(self, inputs, outputs=None):
                self.count = getattr(self, "count", 0) + 1
                if self.count != (1 if first else 6):
                    both.wait()
                return super().run(inputs, outputs)

        return Meeting

    backends = [
        claiming(["Relu"], "first", make=meeting(first=True)),
        claiming(["Neg"], "second", make=meeting(first=False)),
    ]
    with opened(backend=backends) as session:
        found = [y[0] for (y,) in session.stream(map(item, range(6)), depth=2)]
        assert found == [0, -1, -2, -3, -4, -5]


def test_an_error_in_a_stream_comes_at_its_place():
    def broken():
        yield item(1)
        yield item(2)
        raise LookupError("no more")

    with opened() as session:
        cases = ([item(1), item(2), {}, item(4)], CallerError), (broken(), LookupError)
        for items, kind in cases:
            results = session.stream(items, depth=4)
            assert [next(results)[0][0], next(results)[0][0]] == [-1, -2]
            with pytest.raises(kind):
                next(results)
            assert list(results) == []


def test_a_stream_of_what_arrives_answers_before_the_next_and_leaves_it_when_closed():
    async def main():
        answers: asyncio.Queue[int] = asyncio.Queue()

        async def items():
            for value in range(5):
                yield item(value)
                await answers.get()
            raise asyncio.CancelledError  # as of a task that the items waited for

        with opened() as session:
            stream = session.stream(items(), depth=4)
            for value in range(5):
                assert await anext(stream) == [-value]
                answers.put_nowait(value)
            with pytest.raises(asyncio.CancelledError):
                await anext(stream)
            stream = session.stream(source := items(), depth=4)
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]  # an iterator is not said to have it
            await source.aclose()  # which nobody reads any more

    asyncio.run(main())
