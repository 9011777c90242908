"""The judge of results: whether they are right, and if not, whether the backend is at fault.

A model may have nodes that the backend does not take. Where its results are wrong, the steps of the
run are made again one by one, and each subgraph is held against what onnx's own implementation
computes of what the subgraph read.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend.conformance import Conformance
from subgraphkit.comparing.verification import admitted
from subgraphkit.errors import ExecutionError, SubgraphkitError
from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import ModelSource
from subgraphkit.placing import InferenceSession
from subgraphkit.running import Session
from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.comparison import Wanted, compare, find_shared_memory
from subgraphkit.testing.variants import without_foreign

REFERENCE: Final = "numpy"
"""The backend whose results count where none are stored."""

OF_OTHERS: Final = "values are wrong in nodes that the fallback computed, and right in this backend"
"""Why a case counts for nothing in which the backend did its part."""

_VALUES: Final = frozenset({Outcome.FAIL_VALUE, Outcome.FAIL_SHAPE, Outcome.FAIL_DTYPE})


@dataclass(frozen=True)
class ResultJudge:
    """Says whether results are what they must be, and whose fault it is if they are not.

    Attributes:
        least: Relative and absolute tolerance granted to every dtype that is not exact.
    """

    backend: str
    declared: Conformance
    least: tuple[float, float] = (0.0, 0.0)

    def difference(self, expected: Sequence[Any], actual: Sequence[Any]) -> Finding | None:
        """Return what is wrong with results, whoever made them; None if they are right."""
        if len(expected) != len(actual):
            text = f"{len(actual)} outputs, expected {len(expected)}"
            return Finding(Outcome.FAIL_RUN, text)
        for place, (want, have) in enumerate(zip(expected, actual, strict=True)):
            for found in compare(want, have, self.declared, self.least):
                if not found.agrees:
                    is_labelled = isinstance(want, Wanted)
                    text = found.text if is_labelled else f"output {place}: {found.text}"
                    return Finding(Outcome.wrong_at(found.stage), text)
        return None

    def verdict(
        self,
        session: Session,
        feeds: Mapping[str, Any],
        wanted: Sequence[Any],
        results: Sequence[Any],
    ) -> Finding | None:
        """Return what is wrong with the results of a run by the fault of the backend.

        Returns:
            None where all is right; a ``SKIP`` that says so where others are at fault.
        """
        alias = find_shared_memory(feeds, results)
        found = self.difference(wanted, results)
        if found is None or found.outcome not in _VALUES:
            return found or alias
        steps, results = _run_again(session, feeds)
        wrong = {one[0].backend for one in steps if self._is_wrong(*one)}
        is_of_others = bool(wrong) and self.backend not in wrong
        if is_of_others and self.difference(wanted, results) is not None:
            return Finding(Outcome.SKIP, OF_OTHERS)
        return found  # also what is right when it is run again: that is no other's fault

    def of_a_failure(
        self, session: Session, feeds: Mapping[str, Any], error: ExecutionError
    ) -> Finding:
        """Say whose fault it is that a run fails."""
        if error.backend == self.backend or any(
            self._is_wrong(*one)
            for one in _run_again(session, feeds)[0]
            if one[0].backend == self.backend
        ):
            return Finding(_stage_of(error), text_of(error))
        return Finding(Outcome.SKIP, OF_OTHERS)

    def _is_wrong(self, subgraph: Subgraph, read: Sequence[Any], made: Sequence[Any]) -> bool:
        """Say whether a subgraph computed something else than its nodes say of what it read."""
        feeds = dict(zip(subgraph.inputs, read, strict=True))
        try:
            evaluator = ReferenceEvaluator(without_foreign(subgraph.to_model()))
            wanted = list(evaluator.run(None, feeds))
        except Exception:  # noqa: BLE001 (onnx's implementations raise anything)
            return True  # nobody can say that it is right
        return self.difference(wanted, made) is not None


def _run_again(
    session: Session, feeds: Mapping[str, Any]
) -> tuple[list[tuple[Subgraph, list[Any], list[Any]]], list[Any]]:
    """Make a run again, up to a step that fails.

    Returns:
        Each subgraph with what it read and what it made; and the outputs of the model made by then.
    """
    values = admitted(session.graph, feeds)
    steps: list[tuple[Subgraph, list[Any], list[Any]]] = []
    with suppress(Exception):  # whatever a backend raises
        for step in session.plan.steps:
            read = [values[name] for name in step.subgraph.inputs]
            with step.lock:
                made = list(map(_copy_of, step.operator.run(list(map(_copy_of, read)))))
            values.update(zip(step.subgraph.outputs, made, strict=True))
            steps.append((step.subgraph, read, made))
    return steps, [values[name] for name in session.graph.outputs if name in values]


def _copy_of(value: Any) -> Any:
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


def _stage_of(error: ExecutionError) -> Outcome:
    wrong = error.context.get("wrong")
    if wrong:
        return Outcome.wrong_at(wrong)
    # Whoever leaves with SystemExit would leave with the caller's program.
    return (
        Outcome.FAIL_RUN if isinstance(error.__cause__, Exception | None) else Outcome.FAIL_CONTRACT
    )


def text_of(error: SubgraphkitError) -> str:
    """Return an error as one line, with the plugin's own exception."""
    cause = error.__cause__
    reason = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    text = f"[{error.code}] {error.message}"
    return text if reason.strip(" ()") in text else text + reason
