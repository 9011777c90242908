"""Results compared with expected ones: their numbers, and their memory.

The one table of tolerances judges most of them. A ``Wanted`` has another strictness, in a word:

* ``bits``: there is one right answer, down to the sign of a zero;
* ``equal``: the same, but for that sign, which ONNX leaves open;
* ``ulp``: correctly rounded, give or take two units in the last place;
* ``step``: whole numbers that were rounded, a few of which may be the next one;
* ``near``: within a small part of the largest element.

Random numbers are not compared: ONNX names no generator, even with a seed. Each row of the input is
repeated, and the rows of the result are counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from subgraphkit.backend.conformance import Conformance
from subgraphkit.backend.differences import Difference, compare_values
from subgraphkit.backend.tolerances import ToleranceOf
from subgraphkit.comparing import first_difference
from subgraphkit.comparing.verification import admit_inputs
from subgraphkit.errors import ExecutionError, SubgraphkitError
from subgraphkit.ir import Subgraph
from subgraphkit.onnx_io import ModelSource
from subgraphkit.placing import InferenceSession
from subgraphkit.running import Session
from subgraphkit.testing.cases import Finding, Outcome, Stopped
from subgraphkit.testing.official_cases import OfficialCase
from subgraphkit.testing.variants import without_foreign

_Array = npt.NDArray[Any]
_Feeds = Mapping[str, Any]
_NEAR: Final = {"float32": 1e-5, "float16": 6e-3, "float64": 1e-12}
"""The bound of ``near``: a part of the largest element expected."""
_UNITS: Final = 2
"""The bound of ``ulp``: libraries divide by multiplying with the reciprocal."""
_MOST_ROUNDED: Final = 0.01
"""The part of numbers that ``step`` allows to be the next one."""
LEAST: Final = 0.05
"""The least value of the largest element, unless a ``Wanted`` says more."""


class Wanted(NamedTuple):
    """The expectation of a result for which the table of tolerances is too wide.

    ``terms``: How many times more terms it adds up than ``near`` is meant for. ``least``: The
    number that counts as the largest element if all are smaller.
    """

    array: _Array
    strictness: str
    label: str
    terms: float = 1.0
    least: float = LEAST
    signs: bool = True

    def difference(self, given: Any, declared: Mapping[str, tuple[float, float]]) -> Difference:
        """Compare a result."""
        want, have = self.array, np.asarray(given)
        if have.shape != want.shape:
            return Difference(self.label, "shape", f"shape {have.shape}, expected {want.shape}")
        if have.dtype.kind != want.dtype.kind:
            return Difference(self.label, "dtype", f"dtype {have.dtype}, expected {want.dtype}")
        with np.errstate(all="ignore"):
            wrong = ~self._right(have, declared)
            apart = np.where(wrong, np.abs(have.astype(float) - want.astype(float)), 0.0)
        if not wrong.any():
            return Difference(self.label)
        worst = tuple(np.argwhere(wrong)[0].tolist())
        unlike = wrong & ~np.isfinite(apart)
        return Difference(
            self.label,
            "value",
            elements=have.size,
            wrong=int(np.count_nonzero(wrong)),
            infinite=int(np.count_nonzero(unlike)),
            max_abs=float(apart[~unlike].max(initial=0.0)),
            worst=worst,
            got=have[worst],
            expected=want[worst],
        )

    def _right(self, have: _Array, declared: Mapping[str, tuple[float, float]]) -> _Array:
        """Say of each element whether it is right."""
        want = self.array
        if have.dtype.kind == "b":  # a byte that is neither 0 nor 1 is no truth
            return np.asarray(have.copy().view(np.uint8) == want.astype(np.uint8))
        if have.dtype.kind != "f":
            if self.strictness != "step":
                return np.asarray(have == want)
            off = np.abs(have.astype(np.int64) - want.astype(np.int64))
            few = np.count_nonzero(off) < max(2.0, off.size * _MOST_ROUNDED)
            return np.asarray(off <= int(few))
        nearest = want.astype(have.dtype)
        same = (have == nearest) | (np.isnan(have) & np.isnan(nearest))
        signed = (np.signbit(have) == np.signbit(want)) | np.isnan(want) | (not self.signs)
        if self.strictness in {"bits", "equal"}:
            return np.asarray(same & signed if self.strictness == "bits" else same)
        relative, absolute = declared.get(str(have.dtype), (0.0, 0.0))
        apart = np.abs(have.astype(np.float64) - want)
        if relative or absolute:
            same |= apart <= relative * np.abs(want) + absolute
        if self.strictness == "ulp":
            allowed = _UNITS * np.spacing(np.abs(nearest)).astype(np.float64)
            zeros = (have == 0) & (want == 0)
            return np.asarray(np.where(zeros, same & signed, same | (apart <= allowed)))
        finite = np.abs(want[np.isfinite(want)])
        largest = max(self.least, float(finite.max(initial=0.0)))
        return np.asarray(same | (apart <= _NEAR[str(have.dtype)] * self.terms * largest))


def compare(
    want: Any, have: Any, declared: Conformance, least: tuple[float, float] = (0.0, 0.0)
) -> list[Difference]:
    """Compare a result with the expected one."""
    if isinstance(want, Wanted):
        return [want.difference(have, declared.tolerances)]

    def tolerance_of(dtype: Any) -> Any:
        own = declared.tolerance_for(dtype)
        return own.widened(*least) if own.relative else own

    return compare_values("", have, want, tolerance_of)


def find_shared_memory(feeds: Mapping[str, Any], results: Sequence[Any]) -> Finding | None:
    """Look for memory that results share with inputs or with one another."""
    values = [(f"input {name!r}", value) for name, value in feeds.items()]
    values += [(f"output {place}", value) for place, value in enumerate(results)]
    arrays = [(name, array) for name, value in values for array in _arrays(value)]
    for (other, another), (name, array) in combinations(arrays, 2):
        if name.startswith("output") and np.shares_memory(another, array):
            return Finding(Outcome.FAIL_ALIAS, f"{name} shares memory with {other}")
    return None


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    return [array for item in value for array in _arrays(item)] if isinstance(value, list) else []


@contextmanager
def watch_feeds(feeds: Mapping[str, Any]) -> Iterator[None]:
    """Watch over the arrays that are fed; Stopped if one is written to."""
    before = {name: _bytes_of(value) for name, value in feeds.items()}
    yield
    for name, value in feeds.items():
        if _bytes_of(value) != before[name]:
            raise Stopped(Outcome.FAIL_ALIAS, f"input {name!r} was written to")


def _bytes_of(value: Any) -> list[Any]:
    return [one.tolist() if one.dtype.hasobject else one.tobytes() for one in _arrays(value)]


DRAWING: Final = frozenset({"Bernoulli", "Dropout"})
_TIMES: Final = 400
_DEVIATIONS: Final = 6.0
"""How far a mean may be off, in standard deviations; more happens once in 500 million."""


def draws(case: OfficialCase, feeds: Mapping[str, Any]) -> bool:
    """Say whether the result of a case is random."""
    if case.operator == "Dropout":
        _, *others = feeds.values()
        return len(others) > 1 and bool(others[1]) and float(others[0]) > 0
    return case.operator == "Bernoulli"


def repeat_rows(model: onnx.ModelProto, feeds: _Feeds) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model whose first input has every row many times over, and its feeds."""
    larger = deepcopy(model)
    for value in (larger.graph.input[0], *larger.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value *= _TIMES
    first, *_ = feeds
    return larger, {**feeds, first: np.repeat(feeds[first], _TIMES, axis=0)}


def difference_of_draws(
    case: OfficialCase, feeds: Mapping[str, Any], results: Sequence[Any], tolerance: ToleranceOf
) -> Difference | None:
    """Compare random numbers with their distribution."""
    data, *others = feeds.values()
    kept = results[1] if len(results) > 1 else results[0] != 0
    if kept.shape != data.shape or kept.dtype != bool:
        return first_difference(kept, np.zeros(data.shape, bool))
    if case.operator == "Dropout":
        share = 1 - float(others[0])
        probabilities = np.full(data.shape, share)
        wanted = np.where(kept, data / share, 0).astype(data.dtype)
    else:
        # The function body compares the other way round: 1 where the draw is larger.
        probabilities = 1 - data if case.is_expanded else data
        element = case.model.graph.output[0].type.tensor_type.elem_type
        wanted = kept.astype(onnx.helper.tensor_dtype_to_np_dtype(element))
    found = first_difference(results[0], wanted, tolerance)
    return found or _difference_of_means(kept.astype(np.float64), probabilities)


def _difference_of_means(drawn: _Array, probabilities: _Array) -> Difference | None:
    shape = (-1, _TIMES, *drawn.shape[1:])
    means = drawn.reshape(shape).mean(axis=1)
    wanted = probabilities.reshape(shape)[:, 0]
    limits = _DEVIATIONS * np.sqrt(wanted * (1 - wanted) / _TIMES)
    for place in map(tuple, np.argwhere(np.abs(means - wanted) > limits).tolist()):
        text = f"of {_TIMES} draws {means[place]:.0%} are 1, expected {wanted[place]:.0%}"
        return Difference("", "value", f"{text} give or take {limits[place]:.0%}")
    return None


REFERENCE: Final = "numpy"
"""The backend whose results count where none are stored."""

OF_OTHERS: Final = "values are wrong in nodes that the fallback computed, and right in this backend"

_VALUES: Final = frozenset({Outcome.FAIL_VALUE, Outcome.FAIL_SHAPE, Outcome.FAIL_DTYPE})


@dataclass(frozen=True)
class ResultJudge:
    """Says whether results are as expected, and whose fault it is if not.

    ``least``: Relative and absolute tolerance granted to every dtype that is not exact.
    """

    backend: str
    declared: Conformance
    least: tuple[float, float] = (0.0, 0.0)

    def difference(self, expected: Sequence[Any], actual: Sequence[Any]) -> Finding | None:
        """Return the fault of results, made by anybody; None if they are right."""
        if len(expected) != len(actual):
            text = f"{len(actual)} outputs, expected {len(expected)}"
            return Finding(Outcome.FAIL_RUN, text)
        for place, (want, have) in enumerate(zip(expected, actual, strict=True)):
            for found in compare(want, have, self.declared, self.least):
                if not found.agrees:
                    where = "" if isinstance(want, Wanted) else f"output {place}: "
                    return Finding(Outcome.wrong_at(found.stage), f"{where}{found.text}")
        return None

    def verdict(
        self, session: Session, feeds: _Feeds, wanted: Sequence[Any], results: Sequence[Any]
    ) -> Finding | None:
        """Return the fault of results if it is the backend's; a SKIP if it is another's."""
        alias = find_shared_memory(feeds, results)
        found = self.difference(wanted, results)
        if found is None or found.outcome not in _VALUES:
            return found or alias
        steps, results = _run_again(session, feeds)
        wrong = {one[0].backend for one in steps if self._is_wrong(*one)}
        is_of_others = bool(wrong) and self.backend not in wrong
        if is_of_others and self.difference(wanted, results) is not None:
            return Finding(Outcome.SKIP, OF_OTHERS)
        return found  # even if a second run is right: that is no other's fault

    def of_a_failure(self, session: Session, feeds: _Feeds, error: ExecutionError) -> Finding:
        """Say whose fault it is that a run fails."""
        if error.backend == self.backend or any(
            self._is_wrong(*one)
            for one in _run_again(session, feeds)[0]
            if one[0].backend == self.backend
        ):
            return Finding(_stage_of(error), text_of(error))
        return Finding(Outcome.SKIP, OF_OTHERS)

    def _is_wrong(self, subgraph: Subgraph, read: Sequence[Any], made: Sequence[Any]) -> bool:
        """Say whether the results of a subgraph differ from its nodes' results on its inputs."""
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

    Returns each subgraph with its inputs and outputs, and the model's outputs up to then.
    """
    values = admit_inputs(session.graph, feeds)
    steps: list[tuple[Subgraph, list[Any], list[Any]]] = []
    with suppress(Exception):  # any error of a backend
        for step in session.plan.steps:
            read = [values[name] for name in step.subgraph.inputs]
            with step.lock:
                made = list(map(_copy_of, step.operator.run(list(map(_copy_of, read)))))
            values.update(zip(step.subgraph.outputs, made, strict=True))
            steps.append((step.subgraph, read, made))
    return steps, [values[name] for name in session.graph.outputs if name in values]


def _copy_of(value: Any) -> Any:
    """Copy a value, so that its receiver may change it."""
    return np.array(value) if hasattr(value, "__array__") else deepcopy(value)


def reference_results(source: ModelSource, feeds: Mapping[str, Any]) -> list[Any]:
    """Return the NumPy backend's results, in any configuration."""
    settings: Any = {"fallback": REFERENCE, "strict": False, "require": {}}
    told: Any = {"on_missing": "error", "build": "now"}
    with InferenceSession(source, REFERENCE, **settings, **told) as session:
        return session.run(None, feeds)


def _stage_of(error: ExecutionError) -> Outcome:
    # A backend's SystemExit would end the caller's program.
    is_usual = isinstance(error.__cause__, Exception | None)
    return Outcome.wrong_at(error.context.get("wrong") or ("run" if is_usual else "contract"))


def text_of(error: SubgraphkitError) -> str:
    """Return an error as one line, with the plugin's own exception."""
    cause = error.__cause__
    reason = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    text = f"[{error.code}] {error.message}"
    return text if reason.strip(" ()") in text else text + reason
