"""Whoever waits for a library is free at once when it is cancelled, and nothing is leaked."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.backend import Progress
from subgraphkit.compiling import outcomes
from subgraphkit.compiling.outcomes import attend
from subgraphkit.errors import CompileTimeoutError, ConfigError
from tests.fakes import ReferenceOperator, claiming
from tests.interrupting import interrupt
from tests.models import CHAIN, parsed


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    monkeypatch.setattr(outcomes, "_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(outcomes, "_leave_without_it", lambda: None)


class Deaf:
    """Work in a library that hears nothing until it is allowed to end."""

    def __init__(self):
        self.begun, self.allowed, self.released = (threading.Event() for _ in range(3))

    def __call__(self, progress):
        self.progress = progress
        self.begun.set()
        assert self.allowed.wait(30)
        return self

    def release(self, made):
        assert made is self
        self.released.set()


@pytest.fixture
def deaf():
    work = Deaf()
    yield work
    work.allowed.set()


def test_what_the_work_returns_or_raises_is_returned_or_raised():
    names: list[str] = []
    assert (
        attend(lambda _: names.append(threading.current_thread().name), Progress(), print) is None
    )
    assert names == ["subgraphkit compile"]
    with pytest.raises(ZeroDivisionError):
        attend(lambda _: 1 // 0, Progress(), print)


def test_ctrl_c_is_heard_while_a_library_is_at_work_and_what_it_makes_is_released(deaf):
    interrupt(lambda: attend(deaf, Progress(), deaf.release), 0.05)
    assert deaf.progress.cancelled
    assert not deaf.released.is_set()
    deaf.allowed.set()
    assert deaf.released.wait(30)


def test_another_thread_may_cancel_and_a_library_that_can_be_stopped_is(deaf):
    whole = Progress()

    def work(progress):
        with progress.stopping(deaf.allowed.set):
            deaf(progress)
        progress.check()
        return deaf

    threading.Timer(0.05, lambda: whole.cancel(OSError("enough"))).start()
    with pytest.raises(OSError, match="enough"):
        attend(work, whole, deaf.release)


def test_a_time_limit_names_what_was_being_compiled_and_for_how_long(deaf):
    def work(progress):
        part = Progress(None, progress, subgraph="tvm_1", backend="tvm")
        part("compiling", 1, 3, "tvm_1")
        return deaf(progress)

    with pytest.raises(CompileTimeoutError, match="SGK135") as refusal:
        attend(work, Progress(), deaf.release, 0.05)
    assert isinstance(refusal.value, TimeoutError)
    for words in ("timeout_s=0.05", "'tvm_1'", "backend 'tvm'", "1 of 3 done after 0."):
        assert words in refusal.value.message
    assert "build='background'" in refusal.value.hint


def _compile_until_cancelled(self, subgraph, context):
    while not context.progress.cancelled:
        time.sleep(0.01)
    context.progress.check()


@pytest.mark.parametrize("on_compile_error", ["raise", "fallback"])
def test_a_session_compiling_too_long_raises_and_never_falls_back(on_compile_error, monkeypatch):
    settings = {"timeout_s": 1.0, "on_compile_error": on_compile_error}  # NumPy has to fit in it
    backend = claiming(["Neg"], "stuck", create_operator=_compile_until_cancelled)
    for build in ("now", "background"):
        if build == "background":
            with sk.InferenceSession(
                parsed(CHAIN), [backend, "numpy"], build=build, **settings
            ) as session:
                assert session.wait(30)
                found = {(one.state, "SGK135" in one.reason) for one in session.status().values()}
                assert found == {("failed", True)}
                session.run(None, {"x": np.ones((1, 4), np.float32)})
        else:
            with pytest.raises(CompileTimeoutError, match="'stuck_"):
                sk.InferenceSession(parsed(CHAIN), [backend, "numpy"], **settings)
    monkeypatch.setenv("SUBGRAPH_TIMEOUT_S", "60")
    sk.InferenceSession(parsed(CHAIN), "numpy").close()


@pytest.mark.skipif(sys.platform != "linux", reason="the calls are those of Linux")
def test_a_program_that_left_a_library_at_work_ends_as_it_wants_and_still_aborts():
    begin = "import ctypes\nfrom subgraphkit.compiling import outcomes\n"
    begin += "outcomes._leave_without_it()\n"
    later = "system = ctypes.CDLL(None)\nsystem.on_exit(system.abort, None)\n"  # by that library
    for rest, status in (
        (later + "raise SystemExit(7)", 7),
        ("ctypes.CDLL('libstdc++.so.6')._ZSt9terminatev()", -signal.SIGABRT),
    ):
        words = [sys.executable, "-c", begin + rest]
        ended = subprocess.run(words, check=False, timeout=60, capture_output=True)
        assert ended.returncode == status


def test_a_listener_that_raises_at_the_last_step_leaves_no_operator_open():
    made: list[ReferenceOperator] = []

    def make(subgraph):
        made.append(ReferenceOperator(subgraph))
        return made[-1]

    def listen(event):
        if event.done == event.total:
            raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        sk.InferenceSession(parsed(CHAIN), [claiming(["Neg"], make=make), "numpy"], progress=listen)
    assert [one.closed for one in made] == [1]


@pytest.mark.parametrize("wrong", [5, "loud", {}])
def test_what_cannot_show_progress_is_an_error_of_the_caller(wrong):
    with pytest.raises(ConfigError, match=r"^\[SGK108\] argument progress="):
        sk.InferenceSession(parsed(CHAIN), "numpy", progress=wrong)
