"""A pool of child processes that carry out cases, many each.

A child carries out one case after the other, which spares starting a process for each. Where one
goes down or keeps silent, the case is tried again as the first of a new child, and the finding says
whether it ends well there. The children end with this process, however that ends.

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

from subgraphkit.processes import Child, NoAnswer, how_it_ended
from subgraphkit.processes.child_process import crowd
from subgraphkit.processes.memory import machine_bytes, resident_bytes
from subgraphkit.testing.cases import Finding, Outcome

_RUNNER: Final = "subgraphkit.testing.child:CaseRunner"
_START_SECONDS: Final = 120.0
"""How long a child may take to start and to build the cases of a level."""
_LAST_OUTPUT: Final = 600
"""How many bytes of what a child printed are kept."""
_KILLED: Final = "signal SIGKILL"
"""How it ended if somebody else has ended it."""
_LEAST_MEMORY: Final = 4 << 30
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
    batch_key: str = ""


class _CaseChild:
    """One child process, started when it is first asked for something.

    Attributes:
        carried_out: How many cases it was given.

    Thread-safety: used by one thread, except for ``stop``.
    """

    def __init__(self, subject: Mapping[str, Any], most_memory: int) -> None:
        self.carried_out = 0
        self._subject, self._most_memory = subject, most_memory
        self._levels: set[int] = set()
        self._process = Child()

    def list_cases(self, level: int) -> Any:
        if not self._levels:
            self._ask("", [self._subject], _START_SECONDS)
        self._levels.add(level)
        return self._ask("list_cases", [level], _START_SECONDS)

    def carry_out(self, task: Task) -> Finding:
        level = self._level_of([task])
        return Finding.from_dict(self._ask("carry_out", [level, task.case.case], task.seconds))

    def carry_out_in_one_model(self, tasks: Sequence[Task]) -> list[Finding] | None:
        """Carry out cases of one level in one model; return None if something was not right."""
        words = [self._level_of(tasks), [task.case.case for task in tasks]]
        found = self._ask("carry_out_in_one_model", words, max(task.seconds for task in tasks))
        return found and [Finding.from_dict(one) for one in found]

    def stop(self) -> None:
        """Stop the process, and whatever it started, at once."""
        self._process.stop()

    def _level_of(self, tasks: Sequence[Task]) -> int:
        level = tasks[0].case.level
        if level not in self._levels:
            self.list_cases(level)
        self.carried_out += len(tasks)
        return level

    def _ask(self, method: str, words: Sequence[Any], seconds: float) -> Any:
        place = f"{_RUNNER}.{method}" if method else _RUNNER
        try:
            return self._process.call(place, *words, timeout=seconds * crowd(), look=self._look)
        except _TooMuch:
            text = f"the process took more than {self._most_memory / 2**30:.1f} GiB of memory"
            raise self._ended(Outcome.CRASH, text, is_own=False) from None
        except NoAnswer as gone:
            if gone.code is None:
                raise self._ended(Outcome.HANG, f"no answer within {seconds:g} s") from None
            how = how_it_ended(gone.code)
            text = f"the process ended: {how}"
            raise self._ended(Outcome.CRASH, text, is_own=how != _KILLED) from None
        except Exception as error:
            raise self._ended(Outcome.CRASH, f"{type(error).__name__}: {error}") from error

    def _look(self) -> None:
        if (resident_bytes(self._process.number) or 0) > self._most_memory:
            raise _TooMuch

    def _ended(self, outcome: Outcome, text: str, *, is_own: bool = True) -> Ended:
        words = self._process.printed(_LAST_OUTPUT)
        self.stop()
        return Ended(
            outcome, f"{text}; it printed last:\n{words}" if words else text, is_own=is_own
        )


class _Worker:
    """Carries out one case after the other, in a child that is replaced when it is gone.

    Thread-safety: used by one thread, except for ``close``.
    """

    def __init__(self, subject: Mapping[str, Any], most_memory: int) -> None:
        self._subject, self._most_memory = subject, most_memory
        self._child: _CaseChild | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._confirmed: Counter[Outcome | None] = Counter()

    def cases(self, level: int) -> Any:
        try:
            return self._living().list_cases(level)
        except Ended:
            self._let_go()
            raise

    def findings(self, tasks: Sequence[Task]) -> list[Finding]:
        """Carry cases out, in one model if there are several and nothing is wrong with it."""
        if len(tasks) > 1:
            try:
                found = self._living().carry_out_in_one_model(tasks)
            except Ended:
                self._let_go()
                found = None
            if found is not None:
                return found
        return [self._finding(task) for task in tasks]

    def _finding(self, task: Task) -> Finding:
        before = self._child.carried_out if self._child is not None else 0
        found, ended = self._attempt(task)
        kind = None if ended is None else ended.outcome
        enough = 1 if kind is Outcome.HANG else _CONFIRMED
        is_first = not before and (ended is None or ended.is_own)
        if not found.is_wrong or is_first or self._confirmed[kind] >= enough:
            return found
        alone, _ = self._attempt(task, apart=True)
        if alone.is_wrong:
            self._confirmed[kind] += 1
            return alone
        if ended is not None and not ended.is_own:
            return alone
        remark = (
            f"this was after {before} other cases; alone in a process it is {alone.outcome.value}"
        )
        return replace(found, detail=f"{found.detail}\n{remark}")

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

    def _living(self) -> _CaseChild:
        with self._lock:
            if self._is_closed:
                raise Ended(Outcome.CRASH, "the run was stopped")
            if self._child is None:
                self._child = _CaseChild(self._subject, self._most_memory)
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
        """Carry out cases, and yield a finding for each as it comes."""
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
