"""Grow regions by asking a selector node by node, and keep them from waiting on each other.

The order of the questions is MXNet's: seeds in topological order, breadth first from each,
producers before consumers. What differs is what happens then. A candidate is checked against
everything claimed before, in a topological order of the quotient that is kept up to date; what is
not convex is split, or grown once more without the units in the way, all of them at once; and what
``filter`` returns is checked again. Where regions need not hang together and may be cut, all that
was taken is divided anew into the fewest.

Source:
    MXNet subgraph API, ``SelectSubgraphNodes`` and ``LabelSubgraph``; for the running order see
    ``subgraphkit.partitioning.algorithms.merger``.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.arrays import Nets
from subgraphkit.partitioning.algorithms.convexity import ClaimedOrder
from subgraphkit.partitioning.algorithms.levels import level_regions
from subgraphkit.partitioning.algorithms.quotient import run_order

Reason = Literal["not_convex", "filtered", "declined"]

# How often a region that must stay whole is grown again before the seed is tried alone.
_REPLAYS = 8
# Questions and edges per unit and edge of the graph, and a floor for small graphs, after which no
# unit is grown over again and again.
_LOOKS_PER_EDGE = 50
_LOOKS_AT_LEAST = 1_000_000


class GrowthDriver(Protocol):
    """Puts the questions to a selector; the growth knows units only."""

    @property
    def splittable(self) -> bool:
        """Whether a candidate may become several regions. Read after ``start``."""

    def start(self, unit: int) -> bool:
        """Make a new selector and ask whether a region may start at the unit."""

    def restart(self, unit: int) -> bool:
        """Make the selector forget what it saw and ask about the same seed again."""

    def offer_input(self, unit: int, producer: int) -> bool:
        """Offer a producer of a unit that was taken."""

    def offer_output(self, unit: int, consumer: int) -> bool:
        """Offer a consumer of a unit that was taken."""

    def filter(self, units: list[int]) -> list[int]:
        """Return those of the units, given ascending, that the selector keeps."""


class Exclusion(NamedTuple):
    """Why an eligible unit is in no region.

    Attributes:
        reason: ``"declined"``: no selector took it; ``"filtered"``: a filter dropped it;
            ``"not_convex"``: a region with it would have waited on what lies outside.
        path: For ``"not_convex"`` a way that leaves the candidate and comes back, from unit to
            unit; two neighbours on it are joined by an edge or lie in one region claimed before.
            Empty otherwise, or if the candidate merely did not hang together.
    """

    unit: int
    reason: Reason
    path: list[int]


class GrowthResult(NamedTuple):
    """Regions grown by a selector.

    Attributes:
        regions: The regions in an order in which they can run, each ascending.
        excluded: One entry for every eligible unit in no region, ascending.
        complete: False if the selector gave units back so often that the budget ran out, after
            which a unit given back once more was not tried again.
    """

    regions: list[list[int]]
    excluded: list[Exclusion]
    work: int
    complete: bool = True


def grow_regions(
    adjacency: Adjacency,
    eligible: bytearray,
    driver: GrowthDriver,
    *,
    connectivity: Literal["connected", "any"],
    nets: Nets | None = None,
) -> GrowthResult:
    """Grow regions seed by seed.

    A unit is offered only while it is eligible and in no region. What the driver raises passes
    through.

    ``nets``: Values with their sizes, for dividing anew where fewer bytes cross.
    """
    growth = _Growth(adjacency, eligible, driver, connected=connectivity == "connected")
    for seed in range(adjacency.count):
        if growth.open[seed]:
            if driver.start(seed):
                growth.grow(seed)
            else:
                growth.note([seed], "declined")
    if connectivity == "any" and growth.splittable:
        regions = level_regions(adjacency, growth.claimed(), nets)
    else:
        regions = [growth.regions[index] for index in run_order(adjacency, growth.regions)]
    return GrowthResult(regions, growth.excluded(eligible), growth.work, growth.complete)


class _Growth:
    """The state of the growth.

    Attributes:
        open: 1 for units that may be offered and be seeds.
        splittable: Whether every selector that took a region lets it be cut.
    """

    def __init__(
        self, adjacency: Adjacency, eligible: bytearray, driver: GrowthDriver, *, connected: bool
    ) -> None:
        self.open = bytearray(eligible)
        self.regions: list[list[int]] = []
        self.complete = True
        self.splittable = True
        self._adjacency = adjacency
        self._driver = driver
        self._connected = connected
        self._claimed = ClaimedOrder(adjacency)
        self._questions = 0
        self._limit = _LOOKS_AT_LEAST + _LOOKS_PER_EDGE * (adjacency.count + len(adjacency.preds))
        # For units of candidates that were divided: which division, and which part of it.
        self._part_of: dict[int, tuple[int, int]] = {}
        self._divisions = 0
        self._noted: dict[int, tuple[Reason, list[int]]] = {}

    @property
    def work(self) -> int:
        """Questions asked and edges looked at so far."""
        return self._questions + self._claimed.work

    def grow(self, seed: int) -> None:
        """Grow from a seed that the selector has just taken, and claim what comes of it."""
        driver = self._driver
        # Growing into the other parts of the last division would only lead to it again, and growing
        # all of a large component again for each of its parts takes quadratic time.
        own = self._part_of.get(seed)
        allowed: frozenset[int] | None = None
        for attempt in range(_REPLAYS + 3):
            candidates = self._reach(seed, allowed, own)
            kept = sorted(driver.filter(list(candidates)))
            self._give_back(candidates, kept)
            if not kept and own is None:
                return
            if kept:
                parts, path = self._claimed.divide(
                    kept, connected=self._connected, whole=not driver.splittable
                )
                if len(parts) == 1 or driver.splittable:
                    self.splittable = self.splittable and driver.splittable
                    for part in parts:
                        self._accept(part)
                    return
                allowed = self._choose(parts, seed, path, alone=attempt >= _REPLAYS)
            else:
                own = allowed = None
            if not driver.restart(seed):
                self.note(candidates, "filtered")
                return

    def _choose(
        self, parts: list[list[int]], seed: int, path: list[int], *, alone: bool
    ) -> frozenset[int]:
        """Choose what to grow again of a candidate that must stay whole and could not."""
        whole = next((part for part in parts if seed in part), parts[0])
        chosen = frozenset([seed] if alone else whole)
        left = [unit for part in parts for unit in part if unit not in chosen]
        self.note(left, "not_convex" if path else "filtered", path)
        self._divisions += 1
        for index, part in enumerate(parts):
            for unit in part:
                self._part_of[unit] = (self._divisions, index)
        if self._exhausted():
            for unit in left:
                self.open[unit] = 0
        return chosen

    def note(self, units: Sequence[int], reason: Reason, path: Sequence[int] = ()) -> None:
        """Remember why units were left out; a more precise reason stays."""
        for unit in units:
            known = self._noted.get(unit)
            if known is None or _RANK[reason] >= _RANK[known[0]]:
                self._noted[unit] = (reason, list(path))

    def claimed(self) -> bytearray:
        """Return, by unit, 1 for what is in some region."""
        claimed = bytearray(self._adjacency.count)
        for region in self.regions:
            for unit in region:
                claimed[unit] = 1
        return claimed

    def excluded(self, eligible: bytearray) -> list[Exclusion]:
        """List the eligible units in no region."""
        claimed = self.claimed()
        return [
            Exclusion(unit, *self._noted.get(unit, ("declined", [])))
            for unit, wanted in enumerate(eligible)
            if wanted and not claimed[unit]
        ]

    def _reach(
        self, seed: int, allowed: frozenset[int] | None, own: tuple[int, int] | None
    ) -> list[int]:
        """Ask breadth first; return what the selector took, ascending."""
        adjacency, driver, free = self._adjacency, self._driver, self.open
        taken = {seed}
        queue = [seed]
        for unit in queue:
            for neighbours, offer in (
                (adjacency.predecessors(unit), driver.offer_input),
                (adjacency.successors(unit), driver.offer_output),
            ):
                self._questions += len(neighbours)
                for other in neighbours:
                    if not free[other] or other in taken:
                        continue
                    if allowed is not None and other not in allowed:
                        continue
                    if own is not None and self._is_elsewhere(other, own):
                        continue
                    if offer(unit, other):
                        taken.add(other)
                        queue.append(other)
        return sorted(queue)

    def _is_elsewhere(self, unit: int, own: tuple[int, int]) -> bool:
        part = self._part_of.get(unit)
        return part is not None and part[0] == own[0] and part[1] != own[1]

    def _give_back(self, candidates: list[int], kept: list[int]) -> None:
        """Note what the filter dropped; once the budget is spent, drop it for good."""
        if len(kept) == len(candidates):
            return
        remaining = set(kept)
        dropped = [unit for unit in candidates if unit not in remaining]
        self.note(dropped, "filtered")
        self._questions += len(candidates)
        if self._exhausted():
            for unit in dropped:
                self.open[unit] = 0

    def _exhausted(self) -> bool:
        if self.work > self._limit:
            self.complete = False
        return not self.complete

    def _accept(self, region: list[int]) -> None:
        self._claimed.claim(region)
        self.regions.append(region)
        for unit in region:
            self.open[unit] = 0


_RANK: dict[Reason, int] = {"declined": 0, "filtered": 1, "not_convex": 2}
