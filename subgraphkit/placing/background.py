"""Building in the background: a session runs on a backend that opens quickly until all is compiled.

Then one exchange puts the compiled plan in its place. Engines are proven beside runs, after the
first answer of the session.
"""

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from subgraphkit import placing
from subgraphkit.backend.contract import stores_engines
from subgraphkit.backend.operator import maker_of
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.compiling import CompiledSubgraphs, close_all, compile_unproven
from subgraphkit.compiling.proving import Proofs, ProofStep
from subgraphkit.errors import SubgraphkitError, SubgraphkitWarning, describe_exception
from subgraphkit.finding.opening import load_in_turn
from subgraphkit.logs import logger_of
from subgraphkit.partitioning import Constraints, Partitioning, partition
from subgraphkit.partitioning.constraints import all_demands
from subgraphkit.partitioning.placements import find_placement
from subgraphkit.planning import Plan, plan
from subgraphkit.running import Session
from subgraphkit.viewing.progress import ShownAs, show_progress

_logger = logger_of("placement")


@dataclass(frozen=True, slots=True)
class SubgraphStatus:
    """How far a subgraph is.

    Attributes:
        subgraph: Its id.
        backend: Which backend runs it now.
        wanted: Which backend is to run it; empty as long as that is not decided.
        state: ``"waiting"``, ``"compiling"``, ``"ready"``, or ``"failed"``: it stays where it is.
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
    found = {}
    for one in running.partitioning.subgraphs:
        maker, seconds = makers.get(one.id) or one.backend, running.seconds.get(one.id, 0.0)
        found[one.id] = SubgraphStatus(one.id, maker, one.backend, "ready", seconds)
    return found


def starting_plan(bound: BoundModel, constraints: Constraints | None) -> Plan | None:
    """Return a plan on one backend that opens quickly; None if the model cannot start on any.

    It takes the first selected backend that keeps no engines, since that compiles little, and that
    takes every node. If there is none, it takes the first that leaves some to the fallback.
    """
    settings = bound.settings
    is_held_to = settings.require or settings.on_fallback == "error"
    if is_held_to or all_demands(settings, constraints) is not None:
        _logger.info("what is demanded of the placement holds from the first run: nothing starts")
        return None
    if (placement := find_placement(bound, settings)) is not None:
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
    # Nobody asked for this placement, so there is nothing to be reported of it.
    return None if found is None else plan(replace(found, named={}))


class BackgroundBuild:
    """Compiles the final plan of a session in a thread, and exchanges it at once.

    The thread does not keep the session alive, and ends with it, or with the main thread.
    ``how``: How it is shown how far compiling is, as for a session that opens.

    Thread-safety: every method may be called from any thread.
    """

    def __init__(self, session: Session, how: ShownAs) -> None:
        self._session = weakref.ref(session)
        self._start = session.plan.partitioning
        self._starter = self._start.passes.claims[0].backend.name
        self._display = ExitStack()
        told, graph = self._display.enter_context(show_progress(how)), self._start.graph
        self._wanted: Partitioning | None = None
        self._begun: set[str] = set()
        begin = self._begun.add
        heard = graph.extensions.hearing(told)
        self._progress = _BuildProgress(lambda event: begin(event.subgraph), heard)
        self._problem = "the build was stopped"
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

    def status(self, session: Session) -> dict[str, SubgraphStatus]:
        """Return the states of the subgraphs, by their ids."""
        is_over = self.ready  # asked first: the thread may end meanwhile
        running, wanted = session.plan, self._wanted
        if running.partitioning is not self._start or wanted is self._start:
            return statuses(running)
        return {
            one.id: SubgraphStatus(
                one.id,
                self._starter,
                one.backend if wanted is not None else "",
                "failed" if is_over else "compiling" if one.id in self._begun else "waiting",
                reason=self._problem if is_over else "",
            )
            for one in (wanted or self._start).subgraphs
        }

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._build()
        except KeyboardInterrupt:
            pass  # it was stopped
        except BaseException as error:  # noqa: BLE001 (there is nobody above to catch it)
            self._problem = describe_exception(error)
            if not self._progress.cancelled:
                _logger.warning("the session stays on %s: %s", self._starter, self._problem)
        finally:
            self._display.close()

    def _build(self) -> None:
        self._progress.check()
        wanted = partition(self._start.graph)
        if wanted != self._start:
            self._wanted = wanted
            self._exchange(compile_unproven(wanted, progress=self._progress))
            return
        self._wanted = self._start
        if (shortfall := wanted.shortfall()) is not None:
            shortfall.report(wanted)

    def _exchange(self, compiled: CompiledSubgraphs) -> None:
        """Have the session run the compiled plan, and prove its engines beside its runs."""
        session = self._session()
        try:
            if session is None:
                close_all(compiled.operators)
                return
            session.exchange(plan(compiled.partitioning, compiled))
            if compiled.cache is not None:
                prove_beside_runs(session, compiled.cache.proofs)
        finally:
            if compiled.cache is not None:
                compiled.cache.proofs.drop_all()


class _BuildProgress(Progress):
    """The progress of a build: that of the caller, which also ends with the main thread."""

    @property
    def cancelled(self) -> bool:
        return super().cancelled or not threading.main_thread().is_alive()

    def check(self) -> None:
        super().check()
        if self.cancelled:
            raise KeyboardInterrupt


_cache_logger = logger_of("cache")

# How long the first run is waited for: other processes wait as long for the engines.
_FIRST_ANSWER_SECONDS: Final = 1.0
# How long a moment without runs is waited for; a busy session may have none.
_PAUSE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.02


def prove_beside_runs(session: Session, proofs: Proofs) -> None:
    """Prove engines in a run of a session's plan; changes of the session wait for it.

    With new weights, or closed, a session proves nothing.
    """
    gate = session._gate  # noqa: SLF001 (a run like those of the session itself)
    try:
        gate.through(partial(_settle, session), proofs)
    except SubgraphkitWarning as warning:  # where the user makes errors of them
        _cache_logger.warning("%s", warning)


def _settle(session: Session, proofs: Proofs) -> None:
    if session._closed or session.weight_versions:  # noqa: SLF001 (as above)
        return
    steps = []
    for step in session.plan.steps:
        lock = () if step.operator.traits.thread_safe else (step.lock,)
        steps.append(ProofStep(step.subgraph, step.operator, *lock))
    proofs.settle(steps)


class BackgroundProof:
    """Proves the engines of a session that has just been opened, in a thread of its own.

    The end of the program waits for it, as closing the session does.
    """

    def __init__(self, session: Session, proofs: Proofs) -> None:
        self._session, self._plan, self._proofs = session, session.plan, proofs
        self._at_once = threading.Event()
        self._thread = threading.Thread(target=self._run, name="subgraphkit prove")
        self._thread.start()

    def finish(self) -> None:
        """Prove the remaining engines at once, and wait for them."""
        self._at_once.set()
        self._thread.join()

    def _run(self) -> None:
        gate = self._session._gate  # noqa: SLF001 (as above)
        self._wait(_FIRST_ANSWER_SECONDS, lambda: gate.was_used)
        self._wait(_PAUSE_SECONDS, lambda: not gate.is_held_elsewhere())
        try:
            if self._session.plan is self._plan:
                prove_beside_runs(self._session, self._proofs)
        finally:
            self._proofs.drop_all()
            del self._session, self._plan, self._proofs  # which hold operators

    def _wait(self, seconds: float, is_over: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while not is_over() and time.monotonic() < end and threading.main_thread().is_alive():
            if self._at_once.wait(_LOOK_SECONDS):
                break


class ImprovingSession(Session):
    """A session whose plan a thread in the background may exchange.

    Thread-safety: as ``Session``.
    """

    _build: BackgroundBuild | None = None
    _tuning: "placing.tuning_child.BackgroundTuning | None" = None

    _proof: BackgroundProof | None = None

    @property
    def ready(self) -> bool:
        """Whether nothing is left to be built or measured in the background, done or failed."""
        return all(one.ready for one in self._background)

    @property
    def tuning(self) -> str:
        """The state of measuring in the background; empty if nothing measures.

        It is ``"measuring"``, then ``"exchanged"``, or ``"kept"`` if the plan was the best already.
        It is ``"failed"``, or ``"stopped"`` if the session was closed before.
        """
        return "" if self._tuning is None else self._tuning.state

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to be built or measured; return ``ready``, as it is then.

        ``timeout``: Seconds to wait at most; None for as long as it takes.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for one in self._background:
            one.wait(None if end is None else max(0.0, end - time.monotonic()))
        return self.ready

    def status(self) -> dict[str, SubgraphStatus]:
        """Return, by subgraph id, which backend runs it, which is to, and how far that is."""
        tuning = self._tuning
        if self._build is None or (tuning is not None and tuning.state == "exchanged"):
            return statuses(self.plan)
        return self._build.status(self)

    def update_weights(self, changed: Mapping[str, Any]) -> Mapping[str, str]:
        """Replace weights as ``Session``, when engines with the old ones are proven (SGK133)."""
        if self._proof is not None:
            self._proof.finish()
        return super().update_weights(changed)

    def close(self) -> None:
        """Release the operators, and stop building and measuring in the background.

        Waits for the backend that is compiling to come to its next step, and for engines that are
        still to be proven. May be called more than once.
        """
        for one in self._background:
            one.stop()
        if self._proof is not None:
            self._proof.finish()
        super().close()
        for one in self._background:
            one.wait()

    @property
    def _background(self) -> "list[BackgroundBuild | placing.tuning_child.BackgroundTuning]":
        return [one for one in (self._tuning, self._build) if one is not None]
