"""Visits of a backend to a new process: the traces of importing, binding and running it.

A process begins and ends there as that of a user does.
"""

import locale
import logging
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from subgraphkit.backend.contract import ProbeResult
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.processes import NoAnswer, call, how_it_ended
from subgraphkit.processes.calling import place_of
from subgraphkit.processes.child_process import crowd
from subgraphkit.testing.cases import PASSED, Finding, Outcome, Stopped, breach
from subgraphkit.testing.claimed import model_taken
from subgraphkit.testing.foreign import beside_foreign
from subgraphkit.testing.subject import Subject
from subgraphkit.testing.variants import sandwich, sandwiched_feeds

_TASKS: Final = Path("/proc/self/task")
_ROWS: Final = 512
_MOST_MORE: Final = 2

_ROWS_OF_WORK: Final = 1 << 14
_RUNS: Final = 7
_WATCHED: Final = 0.05
_MOST_SPENT: Final = 0.003
"""Seconds of processor time at the median after some runs. Threads that sleep took 0.1 to 1.2 ms,
those that spin 8 to 50. On a crowded machine a spinning one may get no processor after a run."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The effects of importing and probing a backend on a new process.

    ``error``: Why the backend could not be loaded, or empty. ``seconds``: Processor time of that.
    ``listing``: Modules that listing the backends imported from the backend's package.
    ``printed``: Its output on standard output or standard error meanwhile.
    ``probe_error``: The error of its probe, or its result in place of a ``ProbeResult``.
    """

    error: str = ""
    seconds: float = 0.0
    listing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    printed: str = ""
    probe_error: str = ""
    probe_seconds: float = 0.0
    problems: tuple[str, ...] = ()


def import_backend(subject: Subject) -> dict[str, Any]:
    """Import and probe a backend in this process, which has imported nothing of it yet."""
    facts: dict[str, Any] = {}
    if subject.installed:
        facts["listing"] = _imported_by_listing(subject)
    before = _state_with_threads()
    printed: list[str] = []
    with _output_kept(printed.append):
        started = time.process_time()
        try:
            backend: Any = subject.backend_class
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
            where = "; is its folder in PYTHONPATH?" * isinstance(error, ModuleNotFoundError)
            return {**facts, "error": f"{type(error).__name__}: {error}{where}"}
        facts["seconds"] = time.process_time() - started
    facts["printed"] = "".join(printed)
    facts["changed"] = _find_changes(before, _state_with_threads())
    return {**facts, **_probe_facts(backend)}


def _imported_by_listing(subject: Subject) -> list[str]:
    records = [one for one in list_backends() if one.name == subject.installed]
    packages = {one.entry_point.partition(":")[0].partition(".")[0] for one in records}
    return sorted(name for name in sys.modules if name.partition(".")[0] in packages)


def _state_with_threads() -> dict[str, Any]:
    threads = sorted(thread.name for thread in threading.enumerate())
    return {**_process_state(), "the threads": threads}


def _probe_facts(backend: Any) -> Mapping[str, Any]:
    started = time.perf_counter()
    with _output_kept(lambda _: None):
        try:
            found = backend.probe()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
            return {"probe_error": f"it raised {type(error).__name__}: {error}"}
    seconds = time.perf_counter() - started
    if not isinstance(found, ProbeResult):
        return {"probe_error": f"it returned {found!r:.80}, expected a ProbeResult"}
    problems = list(found.problems) or ["it gives no reason"]
    return {"probe_seconds": seconds, "problems": [] if found.available else problems}


def changes_left(subject: Subject) -> Finding:
    """Bind and run a model, and return the changes for the whole process."""
    model = model_taken(subject)  # the core has its own late imports now
    feeds = model.feeds()
    printed: list[str] = []
    before = _process_state()
    with _output_kept(printed.append, (1,)), subject.session(model.proto) as session:
        subject.run(session, feeds)
    if changed := _find_changes(before, _process_state()):
        return breach(f"binding and running a model changes {', '.join(changed)}")
    if any(printed):
        return breach(f"it writes to standard output, which is the application's: {printed[0]!r}")
    if _has_children():
        return breach("a process it started goes on when all is closed")
    return PASSED


def threads_kept(subject: Subject) -> Finding:
    """Return the fault of the threads of a session that may use one, and of a neighbour."""
    if subject.backend_class.traits.pool == "unknown":
        return Finding(Outcome.SKIP, "its pool is 'unknown': it promises nothing about threads")
    if not _TASKS.exists():
        return Finding(Outcome.SKIP, f"this system has no {_TASKS} to count threads in")
    model = model_taken(subject, _ROWS)
    feeds = model.feeds()
    before = count_in(_TASKS)
    with subject.session(model.proto, threads=1) as session:
        subject.run(session, feeds)
        more = count_in(_TASKS) - before
    if more > _MOST_MORE:
        expected = f"expected at most {_MOST_MORE} to serve it"
        return breach(f"a session with threads=1 started {more}, {expected}")
    spent = statistics.median(_spent_after_runs(subject))
    if spent <= _MOST_SPENT:
        return PASSED
    return breach(
        f"its threads computed for {spent * 1e3:.0f} ms after a run, on processors that it was "
        f"told to share with others; expected at most {_MOST_SPENT * 1e3:.0f} ms"
    )


def _spent_after_runs(subject: Subject) -> Iterator[float]:
    """Run a session beside a neighbour; yield the processor time spent after each run."""
    model = model_taken(subject, _ROWS_OF_WORK)
    feeds = sandwiched_feeds(model.feeds())
    between = sandwich(model.proto)
    with subject.session(between, threads=2, **beside_foreign(subject.choice)) as session:
        for _ in range(_RUNS):
            subject.run(session, feeds)
            before = time.process_time()
            time.sleep(_WATCHED)
            yield time.process_time() - before


def count_in(folder: Path) -> int:
    """Return how many files and folders are in a folder, such as one of the system's on threads."""
    return sum(1 for _ in folder.iterdir())


def _has_children() -> bool:
    if not hasattr(os, "WNOHANG"):  # Windows
        return False
    try:
        number, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return number == 0


# -- the state of a process ---------------------------------------------------------------------

_LAST_OUTPUT: Final = 600
_VARIABLES: Final = "the environment"


def _process_state() -> dict[str, Any]:
    """Return the parts of this process's state that can be compared, by their usual names."""
    return {
        _VARIABLES: dict(os.environ),
        "the working directory": os.getcwd(),  # noqa: PTH109 (compared as text)
        "the warning filters": [str(one) for one in warnings.filters],
        "the handlers of the root logger": [str(one) for one in logging.getLogger().handlers],
        "the level of the root logger": logging.getLogger().level,
        "what logging is disabled": logging.root.manager.disable,
        "the error state of NumPy": np.geterr(),
        "the print options of NumPy": str(np.get_printoptions()),
        "the random state of NumPy": str(np.random.get_state()),  # noqa: NPY002 (what others use)
        "the random state of Python": hash(random.getstate()),
        "what becomes of signals": [str(signal.getsignal(one)) for one in signal.valid_signals()],
        "sys.excepthook": sys.excepthook is sys.__excepthook__,
        "sys.stdout": id(sys.stdout),
        "the recursion limit": sys.getrecursionlimit(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "what new files permit": _mask(),
        "how often threads change": sys.getswitchinterval(),
        "how the processor rounds": _rounding(),
    }


def _rounding() -> list[float]:
    """Compute values that change with another rounding, or if denormal numbers are flushed."""
    one, small, least = map(np.float64, (1.0, 1e-20, 5e-324))
    return [float(one + small), float(one - small), float(least * one)]


def _mask() -> int:
    mask = os.umask(0o077)  # it cannot be asked for alone
    os.umask(mask)
    return mask


def _find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the differences of two states, variables of the environment by name."""
    changed = [one for one in before if one != _VARIABLES and before[one] != after[one]]
    variables = after[_VARIABLES].items() ^ before[_VARIABLES].items()
    return changed + [f"the variable {name}" for name in sorted({name for name, _ in variables})]


@contextmanager
def _output_kept(tell: Callable[[str], None], streams: Sequence[int] = (1, 2)) -> Iterator[None]:
    """Keep the output of Python or C code on standard output and standard error."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(stream) for stream in streams]
    with tempfile.TemporaryFile() as kept:
        for stream in streams:
            os.dup2(kept.fileno(), stream)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, copy in zip(streams, saved, strict=True):
                os.dup2(copy, stream)
                os.close(copy)
            kept.seek(0)
            tell(kept.read().decode("utf-8", errors="replace").strip()[-_LAST_OUTPUT:])


def call_in_subprocess(
    function: Callable[..., Any], subject: Subject, seconds: float, *words: str, what: str
) -> Any:
    """Call a function in a new process, let that end by itself, and return the result.

    ``seconds``: How long it may take where nobody else wants the processors. Stopped if the process
    did not end (``HANG``), or not well (``CRASH``); or the function did.
    """
    limit = seconds * crowd()
    try:
        answer = call(answer_call, place_of(function), subject.to_dict(), words, timeout=limit)
    except NoAnswer as gone:
        raise _stop_of(gone, what, limit) from None
    except Exception as error:
        text = f"a process that {what} failed: {type(error).__name__}: {error}"
        raise Stopped(Outcome.CRASH, text) from error
    if "stopped" in answer:
        found = Finding.from_dict(answer["stopped"])
        raise Stopped(found.outcome, found.detail, found.taken)
    return answer["returned"]


def check_in_subprocess(
    check: Callable[..., Finding], subject: Subject, seconds: float, *words: str, what: str
) -> Finding:
    """Carry a check out as ``call_in_subprocess`` calls a function; return its finding."""
    return Finding.from_dict(call_in_subprocess(check, subject, seconds, *words, what=what))


def answer_call(place: str, described: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Call a function in the process it was to be called in."""
    module, _, name = place.partition(":")
    try:
        found = getattr(import_module(module), name)(Subject(**described), *words)
    except Stopped as stop:
        return {"stopped": stop.finding.to_dict()}
    return {"returned": found.to_dict() if isinstance(found, Finding) else found}


def _stop_of(gone: NoAnswer, what: str, seconds: float) -> Stopped:
    if gone.code is None:
        return Stopped(Outcome.HANG, f"a process that {what} does not end within {seconds:.0f} s")
    printed = gone.printed.strip()[-_LAST_OUTPUT:]
    text = f"a process that {what} ended with {how_it_ended(gone.code)}"
    return Stopped(Outcome.CRASH, f"{text}; it printed:\n{printed}" if printed else text)
