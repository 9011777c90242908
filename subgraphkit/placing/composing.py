"""Compositions: regions timed on backends inside of the running whole, and put together anew."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from subgraphkit.comparing.intervals import Interval, interval
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning import Partitioning
from subgraphkit.partitioning.plan_files import Placement, first_output
from subgraphkit.placing.choosing import Piece, cut_regions, few_switches, name_choice
from subgraphkit.placing.measuring import Candidate, TuningRun

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
        base: The best backend alone, which runs what is given to nobody else.
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
        """Run every second region on another backend, then the others, and note what each takes.

        So every region is timed on every backend inside of the running whole, and cut where it
        would be cut, with two sessions per backend.
        """
        opened = []
        for start in (0, 1):
            places = range(len(self.regions))
            assignment = tuple(name if at % 2 == start else self.base for at in places)
            label = f"regions on {name}"
            opened.append(self._run.opened(label, self._placed(assignment), clocked=True))
        pair = [one for one in opened if one is not None]
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
        """Open what the times of regions propose, and yield what runs.

        ``alone``: The seconds of each backend that runs the whole model.
        """
        proposed = dict.fromkeys(self.proposals(alone))
        new = [one for one in proposed if one not in self.composed][:_MOST_COMPOSED]
        for assignment in new:
            if not has_time():
                break
            self._run.tell("opening", len(self.composed), None, "a composition")
            one = self._run.opened(name_choice(assignment), self._placed(assignment))
            if one is not None:
                self.composed[assignment] = one
                yield one

    def proposals(self, alone: Mapping[str, float]) -> Iterator[_Assignment]:
        """Yield choices by what regions took: as measured, by only what is sure, by backend."""
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
        return [
            {
                name: pick(interval(taken), name)
                for name, taken in self._samples.get(region.kind, {}).items()
            }
            for region in self.regions
        ]

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

    def _placed(self, assignment: _Assignment) -> Placement:
        base, last = self.base, self._run.bound.settings.fallback
        # who runs everything is asked last, for what the others refuse
        names = sorted({*assignment, base}, key=lambda name: (name == last, name == base, name))
        nodes: dict[str, list[int]] = {name: [] for name in names}
        for region, name in zip(self.regions, assignment, strict=True):
            for node in region.nodes:
                nodes[name if node in self._takes[name] else base].append(node)
        return self._run.placed(nodes)


def _together(
    seconds: Sequence[Mapping[str, float]], alone: Mapping[str, float], cuts: int
) -> dict[str, float]:
    """Return by backend what it gains where two of its regions are not cut apart."""
    gains = {}
    for name, whole in alone.items():
        if cuts and all(name in row for row in seconds):
            gains[name] = max(0.0, sum(row[name] for row in seconds) - whole) / cuts
    return gains
