"""A pool of child processes that carry out cases; one that crashes or hangs is replaced.

Nothing heavy is imported here, and nothing of the backend.
"""

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from subgraphkit.processes.answering_child import AnsweringChild, NoAnswer
from subgraphkit.processes.child_process import how_it_ended
from subgraphkit.testing.cases import Finding, Outcome

__all__ = ["Ended", "Pool", "Task"]

_MODULE: Final = "subgraphkit.testing.child"
_START_SECONDS: Final = 120.0
"""How long a child may take to start and to build the cases of a level."""
_LAST_OUTPUT: Final = 600
"""How many bytes of what a child printed are kept."""


class Ended(Exception):  # noqa: N818 (an ending, told as a finding)
    """A child went down, or kept silent for too long.

    Attributes:
        outcome: ``CRASH`` or ``HANG``.
        detail: How it ended, and what it printed last.
    """

    def __init__(self, outcome: Outcome, detail: str) -> None:
        self.outcome = outcome
        self.detail = detail
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Task:
    """A case to be carried out by whichever child is free.

    Attributes:
        case: A finding that says which case it is, and nothing yet of how it ended.
        seconds: How long it may take.
    """

    case: Finding
    seconds: float


class _Child:
    """One child process.

    Attributes:
        level: The level whose cases it has built last.

    Thread-safety: used by one thread, except for ``stop``.
    """

    def __init__(self, subject: Mapping[str, Any]) -> None:
        self.level = -1
        self._process = AnsweringChild(_MODULE)
        self._process.tell(subject)

    def ask(self, command: Mapping[str, Any], seconds: float) -> Any:
        """Send a command and wait for the answer.

        Raises:
            Ended: There will be none; the child is gone.
        """
        self._process.tell(command)
        try:
            return self._process.answer(seconds)
        except NoAnswer as gone:
            if gone.code is None:
                raise self._ended(Outcome.HANG, f"no answer within {seconds:g} s") from None
            how = how_it_ended(gone.code)
            raise self._ended(Outcome.CRASH, f"the process ended: {how}") from None

    def stop(self) -> None:
        """Stop the process, and whatever it started, at once."""
        self._process.stop()

    def _ended(self, outcome: Outcome, text: str) -> Ended:
        words = self._process.printed(_LAST_OUTPUT)
        self.stop()
        return Ended(outcome, f"{text}; it printed last: {words}" if words else text)


class Pool:
    """Children that share the work.

    Args:
        subject: What describes the backend under test, as JSON has it.
        size: How many children there may be.

    Thread-safety: ``close`` may be called from any thread; the rest from one.
    """

    def __init__(self, subject: Mapping[str, Any], size: int) -> None:
        self._subject = subject
        self._size = size
        self._children: dict[int, _Child] = {}
        self._lock = threading.Lock()
        self._closed = False

    def listed(self, level: int) -> Sequence[Mapping[str, Any]]:
        """Ask for the cases of a level.

        Raises:
            Ended: The child went down on the way.
        """
        found: Sequence[Mapping[str, Any]] = self._answer(0, level)
        return found

    def findings(self, tasks: Iterable[Task]) -> Iterator[Finding]:
        """Carry out cases, and yield what is found as it comes."""
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        done: queue.SimpleQueue[Finding | BaseException] = queue.SimpleQueue()
        count = 0
        for count, task in enumerate(tasks, 1):  # noqa: B007 (used below)
            waiting.put(task)
        for number in range(min(self._size, count)):
            threading.Thread(target=self._work, args=(number, waiting, done), daemon=True).start()
        for _ in range(count):
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            yield found

    def close(self) -> None:
        """Stop every child."""
        with self._lock:
            self._closed = True
            children = list(self._children.values())
            self._children.clear()
        for child in children:
            child.stop()

    def _work(
        self,
        number: int,
        waiting: "queue.SimpleQueue[Task]",
        done: "queue.SimpleQueue[Finding | BaseException]",
    ) -> None:
        try:
            while not self._closed:
                done.put(self._finding(number, waiting.get_nowait()))
        except queue.Empty:
            return
        except BaseException as error:  # noqa: BLE001 (raised where the findings are read)
            done.put(error)

    def _finding(self, number: int, task: Task) -> Finding:
        try:
            return Finding.from_dict(self._answer(number, task.case.level, task))
        except Ended as ended:
            return replace(task.case, outcome=ended.outcome, detail=ended.detail)

    def _answer(self, number: int, level: int, task: Task | None = None) -> Any:
        """Ask a child for a level's cases, or to carry one out.

        Raises:
            Ended: The child is gone; the next call starts another.
        """
        child = self._child(number)
        try:
            listed = None
            if task is None or child.level != level:
                listed = child.ask({"list": level}, _START_SECONDS)
                child.level = level
            if task is None:
                return listed
            return child.ask({"run": task.case.case, "level": level}, task.seconds)
        except Ended:
            with self._lock:
                self._children.pop(number, None)
            raise

    def _child(self, number: int) -> _Child:
        with self._lock:
            if self._closed:
                raise Ended(Outcome.CRASH, "the run was stopped")
            if number not in self._children:
                self._children[number] = _Child(self._subject)
            return self._children[number]
