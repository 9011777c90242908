"""The search for whose fault a wrong result is: the backend's, the fallback's, or rounding's alone.

A model is ill-conditioned if rounding alone moves its results further than the tolerance. This is
measured: the model is computed again with a few units of rounding added to what every node makes.

Source: J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import helper, shape_inference
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend.conformance import Conformance
from subgraphkit.comparing.verification import admitted
from subgraphkit.errors import ExecutionError, SubgraphkitError
from subgraphkit.lazy import cached_property
from subgraphkit.onnx_io import ModelSource
from subgraphkit.placing import InferenceSession
from subgraphkit.planning import Step
from subgraphkit.running import Session
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.judging import Wanted, compared, shared
from subgraphkit.testing.variants import without_foreign

REFERENCE: Final = "numpy"
"""The backend whose results count where none are stored."""

OF_OTHERS: Final = "values are wrong in nodes that the fallback computed, and right in this backend"
"""Why a case counts for nothing in which the backend did its part."""

ILL_CONDITIONED: Final = "ill-conditioned: rounding alone moves the results beyond the tolerance"
"""Why a case counts for nothing that nobody can get right."""

_VALUES: Final = frozenset({Outcome.FAIL_VALUE, Outcome.FAIL_SHAPE, Outcome.FAIL_DTYPE})
_MAY_ROUND: Final = "near"
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


class _Off(NamedTuple):
    """How far results are off: elements beyond the tolerance, not finite on one side, the most."""

    wrong: int
    not_finite: int
    most: float


class _Ran(NamedTuple):
    step: Step
    read: list[Any]
    made: list[Any]


@dataclass(frozen=True)
class Blame:
    """Says whether results are what they must be, and whose fault it is if they are not.

    Attributes:
        least: Relative and absolute tolerance granted to every dtype that is not exact.
    """

    backend: str
    declared: Conformance
    least: tuple[float, float] = (0.0, 0.0)

    def difference(self, expected: Sequence[Any], actual: Sequence[Any]) -> Finding | None:
        """Return what is wrong with results, whoever made them; None if they are right."""
        return next((found for _, found in self._differences(expected, actual)), None)

    def verdict(
        self,
        session: Session,
        source: Any,
        feeds: Mapping[str, Any],
        wanted: Sequence[Any],
        results: Sequence[Any],
    ) -> Finding | None:
        """Return what is wrong with the results of a run by the fault of the backend.

        Returns:
            None where all is right; a ``SKIP`` that says so where others are at fault, or rounding.
        """
        alias = shared(feeds, results)
        run, kept = _Run(session, feeds), list(map(_owned, results))
        excused = None
        for place, found in self._differences(wanted, kept):
            excuse = ""
            if found.outcome in _VALUES and self._is_of_others(run, place, wanted[place]):
                excuse = OF_OTHERS
            elif found.outcome is Outcome.FAIL_VALUE:
                off = self._off([wanted[place]], [kept[place]])
                if self._is_ill_conditioned(source, feeds, {place: wanted[place]}, off):
                    excuse = ILL_CONDITIONED
            if not excuse:
                return found
            excused = Finding(Outcome.SKIP, excuse)
        return alias or excused

    def of_a_failure(
        self, session: Session, feeds: Mapping[str, Any], error: ExecutionError
    ) -> Finding:
        """Say whose fault it is that a run fails."""
        found = Finding(_stage_of(error), told(error))
        is_mine = error.backend == self.backend
        if is_mine or any(map(self._is_wrong, self._mine(_Run(session, feeds).steps))):
            return found
        return Finding(Outcome.SKIP, OF_OTHERS)

    def _differences(
        self, expected: Sequence[Any], actual: Sequence[Any]
    ) -> Iterator[tuple[int, Finding]]:
        if len(expected) != len(actual):
            text = f"{len(actual)} outputs, expected {len(expected)}"
            yield 0, Finding(Outcome.FAIL_RUN, text)
            return
        for place, (want, have) in enumerate(zip(expected, actual, strict=True)):
            several = compared(want, have, self.declared, self.least)
            found = next((one for one in several if not one.agrees), None)
            if found is not None:
                text = found.text if isinstance(want, Wanted) else f"output {place}: {found.text}"
                yield place, Finding(Outcome.wrong_at(found.stage), text)

    def _mine(self, steps: Sequence[_Ran]) -> list[_Ran]:
        return [one for one in steps if one.step.subgraph.backend == self.backend]

    def _is_of_others(self, run: "_Run", place: int, wanted: Any) -> bool:
        """Say whether the subgraphs of the backend are right, and another one is not."""
        name = run.session.graph.outputs[place]
        steps = run.steps_to(name)
        mine = self._mine(steps)
        if len(mine) == len(steps) or any(map(self._is_wrong, mine)):
            return False
        again = run.value(name)
        if again is None or self.difference([wanted], [again]) is None:
            return False  # it was wrong once, and is right again: that is no other's fault
        return any(map(self._is_wrong, steps))

    def _is_wrong(self, one: _Ran) -> bool:
        """Say whether a subgraph computed something else than its nodes say of what it read."""
        model = without_foreign(one.step.subgraph.to_model())
        feeds = dict(zip(one.step.subgraph.inputs, one.read, strict=True))
        try:
            wanted = list(ReferenceEvaluator(model).run(None, feeds))
        except Exception:  # noqa: BLE001 (what onnx itself cannot compute, the NumPy backend may)
            try:
                wanted = reference_results(model, feeds)
            except SubgraphkitError:
                return True  # nobody can say that it is right
        found = self.difference(wanted, one.made)
        if found is None or found.outcome is not Outcome.FAIL_VALUE:
            return found is not None
        off = self._off(wanted, one.made)
        return not self._is_ill_conditioned(model, feeds, dict(enumerate(wanted)), off)

    def _off(self, wanted: Sequence[Any], results: Sequence[Any]) -> _Off:
        found = [
            one
            for want, have in zip(wanted, results, strict=True)
            for one in compared(want, have, self.declared, self.least)
        ]
        return _Off(
            sum(one.wrong for one in found),
            sum(one.nan + one.infinite for one in found),
            max((one.max_abs for one in found), default=0.0),
        )

    def _is_ill_conditioned(
        self, source: Any, feeds: Mapping[str, Any], wanted: Mapping[int, Any], off: _Off
    ) -> bool:
        """Say whether rounding alone explains how far outputs, by their places, are off."""
        model = onnx.load(source) if isinstance(source, str | Path) else source
        rules = {one.judged for one in wanted.values() if isinstance(one, Wanted)}
        if rules - {_MAY_ROUND} or not isinstance(model, onnx.ModelProto):
            return False
        model = without_foreign(model)
        try:
            exact, *samples = (
                reference_results(one, feeds)
                for one in (model, *(noisy(model, seed) for seed in range(_SAMPLES)))
            )
        except SubgraphkitError:
            return False
        want = [
            one._replace(array=exact[at]) if isinstance(one, Wanted) else exact[at]
            for at, one in wanted.items()
        ]
        moved = [self._off(want, [sample[at] for at in wanted]) for sample in samples]
        return all(
            mine <= _MOST_TIMES * max(of_noise)
            for mine, of_noise in zip(off, zip(*moved, strict=True), strict=True)
        )


@dataclass(frozen=True, eq=False)
class _Run:
    """A run that is made again, step by step."""

    session: Session
    feeds: Mapping[str, Any]

    @cached_property
    def steps(self) -> list[_Ran]:
        """The steps with what each read and made, up to one that fails."""
        values = admitted(self.session.graph, self.feeds)
        ran: list[_Ran] = []
        for step in self.session.plan.steps:
            read = [values[name] for name in step.subgraph.inputs]
            try:
                with step.lock:
                    made = list(map(_owned, step.operator.run(list(map(_owned, read)))))
            except Exception:  # noqa: BLE001 (whatever a backend raises)
                break
            values.update(zip(step.subgraph.outputs, made, strict=True))
            ran.append(_Ran(step, read, made))
        return ran

    def value(self, name: str) -> Any:
        made = (dict(zip(one.step.subgraph.outputs, one.made, strict=True)) for one in self.steps)
        return next((one[name] for one in made if name in one), None)

    def steps_to(self, name: str) -> list[_Ran]:
        needed, found = {name}, []
        for one in reversed(self.steps):
            if not needed.isdisjoint(one.step.subgraph.outputs):
                needed.update(one.step.subgraph.inputs)
                found.append(one)
        return found


def _owned(value: Any) -> Any:
    """Copy a value, so that who is given it may do with it what it likes."""
    return np.array(value) if hasattr(value, "__array__") else deepcopy(value)


def reference_results(source: ModelSource, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what the NumPy backend computes, whatever is configured."""
    with InferenceSession(
        source,
        REFERENCE,
        fallback=REFERENCE,
        strict=False,
        on_missing="error",
        build="now",
        require={},
    ) as session:
        return session.run(None, feeds)


def noisy(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a model in which every value that a node makes is off by a few units of rounding."""
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
