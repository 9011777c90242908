"""Weights that change under a running session: versioned, all or nothing."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.operator import SubgraphOperator
from subgraphkit.binding import BoundModel
from subgraphkit.compiling import close_all, compile_subgraph
from subgraphkit.errors import InvalidModelError, WeightUpdateError, text_of
from subgraphkit.ir import Initializer
from subgraphkit.logs import logger_of
from subgraphkit.partitioning.regrouping import explain_refused
from subgraphkit.planning import Plan, Step

_logger = logger_of("run")
_Array = npt.NDArray[Any]

# Sizes, axes and targets are small; shape inference reads nothing larger.
_LARGEST_THAT_DECIDES: Final = 4096


_Touched = tuple[Step, Step, tuple[str, ...]]
"""A step, its outcome, and the names of the weights that it got."""


class Weights:
    """The constants of a session, each with the number of times it was replaced.

    Attributes:
        current: The constants with their data of today, by name.
        versions: How often each was replaced, of those that were.

    Thread-safety: the session holds its gate around every call.
    """

    def __init__(self, graph: BoundModel) -> None:
        self._graph = graph
        self.current: dict[str, Initializer] = dict(graph.constants)
        self.versions: dict[str, int] = {}

    def output_makers(self) -> dict[str, Callable[[], _Array]]:
        """Return, for every constant, a function that makes a fresh copy of its data."""
        constant = [name for name in self._graph.outputs if name in self.current]
        return {name: partial(_copy, self.current[name]) for name in constant}

    def update(
        self, plan: Plan, changed: Mapping[str, Any], take: Callable[[Plan], None]
    ) -> dict[str, str]:
        """Hand new weights to the operators that use them, and have the plan with them taken.

        Any error in between, or Ctrl-C, puts the old weights and the old plan back. The operators
        that are no longer used stay open. WeightUpdateError (SGK133): the weights do not fit, or an
        operator cannot take them.

        ``take``: Takes the plan with recompiled operators in place.
        """
        if not isinstance(changed, Mapping):
            raise _weights_refused(
                f"the new weights are a {type(changed).__name__}, expected a mapping from names "
                f"to arrays"
            )
        arrays = {name: self._checked_array(name, value) for name, value in changed.items()}
        renewed = {name: self._renewed_weight(name, array) for name, array in arrays.items()}
        self._require_same_types(renewed)
        if self._graph.folding is not None:
            renewed |= self._graph.folding.refold(renewed, {**self.current, **renewed})
        self._require_taken(plan, renewed)
        before = self.current, self.versions
        touched: list[_Touched] = []
        try:
            latest, outcome = _hand_out(plan, renewed, touched)
            self.current = {**self.current, **renewed}
            self.versions = self.versions | {name: renewed[name].version for name in arrays}
            take(latest)
        except BaseException:
            self.current, self.versions = before
            _restore(touched)
            take(plan)
            raise
        return outcome

    def hand_to(self, plan: Plan) -> Plan:
        """Hand the weights of today to the operators of another plan that have older ones.

        Return the plan with recompiled operators; the others stay open, and all have their old
        weights after a WeightUpdateError (SGK133).
        """
        renewed = {name: stored for name, stored in self.current.items() if stored.version}
        touched: list[_Touched] = []
        self._require_taken(plan, renewed)
        try:
            return _hand_out(plan, renewed, touched)[0]
        except BaseException:
            _restore(touched)
            raise

    def _checked_array(self, name: str, value: Any) -> _Array:
        stored = self.current.get(name)
        folding = self._graph.folding
        if folding is not None and (sources := folding.sources.get(name)) is not None:
            made_from = ", ".join(map(repr, sorted(sources))) or "sizes, or equal to others"
            raise _weights_refused(
                f"the value of {name!r} is computed at bind from {made_from}",
                hint="Replace what it is computed from.",
            )
        if name in self._graph.model.settled:
            raise _weights_refused(
                f"what this bundle holds was in part computed from {name!r} when it was exported",
                hint="Update the weights of a session of the model, and export that.",
            )
        if stored is None:
            raise _weights_refused(
                f"the model has no weight {name!r} that can be replaced",
                hint="Only initializers can; an input with a default is fed to run() instead.",
            )
        array = _native(np.array(value))
        wanted = stored.type.dtype.numpy
        if array.dtype != wanted or array.shape != stored.type.shape:
            raise _weights_refused(
                f"weight {name!r} is {stored.type}; the new value is "
                f"{array.dtype}{list(array.shape)}",
                hint="Dtype and shape must stay as they are; load another model otherwise.",
            )
        array.setflags(write=False)
        return array

    def _require_same_types(self, renewed: Mapping[str, Initializer]) -> None:
        """Refuse constants that decide a shape: kernels are made for the shapes of the bind."""
        if not any(map(_may_decide_shapes, renewed.values())):
            return
        replaced = {
            name: stored.array()
            for name, stored in {**self.current, **renewed}.items()
            if stored.version and _may_decide_shapes(stored)
        }
        try:
            types = self._graph.inferred(constants=replaced).types
        except InvalidModelError as error:
            raise _decides(renewed, error.message) from error
        for value, type_ in self._graph.types.items():
            if types.get(value) != type_:
                why = f"value {value!r} would be {types.get(value)} instead of {type_}"
                raise _decides(renewed, why)

    def _require_taken(self, plan: Plan, renewed: Mapping[str, Initializer]) -> None:
        """Refuse numbers with which a backend would not take a node: it would compute it wrong."""
        for one in renewed.values():
            if _may_decide_shapes(one) or one.type.dtype.numpy.kind in "iu":
                if why := explain_refused(plan.partitioning, {**self.current, **renewed}):
                    raise _decides(renewed, why)
                return

    def _renewed_weight(self, name: str, array: _Array) -> Initializer:
        stored = self.current[name]
        return Initializer(name, stored.type, lambda: array, stored.version + 1)


def _weights_refused(problem: str, hint: str = "") -> WeightUpdateError:
    return WeightUpdateError("SGK133", problem, hint=hint)


def _native(array: _Array) -> _Array:
    """Return the array in the machine's byte order, and text as objects."""
    if array.dtype.kind in "UST":
        return array.astype(object)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _may_decide_shapes(stored: Initializer) -> bool:
    return (stored.type.nbytes or 0) <= _LARGEST_THAT_DECIDES


def _decides(renewed: Mapping[str, Initializer], why: str) -> WeightUpdateError:
    names = ", ".join(map(repr, renewed))
    return _weights_refused(
        f"the new values of {names} would change what was decided at bind: {why}",
        hint="The session is made for what was known at bind; store the value in the model and "
        "make a new session.",
    )


def _copy(stored: Initializer) -> _Array:
    return stored.array().copy()


def _hand_out(
    plan: Plan, renewed: Mapping[str, Initializer], touched: list[_Touched]
) -> tuple[Plan, dict[str, str]]:
    """Give new weights to steps without them; WeightUpdateError (SGK133) if one cannot take them.

    Return the plan with recompiled operators in place, and the outcomes by subgraph id.
    """
    outcome: dict[str, str] = {}
    steps = list(plan.steps)
    for index, step in enumerate(plan.steps):
        held = _outdated_names(step, renewed)
        if not held:
            continue
        try:
            mine = {name: renewed[name].array() for name in held}
            latest, outcome[step.subgraph.id] = _update_step(plan, step, mine, renewed)
        except Exception as error:
            raise _operator_failed(step, error) from error
        except BaseException:
            touched.append((step, step, held))  # it may have some of them
            raise
        touched.append((step, latest, held))
        steps[index] = latest
    return replace(plan, steps=tuple(steps)), outcome


def _outdated_names(step: Step, renewed: Mapping[str, Initializer]) -> tuple[str, ...]:
    """Return the names of the weights of which a step has an older version."""
    constants = step.subgraph.constants
    return tuple(
        name
        for name, latest in renewed.items()
        if name in constants and constants[name].version != latest.version
    )


def _update_step(
    plan: Plan, step: Step, mine: Mapping[str, _Array], renewed: Mapping[str, Initializer]
) -> tuple[Step, str]:
    """Refit the operator, or compile the subgraph again where it cannot be refitted."""
    constants = {name: renewed.get(name, one) for name, one in step.subgraph.constants.items()}
    subgraph = replace(step.subgraph, constants=constants)
    if type(step.operator).update_weights is not SubgraphOperator.update_weights:
        for name in mine:
            # Weights that could not be put back must not be taken away: an engine alone may have
            # them.
            step.subgraph.constants[name].array()
    if step.operator.update_weights(mine):
        return replace(step, subgraph=subgraph), "refitted"
    _logger.info("subgraph %s cannot be refitted and is compiled again", subgraph.id)
    operator = compile_subgraph(plan.partitioning, subgraph)
    return replace(step, subgraph=subgraph, operator=operator), "recompiled"


def _restore(touched: list[_Touched]) -> None:
    """Give refitted operators their old weights back, and close those compiled in vain."""
    for old, new, names in touched:
        if old.operator is new.operator:
            constants = old.subgraph.constants
            old.operator.update_weights({name: constants[name].array() for name in names})
        else:
            close_all([new.operator])


def _operator_failed(step: Step, error: Exception) -> WeightUpdateError:
    return _weights_refused(
        f"subgraph {step.subgraph.id!r} on backend {step.subgraph.backend!r} cannot take the new "
        f"weights: {type(error).__name__}: {text_of(error)}",
        hint="The old weights are in place; make a new session for the new ones.",
    )
