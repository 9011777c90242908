"""The course of a tuning: backends alone, regions exchanged, compositions against the best alone.

What regions gain one by one does not add up, because fusion across the cuts is lost and noise is
chosen for gain. So the choice made from the times of regions is only a proposal: each composition
runs as a whole against the best single backend, turn by turn, and what measures best is kept.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from subgraphkit.comparing.intervals import Interval, interval, ratio
from subgraphkit.configuration.selection import AUTO, NONE
from subgraphkit.errors import BackendUnavailableError, InternalError, SubgraphkitError
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.placements import Placement
from subgraphkit.partitioning.reports.explanation import Roots, find_causes
from subgraphkit.placing.choosing import (
    Piece,
    RegionTimes,
    cut_regions,
    name_choice,
    quotient_graph,
)
from subgraphkit.placing.measuring import Arena, Candidate

_SLOW: Final = 3.0
"""How many times the time of the quickest a backend may take and still be considered."""

_LEAST_SECONDS: Final = 17.0
_MOST_SECONDS: Final = 90.0
_PATIENCE: Final = 10.0
"""Seconds that the first run of anybody may take, where all of them may take less."""
_RUNS: Final = 300
"""About how many runs a tuning takes, where nobody said how long it may take."""

_MOST_REGIONS: Final = 16
_MOST_COMPOSED: Final = 3
_TURNS_ALONE: Final = 10
_TURNS_OF_PART: Final = 2
_TURNS_OF_REGIONS: Final = 4
_LEAST_TURNS: Final = 6
"""Of fewer, no interval holds the median with confidence."""

_MOST_TURNS: Final = 15
_FOR_REGIONS: Final = 0.7
_FOR_COMPOSING: Final = 0.25
"""Parts of the time that are kept for what comes after, where backends or regions take long."""

_WORTH: Final = 0.97
"""Of the time of the best alone: the same session takes hundredths more or less elsewhere."""

_MOSTLY: Final = 0.9
_PARTLY: Final = 0.5

_MEDIAN: Final = attrgetter("median")

_Assignment = tuple[str, ...]  # the backend of every region


class Course:
    """Measures a model on backends, alone and composed.

    ``seconds``: About how long it may take; None for what suits the model, 17 to 90.

    Thread-safety: used by one thread.
    """

    def __init__(self, arena: Arena, seconds: float | None) -> None:
        self._arena, self._has_limit = arena, seconds is not None
        arena.seconds = _MOST_SECONDS if seconds is None else seconds
        arena.patience = _MOST_SECONDS if seconds is None else max(seconds, _PATIENCE)
        self._alone: dict[str, Candidate] = {}
        self._composed: dict[_Assignment, Candidate] = {}
        self._against: dict[str, Interval] = {}
        self._notes: list[str] = []
        self._rough: dict[str, float] = {}
        self._near: list[Candidate] = []
        self._takes: dict[str, frozenset[int]] = {}
        self._base = ""
        self._single: Candidate | None = None
        self._best: Candidate | None = None
        self._complete = True

    def run(self) -> Placement:
        """Measure, and return the placement that won with the figures.

        Raises:
            BackendUnavailableError: No backend can run the model (SGK104).
            KeyboardInterrupt: It was stopped before anything was measured.
        """
        with self._arena:
            try:
                self._open_alone()
                self._drop_slow()
                self._measure_alone(list(self._alone.values()), _FOR_REGIONS)
                self._exchange_regions()
                if self._single is not None and self._near:
                    # again later on, for a machine that was slow for a second was not so for all
                    self._measure_alone([self._single, *self._near], _FOR_COMPOSING)
                self._compose()
            except KeyboardInterrupt:
                if self._best is None or self._single is None:
                    raise
                if self._best.label not in self._against:
                    self._best = self._single
                self._complete = False
                self._notes.append("stopped: this is the best so far")
        return self._winner()

    def _measure_alone(self, near: list[Candidate], kept: float) -> None:
        """Find the best backend alone and those near it, and keep a part of the time."""
        for at in range(_TURNS_ALONE):
            are_known = len(near[0].turns) >= _LEAST_TURNS
            if are_known and self._arena.left() < kept * self._arena.seconds:
                break
            self._arena.tell("measuring backends", at, _TURNS_ALONE)
            self._arena.take_turns(near, at)
            self._best = self._single = min(near, key=_MEDIAN)
            if are_known:
                near = [one for one in near if interval(one.turns).low <= self._single.median]
        self._near = [one for one in near if one is not self._single and self._is_whole(one)]
        for one in self._alone.values():
            if one not in (self._single, *self._near):
                one.close()

    def _is_whole(self, one: Candidate) -> bool:
        return len(self._takes[one.label]) == len(self._arena.weights)

    def _open_alone(self) -> None:
        options, whole = self._arena.options, tuple(self._arena.weights)
        last = self._arena.bound.settings.fallback
        if last not in {AUTO, NONE, *options}:  # it is what all are held to, and no more
            reference = self._arena.opened(last, self._arena.placed({last: whole}))
            if reference is not None:
                reference.close()
        names = sorted(options, key=lambda name: name != last)
        for at, name in enumerate(names):
            self._arena.tell("opening", at, len(names), name)
            if len(self._rough) < 2 or not self._is_slow_in_part(name):  # noqa: PLR2004 (one real)
                one = self._arena.opened(name, self._arena.placed({name: whole}))
                if one is not None:
                    self._enter(name, one)
        if not self._alone:
            raise self._nobody()

    def _nobody(self) -> BackendUnavailableError:
        told = "; ".join(f"{name}: {why}" for name, why in self._arena.out.items())
        return BackendUnavailableError(
            "SGK104",
            f"no backend can run {self._arena.bound.name!r}: {told or 'there is none'}",
            backend=", ".join(self._arena.options),
            hint="See who refuses which nodes: subgraphkit plan MODEL.",
        )

    def _enter(self, name: str, one: Candidate) -> None:
        divided = one.partitioning
        homes = {node: divided.home_of(node).backend for node in self._arena.weights}
        takes = frozenset(node for node, home in homes.items() if home == name)
        try:
            if homes and not takes:  # its time would be that of another
                causes = find_causes(
                    divided.graph, name, divided.refusals_by(name).items(), Roots(divided.graph)
                )
                why = causes[0].text if causes else "none is offered to it"
                self._arena.out[name] = f"takes no node: {why}"
            else:
                self._rough[name] = one.quickest(self._arena.feeds)
        except SubgraphkitError as error:
            self._arena.out[name] = error.message
        if name in self._arena.out:
            one.close()
        else:
            self._alone[name], self._takes[name] = one, takes

    def _is_slow_in_part(self, name: str) -> bool:
        """Whether one region tells that a backend is slow by nature, or slow to open."""
        if len(self._regions) < 2:  # noqa: PLR2004 (a part, not the whole)
            return False
        base = min(self._rough, key=self._rough.__getitem__)
        region = sorted(self._regions, key=lambda one: one.weight)[len(self._regions) // 2]
        rest = tuple(node for node in self._arena.weights if node not in set(region.nodes))
        placement = self._arena.placed({name: region.nodes, base: rest})
        one = self._arena.opened(name, placement, clocked=True)
        if one is None:
            return True
        for turn in range(_TURNS_OF_PART):
            self._arena.take_turns([one], turn)
        if one.failed:
            one.close()
            return True
        taken = min(one.node_turns(self._arena.weights), key=lambda turn: sum(turn.values()))
        one.close()
        if one.part_on(name, region.nodes, self._arena.weights) < _MOSTLY:
            return False
        whole = sum(self._arena.weights.values())
        inside = sum(taken[node] for node in region.nodes)
        usual = self._rough[base] * region.weight / whole
        slower = inside / max(usual, self._rough[base] - sum(taken.values()) + inside)
        plan = one.session.plan
        compiling = sum(
            plan.seconds[step.subgraph.id] for step in plan.steps if step.subgraph.backend == name
        )
        opening = compiling * whole / region.weight
        if slower > _SLOW:
            self._arena.out[name] = (
                f"about {slower:.2g} times slower than {base}, going by a part of it"
            )
        elif opening > self._arena.left() / 2:
            self._arena.out[name] = (
                f"compiling it would take about {opening:.2g} s, more than there is"
            )
        return name in self._arena.out

    def _drop_slow(self) -> None:
        """Leave those out that are slow by nature, and not for what others run for them."""
        best = min(self._alone, key=self._rough.__getitem__)
        if not self._has_limit:
            suits = _MOST_SECONDS - self._arena.left() + _RUNS * self._rough[best]
            self._arena.seconds = min(max(_LEAST_SECONDS, suits), _MOST_SECONDS)
        for name, one in list(self._alone.items()):
            if self._rough[name] / self._rough[best] > _SLOW:
                try:
                    slower = one.own_seconds(name, self._arena.feeds) / self._rough[best]
                    why = f"{slower:.2g} times slower than {best}" if slower > _SLOW else ""
                except SubgraphkitError as error:
                    why = error.message
                if why:
                    self._arena.out[name] = why
                del self._alone[name]
                one.close()

    # -- regions -----------------------------------------------------------------------------

    @cached_property
    def _times(self) -> RegionTimes:
        return RegionTimes(self._regions)

    @cached_property
    def _regions(self) -> list[Piece]:
        return cut_regions(self._arena.bound, self._arena.weights, _MOST_REGIONS)

    def _exchange_regions(self) -> None:
        """Run every second region on another backend, then the others, and note what each takes.

        So every region is timed on every backend inside of the running whole, and cut where it
        would be cut, with two sessions per backend.
        """
        if self._single is None or len(self._regions) < 2:  # noqa: PLR2004 (nothing to exchange)
            return
        base = self._base = self._single.label
        others = [one for one in self._rough if one != base and one not in self._arena.out]
        others.sort(key=self._rough.__getitem__)
        for at, name in enumerate(others):
            if self._arena.left() < _FOR_COMPOSING * self._arena.seconds:
                self._notes.append(f"no time was left for regions on {', '.join(others[at:])}")
                break
            self._arena.tell("exchanging regions", at, len(others), name)
            pair = [self._alternating(name, base, start) for start in (0, 1)]
            for turn in range(_TURNS_OF_REGIONS):
                self._arena.take_turns([one for one in pair if one is not None], turn)
            for one in filter(None, pair):
                if not one.failed:
                    self._note_regions(one, (base, name))
                one.close()

    def _alternating(self, name: str, base: str, start: int) -> Candidate | None:
        regions = enumerate(self._regions)
        assignment = tuple(name if at % 2 == start else base for at, _ in regions)
        return self._arena.opened(f"regions on {name}", self._assigned(assignment), clocked=True)

    def _note_regions(self, one: Candidate, names: tuple[str, str]) -> None:
        turns = one.node_turns(self._arena.weights)
        for region in self._regions:
            for name in names:
                if one.part_on(name, region.nodes, self._arena.weights) >= _PARTLY:
                    taken = [sum(turn[node] for node in region.nodes) for turn in turns]
                    self._times.note(region, name, taken)
        self._times.handing[names[1]] = one.between()

    # -- compositions ------------------------------------------------------------------------

    def _compose(self) -> None:
        """Run what the times of regions propose; then add kind by kind what measures better."""
        if self._single is None or not self._times.handing:
            return
        single, base = self._single, self._base
        whole = {
            name: one for name, one in self._alone.items() if one is single or self._is_whole(one)
        }
        for name, one in whole.items():
            self._composed[(name,) * len(self._regions)] = one
        quotient = quotient_graph(self._arena.bound, self._regions)
        alone = {name: one.median for name, one in whole.items()}
        proposed = dict.fromkeys(self._times.proposals(quotient, alone, base))
        new = [one for one in proposed if one not in self._composed][:_MOST_COMPOSED]
        several = [one for one in map(self._composition, new) if one is not None]
        self._best = self._duel([single, *self._near, *several], "comparing compositions")
        for kind, name in self._times.exchanges(base):
            best = next(key for key, one in self._composed.items() if one is self._best)
            pairs = zip(self._regions, best, strict=True)
            tried = tuple(name if region.kind == kind else now for region, now in pairs)
            more = self._composition(tried)
            if more is not None:
                self._best = self._duel([self._best, more], "adding regions")
        if self._best is not single:
            self._best = self._duel([single, self._best], "comparing the best", rest=True)

    def _composition(self, assignment: _Assignment) -> Candidate | None:
        """Open a composition that was not tried; None if it was, or is out."""
        if assignment in self._composed or self._arena.left() < 2 * self._reserve():
            return None
        self._arena.tell("opening", len(self._composed), None, "a composition")
        label = name_choice(assignment)
        one = self._arena.opened(label, self._assigned(assignment))
        if one is not None:
            self._composed[assignment] = one
        return one

    # -- turns -------------------------------------------------------------------------------

    def _duel(self, several: Sequence[Candidate], phase: str, *, rest: bool = False) -> Candidate:
        """Take turns until it is clear; return the best, the first one unless another is better."""
        first, *others = several
        starts = {one: len(one.turns) for one in several}
        ratios: dict[Candidate, Interval] = {}
        kept = 0 if rest else self._reserve()
        for at in range(_MOST_TURNS):
            if not others or (at >= _LEAST_TURNS and self._arena.left() < kept):
                break
            self._arena.tell(phase, at, _MOST_TURNS, f"{len(others)} beside {first.label}")
            self._arena.take_turns([first, *others], at)
            if at + 1 >= _LEAST_TURNS:
                usual = first.turns[starts[first] :]
                ratios |= {one: ratio(one.turns[starts[one] :], usual) for one in others}
                others = [one for one in others if ratios[one].median < 1]  # no promise in the rest
        if first is self._single:
            self._against |= {one.label: found for one, found in ratios.items()}
        most = _WORTH if first is self._single else 1.0
        medians = {one: ratios[one].median for one in others if one in ratios}
        better = [one for one in medians if ratios[one].high < 1 and medians[one] < most]
        winner = min(better, key=medians.__getitem__, default=first)
        for one in several:
            if one not in (winner, self._single):
                one.close()
        return winner

    def _reserve(self) -> float:
        run = self._single.median if self._single is not None else 0.0
        return 2 * _LEAST_TURNS * (0.1 + 2 * run)

    def _assigned(self, assignment: _Assignment) -> Placement:
        base, last = self._base, self._arena.bound.settings.fallback
        # who runs everything is asked last, for what the others refuse
        names = sorted({*assignment, base}, key=lambda name: (name == last, name == base, name))
        nodes: dict[str, list[int]] = {name: [] for name in names}
        for region, name in zip(self._regions, assignment, strict=True):
            for node in region.nodes:
                nodes[name if node in self._takes[name] else base].append(node)
        return self._arena.placed(nodes)

    # -- figures -----------------------------------------------------------------------------

    def _winner(self) -> Placement:
        best, single = self._best, self._single
        if best is None or single is None:
            raise InternalError("no backend has taken a turn")
        if best.failed:
            raise self._nobody()
        several = (*self._alone.values(), *self._composed.values())
        ran = [one for one in several if one.turns and not one.failed]
        rows = {one.label: self._row(one) for one in sorted(ran, key=_MEDIAN)}
        figures = {
            "complete": self._complete,
            "spent": round(time.monotonic() - self._arena.began, 3),
            "single": single.label,
            "best": best.label,
            "ratio": list(self._against.get(best.label, (1.0, 1.0, 1.0))),
            "contenders": list(rows.values()),
            "out": self._arena.out,
            "regions": list(self._times.rows(best.partitioning)),
            "handing": self._times.handing,
            "notes": [*self._arena.notes, *self._notes],
        }
        return replace(best.placement, figures=figures)

    def _row(self, one: Candidate) -> dict[str, Any]:
        against = self._against.get(one.label)
        return {
            "label": one.label,
            "seconds": list(interval(one.turns)),
            "ratio": list(against) if against is not None else None,
            "subgraphs": len(one.partitioning.subgraphs),
        }
