"""Checks of candidate regions: borders, groups, sizes and the property's own review.

Each returns which nodes are refused, by rank, and why; the rest is grown again without them.

A value that a backend forbids at its edge, such as an int64 tensor, is allowed inside a region. So
a node can be taken only together with some of its neighbours. Nodes with a forbidden value at the
edge are dropped. That makes new edges, so it is repeated until nothing changes. Every edge of the
graph is looked at once, and once more when one of its ends is dropped. So the time is linear.

Source: TF-TRT segmenter, input and output candidate functions.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import make_subgraph
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.claiming.graph import Pass, Region
from subgraphkit.texts import count_of

Regions = Sequence[Sequence[int]]
Refused = Mapping[int, Refusal]

_TORN: Final = Refusal(
    "group",
    "QuantizeLinear and DequantizeLinear stay together, and a path between them is not taken",
)


def forbidden_at_borders(pass_: Pass, regions: Iterable[Iterable[int]]) -> Refused:
    """Refuse nodes with values that may not cross the edge of their region."""
    if not pass_.asked.watches_boundary:
        return {}
    return _Borders(pass_, regions).prune()


class _Borders:
    """Regions that lose nodes.

    Attributes:
        region_of: By rank, the region; -1 for none.
        leaving: Values that are read outside the region that makes them, or handed out.
    """

    def __init__(self, pass_: Pass, regions: Iterable[Iterable[int]]) -> None:
        self._pass, self._state, self._asked = pass_, pass_.state, pass_.asked
        self.region_of = array("i", [-1]) * pass_.state.count
        for index, ranks in enumerate(regions):
            for rank in ranks:
                self.region_of[rank] = index
        self.leaving = {*pass_.state.graph.outputs, *pass_.state.wanted}
        for rank, own in enumerate(self.region_of):
            for value, producer in self._state.dynamic_inputs(rank):
                if own < 0 or (producer >= 0 and self.region_of[producer] != own):
                    self.leaving.add(value)

    def prune(self) -> Refused:
        """Drop nodes until no forbidden value crosses; return those dropped."""
        refused: dict[int, Refusal] = {}
        region_of = self.region_of
        # An edge that is to be looked at, or all of a node's.
        waiting: list[tuple[int, str | None]]
        waiting = [(rank, None) for rank, region in enumerate(region_of) if region >= 0]
        while waiting:
            rank, value = waiting.pop()
            refusal = self._refusal(rank, value) if region_of[rank] >= 0 else None
            if refusal is None:
                continue
            refused[rank] = refusal
            group = self._pass.group_of.get(rank) or (rank,)
            for member in group:
                region_of[member] = -1
            for member in group:
                waiting += self._edges_made(member)
        return refused

    def _entering(self, rank: int) -> list[str]:
        """Return the values that a node reads from outside its region."""
        own, region_of = self.region_of[rank], self.region_of
        return [
            value
            for value, producer in self._state.dynamic_inputs(rank)
            if producer < 0 or own < 0 or region_of[producer] != own
        ]

    def _refusal(self, rank: int, value: str | None) -> Refusal | None:
        """Look at one value that a node reads or makes, or at all of them."""
        asked, node = self._asked, self._state.node(rank)
        if value in node.outputs:
            return asked.may_leave(node, value)
        for name in self._entering(rank) if value is None else (value,):
            if (refusal := asked.may_enter(node, name)) is not None:
                return refusal
        for name in node.outputs if value is None else ():
            if name in self.leaving and (refusal := asked.may_leave(node, name)) is not None:
                return refusal
        return None

    def _edges_made(self, rank: int) -> Iterator[tuple[int, str]]:
        """Yield the ends of the edges that dropping a node made, with the values there."""
        for value, producer in self._state.dynamic_inputs(rank):
            if producer >= 0 and value not in self.leaving:
                self.leaving.add(value)
                yield producer, value
        yield from self._readers.get(rank, ())

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[tuple[int, str]]]:
        """By rank, the readers of its values."""
        readers: dict[int, list[tuple[int, str]]] = {}
        for rank in range(self._state.count):
            for value, producer in self._state.dynamic_inputs(rank):
                if producer >= 0:
                    readers.setdefault(producer, []).append((rank, value))
        return readers


def _torn_atoms(pass_: Pass, regions: Regions) -> Refused:
    """Refuse atoms of which some region holds some nodes and not all."""
    if not pass_.torn:
        return {}
    home = {rank: index for index, ranks in enumerate(regions) for rank in ranks}
    torn = [ranks for ranks in pass_.torn if len({home.get(rank) for rank in ranks}) > 1]
    return {rank: _TORN for ranks in torn for rank in ranks if rank in home}


def _wrong_sizes(pass_: Pass, regions: Regions) -> Refused:
    """Refuse regions that are too small, or too large and cannot be cut."""
    property_ = pass_.asked.claim.property
    least, most = property_.min_nodes, property_.max_nodes
    refused: dict[int, Refusal] = {}
    for ranks in regions:
        if len(ranks) < least:
            text = f"region of {count_of(len(ranks), 'node')}, the property's minimum is {least}"
            refused |= dict.fromkeys(ranks, Refusal("too_small", text))
        elif most is not None and len(ranks) > most:
            is_group = len(pass_.group_of.get(ranks[0], ())) == len(ranks)
            what = "an atomic group" if is_group else "a region that may not be cut"
            text = f"{what} has {count_of(len(ranks), 'node')}, the property's maximum is {most}"
            refused |= dict.fromkeys(ranks, Refusal("too_large", text))
    return refused


def _not_accepted(pass_: Pass, regions: Regions) -> Refused:
    """Refuse regions that are not worth handing over, or that the property does not accept."""
    reviews = pass_.asked.overrides("accept")
    refused: dict[int, Refusal] = {}
    for ranks in regions if reviews or pass_.state.weigh is not None else ():
        region = Region(pass_.index, list(ranks))
        refusal = pass_.state.weigh(pass_.state, region) if pass_.state.weigh is not None else None
        if refusal is None and reviews:
            refusal = _review(pass_, region)
        if refusal is not None:
            refused |= dict.fromkeys(ranks, refusal)
    return refused


def _review(pass_: Pass, region: Region) -> Refusal | None:
    state, claim = pass_.state, pass_.asked.claim
    nodes = state.nodes_of(region)
    subgraph = make_subgraph(state.graph, nodes, claim.backend.name, claim.property_name)
    first = state.node(region.ranks[0])
    refusal = pass_.asked.ask(claim.property, "accept", subgraph, about=first)
    if refusal is not None and refusal.code == "declined":
        size = count_of(len(region.ranks), "node")
        return Refusal("not_accepted", f"the review did not accept the region of {size}")
    return refusal


CHECKS: Final[Sequence[Callable[[Pass, Regions], Refused]]] = (
    forbidden_at_borders,
    _torn_atoms,
    _wrong_sizes,
    _not_accepted,
)
"""The checks, the cheapest first: one is made where those before it refuse nothing."""
