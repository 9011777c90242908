"""Engines are proven before they are kept: each is restored and has to answer as before.

A library may lose something when it stores an engine or reads it back, such as the precision it was
told to compute in. So each engine is restored and compared on made-up inputs of the model. Values
go from subgraph to subgraph, as in a run.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.messages import warn_user
from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.backend.tolerances import DEFAULT_TOLERANCES, EXACT, Tolerance, tolerance_for
from subgraphkit.binding import BoundModel
from subgraphkit.compiling.outcomes import close_all
from subgraphkit.errors import CacheError, describe_exception, text_of
from subgraphkit.ir import Initializer, Subgraph
from subgraphkit.logs import logger_of
from subgraphkit.storing import messages
from subgraphkit.types import DataType

_logger = logger_of("cache")

_SEED: Final = 33


class ProofStep(NamedTuple):
    """A subgraph, its operator, and the lock to hold while that runs."""

    subgraph: Subgraph
    operator: SubgraphOperator
    lock: AbstractContextManager[object] = nullcontext()

    def run(self, inputs: list[Any]) -> list[Any]:
        """Compute the outputs."""
        with self.lock:
            return list(self.operator.run(inputs))


Check = Callable[[ProofStep, list[Any], list[Any]], str]
"""Takes the compiled subgraph, inputs and its answer; returns the case against the engine."""


@dataclass(frozen=True, eq=False)
class Unproven:
    """An engine that waits for its proof.

    Attributes:
        keep: Called if nothing speaks against it.
        release: Called in the end, in any case.
    """

    backend: Backend
    subgraph: Subgraph
    operator: SubgraphOperator
    check: Check
    keep: Callable[[], object]
    release: Callable[[], object] = int


class Proofs:
    """The engines of one bind that wait for their proofs, and the outcomes of the others.

    Attributes:
        compiled: The subgraphs compiled so far, in the order of running, with those inside of
            others.
        waiting: The engines by their keys.
        refused: The case against those that are not kept, by their keys.
        seconds: How long the proofs took, by id of the subgraph.
        told: Names of the backends of which there was a warning, of the first engine refused.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, graph: BoundModel) -> None:
        self._graph = graph
        self.compiled: list[ProofStep] = []
        self.waiting: dict[str, Unproven] = {}
        self.refused: dict[str, CacheError] = {}
        self.seconds: dict[str, float] = {}
        self.told: set[str] = set()

    def settle(
        self,
        compiled: Iterable[ProofStep] | None = None,
        values: Mapping[str, Any] | None = None,
        *,
        gives_up: bool = True,
    ) -> None:
        """Prove engines in one run on made-up inputs, and keep those that come back as they were.

        A failure costs an engine and a warning, never more.
        ``gives_up``: Whether to give up the engines that the run does not come to.
        """
        if not self.waiting:
            return
        known, problem = self._made_up() if values is None else (values, "nothing runs it")
        steps = list(self.compiled if compiled is None else compiled)
        failed = self._settle_along(steps, known, problem, is_last=values is not None)
        if failed and values is None:  # 1 is out of range where an open axis of 1 is indexed
            nothing = {name: it * 0 if it.dtype.kind in "iu" else it for name, it in known.items()}
            failed = self._settle_along(steps, nothing, problem, is_last=True)
        for key, engine in list(self.waiting.items()) if gives_up else ():
            one = ProofStep(engine.subgraph, engine.operator)
            self._settle(key, one, [], None, failed or problem)

    def _settle_along(
        self, steps: list[ProofStep], values: Mapping[str, Any], problem: str, *, is_last: bool
    ) -> str:
        """Run steps, prove their engines and return how one failed, which ends all but the last."""
        known, failed = dict(values), ""
        for one in steps:
            answer = None
            given = [known[name] for name in one.subgraph.inputs if name in known]
            if len(given) == len(one.subgraph.inputs):
                try:
                    answer = one.run(given)
                    known.update(zip(one.subgraph.outputs, answer, strict=True))
                except Exception as error:  # noqa: BLE001 (a run of the user's may do better)
                    failed = f"{one.subgraph.id} fails on made-up inputs: {text_of(error)}"
                    if not is_last:
                        return failed
            for key in [key for key, it in self.waiting.items() if it.operator is one.operator]:
                self._settle(key, one, given, answer, failed or problem)
        return failed

    def drop(self, operators: Collection[SubgraphOperator]) -> None:
        """Forget operators that are about to be closed; their engines are not kept."""
        self.compiled = [one for one in self.compiled if one.operator not in operators]
        for key in [key for key, engine in self.waiting.items() if engine.operator in operators]:
            self.waiting.pop(key).release()

    def drop_all(self) -> None:
        """Let go of the engines that wait; they are not kept."""
        while self.waiting:
            self.waiting.popitem()[1].release()

    def _made_up(self) -> tuple[dict[str, Any], str]:
        """Return values of the inputs, or the reason why there are none."""
        from subgraphkit.binding.samples import samples  # noqa: PLC0415 (few binds compile engines)

        try:
            made = samples(self._graph, {}, {}, {}, _SEED)
            defaults = {name: one.array() for name, one in self._graph.defaults.items()}
        except Exception as error:  # noqa: BLE001 (told where an engine is given up)
            return {}, text_of(error)
        return {name: one.array for name, one in made.items()} | defaults, "nothing runs it"

    def _settle(
        self, key: str, one: ProofStep, given: list[Any], answer: list[Any] | None, problem: str
    ) -> None:
        engine, started = self.waiting.pop(key), time.perf_counter()
        try:
            if answer is not None:
                problem = engine.check(one, given, answer)
            elif type(engine.backend).probe().builds_only:
                problem = ""  # it is for another machine, whose runs are not known here
            if not problem:
                engine.keep()
        except EngineFaultError as error:
            problem = f"it cannot be restored: {error}"
        except Exception as error:  # noqa: BLE001 (the backend's own code; told, not passed on)
            problem = f"restored, it fails: {text_of(error)}"
        finally:
            engine.release()
            self.seconds[one.subgraph.id] = time.perf_counter() - started
        if problem:
            backend, subgraph = engine.backend.name, one.subgraph.id
            notice = self.refused[key] = messages.not_proven(backend, subgraph, problem)
            _logger.info("%s", notice.message)
            if backend not in self.told:
                self.told.add(backend)
                warn_user(notice)


def came_back(backend: Backend, restore: Callable[[Subgraph], object]) -> Check:
    """Return a check that restores an engine and runs it once.

    If the backend says that its engines have no weights, the check also restores with other
    weights. An equal subgraph with other weights will get this engine, too.
    """

    def check(one: ProofStep, given: list[Any], answer: list[Any]) -> str:
        subgraph = one.subgraph
        problem = _difference(subgraph, _rerun(restore, subgraph, given), answer)
        if problem and _difference(subgraph, one.run(given), answer):
            return ""  # it differs from run to run, as random numbers do
        if problem:
            return f"restored, it computes something else: {problem}"
        others = _with_other_weights(subgraph, backend.separate_weights(subgraph))
        if others and not any(
            _difference(subgraph, _rerun(restore, other, given), answer) for other in others
        ):
            return "restored with other weights, it computes the same: they are in the engine"
        return ""

    return check


def _rerun(restore: Callable[[Subgraph], object], subgraph: Subgraph, fed: list[Any]) -> list[Any]:
    operator = restored_by(restore, subgraph)
    try:
        return list(operator.run(fed))
    finally:
        close_all([operator])


class EngineFaultError(Exception):
    """A backend cannot store an engine, or refuses its own; the text says how."""


def restored_by(restore: Callable[[Subgraph], object], subgraph: Subgraph) -> SubgraphOperator:
    """Have a backend restore the operator of a subgraph; EngineFaultError if it could not."""
    try:
        operator = restore(subgraph)
    except Exception as error:
        raise EngineFaultError(describe_exception(error)) from error
    if not isinstance(operator, SubgraphOperator):
        raise EngineFaultError(f"deserialize returned a {type(operator).__name__}")
    return operator


def engine_of(operator: SubgraphOperator) -> bytes | None:
    """Have an operator store its engine, None if it has none; EngineFaultError if it could not."""
    try:
        engine: object = operator.serialize()
    except Exception as error:
        raise EngineFaultError(describe_exception(error)) from error
    if engine is None or isinstance(engine, bytes | bytearray | memoryview):
        return None if engine is None else bytes(engine)
    raise EngineFaultError(f"serialize returned a {type(engine).__name__}, expected bytes or None")


def _with_other_weights(subgraph: Subgraph, names: Collection[str]) -> list[Subgraph]:
    """Return the subgraph with other floating point numbers in constants, twice; none if none."""
    floats = [
        stored
        for name, stored in subgraph.constants.items()
        if name in names and stored.type.dtype in DEFAULT_TOLERANCES
    ]
    others = [
        {one.name: Initializer(one.name, one.type, partial(_alter_data, one, by)) for one in floats}
        for by in (-1, 2)
    ]
    return [replace(subgraph, constants={**subgraph.constants, **it}) for it in others if it]


def _alter_data(stored: Initializer, by: int) -> Any:
    array = stored.array()
    return array * array.dtype.type(by) + array.dtype.type(by)


def _difference(subgraph: Subgraph, got: list[Any], answer: list[Any]) -> str:
    """Return the first difference beyond the tolerance; empty if there is none."""
    from subgraphkit.backend.differences import compare_values  # noqa: PLC0415 (as above)

    loosest = _loosest(subgraph)

    def tolerance(dtype: DataType) -> Tolerance:
        own = tolerance_for(dtype)
        return own if own == EXACT else max(own, loosest, key=attrgetter("relative"))

    pairs = zip(subgraph.outputs, got, answer, strict=True)
    found = (one.text for triple in pairs for one in compare_values(*triple, tolerance))
    return next(filter(None, found), "")


def _loosest(subgraph: Subgraph) -> Tolerance:
    """Return the tolerance for the narrowest floating point type that a subgraph computes in."""
    names = {name for node in subgraph.members for name in (*node.inputs, *node.outputs) if name}
    found = [DEFAULT_TOLERANCES.get(subgraph.graph.dtype(name), EXACT) for name in names]
    return max(found, default=EXACT, key=attrgetter("relative"))
