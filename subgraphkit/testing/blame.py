"""The search for whose fault a wrong result is: the backend's, the fallback's, or rounding's alone.

A model is ill-conditioned if rounding alone moves its results further than the tolerance. This is
measured: the model is computed again with a few units of rounding added to what every node makes.

Source: J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, shape_inference
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.comparing.differences import compare_values
from subgraphkit.comparing.verification import admitted
from subgraphkit.errors import ExecutionError, SubgraphkitError
from subgraphkit.planning import Plan, Step
from subgraphkit.running import Session
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.references import reference_results

__all__ = ["ILL_CONDITIONED", "OF_OTHERS", "Blame", "noisy", "told"]

OF_OTHERS: Final = "values are wrong in nodes that the fallback computed, and right in this backend"
"""Why a case counts for nothing in which the backend did its part."""

ILL_CONDITIONED: Final = "ill-conditioned: rounding alone moves the results beyond the tolerance"
"""Why a case counts for nothing that nobody can get right."""

_VALUES: Final = frozenset({Outcome.FAIL_VALUE, Outcome.FAIL_SHAPE, Outcome.FAIL_DTYPE})
_SAMPLES: Final = 3
_UNITS: Final = 4.0
"""Units in the last place that a node may be off, as long sums are."""
_MOST_TIMES: Final = 16.0
"""How many times further than the noise moves it a result may be off by rounding."""
_UNIT: Final = {
    onnx.TensorProto.FLOAT: 2.0**-23,
    onnx.TensorProto.FLOAT16: 2.0**-10,
    onnx.TensorProto.BFLOAT16: 2.0**-7,
    onnx.TensorProto.DOUBLE: 2.0**-52,
}


_Ran = tuple[Step, list[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class _Off:
    """How far results are off: elements beyond the tolerance, not finite on one side, the most."""

    wrong: int
    not_finite: int
    most: float


@dataclass(frozen=True, slots=True)
class Blame:
    """What results are judged by.

    Attributes:
        backend: Name of the backend under test.
        difference: Compares results with those expected; None where all is right.
        tolerance: From an element type to its tolerance.
    """

    backend: str
    difference: Callable[[Sequence[Any], Sequence[Any]], Finding | None]
    tolerance: ToleranceOf

    def blamed(
        self,
        session: Session,
        source: Any,
        feeds: Mapping[str, Any],
        wanted: Sequence[Any],
        results: Sequence[Any],
        found: Finding,
    ) -> Finding:
        """Say whose fault it is that results are wrong.

        Args:
            session: A session of the backend.
            source: The model.
            feeds: What was fed.
            wanted: What it must compute.
            results: What it computed.
            found: What is wrong with that.

        Returns:
            What was found, if it is the backend's fault; ``UNCLAIMED`` if it has no node; a
            ``SKIP`` that says so if others are at fault, or rounding.
        """
        if not self.has_nodes(session):
            return Finding(Outcome.UNCLAIMED, f"the fallback's result is wrong: {found.detail}")
        if found.outcome not in _VALUES:
            return found
        if self._is_of_others(session, feeds, wanted):
            return Finding(Outcome.SKIP, OF_OTHERS)
        is_value = found.outcome is Outcome.FAIL_VALUE
        if is_value and self.is_ill_conditioned(source, feeds, self._off(wanted, results)):
            return Finding(Outcome.SKIP, ILL_CONDITIONED)
        return found

    def _is_of_others(
        self, session: Session, feeds: Mapping[str, Any], wanted: Sequence[Any]
    ) -> bool:
        """Say whether the subgraphs of the backend are right, and another one is not."""
        steps, failed = _walked(session.plan, feeds)
        mine = [one for one in steps if one[0].subgraph.backend == self.backend]
        if failed or len(mine) == len(steps) or any(self._is_wrong(*one) for one in mine):
            return False
        again = _results_of(session.plan, feeds, steps)
        if self.difference(wanted, again) is None:
            return False  # it was wrong once, and is right again: that is no other's fault
        return any(self._is_wrong(*one) for one in steps)

    def of_a_failure(
        self, session: Session, feeds: Mapping[str, Any], error: ExecutionError
    ) -> Finding:
        """Say whose fault it is that a run fails.

        Args:
            session: A session of the backend, maybe beside others.
            feeds: What was fed.
            error: How it failed.
        """
        found = Finding(_stage_of(error), told(error))
        if error.backend == self.backend:
            return found
        if not self.has_nodes(session):
            return Finding(Outcome.UNCLAIMED, f"the fallback fails: {found.detail}")
        steps, _ = _walked(session.plan, feeds)
        mine = [one for one in steps if one[0].subgraph.backend == self.backend]
        if any(self._is_wrong(*one) for one in mine):
            return found
        return Finding(Outcome.SKIP, OF_OTHERS)

    def has_nodes(self, session: Session) -> bool:
        """Say whether the backend has a part in a session."""
        return any(one.backend == self.backend for one in session.partitioning.subgraphs)

    def _is_wrong(self, step: Step, read: list[Any], made: list[Any]) -> bool:
        """Say whether a subgraph computed something else than its nodes say of what it read."""
        model = step.subgraph.to_model()
        feeds = dict(zip(step.subgraph.inputs, read, strict=True))
        try:
            wanted = list(ReferenceEvaluator(model).run(None, feeds))
        except Exception:  # noqa: BLE001 (what onnx itself cannot compute, the NumPy backend may)
            try:
                wanted = reference_results(model, feeds)
            except SubgraphkitError:
                return True  # nobody can say that it is right
        found = self.difference(wanted, made)
        if found is None or found.outcome is not Outcome.FAIL_VALUE:
            return found is not None
        return not self.is_ill_conditioned(model, feeds, self._off(wanted, made))

    def _off(self, wanted: Sequence[Any], results: Sequence[Any]) -> _Off:
        found = [
            one
            for want, have in zip(wanted, results, strict=True)
            for one in compare_values("", have, want, self.tolerance)
        ]
        return _Off(
            sum(one.wrong for one in found),
            sum(one.nan + one.infinite for one in found),
            max((one.max_abs for one in found), default=0.0),
        )

    def is_ill_conditioned(self, source: Any, feeds: Mapping[str, Any], off: _Off) -> bool:
        """Say whether rounding alone explains how far results are off.

        Args:
            source: The model.
            feeds: What was fed.
            off: How far they are off.
        """
        model = onnx.load(source) if isinstance(source, str | Path) else source
        if not isinstance(model, onnx.ModelProto):
            return False
        try:
            exact = reference_results(model, feeds)
            samples = [reference_results(noisy(model, seed), feeds) for seed in range(_SAMPLES)]
        except SubgraphkitError:
            return False
        moved = [self._off(exact, sample) for sample in samples]
        return (
            off.wrong <= _MOST_TIMES * max(one.wrong for one in moved)
            and off.not_finite <= _MOST_TIMES * max(one.not_finite for one in moved)
            and off.most <= _MOST_TIMES * max(one.most for one in moved)
        )


def _walked(plan: Plan, feeds: Mapping[str, Any]) -> tuple[list[_Ran], bool]:
    """Run the steps one by one; return each with what it read and made, and whether one failed."""
    values = admitted(plan.graph, feeds)
    ran: list[_Ran] = []
    for step in plan.steps:
        read = [values[name] for name in step.subgraph.inputs]
        try:
            with step.lock:
                made = [np.array(value) for value in step.operator.run(read)]
        except Exception:  # noqa: BLE001 (whatever a backend raises)
            return ran, True
        values.update(zip(step.subgraph.outputs, made, strict=True))
        ran.append((step, read, made))
    return ran, False


def _results_of(plan: Plan, feeds: Mapping[str, Any], steps: Sequence[_Ran]) -> list[Any]:
    values = {name: stored.array() for name, stored in plan.graph.constants.items()}
    values |= admitted(plan.graph, feeds)
    for step, _, made in steps:
        values.update(zip(step.subgraph.outputs, made, strict=True))
    return [values[name] for name in plan.graph.outputs]


def noisy(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a model in which every value that a node makes is off by a few units of rounding.

    Args:
        model: The model; not changed.
        seed: Another seed is off in another way.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    inferred = shape_inference.infer_shapes(made).graph
    typed = (*inferred.value_info, *inferred.output)
    types = {value.name: value.type.tensor_type.elem_type for value in typed}
    nodes: list[onnx.NodeProto] = []
    for node in made.graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            unit = _UNIT.get(types.get(name, 0), 0.0)
            if name and unit:
                node.output[place] = f"{name}:exact"
                nodes += _rounded(name, _UNITS * unit, seed * len(made.graph.node) + len(nodes))
    copied = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    made.graph.ClearField("node")
    made.graph.node.extend(copied)
    return made


def _rounded(name: str, most: float, seed: int) -> list[onnx.NodeProto]:
    noise = helper.make_node(
        "RandomUniformLike",
        [f"{name}:exact"],
        [f"{name}:noise"],
        low=1 - most,
        high=1 + most,
        seed=float(seed),
    )
    return [noise, helper.make_node("Mul", [f"{name}:exact", f"{name}:noise"], [name])]


def _stage_of(error: ExecutionError) -> Outcome:
    """Return how a case ends in which a run failed."""
    wrong = error.context.get("wrong")
    if wrong:
        return Outcome.wrong_at(wrong)
    # Whoever leaves with SystemExit would leave with the caller's program.
    return (
        Outcome.FAIL_RUN if isinstance(error.__cause__, Exception | None) else Outcome.FAIL_CONTRACT
    )


def told(error: SubgraphkitError) -> str:
    """Return an error as one line, with the plugin's own exception."""
    cause = error.__cause__
    reason = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    text = f"[{error.code}] {error.message}"
    return text if reason.strip(" ()") in text else text + reason
