"""Reports of runs and steps to extensions, and a tally of runs; nothing is paid without them."""

import math
import threading
import time
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import Any, Final, get_args

from subgraphkit import backend as contract
from subgraphkit import running
from subgraphkit.backend.operator import SubgraphOperator, maker_of
from subgraphkit.errors import ExecutionError, Fault, SubgraphkitError, SubgraphkitWarning
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.planning import Plan, Step
from subgraphkit.running.emission import Emitted
from subgraphkit.running.messages import profiled_already

BUCKETS: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds, from a run of a small network to one of a large one."""

_FAULTS: Final = get_args(Fault)


@dataclass(frozen=True, slots=True)
class RunStats:
    """The work of a session since somebody first asked.

    Attributes:
        since: When counting began, in seconds since the epoch.
        runs: How many runs returned results, warm-ups and pings included.
        in_flight: How many threads are inside of a run now.
        errors: How many failed, by their ``fault``: ``"caller"``, ``"model"``, ``"backend"`` or
            ``"machine"``; an interruption by Ctrl-C is nobody's.
        seconds: How long the runs that returned results took, all together.
        histogram: How many of them took up to so many seconds, and longer than the number before.
            The last number is infinite.
    """

    since: float
    runs: int
    in_flight: int
    errors: Mapping[str, int]
    seconds: float
    histogram: Mapping[float, int]


class RunTally:
    """Counts runs.

    Attributes:
        since: When it began, in seconds since the epoch.
        last: When the last run returned results, on the clock of ``time.monotonic``.

    Thread-safety: safe.
    """

    def __init__(self) -> None:
        self.since = time.time()
        self.last = -math.inf
        self._counts = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._errors = dict.fromkeys(_FAULTS, 0)
        self.leave_parent()

    def leave_parent(self) -> None:
        """Go on in a forked child, where a thread that is not there may hold the lock."""
        self._lock = threading.Lock()

    def counting(self, execute: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        """Return the code of a plan such that every call that returns is counted."""

        def execute_counted(*arguments: Any) -> list[Any]:
            started = time.perf_counter()
            results = execute(*arguments)
            seconds = time.perf_counter() - started
            with self._lock:
                self._counts[bisect_left(BUCKETS, seconds)] += 1
                self._seconds += seconds
                self.last = time.monotonic()
            return results

        return execute_counted

    def add_failure(self, error: Exception) -> None:
        """Count a run that failed."""
        with self._lock:
            # an error without a code is a warning that a filter has raised
            self._errors[error.fault if isinstance(error, SubgraphkitError) else "caller"] += 1

    def stats(self, in_flight: int) -> RunStats:
        """Return the counts, with the number of present runs."""
        with self._lock:
            counts, errors = list(self._counts), dict(self._errors)
            seconds = self._seconds
        return RunStats(
            since=self.since,
            runs=sum(counts),
            in_flight=in_flight,
            errors=MappingProxyType(errors),
            seconds=seconds,
            histogram=MappingProxyType(dict(zip((*BUCKETS, math.inf), counts, strict=True))),
        )


_Run = Callable[..., Sequence[Any]]


class Observer:
    """Tells the extensions of one session about its runs and the steps in them.

    Attributes:
        session: Number of the session.
        tally: Counts its runs; None while nobody has asked for that.

    Thread-safety: safe.
    """

    def __init__(self, extensions: ExtensionManager) -> None:
        self._extensions = self._registered = extensions
        self._recorder: running.Recorder | None = None
        self._changes = 0
        self.session = extensions.number_session()
        self.tally: RunTally | None = None
        self._runs = count()
        self._here = threading.local()

    def hear(self, recorder: "running.Recorder | None") -> None:
        """Have operators of a recorder, if any, run for the plan's; CallerError (SGK146) if two."""
        if recorder is not None and self._recorder not in (None, recorder):
            raise profiled_already()
        if recorder is not None:
            recorder.take_twins(self._changes)
        own = self._registered
        self._extensions = own if recorder is None else own.with_extension(recorder, "profile")
        self._recorder = recorder

    def forget(self) -> None:
        """Take note that operators, or their results, have changed."""
        self._changes += 1
        if self._recorder is not None:
            self._recorder.forget_twins()

    def watch(
        self, emitted: Emitted, plan: Plan, run_of: Callable[[SubgraphOperator], _Run]
    ) -> Emitted:
        """Return the code of a plan such that runs and steps are reported, and runs counted.

        Without a listener or a count, it is the same object. With a listener to steps, it is the
        same code, with clocks around the operators.
        """
        hears_steps = self._extensions.implements("subgraphkit_step")
        hooks = ("subgraphkit_run_start", "subgraphkit_run_end")
        if hears_steps:
            emitted = emitted.calling(
                {i: self._clock_step(s, run_of) for i, s in enumerate(plan.steps)}
            )
        if hears_steps or any(map(self._extensions.implements, hooks)):
            emitted = emitted._replace(execute=self._report_runs(emitted, plan))
        if self.tally is not None:
            emitted = emitted._replace(execute=self.tally.counting(emitted.execute))
        return emitted

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Count the error that a run ends with, if runs are counted."""
        try:
            yield
        except Exception as error:
            if self.tally is not None:
                self.tally.add_failure(error)
            raise

    def _report_runs(self, emitted: Emitted, plan: Plan) -> Callable[..., list[Any]]:
        execute = emitted.execute

        def execute_reported(*arguments: Any) -> list[Any]:
            self._here.run = run = next(self._runs)
            event = contract.RunEvent(
                model=self._extensions.model,
                session=self.session,
                run=run,
                start=time.perf_counter(),
            )
            self._extensions.notify("subgraphkit_run_start", event=event)
            event = replace(event, start=time.perf_counter())
            try:
                return execute(*arguments)
            except BaseException as error:
                found = emitted.locate(error)
                failed = plan.steps[found[0]].subgraph.id if found is not None else ""
                event = replace(event, subgraph=failed, error=_text(error))
                raise
            finally:
                event = replace(event, seconds=time.perf_counter() - event.start)
                self._extensions.notify("subgraphkit_run_end", event=event)

        return execute_reported

    def _clock_step(self, step: Step, run_of: Callable[[SubgraphOperator], _Run]) -> _Run:
        twins = {} if self._recorder is None else self._recorder.twins
        operator, subgraph = twins.get(step.operator, step.operator), step.subgraph
        run = run_of(operator)
        backend = maker_of(step.operator) or subgraph.backend

        def run_clocked(inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
            problem: str | None = None
            started = time.perf_counter()
            try:
                return run(inputs, outputs)
            except BaseException as error:
                problem = _text(error)
                raise
            finally:
                event = contract.StepEvent(
                    model=self._extensions.model,
                    session=self.session,
                    subgraph=subgraph.id,
                    run=self._here.run,
                    backend=backend,
                    start=started,
                    seconds=time.perf_counter() - started,
                    thread=threading.get_ident(),
                    error=problem,
                )
                self._extensions.notify("subgraphkit_step", event=event)

        return run_clocked

    def tell_moved(self, failure: ExecutionError, step: Step, target: str) -> None:
        """Warn that a step that failed moved to the fallback backend, and report it."""
        if self._extensions.implements("subgraphkit_fallback"):
            event = contract.FallbackEvent(
                model=self._extensions.model,
                session=self.session,
                subgraph=step.subgraph.id,
                level="run",
                backend=failure.backend,
                target=target,
                code=failure.code,
                reason=failure.message,
                node_count=len(step.subgraph.nodes),
            )
            self._extensions.notify("subgraphkit_fallback", event=event)
        warnings.warn(
            SubgraphkitWarning(f"{failure} It runs on the fallback backend from now on."),
            stacklevel=4,
        )


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
