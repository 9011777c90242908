"""Compositions: regions timed on backends inside of the running whole, and put together anew."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.plan_files import Placement
from subgraphkit.placing.choosing import Piece, RegionTimes, cut_regions, name_choice
from subgraphkit.placing.measuring import Candidate, TuningRun

_MOST_REGIONS: Final = 16
_MOST_COMPOSED: Final = 3
_TURNS: Final = 4
_MOSTLY: Final = 0.9
_PARTLY: Final = 0.5

_Assignment = tuple[str, ...]  # the backend of every region


class Compositions:
    """A model in regions, each of which may go to another backend.

    ``takes``: By backend, the nodes it takes where it is offered all.

    Attributes:
        base: The best backend alone, which runs what is given to nobody else.
        composed: By assignment, the candidates that were opened.

    Thread-safety: used by one thread.
    """

    def __init__(self, run: TuningRun, takes: Mapping[str, frozenset[int]]) -> None:
        self._run, self._takes, self.base = run, takes, ""
        self.composed: dict[_Assignment, Candidate] = {}

    @cached_property
    def times(self) -> RegionTimes:
        """What regions took."""
        return RegionTimes(self.regions)

    @cached_property
    def regions(self) -> list[Piece]:
        """The regions, in order of running."""
        return cut_regions(self._run.bound, self._run.weights, _MOST_REGIONS)

    def opening(self, name: str, base: str) -> float:
        """Return about how long a backend compiles the whole model, from one region of it.

        0 where a region tells nothing of the whole. What fails is out.
        """
        run, weights = self._run, self._run.weights
        if len(self.regions) < 2:  # noqa: PLR2004 (a part, not the whole)
            return 0.0
        region = sorted(self.regions, key=lambda one: one.weight)[len(self.regions) // 2]
        rest = tuple(node for node in weights if node not in set(region.nodes))
        one = run.opened(name, run.placed({name: region.nodes, base: rest}))
        if one is None:
            return 0.0
        one.close()
        if one.part_on(name, region.nodes, weights) < _MOSTLY:
            return 0.0
        plan = one.session.plan
        own = [step.subgraph.id for step in plan.steps if step.subgraph.backend == name]
        return sum(plan.seconds[one] for one in own) * sum(weights.values()) / region.weight

    def exchange(self, name: str) -> None:
        """Run every second region on another backend, then the others, and note what each takes.

        So every region is timed on every backend inside of the running whole, and cut where it
        would be cut, with two sessions per backend.
        """
        pair = [self._alternating(name, start) for start in (0, 1)]
        for turn in range(_TURNS):
            self._run.take_turns([one for one in pair if one is not None], turn)
        for one in filter(None, pair):
            if not one.failed:
                self._note(one, name)
            one.close()

    def _alternating(self, name: str, start: int) -> Candidate | None:
        regions = enumerate(self.regions)
        assignment = tuple(name if at % 2 == start else self.base for at, _ in regions)
        return self._run.opened(f"regions on {name}", self._placed(assignment), clocked=True)

    def _note(self, one: Candidate, name: str) -> None:
        turns = one.node_turns(self._run.weights)
        for region in self.regions:
            for backend in (self.base, name):
                if one.part_on(backend, region.nodes, self._run.weights) >= _PARTLY:
                    taken = [sum(turn[node] for node in region.nodes) for turn in turns]
                    self.times.note(region, backend, taken)
        self.times.handing[name] = one.between()

    def proposals(
        self, alone: Mapping[str, float], has_time: Callable[[], bool]
    ) -> Iterator[Candidate]:
        """Open what the times of regions propose, and yield what runs.

        ``alone``: The seconds of each backend that runs the whole model.
        """
        proposed = dict.fromkeys(self.times.proposals(alone, self.base))
        new = [one for one in proposed if one not in self.composed][:_MOST_COMPOSED]
        for assignment in new:
            one = self._opened(assignment) if has_time() else None
            if one is not None:
                yield one

    def _opened(self, assignment: _Assignment) -> Candidate | None:
        self._run.tell("opening", len(self.composed), None, "a composition")
        one = self._run.opened(name_choice(assignment), self._placed(assignment))
        if one is not None:
            self.composed[assignment] = one
        return one

    def _placed(self, assignment: _Assignment) -> Placement:
        base, last = self.base, self._run.bound.settings.fallback
        # who runs everything is asked last, for what the others refuse
        names = sorted({*assignment, base}, key=lambda name: (name == last, name == base, name))
        nodes: dict[str, list[int]] = {name: [] for name in names}
        for region, name in zip(self.regions, assignment, strict=True):
            for node in region.nodes:
                nodes[name if node in self._takes[name] else base].append(node)
        return self._run.placed(nodes)
