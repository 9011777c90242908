"""The search for the nodes that keep float32 so that a rewritten model is as accurate as asked for.

A search by trying. The model is rewritten as asked and compared value by value, which says in which
nodes the error is born; those, and what lies ahead of them, come first. So many of them are kept,
1, 2, 4 and so on, that the bound holds, then as few as bisection finds, and then those are given
back, in groups and one by one, without which it holds as well. The same model, batches and bounds
make the same trials. Tuning searches the regions of a placement the same way.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import bind
from subgraphkit.errors import CallerError
from subgraphkit.ir import BoundGraph
from subgraphkit.loading import load
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.precision.accuracy import (
    AccuracyReport,
    LayerAccuracy,
    floating_outputs,
    measure_accuracy,
)
from subgraphkit.precision.deviation import Sums
from subgraphkit.precision.search_results import (
    Effort,
    PrecisionSearch,
    SearchTrial,
    StillKept,
)
from subgraphkit.rewriting import Precision, Ranges, Rewriting, rewrite
from subgraphkit.running.tapping import tapped_session

_AHEAD: Final = 0.25
"""What a node inherits of the blame of one that reads it: what cancelling brings out was made
before."""

_WORST: Final = 1e4
"""Noise above this, such as infinity, is all the same."""


def precision_search(  # noqa: PLR0913 (a bound of either kind)
    source: ModelSource | Model,
    precision: Precision,
    batches: Iterable[Mapping[str, Any]],
    *,
    max_error: float | None = None,
    min_snr: float | None = None,
    ranges: Ranges | None = None,
    effort: Effort | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> PrecisionSearch:
    """Find few nodes that keep float32 so that every output is within a bound.

    Args:
        source: The model, as for ``rewrite``.
        precision: What is asked for; what its ``keep`` names stays in any case.
        batches: Arrays by input name; they are gone through once per trial. The outputs of the
            model as it is are in memory for all of them.
        max_error: Largest absolute error allowed.
        min_snr: Smallest ratio of signal to noise allowed, in dB.
        ranges: How large values get, as for ``rewrite``.
        effort: How much the search may cost; 100 trials unless given.
        progress: Told after every trial; stops the work.
        **settings: What else ``bind`` takes, and ``backend``, NumPy unless given, which runs both.

    Returns:
        The rewriting with as few nodes kept as were found, and which they are.

    Raises:
        CallerError: Neither bound is given, the batches can be gone through only once, or no
            output is floating point (SGK234), or the bound is not met before nothing is left to
            rewrite or the effort is spent (SGK237, with the best that was reached).
        SubgraphkitError: Whatever rewriting or a step of the road raises.

    Source: for bisecting on precision, the debug tools of NVIDIA's Polygraphy; for giving back in
    groups, Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
    """
    if max_error is None and min_snr is None:
        raise CallerError("SGK234", "there is no bound to search for: give max_error or min_snr")
    if iter(batches) is batches:
        raise CallerError(
            "SGK234",
            "the batches are gone through once per trial, and an iterator gives them only once",
            hint="Pass a list of batches.",
        )
    model = load(source, data_roots=settings.get("data_roots"))
    lab = _Laboratory(
        model,
        precision,
        ranges,
        batches,
        (max_error, min_snr),
        effort or Effort(),
        settings,
        progress,
    )
    minimal = lab.search()
    return lab.result(minimal=minimal)


def fewest(most: int, holds: Callable[[int], bool]) -> int | None:
    """Return the fewest first ones of a ranking with which something holds; None if it never does.

    1, 2, 4 and so on are tried, then what bisection comes to.
    """
    low, high = 0, min(1, most)
    while not (high and holds(high)):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class _Spent(Exception):  # noqa: N818 (no error: a search that ends)
    """The effort is spent."""


@dataclass(eq=False)
class _Laboratory:
    """Tries rewritings of one model; keeps the best of them."""

    model: Model
    precision: Precision
    ranges: Ranges | None
    batches: Iterable[Mapping[str, Any]]
    bounds: tuple[float | None, float | None]
    effort: Effort
    settings: dict[str, Any]
    progress: Progress | None = None
    trials: list[SearchTrial] = field(default_factory=list)
    _layers: tuple[LayerAccuracy, ...] = ()
    _right: list[Sequence[Any]] = field(default_factory=list)
    _best: tuple[tuple[str, ...], Rewriting, AccuracyReport] | None = None
    _tried: dict[tuple[str, ...], bool] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.settings = {"backend": "numpy", **self.settings}
        self._bound = bind(self.model, **self.settings)
        self._progress = self._bound.extensions.hearing(self.progress)
        self._outputs = floating_outputs(self._bound)

    # -- the search --------------------------------------------------------------------------

    def search(self) -> bool:
        """Search; return whether the list is minimal.

        Raises:
            CallerError: The bound cannot be met (SGK237).
        """
        try:
            done = self._first()
            if self.meets(done[1]):
                return True
            order = self._ranked(done[0].changed)
            found = fewest(len(order), lambda count: self._try(order[:count]))
            self._give_back(order[:found])
        except _Spent:
            if not self._is_of_use():
                raise self._unreached("the effort was spent") from None
            return False
        if not self._is_of_use():
            raise self._unreached("no node may be rewritten then")
        return True

    def _is_of_use(self) -> bool:
        """Say whether the bounds held with a node rewritten."""
        return self._best is not None and bool(self._best[1].changed)

    def _give_back(self, chosen: list[str]) -> None:
        """Leave out what is not needed, in ever smaller groups, the least to blame first."""
        size = len(chosen) // 2
        while size:
            for end in range(len(chosen), 0, -size):
                rest = chosen[: max(0, end - size)] + chosen[end:]
                if rest and self._try(rest):
                    chosen = rest
            size //= 2

    def _ranked(self, changed: Sequence[str]) -> list[str]:
        """Return the nodes, by their first outputs, those most to blame first."""
        blame = _blame(self._bound, self._layers)
        producers = self._bound.producers
        scores = {value: blame.get(producers.get(value, -1), 0.0) for value in changed}
        return sorted(changed, key=lambda value: -scores[value])  # stable: in the graph's order

    # -- trials ------------------------------------------------------------------------------

    def meets(self, report: AccuracyReport) -> bool:
        """Say whether outputs are within the bounds."""
        return report.meets(*self.bounds)

    def _first(self) -> tuple[Rewriting, AccuracyReport]:
        """Rewrite as asked, and find out where the error is born."""
        done = rewrite(self.model, self.precision, self.ranges)
        report = measure_accuracy(
            self.model, done.model, self.batches, values=True, **self.settings
        )
        self._layers = report.layers
        self._note((), done, report)
        if not done.changed and not self.meets(report):
            raise self._unreached("nothing was rewritten")
        with tapped_session(self._bound, self._outputs) as session:
            self._right = [session.run(None, feeds) for feeds in self.batches]
        return done, report

    def _try(self, kept: Sequence[str]) -> bool:
        """Say whether the bounds hold with these nodes kept."""
        key = tuple(kept)
        if key in self._tried:
            return self._tried[key]
        self._check_effort()
        done = rewrite(self.model, self._keeping(key), self.ranges)
        return self._note(key, done, self._measured(done))

    def _check_effort(self) -> None:
        limit = self.effort.seconds
        late = limit is not None and time.monotonic() - self._started >= limit
        if late or len(self.trials) >= self.effort.trials:
            raise _Spent

    def _keeping(self, kept: Iterable[str]) -> Precision:
        patterns = (*self.precision.keep, *map(re.escape, kept))
        return replace(self.precision, keep=tuple(dict.fromkeys(patterns)))

    def _measured(self, done: Rewriting) -> AccuracyReport:
        sums = {name: Sums() for name in self._outputs}
        bound = bind(load(done.model), **self.settings)
        with tapped_session(bound, self._outputs) as session:
            for feeds, right in zip(self.batches, self._right, strict=True):
                results = session.run(None, feeds)
                for total, one, other in zip(sums.values(), right, results, strict=True):
                    total.add(np.asarray(one), np.asarray(other))
        found = tuple(total.result(name) for name, total in sums.items())
        return AccuracyReport(found, batches=len(self._right))

    def _note(self, kept: tuple[str, ...], done: Rewriting, report: AccuracyReport) -> bool:
        met = self._tried[kept] = self.meets(report)
        if met:
            fewer = self._best is None or len(kept) <= len(self._best[0])
            self._best = (kept, done, report) if fewer else self._best
        trial = SearchTrial(
            len(self.trials) + 1,
            len(kept),
            len(done.changed),
            report.max_error,
            report.min_snr,
            met,
        )
        self.trials.append(trial)
        self._progress("searching", trial.number, message=trial.to_text())
        self._progress.check()
        return met

    # -- results -----------------------------------------------------------------------------

    def result(self, *, minimal: bool) -> PrecisionSearch:
        """Return what was found; there is a best."""
        if self._best is None:
            raise self._unreached("nothing was tried")
        kept, done, report = self._best
        return PrecisionSearch(
            self._keeping(kept),
            done,
            report,
            tuple(self._described(value) for value in kept),
            tuple(self.trials),
            minimal,
        )

    def _described(self, value: str) -> StillKept:
        table, node = self._bound.table, self._bound.producers.get(value)
        if node is None:
            return StillKept(re.escape(value), value, "", "")
        outputs = set(table.outputs[node])
        layer = next((one for one in self._layers if one.output in outputs), None)
        text = "it feeds those at fault" if layer is None else layer.to_text()
        name = table.names[node] or value
        return StillKept(re.escape(value), name, table.op_types[node], text)

    def _unreached(self, why: str) -> CallerError:
        max_error, min_snr = self.bounds
        wanted = [f"an error of {max_error:.4g}"] if max_error is not None else []
        wanted += [f"{min_snr:g} dB"] if min_snr is not None else []
        tried = [one for one in self.trials if one.changed]
        best = max(tried, key=lambda one: (one.min_snr, -one.max_error), default=None)
        reached = (
            ""
            if best is None
            else (
                f"; the best was an error of {best.max_error:.4g} and {best.min_snr:.1f} dB, with "
                f"{best.kept} nodes kept and {best.changed} rewritten"
            )
        )
        return CallerError(
            "SGK237",
            f"{self.precision.kind} was not brought within {' and '.join(wanted)}: {why}{reached}",
            hint="Allow more error or more effort, take a precision of more digits, or calibrate "
            "with other batches.",
        )


def _blame(bound: BoundGraph, layers: Iterable[LayerAccuracy]) -> dict[int, float]:
    """Return how much noise each node is to blame for: its own, and some of what follows it.

    Whoever reads what overflowed would make it overflow again, so it is kept with it.
    """
    producers, inputs = bound.producers, bound.table.inputs
    blame = {producers[layer.output]: min(layer.born, _WORST) for layer in layers}
    endless = {layer.output for layer in layers if math.isinf(layer.born)}
    for node in bound.order:
        if not endless.isdisjoint(inputs[node]):
            blame[node] = max(blame.get(node, 0.0), _AHEAD * _WORST)
    for node in reversed(bound.order):
        passed = _AHEAD * blame.get(node, 0.0)
        for name in inputs[node]:
            before = producers.get(name)
            if before is not None and passed > blame.get(before, 0.0):
                blame[before] = passed
    return blame
