"""Changes that binding and running a model on a backend make to a process that goes on.

``python -m subgraphkit.testing.visiting SUBJECT CHECK`` opens a session on the backend described by
a JSON document, runs and closes it, writes what was amiss as another, and ends.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from subgraphkit.processes.child_process import crowd, how_it_ended, run_child
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.foreign import beside_foreign
from subgraphkit.testing.forms import sandwiched, sandwiched_feeds
from subgraphkit.testing.process_state import changes, output_kept, process_state
from subgraphkit.testing.small_models import model_taken
from subgraphkit.testing.subject import Stopped, Subject

__all__ = ["main", "visit"]

_MODULE: Final = "subgraphkit.testing.visiting"
_LAST_OUTPUT: Final = 600
_TASKS: Final = Path("/proc/self/task")
_ROWS: Final = 512
_MOST_MORE: Final = 2

_ROWS_OF_WORK: Final = 1 << 14
_RUNS: Final = 4
_WATCHED: Final = 0.05
_MOST_SPENT: Final = 0.003
"""Seconds of processor time after the best of some runs. Threads that sleep took 0.1 to 1.2 ms,
those that spin 8 to 50."""


def visit(subject: Subject, seconds: float, check: str = "changes") -> Finding:
    """Use a backend in a new process, let that process end by itself, and say what was amiss.

    Args:
        subject: The backend.
        seconds: How long the process may take.
        check: What is looked at: ``"changes"`` to what all share, or the ``"threads"``: how many
            are started for one, and what they do after a run beside others.
    """
    ended = run_child(_MODULE, [json.dumps(subject.described()), check], seconds * crowd())
    if ended.code is None:
        text = f"a process that runs a model on it does not end within {seconds:.0f} s"
        return Finding(Outcome.HANG, text)
    if ended.code or not ended.answer:
        words = ended.printed.strip()[-_LAST_OUTPUT:]
        text = f"a process that has run a model on it ended with {how_it_ended(ended.code)}"
        return Finding(Outcome.CRASH, f"{text}; it printed: {words}" if words else text)
    return Finding.from_dict(json.loads(ended.answer))


def main(arguments: list[str]) -> int:
    """Use the backend that the first argument describes; write the finding."""
    subject = Subject(**json.loads(arguments[0]))
    answer = os.dup(1)
    try:
        found = _CHECKS[arguments[1]](subject)
    except Stopped as stop:
        found = stop.finding
    with os.fdopen(answer, "w", encoding="utf-8") as stream:
        json.dump(found.to_dict(), stream)
    return 0


def _changes(subject: Subject) -> Finding:
    model = model_taken(subject)  # whatever the core itself imports late, it has now
    feeds = model.feeds()
    printed: list[str] = []
    before = process_state()
    with output_kept(printed.append, (1,)), subject.session(model.proto) as session:
        subject.run(session, feeds)
    changed = changes(before, process_state())
    if changed:
        text = f"binding and running a model changes {', '.join(changed)}"
        return Finding(Outcome.FAIL_CONTRACT, text)
    if any(printed):
        text = f"it writes to standard output, which belongs to the application: {printed[0]!r}"
        return Finding(Outcome.FAIL_CONTRACT, text)
    if _has_children():
        return Finding(Outcome.FAIL_CONTRACT, "a process it started goes on when all is closed")
    return Finding(Outcome.PASSED)


def _threads(subject: Subject) -> Finding:
    if subject.backend_class.pool == "unknown":
        text = "its pool is 'unknown': it promises nothing about threads"
        return Finding(Outcome.SKIP, text)
    if not _TASKS.exists():
        return Finding(Outcome.SKIP, f"this system has no {_TASKS} to count threads in")
    model = model_taken(subject, _ROWS)
    feeds = model.feeds()
    before = _count(_TASKS)
    with subject.session(model.proto, threads=1) as session:
        subject.run(session, feeds)
        more = _count(_TASKS) - before
    if more > _MOST_MORE:
        text = f"a session with threads=1 started {more}, expected at most {_MOST_MORE} to serve it"
        return Finding(Outcome.FAIL_CONTRACT, text)
    spent = min(_spent_after_runs(subject))
    if spent > _MOST_SPENT:
        text = (
            f"its threads computed for {spent * 1e3:.0f} ms after a run, on processors that it was "
            f"told to share with others; expected at most {_MOST_SPENT * 1e3:.0f} ms"
        )
        return Finding(Outcome.FAIL_CONTRACT, text)
    return Finding(Outcome.PASSED)


def _spent_after_runs(subject: Subject) -> Iterator[float]:
    """Run a session beside a neighbour; yield the processor time spent after each run."""
    model = model_taken(subject, _ROWS_OF_WORK)
    feeds = sandwiched_feeds(model.feeds())
    between = sandwiched(model.proto)
    with subject.session(between, threads=2, **beside_foreign(subject.choice)) as session:
        for _ in range(_RUNS):
            subject.run(session, feeds)
            before = time.process_time()
            time.sleep(_WATCHED)
            yield time.process_time() - before


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())


def _has_children() -> bool:
    if not hasattr(os, "WNOHANG"):  # Windows
        return False
    try:
        number, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return number == 0


_CHECKS: Final = {"changes": _changes, "threads": _threads}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
