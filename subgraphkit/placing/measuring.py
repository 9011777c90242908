"""Contenders for a placement: opened in this process, held to a reference, timed in turns.

Contenders take their turns one after the other, round by round, so that a machine that slows down
slows all of them down. A turn is a pause in which threads go to sleep, a run that wakes them and
does not count, and the runs that count; its time is their median.
"""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from subgraphkit.backend.conformance import Conformance
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.comparing.differences import first_difference
from subgraphkit.comparing.step_times import StepTimes
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.finding.declarations import declared_tolerances
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.claiming.placements import Placement
from subgraphkit.planning import plan
from subgraphkit.running import Session

__all__ = ["Contender", "Interval", "interval"]

_PAUSE: Final = 0.05
"""Seconds before a turn, in which threads that wait by spinning go to sleep."""

_SECONDS_PER_TURN: Final = 0.05
_NO_WAKING: Final = 0.25
"""Seconds of a run from which on waking the threads is not seen in it."""

_FEW: Final = 5
_CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """A median, and the interval that holds the true one with a confidence of 95 %.

    Fewer than 6 values have none; then it is from the smallest to the largest.
    """

    median: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return the median of values and its interval, by order statistics."""
    ranked, count = sorted(values), len(values)
    below, tail = 0, 0.5**count  # the chance that fewer than ``below + 1`` are below the median
    while 2 * tail < 1 - _CONFIDENCE and below < count // 2:
        below += 1
        tail += math.comb(count, below) * 0.5**count
    at = max(below - 1, 0)
    return Interval(statistics.median(ranked), ranked[at], ranked[-1 - at])


class Contender:
    """A session that runs a model as a placement has it.

    Args:
        label: What it is called in reports.
        bound: The model.
        placement: Who takes which nodes.
        progress: Told how far compiling is; stops it.
        clocked: Whether subgraphs are timed as well, which costs a little.

    Attributes:
        label: What it is called in reports.
        placement: Who takes which nodes.
        opening: Seconds from the bound model to a session.
        turns: The time of each turn.

    Raises:
        SubgraphkitError: As ``partition`` and ``compile_subgraphs``.

    Thread-safety: used by one thread.
    """

    def __init__(
        self,
        label: str,
        bound: BoundModel,
        placement: Placement,
        progress: Progress,
        *,
        clocked: bool = False,
    ) -> None:
        self.label, self.placement = label, placement
        self.turns: list[float] = []
        self._steps: dict[str, list[float]] = {}
        started = time.perf_counter()
        partitioning = partition(
            _alone(bound, placement),
            placement.choices("tune"),
            constraints=placement.constraints(bound),
        )
        made = plan(partitioning, compile_subgraphs(partitioning, progress=progress))
        self._times = StepTimes(made) if clocked else None
        self.session = Session(made if self._times is None else self._times.plan)
        self.opening = time.perf_counter() - started

    @property
    def partitioning(self) -> Partitioning:
        """Which nodes run where."""
        return self.session.partitioning

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Compute all outputs."""
        return self.session.run(None, feeds)

    def quickest(self, feeds: Mapping[str, Any]) -> float:
        """Return the seconds of the quickest of a few runs, or of one that takes long."""
        time.sleep(_PAUSE)
        seconds = [self._timed(feeds)]
        while sum(seconds) < _NO_WAKING and len(seconds) < _FEW:
            seconds.append(self._timed(feeds))
        return min(seconds)

    def difference(self, results: Sequence[Any], expected: Sequence[Any]) -> str:
        """Return in words what differs from a reference beyond the tolerance; empty if nothing."""
        settings = self.session.graph.settings
        declared = declared_tolerances(self.partitioning.backends, settings)
        allowed = Conformance(tolerances=declared.tolerances).tolerance_for
        found = first_difference(list(results), list(expected), allowed)
        return "" if found is None else found.text

    def take_turn(self, feeds: Mapping[str, Any]) -> None:
        """Let threads go to sleep, wake them, run, and note the time."""
        time.sleep(_PAUSE)
        if not self.turns or self.turns[-1] < _NO_WAKING:
            self.run(feeds)
        if self._times is not None:
            self._times.take()
        seconds: list[float] = []
        while not seconds or sum(seconds) < _SECONDS_PER_TURN:
            seconds.append(self._timed(feeds))
        self.turns.append(statistics.median(seconds))
        for name, spent in self._times.take().items() if self._times is not None else ():
            self._steps.setdefault(name, []).append(spent / len(seconds))

    def _timed(self, feeds: Mapping[str, Any]) -> float:
        started = time.perf_counter()
        self.run(feeds)
        return time.perf_counter() - started

    def node_turns(self, weights: Mapping[int, float]) -> list[dict[int, float]]:
        """Return for each turn what every node took: its part, by weight, of its subgraph's time.

        Args:
            weights: The weight of every node that counts.
        """
        turns: list[dict[int, float]] = [{} for _ in self.turns]
        for subgraph in self.partitioning.subgraphs:
            nodes = [node for node in subgraph.home if node in weights]
            whole = sum(weights[node] for node in nodes)
            for taken, seconds in zip(turns, self._steps.get(subgraph.id, ()), strict=False):
                taken |= {node: seconds * weights[node] / whole for node in nodes}
        return turns

    def between(self) -> float:
        """Return the median of what a turn takes outside of subgraphs, by subgraph."""
        steps = zip(self.turns, *self._steps.values(), strict=True)
        outside = statistics.median(whole - sum(inside) for whole, *inside in steps)
        return max(0.0, outside) / max(1, len(self._steps))

    def close(self) -> None:
        """Release what the operators hold; the times stay."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _alone(bound: BoundModel, placement: Placement) -> BoundModel:
    """Return the model with no options for others than those in the placement, and no way out.

    What another backend computes in place of one that failed is not that one's time.
    """
    settings = bound.settings
    named = {settings.fallback, *placement.backends}
    options = {name: one for name, one in settings.option_sources.items() if name in named}
    alone = replace(
        settings, option_sources=options, on_run_error="raise", on_compile_error="raise"
    )
    return replace(bound, settings=alone)
