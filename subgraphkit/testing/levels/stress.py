"""Level 7, stress: many runs, many sessions, many threads, and an interruption."""

import _thread
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from subgraphkit.testing.cases import PASSED, Case, Finding, Outcome, breach
from subgraphkit.testing.claimed import model_taken
from subgraphkit.testing.process_checks import count_in
from subgraphkit.testing.run_checks import in_threads
from subgraphkit.testing.subject import Subject

_ROWS: Final = 8192
_WARM_UP: Final = 50
_RUNS: Final = 200
_BINDS: Final = 50
_THREADS: Final = 8
_RUNS_PER_THREAD: Final = 12
_MOST_GROWTH: Final = 8 << 20
_INTERRUPT_SECONDS: Final = 0.2
_STATM: Final = Path("/proc/self/statm")
_COUNTED: Final = {Path("/proc/self/fd"): "open files", Path("/proc/self/task"): "threads"}
_ROUNDS: Final = 2
"""If memory grows only once, an allocator may have taken it in advance."""


def cases(_: Subject) -> Iterator[Case]:
    """List the checks."""
    yield _case(_many_runs)
    yield _case(_many_sessions)
    yield _case(_threads_in_one_session, "threads")
    yield _case(_a_session_for_each_thread, "threads")
    yield _case(_interrupted)


def _case(check: Callable[[Subject], Finding], *needs: str) -> Case:
    name = f"L7/{check.__name__[1:]}"
    return Case(name, check, needs=needs, offers=False, timeout_factor=4.0)


def _memory() -> int:
    """Return the bytes of memory this process has in use."""
    gc.collect()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _many_runs(subject: Subject) -> Finding:
    """Two hundred runs take no more memory than fifty."""
    model = model_taken(subject, _ROWS)
    feeds = model.feeds()
    with subject.session(model.proto) as session:

        def run(times: int) -> None:
            for _ in range(times):
                subject.run(session, feeds)

        return _growing(run, _WARM_UP, _RUNS, f"runs of model {model.name!r} keep")


def _many_sessions(subject: Subject) -> Finding:
    """Sessions that are closed leave no memory, files or threads behind."""
    model = model_taken(subject, _ROWS)
    feeds = model.feeds()

    def bind_and_close(times: int) -> None:
        for _ in range(times):
            with subject.session(model.proto) as session:
                subject.run(session, feeds)

    return _growing(bind_and_close, _BINDS // 5, _BINDS, "sessions, all closed, left behind")


def _growing(act: Callable[[int], object], warm_up: int, times: int, words: str) -> Finding:
    """Find resources that grow with the number of repetitions, in every round."""
    if not _STATM.exists():
        return Finding(Outcome.SKIP, f"this system has no {_STATM} to read memory from")
    act(warm_up)
    left: list[str] = []
    for _ in range(_ROUNDS):
        memory, before = _memory(), [count_in(folder) for folder in _COUNTED]
        act(times)
        growth = _memory() - memory
        left = [f"{growth >> 20} MiB of memory"] if growth > _MOST_GROWTH else []
        for (folder, what), count in zip(_COUNTED.items(), before, strict=True):
            more = count_in(folder) - count
            left += [f"{more} {what}"] if more >= times else []
        if not left:
            return PASSED
    return breach(f"{times} {words} {', '.join(left)}")


def _threads_in_one_session(subject: Subject) -> Finding:
    """Eight threads in one session get each its own results."""
    model = model_taken(subject)
    with subject.session(model.proto) as session:
        entrances = [lambda: session] * _THREADS
        return in_threads(subject, model, entrances, _RUNS_PER_THREAD) or PASSED


def _a_session_for_each_thread(subject: Subject) -> Finding:
    """Eight threads with a session each get the same results as one."""
    model = model_taken(subject)
    with ExitStack() as opened:
        entrances = [lambda: opened.enter_context(subject.session(model.proto))] * _THREADS
        return in_threads(subject, model, entrances, _RUNS_PER_THREAD) or PASSED


def _interrupted(subject: Subject) -> Finding:
    """Ctrl-C in the middle of a run comes through, and leaves a process that works."""
    model = model_taken(subject)
    feeds = model.feeds()
    expected = model.expected_outputs(feeds)
    with subject.session(model.proto) as session:
        if not _interrupt(lambda: subject.run(session, feeds)):
            return breach("KeyboardInterrupt did not come through")
        found = subject.judge.difference(expected, subject.run(session, feeds))
    if found is None:
        with subject.session(model.proto) as other:
            found = subject.judge.difference(expected, subject.run(other, feeds))
    if found is not None:
        return Finding(found.outcome, f"after KeyboardInterrupt: {found.detail}")
    return PASSED


def _interrupt(call: Callable[[], Any]) -> bool:
    """Call again and again until an interruption comes through; say whether one did."""
    timer = threading.Timer(_INTERRUPT_SECONDS, _thread.interrupt_main)
    deadline = time.monotonic() + _INTERRUPT_SECONDS * 10
    # Processes that a shell starts in the background ignore Ctrl-C, and so do their children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        while time.monotonic() < deadline:
            call()
    except KeyboardInterrupt:
        return True
    finally:
        signal.signal(signal.SIGINT, before)
    return False
