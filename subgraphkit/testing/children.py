"""A pool of child processes that carry out cases, many each; who takes one down is found out.

A child carries out one case after the other, which spares starting a process for each. Where one
goes down or keeps silent, the case is tried again as the first of a new child. If that ends well, a
case before it has done the harm, and those are tried again with it, each in a child of its own.

Nothing heavy is imported here, and nothing of the backend.
"""

import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from subgraphkit.processes.answering_child import AnsweringChild, NoAnswer
from subgraphkit.processes.child_process import crowd, how_it_ended
from subgraphkit.processes.memory import machine_bytes, resident_bytes
from subgraphkit.testing.cases import Finding, Outcome

_MODULE: Final = "subgraphkit.testing.child"
_START_SECONDS: Final = 120.0
"""How long a child may take to start and to build the cases of a level."""
_END_SECONDS: Final = 10.0
_LAST_OUTPUT: Final = 600
"""How many bytes of what a child printed are kept."""
_KILLED: Final = "signal SIGKILL"
"""How it ended if somebody else has ended it."""
_LEAST_MEMORY: Final = 4 << 30
_SUSPECTS: Final = 8
"""How many of the cases that came before a crash are tried with the one that it came in."""
_CONFIRMED: Final = 3
"""How often an ending that is the same alone is believed from then on; a hang takes long, and is
believed after one."""


class Ended(Exception):  # noqa: N818 (an ending, told as a finding)
    """A child went down, kept silent for too long or took too much memory.

    Attributes:
        is_own: Whether the process did that itself, and was not ended from outside.
    """

    def __init__(self, outcome: Outcome, detail: str, *, is_own: bool = True) -> None:
        self.outcome = outcome
        self.detail = detail
        self.is_own = is_own
        super().__init__(detail)


class _TooMuch(Exception):  # noqa: N818 (a state, told as an ending)
    """A child has more memory than it may have."""


@dataclass(frozen=True, slots=True)
class Task:
    """A case to be carried out by whichever child is free.

    Attributes:
        case: A finding that says which case it is, and nothing yet of how it ended.
        seconds: How long it may take, where nobody else wants the processors.
    """

    case: Finding
    seconds: float
    joint: str = ""


class _Child:
    """One child process.

    Attributes:
        carried_out: What it was given to carry out, in order.

    Thread-safety: used by one thread, except for ``stop``.
    """

    def __init__(self, subject: Mapping[str, Any], most_memory: int) -> None:
        self.level = -1
        self.carried_out: list[Task] = []
        self._most_memory = most_memory
        self._process = AnsweringChild(_MODULE)
        self._process.tell(subject)

    def cases(self, level: int) -> Any:
        listed = self._ask({"list": level}, _START_SECONDS)
        self.level = level
        return listed

    def carry_out(self, task: Task) -> Finding:
        if self.level != task.case.level:
            self.cases(task.case.level)
        self.carried_out.append(task)
        command = {"run": task.case.case, "level": task.case.level}
        return Finding.from_dict(self._ask(command, task.seconds))

    def carry_out_jointly(self, tasks: Sequence[Task]) -> list[Finding] | None:
        """Carry out cases of one level in one model; return None if something was not right."""
        level = tasks[0].case.level
        if self.level != level:
            self.cases(level)
        self.carried_out += tasks
        command = {"join": [task.case.case for task in tasks], "level": level}
        found = self._ask(command, max(task.seconds for task in tasks))
        return found and [Finding.from_dict(one) for one in found]

    def end(self) -> None:
        how = how_it_ended(self._process.stop(_END_SECONDS))
        if how not in {"exit status 0", _KILLED}:
            raise self._ended(Outcome.CRASH, f"the process ended: {how}")

    def stop(self) -> None:
        """Stop the process, and whatever it started, at once."""
        self._process.stop()

    def _ask(self, command: Mapping[str, Any], seconds: float) -> Any:
        self._process.tell(command)
        try:
            return self._process.answer(seconds * crowd(), self._look)
        except _TooMuch:
            text = f"the process took more than {self._most_memory / 2**30:.1f} GiB of memory"
            raise self._ended(Outcome.CRASH, text, is_own=False) from None
        except NoAnswer as gone:
            if gone.code is None:
                raise self._ended(Outcome.HANG, f"no answer within {seconds:g} s") from None
            how = how_it_ended(gone.code)
            text = f"the process ended: {how}"
            raise self._ended(Outcome.CRASH, text, is_own=how != _KILLED) from None

    def _look(self) -> None:
        if (resident_bytes(self._process.number) or 0) > self._most_memory:
            raise _TooMuch

    def _ended(self, outcome: Outcome, text: str, *, is_own: bool = True) -> Ended:
        words = self._process.printed(_LAST_OUTPUT)
        self.stop()
        return Ended(outcome, f"{text}; it printed last: {words}" if words else text, is_own=is_own)


class _Worker:
    """Carries out one case after the other, in a child that is replaced when it is gone.

    Thread-safety: used by one thread, except for ``close``.
    """

    def __init__(self, subject: Mapping[str, Any], most_memory: int) -> None:
        self._subject, self._most_memory = subject, most_memory
        self._child: _Child | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._confirmed: Counter[Outcome | None] = Counter()

    def cases(self, level: int) -> Any:
        try:
            return self._living().cases(level)
        except Ended:
            self._let_go()
            raise

    def findings(self, tasks: Sequence[Task]) -> list[Finding]:
        """Carry cases out, in one model if there are several and nothing is wrong with it."""
        if len(tasks) > 1:
            try:
                found = self._living().carry_out_jointly(tasks)
            except Ended:
                self._let_go()
                found = None
            if found is not None:
                return found
        return [finding for task in tasks for finding in self._findings(task)]

    def _findings(self, task: Task) -> list[Finding]:
        before = tuple(self._child.carried_out) if self._child is not None else ()
        found, ended = self._attempt(task)
        kind = None if ended is None else ended.outcome
        enough = 1 if kind is Outcome.HANG else _CONFIRMED
        is_first = not before and (ended is None or ended.is_own)
        if not found.is_wrong or is_first or self._confirmed[kind] >= enough:
            return [found]
        alone, _ = self._attempt(task, apart=True)
        if alone.is_wrong:
            self._confirmed[kind] += 1
            return [alone]
        remark = f"alone in a process it is {alone.outcome.value}"
        if ended is None:
            return [replace(found, detail=f"{found.detail}; {remark}")]
        if not ended.is_own:
            return [alone]
        culprit = self._culprit(task, before) if ended.outcome is Outcome.CRASH else None
        if culprit is not None:
            return [alone, culprit]
        text = f"{found.detail}; this was after {len(before)} other cases, {remark}"
        return [replace(found, detail=text)]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._let_go()

    def _attempt(self, task: Task, *, apart: bool = False) -> tuple[Finding, Ended | None]:
        """Carry a case out, in a new child if need be; return also how the child ended, if so."""
        if apart:
            self._let_go()
        started = time.monotonic()
        try:
            return self._living().carry_out(task), None
        except Ended as ended:
            self._let_go()
            seconds = round(time.monotonic() - started, 3)
            found = replace(task.case, outcome=ended.outcome, detail=ended.detail, seconds=seconds)
            return found, ended

    def _culprit(self, task: Task, before: Sequence[Task]) -> Finding | None:
        """Find the case after which this one goes down, the last before it first."""
        for suspect in reversed(before[-_SUSPECTS:]):
            self._let_go()
            child = self._living()
            try:
                child.carry_out(suspect)
                child.carry_out(task)
                child.end()
            except Ended as ended:
                text = f"{ended.detail}; that came in {task.case.case}, which is right without it"
                return replace(suspect.case, outcome=ended.outcome, detail=text)
            finally:
                self._let_go()
        return None

    def _living(self) -> _Child:
        with self._lock:
            if self._is_closed:
                raise Ended(Outcome.CRASH, "the run was stopped")
            if self._child is None:
                self._child = _Child(self._subject, self._most_memory)
            return self._child

    def _let_go(self) -> None:
        with self._lock:
            child, self._child = self._child, None
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

    def listed(self, level: int) -> Sequence[Mapping[str, Any]]:
        """Ask for the cases of a level.

        Raises:
            Ended: The child went down on the way.
        """
        found: Sequence[Mapping[str, Any]] = self._workers[0].cases(level)
        return found

    def findings(
        self, batches: Iterable[Sequence[Task]], until: float = math.inf
    ) -> Iterator[Finding]:
        """Carry out cases, and yield what is found as it comes.

        Yields:
            A finding for each case. Where one is found to have harmed another after it, it comes a
            second time, and that counts.
        """
        waiting: queue.SimpleQueue[Sequence[Task]] = queue.SimpleQueue()
        done: queue.SimpleQueue[list[Finding] | BaseException] = queue.SimpleQueue()
        for batch in batches:
            waiting.put(batch)
        count = waiting.qsize()
        for worker in self._workers[:count]:
            of_worker = (worker, waiting, done, until)
            threading.Thread(target=self._work, args=of_worker, daemon=True).start()
        for _ in range(count):
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            yield from found

    def _work(
        self,
        worker: _Worker,
        waiting: "queue.SimpleQueue[Sequence[Task]]",
        done: "queue.SimpleQueue[list[Finding] | BaseException]",
        until: float,
    ) -> None:
        try:
            while True:
                batch = waiting.get_nowait()
                if time.monotonic() < until and not self._is_closed:
                    done.put(worker.findings(batch))
                else:
                    done.put([replace(task.case, outcome=Outcome.UNTRIED) for task in batch])
        except queue.Empty:
            return
        except BaseException as error:  # noqa: BLE001 (raised where the findings are read)
            done.put(error)

    def close(self) -> None:
        """Stop every child."""
        self._is_closed = True
        for worker in self._workers:
            worker.close()
