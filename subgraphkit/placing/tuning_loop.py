"""The loop of a tuning: backends alone, shorter floats, regions exchanged, a last comparison.

The gains of single regions do not add up: fusion across the cuts is lost, and noise is chosen for
gain. So the choice from the times of regions is only a proposal. Each composition runs as a whole
against the best single backend, turn by turn, and the best measured is kept. The present choice and
plain ONNX Runtime are in the last comparison. Only a gain of at least 3 % replaces the present
choice. If that was tuned, the gain also has to be sure.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.comparing.benchmark import Interval, interval, ratio
from subgraphkit.configuration.selection import AUTO, NONE
from subgraphkit.errors import InternalError, SubgraphkitError
from subgraphkit.partitioning.plan_files import Placement
from subgraphkit.placing.composing import Compositions, ShorterFloats
from subgraphkit.placing.measuring import WORTH, Candidate, TuningRun

# A backend drops out if it takes so many times the time of the quickest in each of the first turns.
_SLOW: Final = 3.0

_FIRST_TURNS: Final = 3
# The backend that everybody knows and wants to compare with.
_USUAL: Final = "onnxruntime"

_LEAST_SECONDS: Final = 17.0
_MOST_SECONDS: Final = 90.0
# Seconds that any first run may take, even if all of them together may take less.
_LEAST_TIMEOUT: Final = 10.0
# About how many runs a tuning takes, if you give no time.
_RUNS: Final = 300

_TURNS_ALONE: Final = 10
# With fewer, no interval holds the median with confidence.
_LEAST_TURNS: Final = 6

_MOST_TURNS: Final = 15
_FOR_REGIONS, _FOR_COMPOSING = 0.7, 0.25
"""Parts of the time to keep for later steps, if backends or regions take long."""

_MEDIAN: Final = attrgetter("median")


class TuningLoop:
    """Measures a model on backends, alone and composed.

    ``seconds``: About how long it may take; None for a time that suits the model, 17 to 90.
    ``present``: The placement that ``auto`` has now, if there is one.
    ``precisions``: By backend, the shorter floats that it computes in on this machine.

    Thread-safety: used by one thread.
    """

    def __init__(
        self,
        run: TuningRun,
        seconds: float | None,
        present: Placement | None = None,
        precisions: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._run, self._has_limit = run, seconds is not None
        run.seconds = _MOST_SECONDS if seconds is None else seconds
        run.timeout_s = _MOST_SECONDS if seconds is None else max(seconds, _LEAST_TIMEOUT)
        self._placed_now, self._precisions = present, precisions
        self._alone: dict[str, Candidate] = {}
        self._short: list[Candidate] = []
        self._lasting: dict[str, Candidate] = {}
        self._against: dict[str, Interval] = {}
        self._versus: dict[str, Interval] = {}
        self._notes: list[str] = []
        self._spent: list[dict[str, Any]] = []
        self._rough: dict[str, float] = {}
        self._near: list[Candidate] = []
        self._takes: dict[str, frozenset[int]] = {}
        self._compositions = Compositions(run, self._takes)
        self._present: Candidate | None = None
        self._tuned: Candidate | None = None  # the present choice, unless it is predicted
        self._single: Candidate | None = None
        self._best: Candidate | None = None
        self._complete = True

    def run(self) -> Placement:
        """Measure, and return the placement that won; BackendUnavailableError (SGK104) if none."""
        with self._run:
            try:
                self._open_alone()
                self._open_present()
                self._drop_slow()
                self._measure_alone()
                self._shorten()
                if self._best is self._single:
                    self._exchange_regions()
                    self._compose()
                self._compare_at_last()
            except KeyboardInterrupt:
                if self._best is None or self._single is None:
                    raise
                if self._best.label not in self._against:
                    self._best = self._single
                self._complete = False
                self._notes.append("stopped: this is the best so far")
        return self._winner()

    def _measure_alone(self) -> None:
        """Find the best backend alone and those near it, and keep a part of the time."""
        near = list(self._alone.values())
        for at in range(_TURNS_ALONE):
            are_known = len(near[0].turns) >= _LEAST_TURNS
            if are_known and self._run.time_left() < _FOR_REGIONS * self._run.seconds:
                break
            self._run.tell("measuring backends", at, _TURNS_ALONE)
            self._run.take_turns(near, at)
            self._best = self._single = self._prefer(near)
            if are_known:
                near = [one for one in near if interval(one.turns).low <= self._single.median]
        self._near = [one for one in near if one is not self._single and self._is_whole(one)]
        self._close(one for one in self._alone.values() if one not in self._near)

    def _prefer(self, several: Sequence[Candidate]) -> Candidate:
        """Return the quickest, or the first that is not slower by 3 %.

        The present choice comes first, then ONNX Runtime. Where it was tuned, another has to be
        surely faster, so that a second tuning chooses the same.
        """
        best = min(several, key=_MEDIAN)
        ahead = (self._present, self._lasting.get(_USUAL))
        for one in sorted(several, key=lambda one: (one is not ahead[0], one is not ahead[1])):
            if one.failed:
                continue
            found = ratio(best.turns, one.turns)
            is_known = one is self._tuned and len(one.turns) >= _LEAST_TURNS
            if found.median >= WORTH or (is_known and found.high >= 1):
                return one
        return best

    def _close(self, several: Iterable[Candidate]) -> None:
        for one in several:
            if one is not self._single and one not in self._lasting.values():
                one.close()

    def _is_whole(self, one: Candidate) -> bool:
        return self._takes[one.label].issuperset(self._run.weights)

    def _open_alone(self) -> None:
        """Open every backend for the whole model, and leave out whose results most contradict."""
        options, whole = self._run.options, tuple(self._run.weights)
        last = self._run.bound.settings.fallback
        names = sorted(options, key=lambda name: name != last)
        opened: list[Candidate] = []
        if last not in {AUTO, NONE, *options}:  # it has a voice on right results, and no more
            reference = self._run.open(last, self._run.place({last: whole}))
            opened += [reference] if reference is not None else []
        for at, name in enumerate(names):
            self._run.tell("opening", at, len(names), name)
            one = self._run.open(name, self._run.place({name: whole}))
            if one is not None and self._enter(name, one):
                opened.append(one)
        kept = self._run.hear_majority(opened, last) if opened else []
        self._alone = {one.label: one for one in kept if one.label in options}
        self._close(one for one in kept if one.label not in options)
        if not self._alone:
            raise self._run.nobody()
        if _USUAL in self._alone:
            self._lasting[_USUAL] = self._alone[_USUAL]

    def _open_present(self) -> None:
        """Open the present choice, if that is no backend alone that is open."""
        if (now := self._placed_now) is None:
            return
        names = [name for name, nodes in now.nodes.items() if nodes]
        shorter = any("precision" in options for options in now.backends.values())
        alone = self._alone.get(names[0]) if len(names) == 1 and not shorter else None
        if alone is None:
            shares = [f"{name} {len(now.nodes[name])}" for name in names]
            label = f"{', '.join(shares) if len(names) > 1 else names[0]} (now)"
            self._run.tell("opening", 0, None, "the present choice")
            bound = self._run.max_error if shorter else 0.0
            alone = self._run.open(label, now, max_error=bound)
        self._present, self._tuned = alone, alone if now.figures else None
        if alone is not None:
            self._lasting["now"] = alone

    def _enter(self, name: str, one: Candidate) -> bool:
        """Note which nodes a backend takes; it is out if that is none."""
        takes = one.nodes_of(name)
        if self._run.weights and not takes:  # its time would be that of another
            self._run.out[name] = f"takes no node: {one.first_cause(name)}"
            one.close()
            return False
        self._takes[name] = takes
        return True

    def _drop_slow(self) -> None:
        """Let all take three turns; leave those out that are slow in each, with a word."""
        several = list(self._alone.values())
        for at in range(_FIRST_TURNS):
            self._run.tell("trying backends", at, _FIRST_TURNS)
            self._run.take_turns(several, at)
        if all(one.failed for one in several):
            raise self._run.nobody()
        best = min(several, key=_MEDIAN)
        if not self._has_limit:
            suits = _MOST_SECONDS - self._run.time_left() + _RUNS * best.median
            self._run.seconds = min(max(_LEAST_SECONDS, suits), _MOST_SECONDS)
        for name, one in list(self._alone.items()):
            self._rough[name] = one.median
            slower = min(a / b for a, b in zip(one.turns, best.turns, strict=True))
            if one.failed or slower > _SLOW:
                self._drop(name, one, best.label, slower)

    def _drop(self, name: str, one: Candidate, best: str, slower: float) -> None:
        """Leave one out that failed or is slow in its own work, not in others' work for it."""
        del self._alone[name]
        if not one.failed:
            text = f"{slower:.2g} times slower than {best} in {_FIRST_TURNS} turns of three"
            try:
                own = slower * one.own_part(name, self._run.feeds)
            except SubgraphkitError as error:
                own, text = math.inf, error.message
            if own > _SLOW:
                self._run.out[name] = text
            else:
                self._notes.append(f"{name}: {text}, for what others run for it")
        self._close([one])

    def _shorten(self) -> None:
        """Try shorter floats: for the whole model, then without the regions that err most."""
        single, most = self._single, self._run.max_error
        if single is None or not most:
            return
        exact = [one for one in self._alone.values() if self._is_whole(one) and not one.failed]
        for name, precisions in self._precisions.items():
            if name in self._takes and name not in self._run.out:
                for precision in precisions:
                    tried = ShorterFloats(self._run, name, precision, exact)
                    found = tried.search(single.median, self._reserve())
                    self._spent += tried.spent
                    self._short += [found] if found is not None else []
        if self._short:
            self._best = self._duel([single, *self._short], "comparing precisions")

    def _compose(self) -> None:
        """Run the compositions that the times of regions propose beside the best backend alone."""
        single, work = self._single, self._compositions
        if single is None or not work.handing:
            return
        alone = self._alone.items()
        whole = {name: one for name, one in alone if one is single or self._is_whole(one)}
        work.composed |= {(name,) * len(work.regions): one for name, one in whole.items()}
        medians = {name: one.median for name, one in whole.items()}
        several = list(work.compose(medians, lambda: self._run.time_left() > 2 * self._reserve()))
        self._best = self._duel([single, *self._near, *several], "comparing compositions")

    def _exchange_regions(self) -> None:
        """Let each backend run every second region, the nearest to the best alone first."""
        work, single = self._compositions, self._single
        if single is None or len(work.regions) < 2:  # noqa: PLR2004 (nothing to exchange)
            return
        work.base = single.label
        others = [one for one in self._rough if one != work.base and one not in self._run.out]
        others.sort(key=self._rough.__getitem__)
        for at, name in enumerate(others):
            if self._run.time_left() < _FOR_COMPOSING * self._run.seconds:
                self._notes.append(f"no time was left to try parts on {', '.join(others[at:])}")
                break
            self._run.tell("exchanging regions", at, len(others), name)
            work.exchange(name)

    def _duel(self, several: Sequence[Candidate], phase: str) -> Candidate:
        """Take turns until it is clear; return the best, the first one unless another is better."""
        first, *others = several
        starts = {one: len(one.turns) for one in several}
        ratios: dict[Candidate, Interval] = {}
        for at in range(_MOST_TURNS):
            if not others or (at >= _LEAST_TURNS and self._run.time_left() < self._reserve()):
                break
            self._run.tell(phase, at, _MOST_TURNS, f"{len(others)} beside {first.label}")
            self._run.take_turns([first, *others], at)
            if at + 1 >= _LEAST_TURNS:
                usual = first.turns[starts[first] :]
                ratios |= {one: ratio(one.turns[starts[one] :], usual) for one in others}
                others = [one for one in others if ratios[one].median < 1]  # no promise in the rest
        self._against |= {one.label: found for one, found in ratios.items()}
        medians = {one: ratios[one].median for one in others if one in ratios}
        better = [one for one in medians if ratios[one].high < 1 and medians[one] < WORTH]
        winner = min(better, key=medians.__getitem__, default=first)
        self._close(one for one in several if one is not winner)
        return winner

    def _compare_at_last(self) -> None:
        """Compare the best with the present choice, ONNX Runtime and the best alone."""
        best, single = self._best, self._single
        if best is None or single is None:
            return
        several = list(dict.fromkeys((best, single, *self._lasting.values())))
        starts = {one: len(one.turns) for one in several}
        if len(several) < 2:  # noqa: PLR2004 (nobody to compare with)
            return
        for at in range(_MOST_TURNS):
            if at >= _LEAST_TURNS and self._run.time_left() < 0:
                break
            self._run.tell("comparing the best", at, _MOST_TURNS, best.label)
            self._run.take_turns(several, at)
        last = {one: one.turns[starts[one] :] for one in several}
        for rival in filter(None, (single if best is not single else None, self._rival())):
            found = ratio(last[best], last[rival])
            is_unsure = found.high >= 1 and rival in {single, self._tuned}
            is_near = is_unsure or found.median > WORTH
            if rival is not best and is_near and not rival.failed:
                best = rival
        usual = self._lasting.get(_USUAL)
        if usual is not None and not usual.failed:
            found = ratio(last[usual], last[best])
            best = usual if found.high < 1 and found.median < WORTH else best
        self._best = best
        self._versus = {one.label: ratio(last[one], last[best]) for one in several if last[one]}
        against = self._present if self._present is not None else single
        self._against |= {one.label: ratio(last[one], last[against]) for one in several}

    def _rival(self) -> Candidate | None:
        """Return the present choice, if it is of the backends that take part."""
        now = self._placed_now
        return self._present if now and now.backends.keys() <= self._run.options.keys() else None

    def _reserve(self) -> float:
        run = self._single.median if self._single is not None else 0.0
        return 2 * _LEAST_TURNS * (0.1 + 2 * run)

    def _winner(self) -> Placement:
        best, single = self._best, self._single
        if best is None or single is None:
            raise InternalError("no backend has taken a turn")
        if best.failed:
            raise self._run.nobody()
        several = [*self._lasting.values(), *self._alone.values(), *self._short]
        several += self._compositions.composed.values()
        ran = [one for one in several if one.turns and not one.failed]
        rows = {one.label: self._row(one) for one in sorted(ran, key=_MEDIAN)}
        figures = {
            "complete": self._complete,
            "spent": round(time.monotonic() - self._run.began, 3),
            "single": single.label,
            "best": best.label,
            "present": self._present.label if self._present is not None else None,
            "times": {label: list(found) for label, found in self._versus.items()},
            "ratio": list(self._to_single(best, single)),
            "error": best.error,
            "max_error": self._run.max_error,
            "busy": round(self._run.busy_part(), 3),
            "candidates": list(rows.values()),
            "out": self._run.out,
            "regions": list(self._compositions.rows(best.partitioning)),
            "errors": self._spent,
            "handing": self._compositions.handing,
            "notes": [*self._run.notes, *self._notes],
        }
        return replace(best.placement, figures=figures)

    def _to_single(self, best: Candidate, single: Candidate) -> Interval:
        found = self._versus.get(single.label)
        if best is single or found is None:
            return Interval(1.0, 1.0, 1.0) if best is single else self._against[best.label]
        return Interval(1 / found.median, 1 / found.high, 1 / found.low)

    def _row(self, one: Candidate) -> dict[str, Any]:
        against, first = self._against.get(one.label), self._present or self._single
        if against is None and first is not None and first.label in self._rough:
            against = ratio(one.turns, first.turns)  # both took these turns side by side
        return {
            "label": one.label,
            "seconds": list(interval(one.turns)),
            "ratio": against and list(against),
            "error": one.error,
            "subgraphs": len(one.partitioning.subgraphs),
        }
