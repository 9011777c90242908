"""A session answers many: it warms up, says that it is well, counts, and runs beside the caller."""

import asyncio
import contextvars
import math
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Traits
from subgraphkit.errors import CallerError, ExecutionError, RunCancelledError, RunTimeoutError
from subgraphkit.running import turns as turns_module
from subgraphkit.running.streams import await_run
from subgraphkit.running.turns import Turns
from tests.fakes import ReferenceOperator, claiming
from tests.models import parsed

ROWS = (
    "rows (float[N,4] x, float[N,K] m) => (float[N,4] y, float[N,K] n) { y = Relu(x) n = Neg(m) }"
)
TWO = "two (float[N] x) => (float[N] y) { a = Relu(x) y = Neg(a) }"
PATIENCE = 60.0


def opened(text=TWO, backend="numpy", **how):
    return sk.InferenceSession(parsed(text), backend, **how)


def item(value):
    return {"x": np.full(1, value, np.float32)}


async def until(happened):
    while not happened():  # noqa: ASYNC110 (it happens on another thread)
        await asyncio.sleep(0)


class Held(ReferenceOperator):
    """Runs when it is let; the value of the input says whether it fails."""

    traits = Traits(thread_safe=True)
    begun = threading.Semaphore(0)
    go_on = threading.Event()
    inside: contextvars.ContextVar[str] = contextvars.ContextVar("inside", default="")
    seen: list[str] = []  # noqa: RUF012 (one for all, emptied by the fixture)

    def run(self, inputs, outputs=None):
        Held.seen.append(Held.inside.get())
        Held.begun.release()
        assert Held.go_on.wait(PATIENCE)
        if (inputs[0] == 13).any():
            raise ValueError("thirteen")
        return super().run(inputs, outputs)


@pytest.fixture
def held():
    Held.begun, Held.go_on = threading.Semaphore(0), threading.Event()
    Held.seen.clear()
    with opened(backend=[claiming(["Relu"], "held", make=Held), "numpy"]) as session:
        yield session
        Held.go_on.set()


def test_a_warm_up_makes_up_what_fits():
    with opened(ROWS) as session:
        seen: list[tuple[int, ...]] = []
        stats = session.stats()
        assert (stats.runs, sum(stats.histogram.values())) == (0, 0)
        assert session.warm_up() > 0
        for shapes in ({"N": 3, "K": 2}, {"x": (3, 4), "m[1]": 2}):
            session.warm_up(shapes, runs=2)
            assert session._small_feeds is not None
            seen += [array.shape for array in session._small_feeds.values()]
        assert seen == [(3, 4), (3, 2)] * 2
        m = np.ones((7, 1), np.float32)
        session.warm_up(feeds={"m": m})
        assert session._small_feeds is not None
        assert session._small_feeds["m"] is m
        assert session._small_feeds["x"].shape == (7, 4)
        assert session.stats().runs == 6
        with pytest.raises(sk.SubgraphkitError, match="SGK220"):
            session.warm_up({"Q": 3})
        with pytest.raises(CallerError, match=r"SGK142.*runs is 0"):
            session.warm_up(runs=0)


def test_what_cannot_be_made_up_is_given_once():
    with opened("t (string[N] x) => (string[N] y) { y = Identity(x) }") as session:
        with pytest.raises(CallerError, match=r"SGK197.*'x'"):
            session.warm_up()
        with pytest.raises(CallerError, match="SGK197"):
            session.ping()
        session.warm_up(feeds={"x": np.array(["a"], object)})
        assert session.ping()


def test_a_ping_fails_where_the_backend_does_and_not_where_a_caller_did():
    class Dying(ReferenceOperator):
        problem: type[Exception] | None = None

        def run(self, inputs, outputs=None):
            if Dying.problem is not None:
                raise Dying.problem("gone")
            return super().run(inputs, outputs)

    with opened(backend=[claiming(["Relu"], "dying", make=Dying), "numpy"]) as session:
        for bad in ({}, {"x": np.ones(2)}, {"z": 1}):
            with pytest.raises(sk.SubgraphkitError):
                session.run(None, bad)
            assert session.ping()
        assert session.ping(recent_s=PATIENCE)
        session.run(None, item(1))
        Dying.problem = OSError
        with pytest.raises(ExecutionError, match=r"SGK131.*gone"):
            session.ping()
        assert session.ping(recent_s=PATIENCE)  # the run before it is an answer
        Dying.problem = None
        assert session.ping()
    with pytest.raises(CallerError, match="SGK144"):
        session.ping()


def test_a_ping_is_over_in_time_though_the_backend_hangs(held):
    for _ in range(2):
        with pytest.raises(RunTimeoutError, match="SGK138"):
            held.ping(0.01)
    assert len(Held.seen) == 1  # there is one at a time
    Held.go_on.set()
    while held._pulse is not None:
        pass
    assert held.ping(math.inf)


def test_runs_are_counted_by_who_was_at_fault(held):
    plain = held._execute
    Held.go_on.set()
    held.run(None, item(1))
    assert held.stats().runs == 0
    assert held._execute is not plain
    held.run(None, item(1))
    held.run(None, item(1), timeout_s=PATIENCE)
    binding = held.io_binding()
    binding.bind_cpu_input("x", item(1)["x"])
    binding.bind_output("y")
    held.run_with_iobinding(binding)
    with pytest.raises(ExecutionError):
        held.run(None, item(13))
    for bad in ({}, {"x": 1j}):
        with pytest.raises(CallerError):
            held.run(None, bad)
    with pytest.raises(RunTimeoutError):
        held.run(None, item(1), timeout_s=0)
    stats = held.stats()
    assert (stats.runs, stats.in_flight) == (3, 0)
    assert dict(stats.errors) == {"caller": 2, "model": 0, "backend": 1, "machine": 1}
    assert sum(stats.histogram.values()) == 3
    assert stats.seconds > 0


def test_what_is_under_way_is_counted_and_counts_outlive_closing(held):
    assert held.stats().in_flight == 0
    thread = threading.Thread(target=held.run, args=(None, item(1)))
    thread.start()
    Held.begun.acquire()
    assert held.stats().in_flight == 1
    Held.go_on.set()
    thread.join()
    held.close()
    assert (held.stats().runs, held.stats().in_flight) == (1, 0)


def test_a_run_that_moves_to_the_fallback_is_no_error():
    Held.go_on.set()
    backends = [claiming(["Relu"], "held", make=Held), "numpy"]
    with opened(backend=backends, on_run_error="fallback") as session:
        session.stats()
        with pytest.warns(sk.errors.SubgraphkitWarning, match="thirteen"):
            session.run(None, item(13))
        assert not any(session.stats().errors.values())


def test_coroutines_leave_the_loop_alone_and_carry_the_context(held):
    async def main():
        Held.inside.set("here")
        tasks = [asyncio.create_task(held.arun(item(n))) for n in range(-1, 4)]
        await until(lambda: Held.begun.acquire(blocking=False))  # the loop turns meanwhile
        Held.go_on.set()
        assert [y[0] for y, *_ in await asyncio.gather(*tasks)] == [0, 0, -1, -2, -3]
        assert await held.arun(item(5), ["y"]) == [-5]
        left = weakref.ref(given := threading.Event())
        await await_run(tasks[0], PATIENCE, given.is_set)
        del given
        assert left() is None  # as are the feeds, before Python looks for cycles

    asyncio.run(main())
    assert set(Held.seen) == {"here"}


def test_a_task_that_is_cancelled_or_late_ends_its_run(held):
    ended: list[BaseException] = []
    run = held.run

    def watched(*arguments, **more):
        try:
            return run(*arguments, **more)
        except sk.SubgraphkitError as error:
            ended.append(error)
            raise

    held.run = watched  # type: ignore[method-assign]

    async def main():
        task = asyncio.create_task(held.arun(item(1)))
        await until(lambda: Held.begun.acquire(blocking=False))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RunTimeoutError, match=r"SGK138.*timeout(_s)?=0\.01"):
            await held.arun(item(1), timeout=0.01)
        with pytest.raises(CallerError, match=r"SGK142.*timeout is -1"):
            await held.arun(item(1), timeout=-1)
        Held.go_on.set()
        await until(lambda: {*map(type, ended)} >= {RunCancelledError, RunTimeoutError})

    asyncio.run(main())
    assert {type(error) for error in ended} == {RunCancelledError, RunTimeoutError}
    assert held.run(None, item(2))[0] == -2


def test_no_more_wait_than_may_and_a_deadline_is_heard_while_waiting(held, monkeypatch):
    monkeypatch.setattr(turns_module, "_LONG_SECONDS", PATIENCE)

    async def main():
        count = held._pool()._places
        running = [asyncio.create_task(held.arun(item(1))) for _ in range(count)]
        await until(lambda: len(Held.seen) == count)
        waiting = [asyncio.create_task(held.arun(item(2), max_waiting=2)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(CallerError, match=r"SGK198.*max_waiting=2") as caught:
            await held.arun(item(3), max_waiting=2)
        assert caught.value.fault == "machine"
        started = time.monotonic()
        with pytest.raises(RunTimeoutError, match="SGK138"):
            await held.arun(item(3), timeout=0.001)
        assert time.monotonic() - started < 0.1  # it has not begun, so nothing is waited for
        Held.go_on.set()
        assert [y[0] for (y,) in await asyncio.gather(*waiting)] == [-2, -2]
        await asyncio.gather(*running)
        assert await held.arun(item(4), max_waiting=1)  # there is room again

    asyncio.run(main())


def test_callers_take_turns_and_a_long_run_keeps_nobody_waiting():
    async def main():
        turns, go_on, order = Turns(1), threading.Event(), list[str]()

        def submitted(work, *given, caller=None):
            answer = asyncio.get_running_loop().create_future()
            turns.submit(lambda: work(*given), answer, caller)
            return answer

        long = submitted(go_on.wait, PATIENCE)
        await until(lambda: not len(turns))
        await asyncio.gather(*(submitted(order.append, one, caller=one) for one in "aaab"))
        assert (order, long.done()) == (list("abaa"), False)
        others = [submitted(go_on.wait, PATIENCE, caller="a") for _ in range(20)]
        assert await submitted(int, caller="b") == 0  # as soon as the second is long
        await until(lambda: len(turns) == len(others) - turns_module._MOST_OF_ONE)
        await asyncio.sleep(5 * turns_module._LONG_SECONDS)  # after which more would have begun
        assert len(turns) == len(others) - turns_module._MOST_OF_ONE
        assert await submitted(int, caller="b") == 0
        assert not any(one.done() for one in [long, *others])
        go_on.set()
        turns.shutdown(wait=True)
        await asyncio.gather(long, *others)

    asyncio.run(main())


def test_quick_runs_share_a_thread_and_wait_for_none_that_is_quick_no_more(monkeypatch):
    clock, all_came, go_on = [0.0], threading.Event(), threading.Event()
    monkeypatch.setattr(turns_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def first():
        all_came.wait(PATIENCE)
        return threading.get_ident()

    def long():
        clock[0] += 1
        return go_on.wait(PATIENCE)

    async def main():
        turns = Turns(4)
        works = [first, *[threading.get_ident] * 39, long, *[int] * 20]
        answers = [asyncio.get_running_loop().create_future() for _ in works]
        for pair in zip(works, answers, strict=True):
            turns.submit(*pair)
        all_came.set()
        await asyncio.wait_for(asyncio.gather(*answers[:40], *answers[41:]), PATIENCE)
        assert (len({one.result() for one in answers[:40]}), answers[40].done()) == (1, False)
        go_on.set()
        assert await answers[40]

    asyncio.run(main())


def test_closing_answers_those_who_wait(held):
    async def main():
        tasks = [asyncio.create_task(held.arun(item(n))) for n in range(20)]
        await until(lambda: Held.begun.acquire(blocking=False))
        closing = asyncio.create_task(asyncio.to_thread(held.close))
        await until(lambda: held._gate._is_taken)
        Held.go_on.set()
        await closing
        with pytest.raises(CallerError, match="SGK144"):
            await held.arun(item(1))
        return await asyncio.gather(*tasks, return_exceptions=True)

    codes = {getattr(one, "code", "right") for one in asyncio.run(main())}
    assert codes == {"right", "SGK144"}


def test_a_stream_that_is_closed_ends_what_is_under_way(held):
    Held.go_on.set()
    results = held.stream(map(item, range(100)), depth=2)
    next(results)
    next(results)
    Held.go_on.clear()
    ending = threading.Thread(target=results.close)  # type: ignore[attr-defined]
    ending.start()
    Held.go_on.set()
    ending.join(PATIENCE)
    assert held.stats().in_flight == 0
    assert len(Held.seen) <= 5
