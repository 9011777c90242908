"""Ranges of a model's values, found by running it over the user's batches."""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import bind
from subgraphkit.errors import CallerError, SubgraphkitWarning
from subgraphkit.ir import BoundGraph
from subgraphkit.loading import load
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.precision.thresholds import Histogram, Method, check_method, threshold_of
from subgraphkit.rewriting import Range, Ranges, content_hash
from subgraphkit.running import Session
from subgraphkit.running.tapping import tap_groups, tapped_session
from subgraphkit.types import DataType, TensorType

_Array = npt.NDArray[Any]


def calibrate(  # noqa: PLR0913 (what is run, over what, and how)
    source: ModelSource | Model,
    batches: Iterable[Mapping[str, Any]],
    *,
    backend: Any = "numpy",
    values: Sequence[str] | None = None,
    method: Method = "mse",
    percentile: float = 99.99,
    progress: Progress | None = None,
    **settings: Any,
) -> Ranges:
    """Run a model over batches and find out how large its values get.

    The model is run as it is, not quantized. One batch is in memory at a time, with as many inner
    values as fit into 1 GiB. A model with more is run several times per batch. The same batches in
    the same order make the same ranges.

    Args:
        source: The model, as for ``InferenceSession``.
        batches: Arrays by input name; a generator will do.
        backend: What runs the model, as for ``SUBGRAPH_BACKEND``.
        values: The values looked at; every float32 value that is not constant if not given.
        method: How thresholds are chosen: ``mse``, ``percentile`` or ``minmax``.
        percentile: How many percent of the elements are not clipped, for that method.
        progress: Told after every batch; stops the work.
        **settings: What else ``bind`` takes, such as ``options`` and ``shapes``.

    Returns:
        The ranges. A value that was infinite somewhere, such as a mask, has none, and a warning
        says so.

    Raises:
        CallerError: There is no batch, one holds NaN or infinity or leads to NaN (SGK234), or a
            value or method does not exist (SGK231).
        SubgraphkitError: Whatever a step of the road raises.
    """
    check_method(method, percentile)
    model = load(source, data_roots=settings.get("data_roots"))
    bound = bind(model, settings.pop("shapes", None), backend=backend, **settings)
    progress = bound.extensions.hearing(progress)
    names = _wanted(bound, values)
    seen = {name: Histogram() for name in names}
    unbounded: set[str] = set()
    total = len(batches) if isinstance(batches, Sized) else None
    with ExitStack() as stack:
        made = [name for name in names if name in bound.producers]
        sessions = [
            stack.enter_context(tapped_session(bound, group))
            for group in tap_groups(bound, made, lambda name: (name,))
        ]
        done = 0
        for done, feeds in enumerate(batches, 1):
            for name, array in _values(sessions, names, feeds, done):
                _count(seen[name], name, array, done, unbounded)
            progress("calibrating", done, total)
            progress.check()
    if not done:
        raise CallerError("SGK234", "there is no batch to calibrate with")
    if unbounded:
        told = f"{len(unbounded)} values were infinite and have no range: {sorted(unbounded)[:5]}"
        warnings.warn(SubgraphkitWarning(told), stacklevel=2)
    found = {
        name: _range(one, method, percentile)
        for name, one in seen.items()
        if name not in unbounded and one.samples
    }
    return Ranges(found, content_hash(model))


def _wanted(bound: BoundGraph, values: Sequence[str] | None) -> list[str]:
    fed = (*bound.inputs, *bound.defaults)
    made = (v for i in bound.order for v in bound.table.outputs[i] if v not in bound.constants)
    known = [name for name in dict.fromkeys((*fed, *made)) if name and _is_float(bound, name)]
    if values is None:
        return known
    for name in values:
        if name not in known:
            raise CallerError(
                "SGK231", f"there is no float32 value {name!r} that is not constant in the model"
            )
    return list(dict.fromkeys(values))


def _is_float(bound: BoundGraph, name: str) -> bool:
    type_ = bound.types.get(name)
    return isinstance(type_, TensorType) and type_.dtype is DataType.FLOAT


def _values(
    sessions: Sequence[Session], names: Sequence[str], feeds: Mapping[str, Any], number: int
) -> Iterator[tuple[str, _Array]]:
    """Return the values of one batch; those of a session go before those of the next come."""
    for name, given in feeds.items():
        array = np.asarray(given)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise CallerError(
                "SGK234",
                f"batch {number} holds NaN or infinity in input {name!r}",
                hint="Calibrate with inputs as they come in practice.",
            )
        if name in names:
            yield name, array
    for session in sessions:
        results = session.run(None, feeds)
        yield from zip(session.graph.outputs, results, strict=True)
        del results


def _count(seen: Histogram, name: str, array: _Array, number: int, unbounded: set[str]) -> None:
    if np.isnan(array).any():
        raise CallerError(
            "SGK234",
            f"batch {number} leads to NaN in value {name!r}",
            hint="The model itself fails on this batch; leave it out or mend the model.",
        )
    if np.isinf(array).any():
        unbounded.add(name)
    else:
        seen.add(array)


def _range(seen: Histogram, method: Method, percentile: float) -> Range:
    threshold, found_by = threshold_of(seen, method, percentile)
    ratio = seen.snr_db(threshold) if threshold else math.inf
    known = ratio if math.isfinite(ratio) else None
    return Range(threshold, found_by, seen.samples, seen.lowest, seen.highest, known)
