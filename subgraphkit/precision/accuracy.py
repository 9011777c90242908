"""The accuracy of a rewritten model against its original, over the batches given."""

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.progress import Progress
from subgraphkit.backend.tolerances import ToleranceOf, tolerance_for
from subgraphkit.binding import bind
from subgraphkit.errors import CallerError
from subgraphkit.finding.opening import result_tolerances
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.running.tapping import tap_groups, tapped_session
from subgraphkit.texts import aligned
from subgraphkit.types import DataType


@dataclass(frozen=True, slots=True)
class ValueAccuracy:
    """The distance of one value from the same value of the original model.

    Attributes:
        name: Name of the value.
        elements: How many elements were compared.
        max_abs: Largest absolute error; infinity if something is NaN or infinite on one side only,
            or the shapes of one batch differ.
        mean_abs: Mean absolute error; infinity if the largest is.
        snr_db: Ratio of the power of the value to that of the error, in dB. It is infinity without
            an error, and minus infinity if the largest error is infinite.
        cosine: Cosine of the angle between the two as vectors; NaN if one of them is all zeros, or
            the largest error is infinite.
        largest: Largest finite magnitude in the original.
        not_finite: How many elements are finite in the original, and NaN or infinite here.
        noise: Relative power of the error, over the elements that are finite on both sides.
        wrong: How many elements ``verify`` would call wrong, by the tolerance of their type.
    """

    name: str
    elements: int
    max_abs: float
    mean_abs: float
    snr_db: float
    cosine: float
    largest: float
    not_finite: int = 0
    noise: float = 0.0
    wrong: int = 0


@dataclass(eq=False)
class Sums:
    """Sums over batches, of the elements that are finite on both sides."""

    elements: int = 0
    max_abs: float = 0.0
    largest: float = 0.0
    not_finite: int = 0
    wrong: int = 0
    tolerance: ToleranceOf = tolerance_for
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(5))

    def add(self, expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> None:
        """Add the elements of one batch."""
        if expected.shape != got.shape:  # its size may depend on values
            self.max_abs = math.inf
            self.elements += expected.size
            self.wrong += expected.size
            return
        right, found = (np.asarray(one).reshape(-1).astype(np.float64) for one in (expected, got))
        known = np.isfinite(right)
        both = known & np.isfinite(found)
        same = both | (right == found) | (np.isnan(right) & np.isnan(found))
        if not same.all():
            self.max_abs = math.inf
        self.not_finite += int(np.count_nonzero(known & ~both))
        self.wrong += int(np.count_nonzero(~same))
        self.largest = max(self.largest, float(np.abs(right).max(where=known, initial=0.0)))
        right, found = right[both], found[both]
        self.elements += int(same.size)
        if not right.size:
            return
        error, sizes = np.abs(right - found), np.abs(right)
        self.max_abs = max(self.max_abs, float(error.max()))
        allowed = self.tolerance(DataType.of(got.dtype))
        self.wrong += int(np.count_nonzero(error > allowed.limit(sizes, float(sizes.max()))))
        self.sums += (
            error.sum(),
            np.dot(error, error),
            np.dot(right, right),
            np.dot(found, found),
            np.dot(right, found),
        )

    def result(self, name: str) -> ValueAccuracy:
        """Return the result of all batches added."""
        total, squares, right, found, product = map(float, self.sums)
        lengths = math.sqrt(right * found)
        ratio = right / squares if squares else math.inf
        # the sums leave out elements that are not finite
        is_known = math.isfinite(self.max_abs)
        mean = total / self.elements if self.elements else 0.0
        return ValueAccuracy(
            name=name,
            elements=self.elements,
            max_abs=self.max_abs,
            mean_abs=mean if is_known else math.inf,
            snr_db=10 * math.log10(ratio) if is_known and ratio > 0 else -math.inf,
            cosine=product / lengths if is_known and lengths else math.nan,
            largest=self.largest,
            not_finite=self.not_finite,
            noise=1 / ratio if ratio > 0 else math.inf,
            wrong=self.wrong,
        )


_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)


@dataclass(frozen=True, slots=True)
class LayerAccuracy:
    """The error that a node of the original adds to its inputs.

    Attributes:
        node: The node's name, or that of its first output if it has none.
        op_type: Its operator.
        output: The output that is furthest off.
        born: The relative power of the error of that output, less that of the input furthest off.
            It is the share of rounding here, or of errors that cancelling brings out. Infinity
            where elements are finite only in the original; nodes behind do not count these.
        snr_db: Ratio of signal to noise of that output, in dB.
        input_snr_db: The same of the input furthest off; infinity if all are exact.
    """

    node: str
    op_type: str
    output: str
    born: float
    snr_db: float
    input_snr_db: float

    def to_text(self) -> str:
        """Return the event in the node, for people."""
        if math.isinf(self.born):
            return "what is finite is not any more"
        if math.isinf(self.input_snr_db):
            return f"what comes in is exact, {self.snr_db:.1f} dB go out"
        return f"{self.input_snr_db:.1f} dB come in, {self.snr_db:.1f} dB go out"


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """The distance of a rewritten model from its original.

    Attributes:
        outputs: The floating point outputs, in order.
        values: Inner values that both models have, in order; empty unless asked for.
        batches: How many batches were run.
        layers: The nodes that add error, the one that adds most first; empty unless inner values
            were asked for.
    """

    outputs: tuple[ValueAccuracy, ...]
    values: tuple[ValueAccuracy, ...] = ()
    batches: int = 0
    layers: tuple[LayerAccuracy, ...] = ()

    @property
    def max_error(self) -> float:
        """The largest absolute error of any output."""
        return max((one.max_abs for one in self.outputs), default=0.0)

    @property
    def min_snr(self) -> float:
        """The smallest ratio of signal to noise of any output, in dB."""
        return min((one.snr_db for one in self.outputs), default=math.inf)

    @property
    def agrees(self) -> bool:
        """Whether ``verify`` would call the outputs the same, by the tolerances of their types."""
        return not any(one.wrong for one in self.outputs)

    @property
    def not_finite(self) -> str:
        """Which outputs hold NaN or infinity where the original is finite; empty if none does.

        If inner values were compared, the node in which that begins is named, too.
        """
        parts = [_not_finite(one) for one in self.outputs if one.not_finite]
        if not parts:
            return ""
        broken = next((one for one in self.layers if math.isinf(one.born)), None)
        begins = f", first in {broken.op_type} {broken.node!r}" if broken is not None else ""
        return f"{'; '.join(parts)}{begins}"

    def meets(self, max_error: float | None = None, min_snr: float | None = None) -> bool:
        """Say whether every output is within the bounds given."""
        near = max_error is None or self.max_error <= max_error
        return near and (min_snr is None or self.min_snr >= min_snr)

    def check(self, max_error: float | None = None, min_snr: float | None = None) -> None:
        """Make sure that no output is further off than this.

        Args:
            max_error: Largest absolute error allowed.
            min_snr: Smallest ratio of signal to noise allowed, in dB.

        Raises:
            CallerError: One is (SGK236).
        """
        for one in sorted(self.outputs, key=lambda one: -one.max_abs):
            if max_error is not None and one.max_abs > max_error:
                raise _inaccurate(one, f"{max_error:.4g} at most")
            if min_snr is not None and one.snr_db < min_snr:
                raise _inaccurate(one, f"{min_snr:g} dB at least")

    def to_text(self) -> str:
        """Return a table for people, one line per value."""
        rows = [("value", "max_abs", "mean_abs", "snr_db", "cosine")]
        for one in (*self.values, *self.outputs):
            errors = f"{one.max_abs:.3g}", f"{one.mean_abs:.3g}"
            rows.append((one.name, *errors, f"{one.snr_db:.1f}", f"{one.cosine:.6f}"))
        return "\n".join(aligned(rows, range(1, 5)))


def measure_accuracy(
    original: ModelSource | Model,
    rewritten: ModelSource | Model,
    batches: Iterable[Mapping[str, Any]],
    *,
    backend: Any = "numpy",
    values: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> AccuracyReport:
    """Run two models on the same batches and compare their results.

    Args:
        original: The model that is believed.
        rewritten: The model made from it, with the same inputs and outputs.
        batches: Arrays by input name; one is in memory at a time.
        backend: The backends for both, as for ``SUBGRAPH_BACKEND``.
        values: Whether to compare the inner values of the same names, too, and to find the nodes in
            which the error arises. Up to 1 GiB of them are in memory at once; a model with more is
            run several times per batch.
        progress: Told after every batch; stops the work.
        **settings: Other arguments of ``bind``, for both.

    Returns:
        The report.

    Raises:
        CallerError: There is no batch, or no floating point output to compare (SGK234).
        SubgraphkitError: An error of a step of the road.
    """
    bounds = [bind(one, backend=backend, **settings) for one in (original, rewritten)]
    outputs = floating_outputs(bounds[0])
    inner = [name for name in _common(bounds) if name not in outputs] if values else []
    progress, done = bounds[0].extensions.hearing(progress), 0
    total = len(batches) if isinstance(batches, Sized) else None
    # outputs by themselves: libraries fuse across values that nobody looks at
    groups = [outputs, *tap_groups(bounds[0], inner, lambda name: (name,))]
    with ExitStack() as stack:
        sessions = [[stack.enter_context(tapped_session(b, g)) for b in bounds] for g in groups]
        backends = sessions[0][1].partitioning.backends
        allowed = result_tolerances(backends, bounds[0], bounds[0].settings)
        sums = {name: Sums(tolerance=allowed) for name in (*inner, *outputs)}
        for done, feeds in enumerate(batches, 1):
            for names, pair in zip(groups, sessions, strict=True):
                results = [one.run(None, feeds) for one in pair]
                for name, right, found in zip(names, *results, strict=True):
                    sums[name].add(right, found)
                del results
            progress("comparing", done, total)
            progress.check()
    if not done:
        raise CallerError("SGK234", "there is no batch to measure the accuracy with; give one")
    found_of = {name: total.result(name) for name, total in sums.items()}
    return AccuracyReport(
        tuple(found_of[name] for name in outputs),
        tuple(found_of[name] for name in inner),
        done,
        tuple(_layers(bounds[0], found_of)) if values else (),
    )


def floating_outputs(bound: BoundGraph) -> list[str]:
    """Return the floating point outputs; CallerError (SGK234) for none, as any bound would hold."""
    found = [name for name in dict.fromkeys(bound.outputs) if bound.dtype(name) in _FLOATS]
    if not found:
        raise CallerError(
            "SGK234",
            f"no output of the model is floating point, so no error can be measured: "
            f"{list(bound.outputs)}",
            hint="Make what the outputs are found from an output as well, such as the scores.",
        )
    return found


def _layers(bound: BoundGraph, found: Mapping[str, ValueAccuracy]) -> list[LayerAccuracy]:
    """Find the nodes that add error, the one that adds most first.

    A value that only the original has is as far off as its sources.
    """
    noise: dict[str, float] = {}
    endless: set[str] = set()
    layers, table = [], bound.table
    for node in bound.order:
        read, made = table.inputs[node], table.outputs[node]
        entering = max((noise.get(name, 0.0) for name in read), default=0.0)
        known = [found[name] for name in made if name in found]
        noise.update((name, found[name].noise if name in found else entering) for name in made)
        worst = max(known, key=lambda one: (math.isinf(one.max_abs), one.noise), default=None)
        if worst is None:
            continue
        breaks = math.isinf(worst.max_abs) and endless.isdisjoint(read)
        endless.update(one.name for one in known if math.isinf(one.max_abs))
        born = math.inf if breaks else worst.noise - entering
        if born > 0:
            about = table.names[node] or worst.name, table.op_types[node], worst.name
            left = -math.inf if breaks else _decibels(worst.noise)
            layers.append(LayerAccuracy(*about, born, left, _decibels(entering)))
    return sorted(layers, key=lambda one: -one.born)


def _decibels(noise: float) -> float:
    """Return a ratio of signal to noise, of the power of the noise as a part of the signal's."""
    return -10 * math.log10(noise) if noise else math.inf


def _not_finite(one: ValueAccuracy) -> str:
    return f"{one.not_finite} of {one.elements} values of output {one.name!r} are not finite"


def _inaccurate(worst: ValueAccuracy, expected: str) -> CallerError:
    if worst.not_finite:
        return CallerError(
            "SGK236",
            f"{_not_finite(worst)}, and are in the original, expected {expected} "
            f"(it reaches {worst.largest:.4g})",
            hint="Values overflow on the way. Pass ranges, so that nodes with values beyond "
            "data_max stay, or take bf16; the report on inner values shows where it begins.",
        )
    return CallerError(
        "SGK236",
        f"output {worst.name!r} is off by {worst.max_abs:.4g}, expected {expected} "
        f"(it reaches {worst.largest:.4g}, SNR {worst.snr_db:.1f} dB)",
        hint="Keep the nodes at fault with keep=[...]; the report on inner values shows "
        "where the error comes in, and precision_search finds them by trying.",
    )


def _common(bounds: Sequence[BoundGraph]) -> list[str]:
    first, second = bounds
    return [
        name
        for node in first.order
        for name in first.table.outputs[node]
        if name in second.producers
        and name not in first.constants
        and all(bound.dtype(name) in _FLOATS for bound in bounds)
    ]
