"""Regions of a model: cut, timed on backends, put together anew, or computed in shorter floats."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise, product
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.binding import BoundModel
from subgraphkit.comparing.benchmark import Interval, interval
from subgraphkit.ir import make_subgraph
from subgraphkit.ir.costs import elements
from subgraphkit.ir.structure import NoKeyError, structure_digest
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning import Partitioning
from subgraphkit.partitioning.plan_files import Placement, first_output
from subgraphkit.placing.measuring import WORTH, Candidate, TuningRun
from subgraphkit.precision.search import fewest

_MOST_VALUES: Final = 4
_LEAST_REGIONS: Final = 4
# How many nodes before and after a cut no place may be narrower.
_WINDOW: Final = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes that follow each other, with few values entering and leaving.

    ``kind``: The same for regions that are equal node by node, with any names and weights.
    """

    nodes: tuple[int, ...]
    weight: float
    kind: str


def cut_regions(bound: BoundModel, weights: Mapping[int, float], most: int) -> list[Piece]:
    """Cut a network where few values are alive and no place nearby is narrower.

    Values are allowed one more at a time, until there are some cuts to choose from. Inputs of the
    model and constants cost nothing to hand over and do not count.
    """
    order = list(weights)
    if not order:
        return []
    alive = _alive(bound, order)
    cuts: list[int] = []
    for values in range(1, _MOST_VALUES + 1):
        narrow = [at for at in range(len(order) - 1) if _is_narrow(alive, at, values)]
        cuts = _spread_out(narrow, [weights[node] for node in order], most)
        if len(cuts) + 1 >= _LEAST_REGIONS:
            break
    ends = [*cuts, len(order) - 1]
    pieces = [order[a + 1 : b + 1] for a, b in zip([-1, *cuts], ends, strict=True)]
    return [
        Piece(tuple(one), sum(map(weights.__getitem__, one)), _kind(bound, one, at))
        for at, one in enumerate(pieces)
    ]


def _alive(bound: BoundModel, order: Sequence[int]) -> list[tuple[int, int]]:
    """Return, behind each node, how many values are read later on, and how many elements."""
    last = {name: at for at, node in enumerate(order) for name in bound.read_by(node)}
    found, count, room = [], 0, 0
    gone: Counter[int] = Counter()
    gone_elements: Counter[int] = Counter()
    for at, node in enumerate(order):
        for name in bound.table.outputs[node]:
            if name and last.get(name, at) > at and name not in bound.constants:
                size = elements(bound.shape(name))
                count, room = count + 1, room + size
                gone[last[name]] += 1
                gone_elements[last[name]] += size
        count, room = count - gone[at], room - gone_elements[at]
        found.append((count, room))
    return found


def _is_narrow(alive: Sequence[tuple[int, int]], at: int, values: int) -> bool:
    around = alive[max(0, at - _WINDOW) : min(at + _WINDOW + 1, len(alive) - 1)]
    return alive[at][0] <= values and alive[at][1] <= min(room for _, room in around)


def _spread_out(narrow: Sequence[int], weights: Sequence[float], most: int) -> list[int]:
    """Choose cuts, so that every region but the last has its part of the weight."""
    enough, cuts, allowed, weight = sum(weights) / most, [], frozenset(narrow), 0.0
    for at, one in enumerate(weights):
        weight += one
        if at in allowed and weight >= enough:
            cuts.append(at)
            weight = 0.0
    return cuts


def _kind(bound: BoundModel, nodes: Sequence[int], at: int) -> str:
    try:
        return structure_digest(make_subgraph(bound, nodes, "region"))
    except NoKeyError:
        return f"region {at}"


_MOST_SWITCHES: Final = 2


def few_switches(
    seconds: Sequence[Mapping[str, float]],
    passing: Mapping[str, float],
    together: Mapping[str, float] = MappingProxyType({}),
) -> list[tuple[str, ...]]:
    """Return backends for the regions, with few switches, the quickest by prediction first.

    Regions follow each other, so a switch is where the next one has another backend. Only few long
    regions can pay: each cut prevents fusion.

    ``seconds``: For each region its seconds by backend, without those that do not take it.
    ``passing``: By backend, the seconds it costs to hand over to or from it.
    ``together``: By backend, the seconds it gains where two of its regions are not cut apart.
    """
    count, names = len(seconds), sorted({name for row in seconds for name in row})
    spans = {
        (name, a, b): sum(row.get(name, math.inf) for row in seconds[a:b])
        - together.get(name, 0.0) * (b - a - 1)
        for name in names
        for a, b in combinations(range(count + 1), 2)
    }
    found: list[tuple[float, tuple[str, ...]]] = []
    for switches in range(min(_MOST_SWITCHES, count - 1) + 1):
        every = product(names, repeat=switches + 1)
        orders = [one for one in every if all(a != b for a, b in pairwise(one))]
        for cuts in combinations(range(1, count), switches):
            ends = [*pairwise((0, *cuts, count))]
            for order in orders:
                own = [(one, a, b) for one, (a, b) in zip(order, ends, strict=True)]
                taken = sum(map(spans.__getitem__, own))
                taken += sum(max(map(passing.__getitem__, two)) for two in pairwise(order))
                if taken < math.inf:
                    found.append((taken, tuple(one for one, a, b in own for _ in range(a, b))))
    return [assignment for _, assignment in sorted(found)]


def name_choice(choice: Sequence[str]) -> str:
    """Return the backends of the regions, such as ``onednn 1-3, numpy 4``."""
    runs = []
    for name, run in groupby(enumerate(choice, start=1), key=itemgetter(1)):
        (first, _), *rest = run
        runs.append(f"{name} {first}-{rest[-1][0]}" if rest else f"{name} {first}")
    return ", ".join(runs)


_MOST_REGIONS: Final = 16
_MOST_COMPOSED: Final = 3
_MOST_PROPOSED: Final = 2
_TURNS: Final = 4
_PARTLY: Final = 0.5

_Assignment = tuple[str, ...]  # the backend of every region


class Compositions:
    """A model in regions, each of which may go to another backend.

    Regions of one kind are measured and decided together.

    ``takes``: By backend, the nodes it takes where it is offered all.

    Attributes:
        base: The best backend alone, which runs the regions that no other has.
        composed: By assignment, the candidates that were opened.
        handing: By backend, the seconds it takes to hand over between it and the best single one.

    Thread-safety: used by one thread.
    """

    def __init__(self, run: TuningRun, takes: Mapping[str, frozenset[int]]) -> None:
        self._run, self._takes, self.base = run, takes, ""
        self.composed: dict[_Assignment, Candidate] = {}
        self.handing: dict[str, float] = {}
        self._samples: dict[str, dict[str, list[float]]] = {}

    @cached_property
    def regions(self) -> list[Piece]:
        """The regions, in order of running."""
        return cut_regions(self._run.bound, self._run.weights, _MOST_REGIONS)

    def exchange(self, name: str) -> None:
        """Run every second region on another backend, then the others, and note their times.

        So every region is timed on every backend inside of the running whole, with its real cuts.
        That takes two sessions per backend.
        """
        pair = []
        for start in (0, 1):
            places = range(len(self.regions))
            assignment = tuple(name if at % 2 == start else self.base for at in places)
            placement = self._place_regions(assignment)
            one = self._run.open(f"regions on {name}", placement, clocked=True)
            pair += [one] if one is not None else []
        for turn in range(_TURNS):
            self._run.take_turns(pair, turn)
        for one in pair:
            if not one.failed:
                self._note(one, name)
            one.close()

    def _note(self, one: Candidate, name: str) -> None:
        turns = one.node_turns(self._run.weights)
        for region in self.regions:
            for backend in (self.base, name):
                if one.part_on(backend, region.nodes, self._run.weights) >= _PARTLY:
                    taken = [sum(turn[node] for node in region.nodes) for turn in turns]
                    known = self._samples.setdefault(region.kind, {})
                    known.setdefault(backend, []).extend(taken)
        self.handing[name] = one.between()

    def compose(
        self, alone: Mapping[str, float], has_time: Callable[[], bool]
    ) -> Iterator[Candidate]:
        """Open the compositions that the times of regions propose, and yield those that run.

        ``alone``: The seconds of each backend that runs the whole model.
        """
        proposed = dict.fromkeys(self.proposals(alone))
        new = [one for one in proposed if one not in self.composed][:_MOST_COMPOSED]
        for assignment in new:
            if not has_time():
                break
            self._run.tell("opening", len(self.composed), None, "a composition")
            one = self._run.open(name_choice(assignment), self._place_regions(assignment))
            if one is not None:
                self.composed[assignment] = one
                yield one

    def proposals(self, alone: Mapping[str, float]) -> Iterator[_Assignment]:
        """Yield choices by the times of regions: as measured, by sure gains alone, by backend."""
        medians = self._costs(lambda one, _: one.median)
        sure = self._costs(lambda one, name: one.low if name == self.base else one.high)
        together = _together(medians, alone, len(self.regions) - 1)
        passing = {self.base: 0.0, **self.handing}
        yield from few_switches(medians, passing, together)[:_MOST_PROPOSED]
        yield from few_switches(sure, passing, together)[:1]
        for name in self.handing:
            if name not in alone:  # as much as it takes, the best alone behind it
                yield (name,) * len(self.regions)

    def _costs(self, pick: Callable[[Interval, str], float]) -> list[dict[str, float]]:
        known = [self._samples.get(region.kind, {}).items() for region in self.regions]
        return [{name: pick(interval(taken), name) for name, taken in one} for one in known]

    def rows(self, chosen: Partitioning) -> Iterator[dict[str, Any]]:
        """Yield a row for every kind that was measured, with the backends that have it now."""
        for kind, found in self._samples.items():
            equal = [(at, one) for at, one in enumerate(self.regions, start=1) if one.kind == kind]
            nodes = equal[0][1].nodes
            homes = {chosen.home_of(node).backend for _, one in equal for node in one.nodes}
            yield {
                "from": first_output(chosen.graph, nodes[0]),
                "to": first_output(chosen.graph, nodes[-1]),
                "nodes": len(nodes),
                "places": [at for at, _ in equal],
                "seconds": {name: list(interval(taken)) for name, taken in found.items()},
                "chosen": sorted(homes),
            }

    def _place_regions(self, assignment: _Assignment) -> Placement:
        base, last = self.base, self._run.bound.settings.fallback
        # the one that runs everything is asked last, for refused nodes
        names = sorted({*assignment, base}, key=lambda name: (name == last, name == base, name))
        nodes: dict[str, list[int]] = {name: [] for name in names}
        for region, name in zip(self.regions, assignment, strict=True):
            for node in region.nodes:
                nodes[name if node in self._takes[name] else base].append(node)
        return self._run.place(nodes)


def _together(
    seconds: Sequence[Mapping[str, float]], alone: Mapping[str, float], cuts: int
) -> dict[str, float]:
    """Return by backend its gain if two of its regions are not cut apart."""
    gains = {}
    for name, whole in alone.items():
        if cuts and all(name in row for row in seconds):
            gains[name] = max(0.0, sum(row[name] for row in seconds) - whole) / cuts
    return gains


# One turn excludes nobody; the first comes before the memory is warm.
_TURNS_OF_WHOLE: Final = 3

# Regions of which some may be given back to float32.
_MOST_SHORTENED: Final = 8


class ShorterFloats:
    """A backend that computes in shorter floats, held to the largest error allowed.

    ``exact``: Backends that run the whole model in float32, and may take regions back.

    Attributes:
        spent: By region, the part of the error that it spends; empty if the whole model fits.

    Thread-safety: used by one thread.
    """

    def __init__(
        self, run: TuningRun, name: str, precision: str, exact: Sequence[Candidate]
    ) -> None:
        self._run, self._name, self._precision = run, name, precision
        self._exact = [one for one in exact if one.label != name]
        self._label = f"{name}:precision={precision}"
        self.spent: list[dict[str, Any]] = []

    def search(self, usual: float, reserve: float) -> Candidate | None:
        """Return a candidate whose error fits; None if none does, or it is not faster.

        Regions are given back to float32, those that spend most of the error first.

        ``usual``: Seconds of a run in float32. ``reserve``: Seconds to keep for later steps.
        """
        run = self._run
        run.tell("trying shorter floats", 0, None, self._label)
        placement = run.place({self._name: tuple(run.weights)}, {self._name: self._precision})
        whole = run.open(self._label, placement, max_error=math.inf)
        if whole is None or whole.error <= run.max_error:
            return whole
        text = f"relative error {whole.error:.2g} as a whole, more than {run.max_error:g}"
        run.out[self._label] = text
        for at in range(_TURNS_OF_WHOLE):
            run.take_turns([whole], at)
        whole.close()
        regions = cut_regions(run.bound, run.weights, _MOST_SHORTENED)
        if not self._exact or len(regions) == 1 or whole.median > WORTH * usual:
            return None
        ranked = self._rank(regions, whole.error, reserve)
        found: dict[int, Candidate | None] = {}

        def fits(count: int) -> bool:
            one = found[count] = self._without(regions, ranked[:count])
            return one is not None and one.error <= run.max_error

        best = fewest(len(ranked) - 1, fits)
        for one in (one for count, one in found.items() if count != best and one is not None):
            one.close()
        return None if best is None else found[best]

    def _rank(self, regions: Sequence[Piece], whole: float, reserve: float) -> list[int]:
        """Return the regions by the part of the error that leaves with each, the largest first."""
        gains: dict[int, float] = {}
        for at, region in enumerate(regions):
            found = self._without(regions, [at]) if self._run.time_left() > reserve else None
            if found is not None:
                found.close()
                gains[at] = math.sqrt(max(0.0, whole**2 - found.error**2))
                ends = [first_output(self._run.bound, region.nodes[end]) for end in (0, -1)]
                self.spent.append({"from": ends[0], "to": ends[1], "error": gains[at]})
        return sorted(gains, key=gains.__getitem__, reverse=True)

    def _without(self, regions: Sequence[Piece], back: Collection[int]) -> Candidate | None:
        """Open the model with some regions in float32 on another backend."""
        exact = min(self._exact, key=attrgetter("median")).label
        nodes: dict[str, list[int]] = {self._name: [], exact: []}
        for at, region in enumerate(regions):
            nodes[exact if at in back else self._name].extend(region.nodes)
        places = ",".join(str(at + 1) for at in sorted(back))
        label = f"{self._label}, {exact} {places} of {len(regions)}"
        self._run.tell("giving regions back", len(back), len(regions), label)
        placement = self._run.place(nodes, {self._name: self._precision})
        return self._run.open(label, placement, max_error=math.inf)
