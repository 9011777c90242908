"""Backends in a process of their own: what ends it is an error here, and the session goes on."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit import errors
from subgraphkit.backend import ProgressEvent
from subgraphkit.binding import model_process
from subgraphkit.processes.shared_area import SharedArea
from tests.faults import Faulty
from tests.interrupting import heard
from tests.models import parsed
from tests.scripts import in_child

MODEL = """
mixed (float[N, 2] x) => (float[N, 2] y)
<float[1] w = {3}>
{
  a = Mul(x, w)
  y = Relu(a)
}
"""


def opened(**settings):
    settings = {"isolate": "faulty", "cache": False, **settings}
    return sk.InferenceSession(parsed(MODEL), [Faulty], **settings)


def fed(number, rows=1):
    return {"x": np.full((rows, 2), number, np.float32)}


def process_of(session):
    number: int = session.plan.steps[0].operator.info()["process"]
    return number


def exists(process):
    """Say whether a process is alive and not merely waiting for its parent to notice."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return state[0] != "Z"


@contextmanager
def interrupted_after(seconds):
    with heard():
        timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
        timer.start()
        yield
        timer.join()


@pytest.fixture(scope="module")
def session():
    heard: list[ProgressEvent] = []
    with opened(progress=heard.append) as session:
        assert [one.subgraph for one in heard if one.phase == "fusing"] == ["faulty_0"]
        yield session
    assert session.graph.process.is_at_work is False


def test_a_run_is_that_of_the_same_process_whatever_the_size(session):
    assert process_of(session) != os.getpid()
    for rows in (1, 3, 0, 1 << 19, 2):
        held = session.run(None, fed(12, rows))[0]
        session.run(None, fed(13, rows))
        assert (held == np.full((rows, 2), 36, np.float32)).all()
        assert held.flags.owndata
        assert held.flags.writeable


def test_what_an_operator_raises_there_is_raised_here(session):
    before = process_of(session)
    with pytest.raises(errors.ExecutionError, match="ValueError: no such number") as caught:
        session.run(None, fed(10))
    assert (caught.value.code, type(caught.value.__cause__)) == ("SGK131", ValueError)
    assert process_of(session) == before


def test_what_ends_the_process_is_an_error_and_the_next_run_has_another_with_new_weights(session):
    assert session.update_weights({"w": np.array([5], np.float32)}) == {"faulty_0": "refitted"}
    assert session.run(None, fed(20))[0].tolist() == [[100, 100]]
    before = process_of(session)
    with pytest.raises(errors.ExecutionError, match=r"signal SIG(ABRT|SEGV)") as caught:
        session.run(None, fed(1))
    error = caught.value
    assert (error.code, error.backend, error.subgraph) == ("SGK136", "faulty", "faulty_0")
    assert session.run(None, fed(20))[0].tolist() == [[100, 100]]
    assert process_of(session) != before
    session.update_weights({"w": np.array([3], np.float32)})


def test_what_an_operator_forks_or_reads_takes_no_run_of_another(session):
    for number in (41, 42):  # a copy that would answer as well; what would read the requests
        for fine in (number, 21, 22):
            assert session.run(None, fed(fine))[0].tolist() == [[fine * 3, fine * 3]]
    with pytest.raises(errors.ExecutionError, match="SIGABRT"):
        session.run(None, fed(40))  # a child that is left has the pipe open still
    with pytest.raises(errors.ExecutionError, match="WordlessError: it cannot be put into words"):
        session.run(None, fed(43))


def test_a_scalar_of_doubles_and_maps_pass():
    area = SharedArea()
    values = [np.array(3.0), [{5: np.float32(2), "a": 1.5}], None, np.array(["é"], object)]
    scalar, (mapped,), absent, text = SharedArea(os.dup(area.descriptor)).restore(
        area.store(values)
    )
    assert (scalar, mapped, absent, text.tolist()) == (3, {5: 2, "a": 1.5}, None, ["é"])


def test_a_hang_is_ended_by_the_time_limit_of_the_run(session):
    before = process_of(session)
    with pytest.raises(errors.RunTimeoutError, match="SGK138"):
        session.run(None, fed(5), timeout_s=0.2)
    assert not exists(before)


def test_a_hang_is_ended_by_an_interrupt(session):
    session.run(None, fed(20))
    before = process_of(session)
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.2):
        session.run(None, fed(5))
    assert not exists(before)
    assert session.run(None, fed(20))[0].tolist() == [[60, 60]]


def test_a_fork_has_a_process_of_its_own(session):
    before = process_of(session)
    said = in_child(lambda: (session.run(None, fed(20))[0].tolist(), process_of(session)))
    assert said.startswith("([[60.0, 60.0]], ")
    assert str(before) not in said
    assert process_of(session) == before


def test_a_model_gets_no_process_after_too_many(session, monkeypatch):
    monkeypatch.setattr(model_process, "_MOST_ENDINGS", 1)
    with pytest.raises(errors.ExecutionError, match="SIGABRT"):
        session.run(None, fed(2))
    with pytest.raises(errors.ExecutionError, match=r"SGK136.*not started again"):
        session.run(None, fed(20))


def test_a_subgraph_that_ends_its_process_moves_to_the_fallback():
    with opened(on_run_error="fallback") as session:
        with pytest.warns(errors.SubgraphkitWarning, match="exit status 3"):
            assert session.run(None, fed(3))[0].tolist() == [[9, 9]]
        assert session.graph.process.is_at_work is False


def test_a_compiler_that_takes_too_much_is_an_error_or_moves():
    settings: dict[str, Any] = {"options": {"faulty": {"compiling": 11}}}
    with pytest.raises(errors.CompileError, match="signal SIGXCPU") as caught:
        opened(limits={"max_compile_seconds": 1}, **settings)
    assert (caught.value.code, caught.value.subgraph) == ("SGK136", "faulty_0")
    assert "the library says something" in caught.value.__notes__[0]
    settings = {"options": {"faulty": {"compiling": 6}}, "on_compile_error": "fallback"}
    with opened(limits={"max_compile_bytes": 1 << 30}, **settings) as session:
        assert session.run(None, fed(4))[0].tolist() == [[12, 12]]
        assert "MemoryError" in str(session.partitioning.explain(0))


def test_a_backend_that_does_not_survive_what_it_is_asked_is_an_error_or_left_out():
    options = {"faulty": {"asking": 7}}
    with pytest.raises(errors.BackendError, match="asked about the nodes") as caught:
        opened(options=options)
    assert (caught.value.code, caught.value.backend) == ("SGK136", "faulty")
    with opened(options=options, on_compile_error="fallback") as session:
        assert session.partitioning.backends == ("numpy",)
        assert "SIGSEGV" in session.partitioning.named["faulty"]


def test_the_process_of_a_session_that_is_dropped_ends_at_once():
    session = opened()
    session.run(None, fed(20))
    process = process_of(session)
    gc.disable()
    try:
        del session
        assert not exists(process)
    finally:
        gc.enable()


def test_a_backend_that_another_process_cannot_find_is_an_error():
    class Local(Faulty):
        pass

    for given in (Local, Faulty()):
        with pytest.raises(errors.BackendError, match=r"SGK137.*process of its own"):
            sk.InferenceSession(parsed(MODEL), [given], isolate="faulty")


def test_the_process_of_a_program_that_was_killed_ends_whatever_it_is_doing():
    words = [sys.executable, "-c", "from tests.unit.compiling.test_isolation import hang; hang()"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        process = int(program.stdout.readline())
        program.stdout.readline()
        time.sleep(0.2)
        assert exists(process)
        program.kill()
    deadline = time.monotonic() + 10
    while exists(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not exists(process)


def hang():
    """Be the program: say which process works for it, and wait for one that never answers."""
    with opened() as session:
        print(process_of(session), flush=True)  # noqa: T201 (this is what it is for)
        threading.Timer(0.1, print, ["hangs"], {"flush": True}).start()
        session.run(None, fed(5))
