"""Runs end early: at their deadline or when another thread says so, and the session goes on."""

import contextlib
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Progress, interrupted_here, interruptible
from subgraphkit.errors import CallerError, RunCancelledError, RunTimeoutError
from tests.models import parsed

ENDLESS = 2**60
X = np.ones(3, np.float32)


COUNTING = """
g (int64 n, float[3] x) => (float[3] y) {
  [long] y = Loop <body = body (int64 i, bool go, float[3] s) => (bool on, float[3] t)
    <float one = {1}> { t = Add(s, one)  on = Identity(go) }> (n, , x)
}
"""
"""A model whose input ``n`` says how often a body adds 1."""


def feeds(count):
    return {"n": np.array(count, np.int64), "x": X}


@pytest.fixture(scope="module", params=["numpy", "onnxruntime"])
def session(request):
    with sk.InferenceSession(parsed(COUNTING, opset=21), backend=request.param) as opened:
        yield opened


def test_a_run_ends_at_its_deadline_and_names_the_step(session):
    for _ in range(3):
        with pytest.raises(
            RunTimeoutError, match=r"SGK138.*timeout_s=0\.05: step 1 of 1"
        ) as caught:
            session.run(None, feeds(ENDLESS), timeout_s=0.05)
        assert caught.value.context["step"] == 0
        if session.partitioning.subgraphs[0].backend == "numpy":
            assert "long" in caught.value.context["nodes"][0]
        assert isinstance(caught.value, TimeoutError)
        (y,) = session.run(None, feeds(5))
        assert (y == 6).all()
        (y,) = session.run(["y"], feeds(5), timeout_s=30)
        assert (y == 6).all()


def test_another_thread_cancels_all_runs_with_the_same_options(session):
    options = sk.RunOptions()
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(session.run, None, feeds(ENDLESS), options) for _ in range(2)]
        while len(options._runs) < 2:
            time.sleep(0.001)
        options.cancel()
        for run in runs:
            with pytest.raises(RunCancelledError, match="SGK139"):
                run.result()
    with pytest.raises(RunCancelledError, match=r"SGK139.*step 1 of 1"):
        session.run(None, feeds(1), options)
    options.terminate = False
    assert session.run(None, feeds(1), options)[0][0] == 2


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1", True])
def test_what_is_no_time_is_refused(session, seconds):
    with pytest.raises(CallerError, match=r"SGK142.*timeout_s"):
        session.run(None, feeds(1), timeout_s=seconds)


def test_no_time_at_all_is_a_deadline_and_endless_time_is_none(session):
    with pytest.raises(RunTimeoutError, match=r"SGK138"):
        session.run(None, feeds(1), timeout_s=0)
    assert session.run(None, feeds(1), timeout_s=float("inf"))[0][0] == 2


def test_python_code_is_interrupted_anywhere_and_never_after_it_ended():
    # Whatever the moment: the work was interrupted, or done; and nothing strikes behind it.
    for pause in np.linspace(0, 0.002, 60):
        progress = Progress()
        timer = threading.Timer(float(pause), progress.cancel, [TimeoutError("late")])
        timer.start()
        with contextlib.suppress(TimeoutError):
            interrupted_here(progress, lambda: [sum(range(50)) for _ in range(300)])
        for _ in range(300):
            sum(range(10))
        timer.join()
        for _ in range(300):
            sum(range(10))


def test_a_library_that_does_not_return_is_not_waited_for_and_the_place_is_known():
    progress, returns, after = Progress(), threading.Event(), []

    def in_a_library():
        returns.wait()
        after.append("went on")

    threading.Timer(0.02, progress.cancel, [TimeoutError("late")]).start()
    with pytest.raises(TimeoutError, match="late") as caught:
        interruptible(progress, interrupted_here, progress, in_a_library)
    cause = caught.value.__cause__
    assert cause is not None
    places = [frame.f_code.co_name for frame, _ in traceback.walk_tb(cause.__traceback__)]
    assert "in_a_library" in places
    returns.set()
    for thread in threading.enumerate():
        if thread.name == "subgraphkit run":
            thread.join()
    assert after == []


def test_what_is_taken_back_leaves_tracing_as_it_was():
    # CPython 3.11 never gets beyond a call that is traced while it looks for such exceptions.
    program = """if True:
        import sys, threading
        from subgraphkit.backend import interruption
        interruption._raise_in(threading.get_ident(), None)
        interruption._settle()
        def traced(*event): return traced
        sys.settrace(traced)
        (lambda: (lambda: None)())()
    """
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
