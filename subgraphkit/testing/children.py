"""A pool of child processes that carry out cases, many each.

A child carries out one case after the other, which saves a process for each. If it ends, hangs or
takes too much memory, its present case is at fault. The next case has a new child. The children end
with this process, however that ends.

Nothing heavy is imported here, and nothing of the backend.
"""

import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, Final

from subgraphkit.processes import Child, NoAnswer, how_it_ended
from subgraphkit.processes.child_process import crowd
from subgraphkit.processes.memory import machine_bytes, resident_bytes
from subgraphkit.testing.cases import Finding, Outcome, Stopped

_RUNNER: Final = "subgraphkit.testing.levels:CaseRunner"
_STEP_SECONDS: Final = 0.5
_START_SECONDS: Final = 120.0
"""How long a child may take to start and to build the cases of a level."""
_LAST_OUTPUT: Final = 600
"""How many bytes of a child's output are kept."""
_LEAST_MEMORY: Final = 4 << 30


class _TooMuch(Exception):  # noqa: N818 (a state, told as an ending)
    """A child has more memory than it may have."""


@dataclass(frozen=True, slots=True)
class Task:
    """A case to be carried out by whichever child is free.

    ``case``: A finding that says which case it is, and nothing yet of how it ended.
    ``seconds``: How long it may take, where nobody else wants the processors.
    """

    case: Finding
    seconds: float
    batch_key: str = ""


class _Worker:
    """Carries out one case after the other, in a child that is replaced when it is gone.

    Thread-safety: used by one thread at a time, except for ``close``.
    """

    def __init__(self, subject: Mapping[str, Any], most_memory: int) -> None:
        self._subject, self._most_memory = subject, most_memory
        self._child: Child | None = None
        self._levels: set[int] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def cases(self, level: int) -> Any:
        return self._ask("list_cases", level, seconds=_START_SECONDS)

    def findings(self, tasks: Sequence[Task]) -> list[Finding]:
        """Carry cases out, in one model if there are several and nothing is wrong with it."""
        if len(tasks) > 1 and (found := self._findings_of_one_model(tasks)) is not None:
            return found
        return [self._finding(task) for task in tasks]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._stop_child()

    def _findings_of_one_model(self, tasks: Sequence[Task]) -> list[Finding] | None:
        names, seconds = [one.case.case for one in tasks], max(one.seconds for one in tasks)
        try:
            level = self._prepare(tasks[0])
            found = self._ask("carry_out_in_one_model", level, names, seconds=seconds)
        except Stopped:
            return None
        return found and list(map(Finding.from_dict, found))

    def _finding(self, task: Task) -> Finding:
        started = time.monotonic()
        try:
            level = self._prepare(task)
            found = self._ask("carry_out", level, task.case.case, seconds=task.seconds)
        except Stopped as stop:
            end, seconds = stop.finding, round(time.monotonic() - started, 3)
            return replace(task.case, outcome=end.outcome, detail=end.detail, seconds=seconds)
        return Finding.from_dict(found)

    def _prepare(self, task: Task) -> int:
        """Have the cases of a task's level built, for which the task has no time."""
        if self._bytes() > self._most_memory / 2:  # leftovers there are not this one's doing
            self._stop_child()
        if task.case.level not in self._levels:
            self.cases(task.case.level)
            self._levels.add(task.case.level)
        return task.case.level

    def _ask(self, method: str, *words: Any, seconds: float) -> Any:
        """Call a method of the child's runner; Stopped if it dies, or exceeds time or memory."""
        outcome = Outcome.CRASH
        child, is_new = self._living()
        try:
            if is_new:
                child.call(_RUNNER, self._subject, timeout=_START_SECONDS * crowd())
            limit = seconds * crowd()
            return child.call(f"{_RUNNER}.{method}", *words, timeout=limit, look=self._look)
        except _TooMuch:
            text = f"the process took more than {self._most_memory / 2**30:.1f} GiB of memory"
        except NoAnswer as gone:
            text = f"no answer within {seconds:g} s"
            if gone.code is None:
                outcome = Outcome.HANG
            else:
                text = f"the process ended: {how_it_ended(gone.code)}"
        except Exception as error:  # noqa: BLE001 (of the backend, when it was loaded or asked)
            text = f"{type(error).__name__}: {error}"
        words_said = child.printed(_LAST_OUTPUT)
        self._stop_child()
        text = f"{text}; it printed last:\n{words_said}" if words_said else text
        raise Stopped(outcome, text)

    def _look(self) -> None:
        if self._bytes() > self._most_memory:
            raise _TooMuch

    def _bytes(self) -> int:
        child = self._child  # which another thread may stop meanwhile
        return 0 if child is None else resident_bytes(child.number) or 0

    def _living(self) -> tuple[Child, bool]:
        """Return the child, and whether it has been started now."""
        with self._lock:
            if self._is_closed:
                raise Stopped(Outcome.CRASH, "the run was stopped")
            is_new = self._child is None
            self._child = self._child or Child()
            return self._child, is_new

    def _stop_child(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        self._levels.clear()
        if child is not None:
            child.stop()


class Pool:
    """Children that share the work.

    Thread-safety: ``close`` may be called from any thread; the rest from one.
    """

    def __init__(self, subject: Mapping[str, Any], size: int, most_memory: int = 0) -> None:
        most = most_memory or max(machine_bytes() // 2, _LEAST_MEMORY)
        self._workers = [_Worker(subject, most) for _ in range(size)]
        self._is_closed = False

    def list_cases(self, level: int, seconds: float) -> list[Task]:
        """Ask for the cases of a level; Stopped if the child goes down on the way."""
        return [
            Task(Finding.from_dict(one["case"]), seconds * one["timeout_factor"], one["batch_key"])
            for one in self._workers[0].cases(level)
        ]

    def findings(
        self, batches: Iterable[Sequence[Task]], until: float = math.inf
    ) -> Iterator[Finding]:
        """Carry out cases, and yield a finding for each as it comes."""
        free: SimpleQueue[_Worker] = SimpleQueue()
        ended: SimpleQueue[Future[list[Finding]]] = SimpleQueue()
        for worker in self._workers:
            free.put(worker)

        def carry_out(batch: Sequence[Task]) -> list[Finding]:
            if self._is_closed or time.monotonic() >= until:
                return [replace(task.case, outcome=Outcome.UNTRIED) for task in batch]
            worker = free.get()
            try:
                return worker.findings(batch)
            finally:
                free.put(worker)

        executor = ThreadPoolExecutor(len(self._workers))
        try:
            carried_out = [executor.submit(carry_out, one) for one in batches]
            for future in carried_out:
                future.add_done_callback(ended.put)
            for _ in carried_out:
                yield from _next(ended).result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Stop every child."""
        self._is_closed = True
        for worker in self._workers:
            worker.close()


def _next(ended: "SimpleQueue[Future[list[Finding]]]") -> "Future[list[Finding]]":
    """Wait for the next, in steps: a signal that comes right before a wait is heard after it."""
    while True:
        with suppress(Empty):
            return ended.get(timeout=_STEP_SECONDS)
