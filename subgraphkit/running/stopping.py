"""The kinds of run that a session writes code for, and the end of one before it is done.

A run ends early at its deadline, or because another thread says so.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, Final

from subgraphkit.backend.interruption import cancel_after, let_go_on
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.progress import Progress
from subgraphkit.boundary import is_to_pass
from subgraphkit.errors import RunCancelledError, RunTimeoutError, SubgraphkitError
from subgraphkit.planning import Plan
from subgraphkit.running.emission import Emitted, emit
from subgraphkit.running.gate import wait_for
from subgraphkit.running.messages import check_seconds, unknown_run_options
from subgraphkit.running.observing import Observer
from subgraphkit.running.weights import Weights

_HINTS: Final = {
    "SGK138": "The session can be run again. Give it more time, or ask it for less.",
    "SGK139": "The session can be run again, with RunOptions whose terminate is False.",
}

_Run = Callable[..., Sequence[Any]]


class RunOptions:
    """Says how long a run may take, and ends it when another thread says so.

    Args:
        timeout_s: Seconds that each run may take; None for as long as it takes.
        since: A moment of ``time.monotonic`` from which they count; None for the start of each run.

    Thread-safety: safe; any number of runs may have the same, all of which ``terminate`` ends.
    """

    def __init__(self, timeout_s: float | None = None, *, since: float | None = None) -> None:
        self.timeout_s = timeout_s
        self._since = since
        self._terminate = False
        self._runs: set[Progress] = set()

    @property
    def terminate(self) -> bool:
        """Whether the runs under way, and those that begin, are to end (SGK139)."""
        return self._terminate

    @terminate.setter
    def terminate(self, ends: bool) -> None:
        self._terminate = bool(ends)  # before it looks: a run looks here after it was added
        for run in self._runs.copy() if ends else ():
            run.cancel(_cancel_error())

    def cancel(self) -> None:
        """End the runs under way: ``terminate = True``."""
        self.terminate = True


class _UnderWay:
    """A run that may end early, from its start to its end; its progress is cancelled then.

    Written out, as generators of ``contextlib`` would cost a small run as much as it takes.
    """

    __slots__ = ("_before", "_here", "_options", "_progress", "_seconds")

    def __init__(self, here: Any, options: RunOptions, seconds: float | None) -> None:
        self._here, self._options, self._seconds = here, options, seconds
        self._progress = Progress()

    def __enter__(self) -> Progress:
        options, progress, here = self._options, self._progress, self._here
        options._runs.add(progress)  # noqa: SLF001 (it is theirs)
        if options._terminate:  # noqa: SLF001 (of this module)
            progress.cancel(_cancel_error())
        if self._seconds is not None:
            seconds = float(self._seconds)
            since = options._since  # noqa: SLF001 (of this module)
            left = seconds if since is None else seconds + since - time.monotonic()
            if left <= 0:
                progress.cancel(_too_long(seconds))
            cancel_after(left, progress, lambda: _too_long(seconds))
        self._before = getattr(here, "progress", None)
        here.progress = progress
        return progress

    def __exit__(self, *_: object) -> None:
        self._here.progress = self._before
        if self._seconds is not None:
            let_go_on(self._progress)
        self._options._runs.discard(self._progress)  # noqa: SLF001 (of this module)


def _too_long(seconds: float) -> RunTimeoutError:
    return RunTimeoutError("SGK138", f"the run took longer than timeout_s={seconds:g}")


def _cancel_error() -> RunCancelledError:
    return RunCancelledError("SGK139", "the run was cancelled by its RunOptions")


class Stoppable:
    """The runs of one session that may end early: which is under way on each thread.

    Thread-safety: safe.
    """

    def __init__(self) -> None:
        self._here = threading.local()

    def under_way(
        self, options: RunOptions | None, timeout_s: float | None
    ) -> AbstractContextManager[Progress]:
        """Begin a run; until it ends, the steps on this thread ask its progress whether to go on.

        ``timeout_s``: Seconds that the run may take, if another number than the options say.
        """
        options = RunOptions() if options is None else options
        if not isinstance(options, RunOptions):
            raise unknown_run_options(options)
        seconds = options.timeout_s if timeout_s is None else timeout_s
        check_seconds("timeout_s", seconds)
        is_for_ever = seconds is None or seconds >= threading.TIMEOUT_MAX
        return _UnderWay(self._here, options, None if is_for_ever else seconds)

    def run_of(self, operator: SubgraphOperator) -> _Run:
        """Return a function that runs an operator unless the run ends, and stops it if it can."""
        here, run = self._here, operator.run_stoppable

        def run_stoppable(inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
            progress: Progress = here.progress
            progress.check()
            return run(progress, inputs, outputs)

        return run_stoppable

    def wait(self, lock: object) -> None:
        """Wait until another run has left an operator, and ask now and then whether to go on."""
        wait_for(lock, self._here.progress.check)


def refuse_stopped(
    progress: Progress | None, error: BaseException, emitted: Emitted, plan: Plan
) -> None:
    """Raise that a run ended early (SGK138, SGK139), and at which step, if it failed for that."""
    if progress is None or is_to_pass(error):
        return
    try:
        progress.check()
    except (RunTimeoutError, RunCancelledError) as stop:
        where, context = _place_of(error, emitted, plan)
        text, hint = f"{stop.message}: {where}", _HINTS[stop.code]
        raise type(stop)(stop.code, text, hint=hint, **context) from error


def _place_of(error: BaseException, emitted: Emitted, plan: Plan) -> tuple[str, dict[str, Any]]:
    if (found := emitted.locate(error)) is None:
        return "no step was under way", {}
    step, subgraph = found[0], plan.steps[found[0]].subgraph
    where = f"step {step + 1} of {len(plan.steps)} was reached, subgraph {subgraph.id!r} on "
    where += f"backend {subgraph.backend!r}"
    nodes = error.context.get("nodes", ()) if isinstance(error, SubgraphkitError) else ()
    where += f", node {' > '.join(nodes)}" if nodes else ""
    return where, {"step": step, "subgraph": subgraph.id, "nodes": tuple(nodes)}


class Variants:
    """The functions of one plan, of which those that not every run needs are written on demand.

    Attributes:
        plain: That of a run that takes no buffers and ends when it is done.

    Thread-safety: safe, while the plan, its weights and its listeners stay.
    """

    def __init__(
        self, plan: Plan, weights: Weights, observer: Observer, stoppable: Stoppable
    ) -> None:
        self._plan, self._weights = plan, weights
        self._observer, self._stoppable = observer, stoppable
        self._others: dict[tuple[bool, bool], Emitted] = {}
        self.plain = self._emit(buffered=False, stoppable=False)

    def other(self, *, buffered: bool, stoppable: bool) -> Emitted:
        """Return the function that takes buffers, or asks whether to go on, or does both."""
        key = buffered, stoppable
        if key not in self._others:
            self._others[key] = self._emit(buffered=buffered, stoppable=stoppable)
        return self._others[key]

    def _emit(self, *, buffered: bool, stoppable: bool) -> Emitted:
        plan = self._plan
        run_of = self._stoppable.run_of if stoppable else attrgetter("run")
        emitted = emit(
            plan,
            defaults={name: stored.array() for name, stored in plan.graph.defaults.items()},
            constants=self._weights.output_makers(),
            run_of=run_of,
            wait=self._stoppable.wait if stoppable else None,
            buffered=buffered,
        )
        return self._observer.watch(emitted, plan, run_of)
