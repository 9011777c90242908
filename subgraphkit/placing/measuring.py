"""Contenders for a placement: opened in this process, held to a reference, timed in turns.

Contenders take their turns one after the other, round by round, so that a machine that slows down
slows all of them down. A turn is a pause in which threads go to sleep, a run that wakes them and
does not count, and the runs that count; its time is their median.
"""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any, Final, Self

from subgraphkit.backend.conformance import Conformance
from subgraphkit.backend.differences import first_difference
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.finding.opening import declared_tolerances
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.placements import Placement, first_output
from subgraphkit.placing.choosing import node_weights
from subgraphkit.planning import plan
from subgraphkit.running import Session

_PAUSE: Final = 0.05
"""Seconds before a turn, in which threads that wait by spinning go to sleep."""

_SECONDS_PER_TURN: Final = 0.05
_NO_WAKING: Final = 0.25
"""Seconds of a run from which on waking the threads is not seen in it."""

_FEW: Final = 5
_MOST_RUNS: Final = 1000
"""Runs of a turn in which subgraphs are timed."""


class Candidate:
    """A session that runs a model as a placement has it.

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
        self._outside: list[float] = []
        started = time.perf_counter()
        partitioning = partition(_alone(bound, placement), placement)
        made = plan(partitioning, compile_subgraphs(partitioning, progress=progress))
        self._clocked = clocked
        self.session = Session(made)
        self.opening = time.perf_counter() - started

    @property
    def partitioning(self) -> Partitioning:
        """Which nodes run where."""
        return self.session.partitioning

    @property
    def median(self) -> float:
        """The median of its turns."""
        return statistics.median(self.turns)

    @property
    def failed(self) -> bool:
        """Whether it failed in a turn; then all its turns took for ever."""
        return math.inf in self.turns

    def part_on(self, name: str, nodes: Sequence[int], weights: Mapping[int, float]) -> float:
        """Return the part of nodes, by weight, that is at home on a backend."""
        homes = ((node, self.partitioning.home_of(node).backend) for node in nodes)
        here = sum(weights[node] for node, home in homes if home == name)
        return here / sum(weights[node] for node in nodes)

    def run(self, feeds: Mapping[str, Any], patience: float | None = None) -> list[Any]:
        """Compute all outputs, within so many seconds."""
        return self.session.run(None, feeds, timeout_s=patience)

    def quickest(self, feeds: Mapping[str, Any]) -> float:
        """Return the seconds of the quickest of a few runs, or of one that takes long."""
        time.sleep(_PAUSE)
        seconds = [self._timed(feeds)]
        while sum(seconds) < _NO_WAKING and len(seconds) < _FEW:
            seconds.append(self._timed(feeds))
        return min(seconds)

    def own_seconds(self, name: str, feeds: Mapping[str, Any]) -> float:
        """Return what a backend takes of a run, without what others run for it."""
        profile = self.session.profile(1, inside=False)
        with profile:
            self.run(feeds)
        homes = {one.id: one.backend for one in self.partitioning.subgraphs}
        taken = profile.subgraph_seconds.items()
        return sum(seconds for subgraph, seconds in taken if homes[subgraph] == name)

    def difference(self, results: Sequence[Any], expected: Sequence[Any]) -> str:
        """Return in words what differs from a reference beyond the tolerance; empty if nothing."""
        settings = self.session.graph.settings
        declared = declared_tolerances(self.partitioning.backends, settings)
        allowed = Conformance(tolerances=declared.tolerances).tolerance_for
        found = first_difference(list(results), list(expected), allowed)
        return "" if found is None else found.text

    def take_turn(self, feeds: Mapping[str, Any]) -> None:
        """Let threads go to sleep, wake them, run, and note the time; not once it failed."""
        if self.failed:
            self.turns.append(math.inf)
            return
        time.sleep(_PAUSE)
        if not self.turns or self.turns[-1] < _NO_WAKING:
            self.run(feeds)
        seconds: list[float] = []
        profile = self.session.profile(_MOST_RUNS, inside=False)
        with profile if self._clocked else nullcontext():
            while not seconds or sum(seconds) < _SECONDS_PER_TURN:
                seconds.append(self._timed(feeds))
        self.turns.append(statistics.median(seconds))
        if not self._clocked:
            return
        for name, spent in profile.subgraph_seconds.items():
            self._steps.setdefault(name, []).append(spent)
        outside = sum(row.seconds for row in profile.rows if row.kind == "hand-over")
        self._outside.append(outside)

    def _timed(self, feeds: Mapping[str, Any]) -> float:
        started = time.perf_counter()
        self.run(feeds)
        return time.perf_counter() - started

    def node_turns(self, weights: Mapping[int, float]) -> list[dict[int, float]]:
        """Return each node's time in each turn: its part, by weight, of its subgraph's."""
        turns: list[dict[int, float]] = [{} for _ in self.turns]
        for subgraph in self.partitioning.subgraphs:
            nodes = [node for node in subgraph.nodes if node in weights]
            whole = sum(weights[node] for node in nodes)
            for taken, seconds in zip(turns, self._steps.get(subgraph.id, ()), strict=False):
                taken |= {node: seconds * weights[node] / whole for node in nodes}
        return turns

    def between(self) -> float:
        """Return the median of what a turn takes outside of subgraphs, by subgraph."""
        return max(0.0, statistics.median(self._outside)) / max(1, len(self._steps))

    def close(self) -> None:
        """Release what the operators hold; the times stay."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Arena:
    """A model and what its contenders share: arrays to run on, a reference, a budget of time.

    Contenders that are opened are closed on leaving it, if they were not before.

    Attributes:
        options: The options of the backends that take part, by name.
        weights: The nodes in order of running, with what each weighs.
        seconds: About how long all of it may take.
        patience: How long the first run of a contender may take.

    Thread-safety: used by one thread.
    """

    def __init__(
        self,
        bound: BoundModel,
        options: Mapping[str, Mapping[str, Any]],
        feeds: Mapping[str, Any],
        progress: Progress,
        circumstances: Mapping[str, Any],
    ) -> None:
        self.bound, self.options, self.feeds = bound, options, feeds
        self.weights = node_weights(bound)
        self.began, self.seconds = time.monotonic(), math.inf
        self.patience: float | None = None
        self.out: dict[str, str] = {}
        self.notes: list[str] = []
        self._progress, self._holds = progress, circumstances
        self._quiet = Progress(lambda _: progress.check())
        self._expected: list[Any] | None = None
        self._is_first = True
        self._stack = ExitStack()

    def tell(self, phase: str, done: int, total: int | None = None, message: str = "") -> None:
        """Report what comes next, unless it is to stop."""
        self._progress.check()
        self._progress(phase, done, total, message)

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.began + self.seconds - time.monotonic()

    def placed(self, nodes: Mapping[str, Sequence[int]]) -> Placement:
        """Return a placement of nodes by backend; the last one takes what the others refuse."""
        return Placement(
            backends={name: self.options.get(name, {}) for name in nodes},
            nodes={
                name: tuple(first_output(self.bound, node) for node in several)
                for name, several in nodes.items()
            },
            circumstances=self._holds,
            figures={},
        )

    def opened(
        self, label: str, placement: Placement, *, clocked: bool = False
    ) -> Candidate | None:
        """Open a contender and let it run once; None if it cannot, or its results differ.

        The results of the first one are what all others are held to, unless they vary.
        """
        try:
            one = Candidate(label, self.bound, placement, self._quiet, clocked=clocked)
            self._stack.enter_context(one)
            results = one.run(self.feeds, self.patience)
            if self._is_first:
                self._take_for_reference(one, results)
        except SubgraphkitError as error:
            self.out[label] = error.message
            return None
        if self._expected is not None and (wrong := one.difference(results, self._expected)):
            self.out[label] = f"out, because its results differ: {wrong}"
            one.close()
            return None
        return one

    def _take_for_reference(self, one: Candidate, results: list[Any]) -> None:
        self._is_first = False
        self._expected = results
        if one.difference(one.run(self.feeds), results):
            self._expected = None
            self.notes.append("results vary from run to run, so they are not compared")

    def take_turns(self, several: Sequence[Candidate], at: int) -> None:
        """Let contenders take a turn each, in another order every round; who fails is out."""
        at %= max(1, len(several))  # so that nobody always comes after the same neighbour
        for one in (*several[at:], *several[:at]):
            self._progress.check()
            try:
                one.take_turn(self.feeds)
            except SubgraphkitError as error:
                self.out[one.label] = error.message
                one.turns = [math.inf] * (len(one.turns) + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _alone(bound: BoundModel, placement: Placement) -> BoundModel:
    """Return the model with no options for others than those in the placement, and no way out.

    What another backend computes in place of one that failed is not that one's time. Nor is there
    anything to say of a placement that is only tried.
    """
    settings = bound.settings
    named = {settings.fallback, *placement.backends}
    options = {name: one for name, one in settings.option_sources.items() if name in named}
    alone = replace(
        settings,
        option_sources=options,
        on_run_error="raise",
        on_compile_error="raise",
        on_fallback="ok",
        require={},
    )
    extensions = ExtensionManager.from_config(alone, bound.model.name)
    return replace(bound, settings=alone, extensions=extensions)
