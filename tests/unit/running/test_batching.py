"""Requests that are put together get what they would have got alone."""

import asyncio
import math
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import subgraphkit as sk
from subgraphkit.backend import Traits
from subgraphkit.errors import CallerError, ExecutionError, InputError, RunTimeoutError
from tests.fakes import ReferenceOperator, claiming
from tests.models import parsed
from tests.scripts import in_child

MODEL = """rows (float[N,K] x, int64[N] m) => (float[N,K] y, float[N,3] z, int64[N] k)
<float[1,3] w = {1, 2, 3}> {
  y = Relu(x)
  s = ReduceSum<keepdims=1>(x, one)
  z = MatMul(s, w)
  k = Neg(m)
}""".replace("(x, one)", "(x, one)").replace("w = {1, 2, 3}>", "w = {1, 2, 3}, int64[1] one = {1}>")
PATIENCE = 60.0


class Watched(ReferenceOperator):
    """Notes how many rows it is given; fails where one is 13; waits to be let."""

    traits = Traits(thread_safe=True)
    rows: list[int] = []  # noqa: RUF012 (one for all, emptied by the fixture)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def run(self, inputs, outputs=None):
        Watched.rows.append(len(inputs[0]))
        Watched.begun.release()
        assert Watched.go_on.wait(PATIENCE)
        if (inputs[0] == 13).any():
            raise ValueError("thirteen")
        return super().run(inputs, outputs)


@pytest.fixture
def session():
    Watched.begun, Watched.go_on = threading.Semaphore(0), threading.Event()
    Watched.rows.clear()
    watched = claiming(["Relu"], "watched", make=Watched)
    model = parsed("g (float[N] x) => (float[N] y) { a = Relu(x) y = Neg(a) }")
    with sk.InferenceSession(model, [watched, "numpy"]) as opened:
        yield opened
        Watched.go_on.set()


def feeds(*values):
    return {"x": np.array(values, np.float32)}


def let(batcher, futures):
    """Have a first batch end, behind which the others waited; return what all got."""
    Watched.go_on.set()
    return [one.exception(PATIENCE) or one.result()[0].tolist() for one in futures]


@pytest.fixture(scope="module")
def rows():
    with sk.InferenceSession(parsed(MODEL), "numpy") as opened:
        yield opened


LOOP = """g (int64[N] n) => (int64[N] y) {
    one = Constant<value = bool {1}>() k = ReduceMax<keepdims=0>(n)
    y = Loop <body = b (int64 i, bool c, int64[N] s) => (bool d, int64[N] t)
    { d = Identity(c) t = Neg(s) }> (k, one, n) }"""


def test_a_run_that_takes_longer_than_its_requests_may_holds_up_no_batch():
    with sk.InferenceSession(parsed(LOOP), "numpy") as opened, sk.Batcher(opened) as batcher:
        late = batcher.submit({"n": np.array([2**60])}, timeout_s=0.1)
        with pytest.raises(RunTimeoutError, match="SGK138"):
            late.result(PATIENCE)
        assert batcher.submit({"n": np.array([2])}).result(PATIENCE)[0] == [2]


requests = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([1, 2, 7]), st.booleans(), st.integers(0, 99)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(requests, st.integers(1, 9))
def test_batched_is_what_unbatched_is(rows, wanted, most):
    def made(count, width, is_right, seed):
        rng = np.random.default_rng(seed)
        x = rng.integers(-9, 9, (count, width)).astype(np.float32 if is_right else np.float64)
        return {"x": x, "m": rng.integers(0, 9, count)}

    with sk.Batcher(rows, max_batch=most, max_wait_s=0.001) as batcher:
        several = [made(*one) for one in wanted]
        futures = [batcher.submit(one, ["z", "y", "z"] if n % 2 else None)
                   for n, one in enumerate(several)]  # fmt: skip
    for number, (one, future) in enumerate(zip(several, futures, strict=True)):
        try:
            expected = rows.run(["z", "y", "z"] if number % 2 else None, one)
        except InputError as error:
            with pytest.raises(InputError, match=re.escape(error.message)):
                future.result()
            continue
        for got, right in zip(future.result(), expected, strict=True):
            np.testing.assert_array_equal(got, right, strict=True)
            assert got.base is None
            got[:] = 0  # it is the caller's own


def test_what_waits_is_stacked_up_to_the_most_rows(session):
    with sk.Batcher(session, max_batch=4, max_wait_s=0) as batcher:
        futures = [batcher.submit(feeds(0))]
        Watched.begun.acquire()
        futures += [batcher.submit(feeds(*range(n))) for n in (1, 2, 2, 6, 1)]
        assert let(batcher, futures) == [
            [0], [0], [0, -1], [0, -1], [0, -1, -2, -3, -4, -5], [0],
        ]  # fmt: skip
        assert Watched.rows == [1, 3, 2, 6, 1]


def test_a_request_waits_for_others_no_longer_than_it_may(session):
    Watched.go_on.set()
    with sk.Batcher(session, max_batch=2, max_wait_s=PATIENCE) as batcher:
        futures = [batcher.submit(feeds(1)), batcher.submit(feeds(2))]  # enough
        assert [one.result(PATIENCE / 2)[0][0] for one in futures] == [-1, -2]
        last = batcher.submit(feeds(3))
    assert last.result(0)[0] == -3  # closing answers it
    assert Watched.rows == [2, 1]
    with sk.Batcher(session, max_batch=2, max_wait_s=0.001) as batcher:
        assert batcher.submit(feeds(1)).result(PATIENCE)[0] == -1
    with sk.Batcher(session, max_batch=2, max_wait_s=math.inf) as batcher:
        futures = [batcher.submit(feeds(1)), batcher.submit(feeds(2))]
        assert [one.result(PATIENCE)[0][0] for one in futures] == [-1, -2]
    with pytest.raises(CallerError, match="SGK142"):
        sk.Batcher(session, max_wait_s=None)  # type: ignore[arg-type]


def test_what_one_request_has_wrong_is_its_own(session):
    with sk.Batcher(session, max_wait_s=0) as batcher:
        futures = [batcher.submit(feeds(0))]
        Watched.begun.acquire()
        bad: list[Any] = [{}, {"x": np.ones(2)}, {"x": np.ones((2, 2), np.float32)}, 5, feeds(13)]
        futures += [batcher.submit(one) for one in (feeds(1), *bad, feeds(2))]
        futures += [batcher.submit(feeds(1), ["q"])]
        right, one, *wrong, two, no_output = let(batcher, futures)
        assert (right, one, two) == ([0], [-1], [-2])
        assert [type(error) for error in wrong] == [InputError] * 4 + [ExecutionError]
        assert [error.code for error in (*wrong, no_output)] == [
            "SGK142", "SGK141", "SGK140", "SGK145", "SGK131", "SGK143",
        ]  # fmt: skip
        assert Watched.rows == [1, 3, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", "'x', .* is fixed"),
        ("g (float[N] x, float[M] z) => (float[N] y) { y = Relu(x) w = Neg(z) }", "'M'"),
        ("g (float x, float[N] z) => (float[N] y) { y = Add(x, z) }", "'x' is .* no axis"),
        ("g (float[N] x) => (float y) { y = ReduceSum<keepdims=0>(x) }", "'y' is"),
        ("g (float[N] x) => (int64[1] y) { y = Shape(x) }", "'y' is"),
        ("g (float[N,K] x) => (float[K,N] y) { y = Transpose(x) }", "'y' has shape"),
        ("g (float[N] x) => (int64[A,B] y) { y = NonZero(x) }", "'y' is"),
        ("g (seq(float[N]) x) => (float[N] y) { y = ConcatFromSequence<axis=0>(x) }", "'x' is"),
    ],
)  # fmt: skip
def test_a_model_without_a_batch_is_refused(text, why):
    wanted = pytest.raises(CallerError, match=rf"(?s)SGK196.*{why}")
    with sk.InferenceSession(parsed(text), "numpy") as session, wanted:
        sk.Batcher(session)


def test_what_the_types_leave_open_is_tried():
    text = "g (float[N,2] x, int64[N] s) => (float[B,C] y) { y = Reshape(x, s) }"
    wanted = pytest.raises(CallerError, match=r"SGK196.*could not be tried")
    with sk.InferenceSession(parsed(text), "numpy") as session, wanted:
        sk.Batcher(session)
    text = "g (float[N,2] x) => (float[B,C] y) <int64[2] s = {-1, 2}> { y = Reshape(x, s) }"
    with sk.InferenceSession(parsed(text), "numpy") as session, sk.Batcher(session) as batcher:
        x = np.ones((3, 2), np.float32)
        assert batcher.submit({"x": x}).result(PATIENCE)[0].shape == (3, 2)


def test_coroutines_are_put_together(session):
    async def main():
        with sk.Batcher(session, max_wait_s=0) as batcher:
            first = asyncio.create_task(batcher.arun(feeds(0)))
            await asyncio.to_thread(Watched.begun.acquire)
            dropped = asyncio.create_task(batcher.arun(feeds(9)))
            with pytest.raises(RunTimeoutError, match="SGK138"):
                await batcher.arun(feeds(9), timeout=0)
            dropped.cancel()
            await asyncio.wait([dropped])
            others = [asyncio.create_task(batcher.arun(feeds(n), ["y"])) for n in (1, 2)]
            await asyncio.sleep(0)
            Watched.go_on.set()
            assert [(await one)[0][0] for one in (first, *others)] == [0, -1, -2]
            with pytest.raises(InputError):
                await batcher.arun({})
        assert Watched.rows == [1, 2]
        with pytest.raises(CallerError, match="SGK144"):
            await batcher.arun(feeds(1))

    asyncio.run(main())


def test_many_threads_are_each_given_their_own(rows):
    with sk.Batcher(rows, max_batch=8) as batcher, ThreadPoolExecutor(8) as pool:

        def ask(number):
            x = np.full((1 + number % 3, 2), number, np.float32)
            m = np.full(len(x), number)
            y, z, k = batcher.submit({"x": x, "m": m}).result(PATIENCE)
            return bool((y == x).all() and (k == -m).all() and z.shape == (len(x), 3))

        assert all(pool.map(ask, range(200)))


def test_closing_the_session_first_fails_what_waits(session):
    Watched.go_on.set()
    batcher = sk.Batcher(session, max_wait_s=PATIENCE)
    waiting = batcher.submit(feeds(1))
    session.close()
    batcher.close()
    batcher.close()
    error = waiting.exception(0)
    assert isinstance(error, CallerError)
    assert error.code == "SGK144"
    with pytest.raises(CallerError, match="SGK142"):
        sk.Batcher(session, max_batch=0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_batcher_of_its_own(rows):
    def elsewhere():
        future = batcher.submit({"x": np.ones((2, 2), np.float32), "m": np.ones(2, np.int64)})
        batcher.close()
        shape: tuple[int, ...] = future.result(0)[0].shape
        return shape

    with sk.Batcher(rows, max_wait_s=PATIENCE) as batcher:
        waiting = batcher.submit({"x": np.ones((1, 2), np.float32), "m": np.ones(1, np.int64)})
        with batcher._changed:  # as another thread may have it at that moment
            assert in_child(elsewhere) == "(2, 2)"
    assert waiting.result(0)[0].shape == (1, 2)
