"""The course of a tuning: backends alone, regions exchanged, compositions against the best alone.

What regions gain one by one does not add up, because fusion across the cuts is lost and noise is
chosen for gain. So the choice made from the times of regions is only a proposal: each composition
runs as a whole against the best single backend, turn by turn, and what measures best is kept.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.errors import BackendUnavailableError, SubgraphkitError
from subgraphkit.partitioning.claiming.placements import Placement
from subgraphkit.placing.candidates import Region, cut_regions, node_weights, quotient_graph
from subgraphkit.placing.choosing import RegionTimes
from subgraphkit.placing.measuring import Contender, Interval, interval

__all__ = ["Course"]

_SLOW: Final = 3.0
"""How many times the time of the quickest a backend may take and still be considered."""

_MOST_REGIONS: Final = 16
_MOST_COMPOSED: Final = 3
_TURNS_ALONE: Final = 5
_TURNS_OF_PART: Final = 2
_TURNS_OF_REGIONS: Final = 4
_LEAST_TURNS: Final = 6
"""Of fewer, no interval holds the median with confidence."""

_MOST_TURNS: Final = 15
_MOSTLY: Final = 0.9
_PARTLY: Final = 0.5

_Assignment = tuple[str, ...]
"""The backend of every region."""


class Course:
    """Measures a model on backends, alone and composed.

    Args:
        bound: The model.
        options: The options of the backends that take part, by name.
        seconds: About how long it may take.
        feeds: Arrays by input name.
        progress: Told how far it is.
        circumstances: What the placement holds for.

    Thread-safety: used by one thread.
    """

    def __init__(
        self,
        bound: BoundModel,
        options: Mapping[str, Mapping[str, Any]],
        seconds: float,
        feeds: Mapping[str, Any],
        progress: Progress,
        circumstances: Mapping[str, Any],
    ) -> None:
        self._bound, self._options, self._feeds = bound, options, feeds
        self._progress, self._holds = progress, circumstances
        self._began, self._seconds = time.monotonic(), seconds
        self._weights = node_weights(bound)
        self._stack = ExitStack()
        self._alone: dict[str, Contender] = {}
        self._composed: dict[_Assignment, Contender] = {}
        self._against: dict[str, Interval] = {}
        self._out: dict[str, str] = {}
        self._notes: list[str] = []
        self._expected: list[Any] | None = None
        self._rough: dict[str, float] = {}
        self._single: Contender | None = None
        self._best: Contender | None = None
        self._complete = True

    def run(self) -> Placement:
        """Measure, and return the placement that won with the figures.

        Raises:
            BackendUnavailableError: No backend can run the model (SGK104).
            KeyboardInterrupt: It was stopped before anything was measured.
        """
        with self._stack:
            try:
                self._measure_alone()
                self._exchange_regions()
                self._compose()
            except KeyboardInterrupt:
                if self._best is None:
                    raise
                self._complete = False
                self._notes.append("stopped: this is the best so far")
        return self._winner()

    # -- alone -------------------------------------------------------------------------------

    def _measure_alone(self) -> None:
        """Open every backend with the whole model and let those that are not slow take turns."""
        # the fallback first: it is what all others are held to
        last = self._bound.settings.fallback
        names = sorted(self._options, key=lambda name: name != last)
        for at, name in enumerate(names):
            self._tell("opening", at, len(names), name)
            if len(self._rough) < 2 or not self._is_slow_in_part(name):  # noqa: PLR2004 (one real)
                self._enter_alone(name)
        if not self._alone:
            told = "; ".join(f"{name}: {why}" for name, why in self._out.items())
            raise BackendUnavailableError(
                "SGK104",
                f"no backend can run {self._bound.name!r}: {told or 'there is none'}",
                hint="See what works here: subgraphkit doctor.",
            )
        self._drop_slow()
        for at in range(_TURNS_ALONE):
            self._tell("measuring backends", at, _TURNS_ALONE)
            self._take_turns(list(self._alone.values()), at)
            self._single = self._best = min(self._alone.values(), key=_median)

    def _enter_alone(self, name: str) -> None:
        one = self._opened(name, self._placed({name: tuple(self._weights)}))
        if one is None:
            return
        results = one.run(self._feeds)
        self._rough[name] = one.quickest(self._feeds)
        self._alone[name] = one
        if len(self._alone) == 1 and one.difference(results, self._expected or []):
            self._notes.append("results vary from run to run, so they are not compared")
            self._expected = None

    def _is_slow_in_part(self, name: str) -> bool:
        """Whether one region tells that a backend is slow by nature, or slow to open."""
        if len(self._regions) < 2:  # noqa: PLR2004 (a part, not the whole)
            return False
        base = min(self._rough, key=self._rough.__getitem__)
        region = sorted(self._regions, key=lambda one: one.weight)[len(self._regions) // 2]
        rest = tuple(node for node in self._weights if node not in set(region.nodes))
        placement = self._placed({name: region.nodes, base: rest})
        one = self._opened(name, placement, clocked=True)
        if one is None:
            return True
        for _ in range(_TURNS_OF_PART):
            one.take_turn(self._feeds)
        taken = min(one.node_turns(self._weights), key=lambda turn: sum(turn.values()))
        one.close()
        if self._part_of(one, region, name) < _MOSTLY:
            return False
        whole = sum(self._weights.values())
        inside = sum(taken[node] for node in region.nodes)
        usual = self._rough[base] * region.weight / whole
        slower = inside / max(usual, self._rough[base] - sum(taken.values()) + inside)
        plan = one.session.plan
        compiling = sum(
            plan.seconds[step.subgraph.id] for step in plan.steps if step.subgraph.backend == name
        )
        opening = compiling * whole / region.weight
        if slower > _SLOW:
            self._out[name] = f"about {slower:.2g} times slower than {base}, going by a part of it"
        elif opening > self._left() / 2:
            self._out[name] = f"compiling it would take about {opening:.0f} s, more than there is"
        return name in self._out

    def _drop_slow(self) -> None:
        """Leave those out that are slow by nature, and not for what others run for them."""
        best = min(self._alone, key=self._rough.__getitem__)
        for name, one in list(self._alone.items()):
            slower = self._rough[name] / self._rough[best]
            if slower > _SLOW:
                whole = Region(tuple(self._weights), 1.0, "")
                if self._part_of(one, whole, name) >= _MOSTLY:
                    self._out[name] = f"{slower:.2g} times slower than {best}"
                del self._alone[name]
                one.close()

    # -- regions -----------------------------------------------------------------------------

    @cached_property
    def _times(self) -> RegionTimes:
        return RegionTimes(self._regions)

    @cached_property
    def _regions(self) -> list[Region]:
        return cut_regions(self._bound, self._weights, _MOST_REGIONS)

    def _exchange_regions(self) -> None:
        """Run every second region on another backend, then the others, and note what each takes.

        So every region is timed on every backend inside of the running whole, and cut where it
        would be cut, with two sessions per backend.
        """
        if self._single is None or len(self._regions) < 2:  # noqa: PLR2004 (nothing to exchange)
            return
        base = self._single.label
        others = [one for one in self._options if one != base and one not in self._out]
        for at, name in enumerate(others):
            if self._left() < self._seconds / 2:
                self._notes.append(f"no time was left for regions on {', '.join(others[at:])}")
                break
            self._tell("exchanging regions", at, len(others), name)
            pair = [self._alternating(name, base, start) for start in (0, 1)]
            for turn in range(_TURNS_OF_REGIONS):
                self._take_turns([one for one in pair if one is not None], turn)
            for one in filter(None, pair):
                self._note_regions(one, (base, name))
                one.close()

    def _alternating(self, name: str, base: str, start: int) -> Contender | None:
        regions = enumerate(self._regions)
        assignment = tuple(name if at % 2 == start else base for at, _ in regions)
        return self._opened(f"regions on {name}", self._assigned(assignment), clocked=True)

    def _note_regions(self, one: Contender, names: tuple[str, str]) -> None:
        turns = one.node_turns(self._weights)
        for region in self._regions:
            for name in names:
                if self._part_of(one, region, name) >= _PARTLY:
                    taken = [sum(turn[node] for node in region.nodes) for turn in turns]
                    self._times.note(region, name, taken)
        self._times.handing[names[1]] = one.between()

    def _part_of(self, one: Contender, region: Region, name: str) -> float:
        """Return the part of a region, by weight, that is at home on a backend."""
        partitioning, weights = one.partitioning, self._weights
        whole = sum(weights[node] for node in region.nodes)
        here = (node for node in region.nodes if partitioning.home_of(node).backend == name)
        return sum(weights[node] for node in here) / whole if whole else 0.0

    # -- compositions ------------------------------------------------------------------------

    def _compose(self) -> None:
        """Run what the times of regions propose; then add kind by kind what measures better."""
        if self._single is None or not self._times.handing:
            return
        single, base = self._single, self._single.label
        self._composed[(base,) * len(self._regions)] = single
        quotient = quotient_graph(self._bound, self._regions)
        alone = {name: _median(one) for name, one in self._alone.items()}
        proposed = list(dict.fromkeys(self._times.proposals(quotient, alone, base)))
        several = list(filter(None, map(self._composition, proposed[:_MOST_COMPOSED])))
        self._best = self._duel([single, *several], "comparing compositions")
        for kind, name in self._times.exchanges(base):
            pairs = zip(self._regions, self._best_assignment(), strict=True)
            tried = tuple(name if region.kind == kind else now for region, now in pairs)
            one = self._composition(tried)
            if one is not None:
                self._best = self._duel([self._best, one], "adding regions")
        if self._best is not single:
            self._best = self._duel([single, self._best], "comparing the best", rest=True)

    def _composition(self, assignment: _Assignment) -> Contender | None:
        """Open a composition that was not tried; None if it was, or is out."""
        if assignment in self._composed or self._left() < self._reserve():
            return None
        self._tell("opening", len(self._composed), None, "a composition")
        counts = {name: assignment.count(name) for name in dict.fromkeys(assignment)}
        shares = ", ".join(f"{name} {count}" for name, count in counts.items())
        label = f"regions: {shares} (no. {len(self._composed)})"
        one = self._opened(label, self._assigned(assignment))
        if one is not None:
            self._composed[assignment] = one
        return one

    def _best_assignment(self) -> _Assignment:
        return next(key for key, one in self._composed.items() if one is self._best)

    # -- turns -------------------------------------------------------------------------------

    def _duel(self, several: Sequence[Contender], phase: str, *, rest: bool = False) -> Contender:
        """Take turns until it is clear; return the best, the first one unless another is better."""
        first, *others = several
        starts = {one: len(one.turns) for one in several}
        ratios: dict[Contender, Interval] = {}
        kept = 0 if rest else self._reserve()
        for at in range(_MOST_TURNS):
            if not others or (at >= _LEAST_TURNS and self._left() < kept):
                break
            self._tell(phase, at, _MOST_TURNS, f"{len(others)} beside {first.label}")
            self._take_turns([first, *others], at)
            if at + 1 >= _LEAST_TURNS:
                usual = first.turns[starts[first] :]
                ratios |= {one: _ratio(one.turns[starts[one] :], usual) for one in others}
                others = [one for one in others if ratios[one].median < 1]  # no promise in the rest
        if first is self._single:
            self._against |= {one.label: ratio for one, ratio in ratios.items()}
        better = [one for one in others if one in ratios and ratios[one].high < 1]
        winner = min(better, key=lambda one: ratios[one].median, default=first)
        for one in several:
            if one not in (winner, self._single):
                one.close()
        return winner

    def _take_turns(self, several: Sequence[Contender], at: int) -> None:
        at %= max(1, len(several))  # so that nobody always comes after the same neighbour
        for one in (*several[at:], *several[:at]):
            self._progress.check()
            one.take_turn(self._feeds)

    def _left(self) -> float:
        return self._began + self._seconds - time.monotonic()

    def _reserve(self) -> float:
        """Return the seconds that the last comparison takes."""
        run = _median(self._single) if self._single is not None else 0.0
        return 2 * _LEAST_TURNS * (0.1 + 2 * run)

    def _tell(self, phase: str, done: int, total: int | None = None, message: str = "") -> None:
        self._progress.check()
        self._progress(phase, done, total, message)

    # -- contenders --------------------------------------------------------------------------

    def _opened(
        self, label: str, placement: Placement, *, clocked: bool = False
    ) -> Contender | None:
        """Open a contender that computes what the others do; None if it is out."""
        try:
            one = Contender(label, self._bound, placement, self._progress, clocked=clocked)
            self._stack.enter_context(one)
            results = one.run(self._feeds)
        except SubgraphkitError as error:
            self._out[label] = error.message
            return None
        if not self._alone:
            self._expected = results
        elif self._expected is not None and (wrong := one.difference(results, self._expected)):
            self._out[label] = f"out, because its results differ: {wrong}"
            one.close()
            return None
        return one

    def _assigned(self, assignment: _Assignment) -> Placement:
        base = self._single.label if self._single is not None else ""
        nodes: dict[str, tuple[int, ...]] = {name: () for name in assignment if name != base}
        nodes[base] = ()  # the last takes what the others refuse
        for region, name in zip(self._regions, assignment, strict=True):
            nodes[name] += region.nodes
        return self._placed(nodes)

    def _placed(self, nodes: Mapping[str, tuple[int, ...]]) -> Placement:
        made = self._bound.table.outputs
        return Placement(
            backends={name: self._options[name] for name in nodes},
            nodes={
                name: tuple(made[node][0] for node in several if made[node])
                for name, several in nodes.items()
            },
            circumstances=self._holds,
            figures={},
        )

    # -- figures -----------------------------------------------------------------------------

    def _winner(self) -> Placement:
        best, single = self._best, self._single
        if best is None or single is None:  # a budget of no turns
            raise BackendUnavailableError("SGK104", "nothing was measured")
        ran = [one for one in (*self._alone.values(), *self._composed.values()) if one.turns]
        rows = {one.label: self._row(one) for one in sorted(ran, key=_median)}
        ratio = self._against.get(best.label) if best is not single else None
        figures = {
            "complete": self._complete,
            "spent": round(time.monotonic() - self._began, 3),
            "single": single.label,
            "best": best.label,
            "ratio": list(ratio) if ratio is not None else [1.0, 1.0, 1.0],
            "contenders": list(rows.values()),
            "out": self._out,
            "regions": list(self._times.rows(best.partitioning)),
            "handing": self._times.handing,
            "notes": self._notes,
        }
        return replace(best.placement, figures=figures)

    def _row(self, one: Contender) -> dict[str, Any]:
        count = len(one.partitioning.subgraphs)
        against = self._against.get(one.label)
        return {
            "label": one.label,
            "seconds": list(interval(one.turns)),
            "ratio": list(against) if against is not None else None,
            "subgraphs": count,
        }


def _median(one: Contender) -> float:
    return statistics.median(one.turns)


def _ratio(turns: Sequence[float], others: Sequence[float]) -> Interval:
    return interval([one / other for one, other in zip(turns, others, strict=False)])
