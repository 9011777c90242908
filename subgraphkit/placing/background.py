"""Building in the background: each subgraph goes to its backend as soon as that has compiled it.

Until then all of the model runs on a backend that opens quickly. From the first exchange on, those
parts do that are still to be compiled.
"""

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from subgraphkit.backend.operator import SubgraphOperator, maker_of, set_maker
from subgraphkit.backend.progress import Progress
from subgraphkit.backend.refusal import Unsupported
from subgraphkit.binding import BoundModel
from subgraphkit.compiling import (
    CompiledSubgraphs,
    Setup,
    close_all,
    compile_elsewhere,
    compile_subgraph,
    compile_subgraphs,
    given_back,
)
from subgraphkit.compiling.caching import stores_engines
from subgraphkit.compiling.timeouts import attended
from subgraphkit.errors import CompileError, SubgraphkitError, describe_exception
from subgraphkit.finding.opening import load_in_turn
from subgraphkit.ir import Initializer, Subgraph
from subgraphkit.logs import logger_of
from subgraphkit.partitioning import Constraints, Partitioning, partition
from subgraphkit.partitioning.constraints import configured
from subgraphkit.partitioning.placements import find_placement
from subgraphkit.partitioning.reports.memory import check_memory
from subgraphkit.placing.proofs import prove_beside_runs
from subgraphkit.planning import Plan, Step, plan
from subgraphkit.running import Session
from subgraphkit.viewing.progress import ShownAs, shown

_logger = logger_of("placement")

_STOPPED: Final = "the build was stopped"


@dataclass(frozen=True, slots=True)
class SubgraphStatus:
    """How far a subgraph is.

    Attributes:
        subgraph: Its id.
        backend: Which backend runs it now.
        wanted: Which backend is to run it; empty as long as that is not decided.
        state: ``"waiting"``, ``"compiling"``, ``"ready"``, or ``"failed"`` if it stays where it is.
        seconds: How long it took to compile.
        reason: Why it failed.
    """

    subgraph: str
    backend: str
    wanted: str
    state: Literal["waiting", "compiling", "ready", "failed"]
    seconds: float = 0.0
    reason: str = ""


def statuses(running: Plan) -> dict[str, SubgraphStatus]:
    """Return how a plan runs its subgraphs, by their ids: all are ready."""
    makers = {step.subgraph.id: maker_of(step.operator) for step in running.steps}
    return {
        one.id: SubgraphStatus(
            one.id,
            makers.get(one.id) or one.backend,
            one.backend,
            "ready",
            running.seconds.get(one.id, 0.0),
        )
        for one in running.partitioning.subgraphs
    }


def starting_plan(bound: BoundModel, constraints: Constraints | None) -> Plan | None:
    """Return a plan on one backend that opens quickly; None if the model cannot start on any.

    That is the first of those selected that keeps no engines, since it compiles nothing that would
    be worth keeping, and takes every node; or else the first that leaves some to the fallback.

    Raises:
        SubgraphkitError: A backend that was named is not installed, or the one to start on fails.
    """
    settings = bound.settings
    is_held_to = settings.require or settings.on_fallback == "error"
    if is_held_to or configured(settings, constraints) is not None:
        _logger.info(
            "what is demanded of the placement holds from the first run on: nothing starts"
        )
        return None
    placement = find_placement(bound, settings)
    if placement is not None:
        settings = settings.selecting(placement.choices("a placement"), "placement", "a placement")
    found: Partitioning | None = None
    for choice, factory in load_in_turn(settings):
        if not isinstance(factory, type) or stores_engines(factory):
            continue
        try:
            partitioning = partition(bound, [choice])
        except SubgraphkitError as error:
            _logger.info("a session cannot start on backend %r: %s", choice.name, error.message)
            continue
        takes_all = all(one.backend == choice.name for one in partitioning.subgraphs)
        found = partitioning if takes_all or found is None else found
        if takes_all:
            break
    if found is None:
        return None
    # Nobody asked for this placement, so there is nothing to be reported of it.
    found = replace(found, named={})
    return plan(found, compile_subgraphs(found))


class BackgroundBuild:
    """Compiles in a thread what a session is to run in the end, and hands it over bit by bit.

    The thread does not keep the session alive, and ends with it, or with the main thread.

    Args:
        session: Runs a starting plan.
        how: How it is shown how far compiling is, as for a session that opens.

    Thread-safety: every method may be called from any thread.
    """

    def __init__(self, session: Session, how: ShownAs) -> None:
        self._session = weakref.ref(session)
        self._started = statuses(session.plan)
        self._start = self._wanted = session.plan.partitioning
        self._starters = {one.backend for one in self._start.subgraphs}
        self._starter = self._start.passes.claims[0]
        self._display = ExitStack()
        told, graph = self._display.enter_context(shown(how)), self._start.graph
        self._progress = _BuildProgress(None, graph.extensions.hearing(told))
        self._is_decided = False
        self._is_running = False
        self._statuses: dict[str, SubgraphStatus] = {}
        self._pool: dict[str, SubgraphOperator] = {}
        self._problem = _STOPPED
        self._thread = threading.Thread(target=self._run, name="subgraphkit build")
        weakref.finalize(session, self._progress.cancel).atexit = False
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether nothing is left to be built."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to be built; return whether that is so."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return self.ready

    def stop(self) -> None:
        """Have the build end at its next step."""
        self._progress.cancel()

    def status(self, running: Plan) -> dict[str, SubgraphStatus]:
        """Return how far the subgraphs are, by their ids."""
        is_over = self.ready  # asked first: the thread may end meanwhile, and what it did be seen
        wanted, known = self._wanted, dict(self._statuses)
        runs_wanted = wanted is self._start or running.partitioning is not self._start
        now = statuses(running) if runs_wanted else {}
        table = {}
        for one in wanted.subgraphs:
            target = one.backend if self._is_decided else ""
            status = known.get(one.id) or SubgraphStatus(one.id, "", target, "waiting")
            if is_over and status.state in {"waiting", "compiling"}:
                status = replace(status, state="failed", reason=self._problem)
            here = now[one.id].backend if one.id in now else self._starter.backend.name
            table[one.id] = replace(status, backend=here)
        return table

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._build()
        except KeyboardInterrupt:
            pass  # it was stopped
        except BaseException as error:  # noqa: BLE001 (there is nobody above to catch it)
            self._problem = describe_exception(error)
            _logger.warning(
                "what is not built yet stays on %s: %s", self._starter.backend.name, self._problem
            )
        finally:
            close_all(self._pool.values())
            self._display.close()

    def _build(self) -> None:
        self._progress.check()
        wanted = partition(self._start.graph)
        if _work(wanted) == _work(self._start):
            self._statuses, self._is_decided = dict(self._started), True
        else:
            self._wanted, self._is_decided = wanted, True
            check_memory(wanted)
            self._build_all()
            wanted = self._wanted
        shortfall = wanted.shortfall()
        if shortfall is not None:
            shortfall.report(wanted)

    def _build_all(self) -> None:
        shares = len(self._wanted.subgraphs) > 1
        setup = Setup.of(self._wanted, self._progress, shares_processors=shares)
        try:
            while (subgraph := self._next()) is not None:
                self._progress.check()
                part = setup.on(subgraph)
                total = len(self._wanted.subgraphs)
                part.progress("compiling", len(self._statuses), total, subgraph.id)
                self._settle(subgraph, part)
            if self._is_running and self._pool:
                self._hand_over()
            self._prove(setup, gives_up=True)
        finally:
            if setup.cache is not None:
                setup.cache.proofs.drop_all()
        self._progress("compiling", len(self._statuses), len(self._statuses))

    def _next(self) -> Subgraph | None:
        """Return what to compile next: first what the starting backends take, which is quick."""
        waiting = [one for one in self._wanted.subgraphs if one.id not in self._statuses]
        return min(waiting, key=lambda one: one.backend not in self._starters, default=None)

    def _settle(self, subgraph: Subgraph, setup: Setup) -> None:
        """Compile a subgraph and hand it over; where that fails it stays where it is."""
        status = SubgraphStatus(subgraph.id, "", subgraph.backend, "compiling")
        self._statuses[subgraph.id] = status
        started = time.perf_counter()
        try:
            try:
                self._pool[subgraph.id] = attended(
                    lambda progress: compile_subgraph(
                        self._wanted, subgraph, setup._replace(progress=progress)
                    ),
                    setup.progress,
                    lambda operator: operator.close(),
                    self._wanted.graph.settings.timeout_s,
                )
            except (Unsupported, CompileError) as error:
                place = self._wanted.place_of(subgraph.id)
                self._wanted = given_back(self._wanted, place, error)
                del self._statuses[subgraph.id]
                return
            seconds = time.perf_counter() - started
            if subgraph.outputs and subgraph.backend not in self._starters:
                self._hand_over()
                self._prove(setup)
            self._statuses[subgraph.id] = replace(status, state="ready", seconds=seconds)
        except Exception as error:  # noqa: BLE001 (it stays where it is, which is told)
            self._progress.check()
            reason = describe_exception(error)
            self._statuses[subgraph.id] = replace(status, state="failed", reason=reason)
            _logger.warning(
                "subgraph %s stays on %s: %s", subgraph.id, self._starter.backend.name, reason
            )

    def _hand_over(self) -> None:
        """Have the session run what is compiled, and the rest on the backend of the start."""
        session = self._session()
        if session is None:
            raise KeyboardInterrupt
        try:
            kept = self._kept(session.plan)
            for one in self._wanted.subgraphs:
                if one.id not in self._pool and _place(one) not in kept:
                    self._progress.check()
                    self._pool[one.id] = self._stand_in(one)
            session.exchange(self._made)
            self._is_running = True
        except BaseException:
            close_all(self._pool.values())
            raise
        finally:
            self._pool.clear()

    def _prove(self, setup: Setup, *, gives_up: bool = False) -> None:
        """Prove the engines of what the session runs now, beside its runs."""
        session = self._session()
        if session is not None and setup.cache is not None:
            prove_beside_runs(session, setup.cache.proofs, gives_up=gives_up)

    def _stand_in(self, subgraph: Subgraph) -> SubgraphOperator:
        if not subgraph.outputs:
            return compile_subgraph(self._wanted, subgraph)
        compile_ = partial(compile_elsewhere, self._wanted, claim=self._starter)
        return _StandIn(subgraph, compile_)

    def _kept(self, running: Plan) -> dict[Any, Step]:
        """Return the steps whose operators remain, by what they compute."""
        if running.partitioning is self._start:
            return {}
        return {_place(step.subgraph): step for step in running.steps}

    def _made(self, running: Plan) -> Plan:
        """Return the plan that follows, with operators of the pool and of the plan that runs."""
        wanted, fresh, kept = self._wanted, self._pool, self._kept(running)
        operators = tuple(
            fresh[one.id] if one.id in fresh else kept[_place(one)].operator
            for one in wanted.subgraphs
        )
        seconds = {one: status.seconds for one, status in self._statuses.items()}
        made = plan(wanted, CompiledSubgraphs(wanted, wanted, operators, seconds))
        steps = [
            step
            if step.subgraph.id in fresh
            else replace(step, subgraph=kept[_place(step.subgraph)].subgraph)
            for step in made.steps
        ]
        return replace(made, steps=tuple(steps))


def _place(subgraph: Subgraph) -> Any:
    return subgraph.id, subgraph.nodes, subgraph.inputs, subgraph.outputs


def _work(partitioning: Partitioning) -> list[Any]:
    return [(one.backend, one.nodes, one.outputs) for one in partitioning.subgraphs]


class _BuildProgress(Progress):
    """The progress of a build: that of the caller, which also ends with the main thread."""

    @property
    def cancelled(self) -> bool:
        return super().cancelled or not threading.main_thread().is_alive()

    def check(self) -> None:
        super().check()
        if self.cancelled:
            raise KeyboardInterrupt


class _StandIn(SubgraphOperator):
    """Runs a subgraph on another backend than its own, new weights included."""

    def __init__(
        self, subgraph: Subgraph, compile_: Callable[[Subgraph], SubgraphOperator]
    ) -> None:
        self._subgraph = subgraph
        self._compile = compile_
        self._operator = compile_(subgraph)
        self.device = self._operator.device
        set_maker(self, maker_of(self._operator))
        self.traits = self._operator.traits._replace(thread_safe=True)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        return self._operator.run(inputs, outputs)

    def run_stoppable(
        self, progress: Progress, inputs: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        return self._operator.run_stoppable(progress, inputs, outputs)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Refit, or compile again on the same backend, which the session could not."""
        constants = dict(self._subgraph.constants)
        for name, array in changed.items():
            before = constants[name]
            data = partial(np.asarray, np.array(array))
            constants[name] = Initializer(name, before.type, data, before.version + 1)
        subgraph = replace(self._subgraph, constants=constants)
        if not self._operator.update_weights(changed):
            operator = self._compile(subgraph)
            self._operator.close()
            self._operator = operator
        self._subgraph = subgraph
        return True

    def info(self) -> Mapping[str, Any]:
        return self._operator.info()

    def close(self) -> None:
        self._operator.close()
