"""How far a rewritten model is from the one it was made from, over as many batches as given."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.binding import bind
from subgraphkit.errors import CallerError
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import Model, ModelSource, load
from subgraphkit.running.tapping import tapped_session
from subgraphkit.types import DataType, TensorType

__all__ = ["AccuracyReport", "ValueAccuracy", "measure_accuracy"]

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)


@dataclass(frozen=True, slots=True)
class ValueAccuracy:
    """How far one value is from the same value of the original model.

    Attributes:
        name: Name of the value.
        elements: How many elements were compared.
        max_abs: Largest absolute error; infinity if something is NaN or infinite on one side only.
        mean_abs: Mean absolute error.
        snr_db: Ratio of the power of the value to that of the error, in dB; infinity if there is
            no error.
        cosine: Cosine of the angle between the two as vectors; NaN if one of them is all zeros.
        largest: Largest magnitude in the original.
    """

    name: str
    elements: int
    max_abs: float
    mean_abs: float
    snr_db: float
    cosine: float
    largest: float


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """How far a rewritten model is from the original.

    Attributes:
        outputs: The floating point outputs, in order.
        values: Inner values that both models have, in order; empty unless asked for.
        batches: How many batches were run.
    """

    outputs: tuple[ValueAccuracy, ...]
    values: tuple[ValueAccuracy, ...] = ()
    batches: int = 0

    @property
    def max_error(self) -> float:
        """The largest absolute error of any output."""
        return max((one.max_abs for one in self.outputs), default=0.0)

    def check(self, max_error: float) -> None:
        """Make sure that no output is further off than this.

        Raises:
            CallerError: One is (SGK236).
        """
        # a comparison that NaN fails, too
        off = [one for one in self.outputs if not one.max_abs <= max_error]
        if off:
            worst = max(off, key=lambda one: one.max_abs)
            raise CallerError(
                "SGK236",
                f"output {worst.name!r} is off by {worst.max_abs:.4g}, expected {max_error:.4g} at "
                f"most (it reaches {worst.largest:.4g}, SNR {worst.snr_db:.1f} dB)",
                hint="Keep the nodes at fault with keep=[...]; the report on inner values shows "
                "where the error comes in.",
            )

    def to_text(self) -> str:
        """Return a table for people, one line per value."""
        names = [one.name for one in (*self.values, *self.outputs)]
        wide = max(map(len, ["value", *names]))
        head = f"{'value':<{wide}}  {'max_abs':>9}  {'mean_abs':>9}  {'snr_db':>7}  {'cosine':>9}"
        lines = [
            f"{one.name:<{wide}}  {one.max_abs:9.3g}  {one.mean_abs:9.3g}  {one.snr_db:7.1f}  "
            f"{one.cosine:9.6f}"
            for one in (*self.values, *self.outputs)
        ]
        return "\n".join([head, *lines])


def measure_accuracy(
    original: ModelSource | Model,
    rewritten: ModelSource | Model,
    batches: Iterable[Mapping[str, Any]],
    *,
    backend: Any = "numpy",
    values: bool = False,
    **settings: Any,
) -> AccuracyReport:
    """Run two models on the same batches and compare what they compute.

    Args:
        original: The model that is believed.
        rewritten: The model made from it, with the same inputs and outputs.
        batches: Arrays by input name; one is in memory at a time.
        backend: What runs both, as for ``SUBGRAPH_BACKEND``.
        values: Whether to compare the inner values that both have by the same name, too. All of
            them are in memory at once then.
        **settings: What else ``bind`` takes, for both.

    Returns:
        The report.

    Raises:
        CallerError: There is no batch (SGK234).
        SubgraphkitError: Whatever a step of the road raises.
    """
    pair = [one if isinstance(one, Model) else load(one) for one in (original, rewritten)]
    bounds = [bind(model, backend=backend, **settings) for model in pair]
    outputs = [name for name in dict.fromkeys(bounds[0].outputs) if _is_floating(bounds[0], name)]
    inner = _common(bounds) if values else []
    inner = [name for name in inner if name not in outputs]
    sums = {name: _Sums() for name in (*inner, *outputs)}
    done = 0
    with ExitStack() as stack:
        one, other = (stack.enter_context(tapped_session(b, list(sums))) for b in bounds)
        for feeds in batches:
            done += 1
            results = one.run(None, feeds), other.run(None, feeds)
            for total, right, found in zip(sums.values(), *results, strict=True):
                total.add(right, found)
    if not done:
        raise CallerError("SGK234", "there is no batch to measure the accuracy with")
    return AccuracyReport(
        tuple(sums[name].result(name) for name in outputs),
        tuple(sums[name].result(name) for name in inner),
        done,
    )


def _common(bounds: Sequence[BoundGraph]) -> list[str]:
    first, second = bounds
    return [
        name
        for node in first.order
        for name in first.table.outputs[node]
        if name in second.producers
        and name not in first.constants
        and all(_is_floating(bound, name) for bound in bounds)
    ]


def _is_floating(bound: BoundGraph, name: str) -> bool:
    type_ = bound.types.get(name)
    return isinstance(type_, TensorType) and type_.dtype in _FLOATS


@dataclass(eq=False)
class _Sums:
    """What has to be added up over batches; elements that are not finite in both are left out."""

    elements: int = 0
    max_abs: float = 0.0
    largest: float = 0.0
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(5))

    def add(self, expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> None:
        right, found = (np.asarray(one).reshape(-1).astype(np.float64) for one in (expected, got))
        both = np.isfinite(right) & np.isfinite(found)
        same = both | (right == found) | (np.isnan(right) & np.isnan(found))
        if not same.all():
            self.max_abs = math.inf
        right, found = right[both], found[both]
        self.elements += int(same.size)
        if not right.size:
            return
        error = np.abs(right - found)
        self.max_abs = max(self.max_abs, float(error.max()))
        self.largest = max(self.largest, float(np.abs(right).max()))
        self.sums += (
            error.sum(),
            np.dot(error, error),
            np.dot(right, right),
            np.dot(found, found),
            np.dot(right, found),
        )

    def result(self, name: str) -> ValueAccuracy:
        total, squares, right, found, product = map(float, self.sums)
        lengths = math.sqrt(right * found)
        ratio = right / squares if squares else math.inf
        return ValueAccuracy(
            name=name,
            elements=self.elements,
            max_abs=self.max_abs,
            mean_abs=total / self.elements if self.elements else 0.0,
            snr_db=10 * math.log10(ratio) if ratio > 0 else -math.inf,
            cosine=product / lengths if lengths else math.nan,
            largest=self.largest,
        )
