"""The review of candidate regions: their borders, size limits and the property's own review.

A value that a backend cannot take or hand out at its edge (an int64 tensor, say) is no trouble
inside a region. So whether a node can be taken depends on what is taken beside it: the answer is
a greatest fixpoint: nodes with a forbidden value at the edge are dropped, which makes new edges,
until nothing changes. Every edge of the graph is looked at once when it is there and once more when
one of its ends is dropped, so the whole is linear.

What a region's pieces are is not the selector's business: ``filter`` has seen the candidate as a
whole, and a selector that wants it whole says so by ``splittable = False``; then a region that is
too large is given back instead of being cut.

Source: TF-TRT segmenter, input and output candidate functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import make_subgraph
from subgraphkit.partitioning.algorithms.components import split_to_size
from subgraphkit.partitioning.claiming.turn_input import TurnInput
from subgraphkit.partitioning.claiming.work_table import Region
from subgraphkit.texts import counted


def peel(turn: TurnInput, eligible: bytearray) -> None:
    """Drop every unit that has a forbidden value at an edge to what is not eligible."""
    view, work = turn.view, turn.work
    taken = view.by_rank(eligible)
    leaving: set[str] = set()  # what somebody reads who is not taken
    ranks = range(work.count)
    for rank in ranks if turn.inquiry.watches_outputs else ():
        if not taken[rank]:
            leaving.update(value for value, _ in work.dynamic_inputs(rank))
    waiting: list[tuple[int, str | None]] = [(r, None) for r in ranks if taken[r]]
    while waiting:
        rank, value = waiting.pop()
        refusal = _refusal_at(turn, rank, value, taken, leaving) if taken[rank] else None
        if refusal is None:
            continue
        members = view.ranks_of(view.unit_of[rank])
        eligible[view.unit_of[rank]] = 0
        turn.refuse_group(members, rank, refusal)
        for member in members:
            taken[member] = 0
        for member in members:
            waiting += _edges_made(turn, member, leaving)


def forbidden_edges(
    turn: TurnInput, regions: Sequence[Sequence[int]]
) -> list[tuple[int, int, Refusal]]:
    """Return region, rank and reason for every node with a forbidden value at an edge."""
    region_of = {rank: index for index, ranks in enumerate(regions) for rank in ranks}
    leaving = _leaving(turn, region_of)
    found = []
    for index, ranks in enumerate(regions):
        is_inside = frozenset(ranks).__contains__
        for rank in ranks:
            refusal = _refused_inputs(turn, rank, is_inside)
            if refusal is None:
                refusal = _refused_output(turn, rank, leaving)
            if refusal is not None:
                found.append((index, rank, refusal))
    return found


def _edges_made(turn: TurnInput, rank: int, leaving: set[str]) -> list[tuple[int, str | None]]:
    """Return the ends of the edges that dropping a node made, with what crosses there."""
    made: list[tuple[int, str | None]] = []
    for value, producer in turn.work.dynamic_inputs(rank) if turn.inquiry.watches_outputs else ():
        if producer is not None and value not in leaving:
            leaving.add(value)
            made.append((producer, value))
    if turn.watches_inputs:
        made += turn.readers.get(rank, ())
    return made


def _refusal_at(
    turn: TurnInput, rank: int, value: str | None, taken: bytearray, leaving: set[str]
) -> Refusal | None:
    """Look at one value that a taken node reads or makes, or at all of them."""
    work = turn.work
    if value is not None:
        if work.producer(value) == rank:
            return turn.inquiry.may_leave(work.node(rank), value)
        return turn.inquiry.may_enter(work.node(rank), value)
    refusal = _refused_inputs(turn, rank, taken.__getitem__)
    return _refused_output(turn, rank, leaving) if refusal is None else refusal


def _refused_inputs(
    turn: TurnInput, rank: int, is_inside: Callable[[int], bool | int]
) -> Refusal | None:
    """Say why a node may not read what is made outside; None if it may."""
    for value, producer in turn.work.dynamic_inputs(rank) if turn.watches_inputs else ():
        if producer is None or not is_inside(producer):
            refusal = turn.inquiry.may_enter(turn.work.node(rank), value)
            if refusal is not None:
                return refusal
    return None


def _refused_output(turn: TurnInput, rank: int, leaving: set[str]) -> Refusal | None:
    if not turn.inquiry.watches_outputs:
        return None
    work, graph = turn.work, turn.work.graph
    for value in graph.table.outputs[work.order[rank]]:
        if value and (value in leaving or value in work.wanted or graph.is_output(value)):
            refusal = turn.inquiry.may_leave(work.node(rank), value)
            if refusal is not None:
                return refusal
    return None


def _leaving(turn: TurnInput, region_of: dict[int, int]) -> set[str]:
    """Return the values that are read outside the region that makes them."""
    leaving: set[str] = set()
    for rank in range(turn.work.count) if turn.inquiry.watches_outputs else ():
        reader = region_of.get(rank)
        for value, producer in turn.work.dynamic_inputs(rank):
            if producer is not None and region_of.get(producer, reader) != reader:
                leaving.add(value)
    return leaving


# -- the review ------------------------------------------------------------------------------------


_TORN = Refusal(
    "group",
    "QuantizeLinear and DequantizeLinear stay together, and a path between them is not taken",
)


@dataclass(slots=True)
class Candidates:
    """Candidate regions in units, with what is known of their number.

    Attributes:
        lower_bound: The fewest regions possible, or None if it has to be computed.
    """

    regions: list[list[int]]
    lower_bound: int | None = None
    maximal: bool = True
    rejected: list[list[int]] = field(default_factory=list)


def passed(turn: TurnInput, candidates: Candidates) -> list[Region]:
    """Return the regions that pass the review; give back the others and say why."""
    kept: list[Region] = []
    connected = turn.property_.connectivity == "connected"
    for units in _sized(turn, candidates):
        ranks = turn.view.ranks(units)
        hangs_together = connected and turn.groups.loose.isdisjoint(ranks)
        region = Region(turn.index, ranks, hangs_together)
        refusal = _refusal_of(turn, region)
        if refusal is None:
            kept.append(region)
        else:
            _reject(turn, candidates, units, refusal)
    # The nodes of parted groups are given back too, so that the rest is grown without them.
    for parted in _parted(turn, kept):
        for unit in {turn.view.unit_of[rank] for rank in parted}:
            _reject(turn, candidates, [unit], _TORN)
    return sorted(kept, key=lambda region: region.ranks[0])


def keep_sound(turn: TurnInput, kept: list[Region]) -> list[Region]:
    """Give back regions that part an atom because a region beside them was given back.

    The last resort, where there is no round left to grow them again.
    """
    sound = kept
    while parted := _parted(turn, sound):
        inside = frozenset(rank for ranks in parted for rank in ranks)
        for region in sound:
            if not inside.isdisjoint(region.ranks):
                turn.refuse(region.ranks, _TORN)
        sound = [region for region in sound if inside.isdisjoint(region.ranks)]
    return sound


def reject_bad_edges(turn: TurnInput, candidates: Candidates) -> None:
    """Give back whole regions with forbidden values, which makes no new edges."""
    ranks = [turn.view.ranks(units) for units in candidates.regions]
    bad = {index: refusal for index, _, refusal in forbidden_edges(turn, ranks)}
    regions, candidates.regions = candidates.regions, []
    for index, units in enumerate(regions):
        if index in bad:
            _reject(turn, candidates, units, bad[index])
        else:
            candidates.regions.append(units)


def _reject(turn: TurnInput, candidates: Candidates, units: list[int], refusal: Refusal) -> None:
    candidates.rejected.append(units)
    turn.refuse(turn.view.ranks(units), refusal)


def _sized(turn: TurnInput, candidates: Candidates) -> list[list[int]]:
    """Cut regions that are too large; what an atomic group makes too large is given back."""
    limit = turn.property_.max_nodes
    if limit is None:
        return candidates.regions
    cut = Candidates([])
    for units in candidates.regions:
        for piece in _pieces(turn, units, limit) if turn.splittable else [units]:
            if turn.view.node_count(piece) <= limit:
                cut.regions.append(piece)
            else:
                _reject(turn, candidates, piece, _too_large(turn, piece, limit))
    if turn.watches_edges:
        reject_bad_edges(turn, cut)
        candidates.rejected += cut.rejected
    return cut.regions


def _pieces(turn: TurnInput, units: list[int], limit: int) -> list[list[int]]:
    """Cut a region into pieces of at most ``limit`` nodes, or of one unit."""
    connected = turn.property_.connectivity == "connected"
    pieces, pending = [], [(units, limit)]
    while pending:
        current, most_units = pending.pop()
        if len(current) == 1 or turn.view.node_count(current) <= limit:
            pieces.append(current)
            continue
        # Units may hold several nodes each, so a piece may still be too large.
        most_units = min(most_units, max(1, len(current) - 1))
        adjacency, ordered = turn.view.adjacency, sorted(current)
        split = split_to_size(adjacency, ordered, most_units, turn.nets, connected=connected)
        pending += [(piece, max(1, most_units // 2)) for piece in split]
    return pieces


def _too_large(turn: TurnInput, units: list[int], limit: int) -> Refusal:
    count = turn.view.node_count(units)
    what, shown = "a region that may not be cut", counted(count, "node")
    if len(units) == 1:
        what = "an atomic group"
    return Refusal("too_large", f"{what} has {shown}, the property's maximum is {limit}")


def _parted(turn: TurnInput, kept: list[Region]) -> list[Sequence[int]]:
    """Return the torn atoms of which some region holds some nodes and not all."""
    if not turn.torn:
        return []
    home = {rank: index for index, region in enumerate(kept) for rank in region.ranks}
    return [ranks for ranks in turn.torn if len({home.get(rank) for rank in ranks}) > 1]


def _refusal_of(turn: TurnInput, region: Region) -> Refusal | None:
    """Say why a region is not taken, too small or not accepted; None if it is."""
    count, minimum = len(region.ranks), turn.property_.min_nodes
    if count < minimum:
        text = f"region of {counted(count, 'node')}, the property's minimum is {minimum}"
        return Refusal("too_small", text)
    work, claim, accept = turn.work, turn.inquiry.claim, turn.property_.accept
    if work.worth is not None and (refusal := work.worth(work, region)) is not None:
        return refusal
    if not turn.inquiry.overrides("accept"):
        return None
    nodes = work.nodes_of(region)
    subgraph = make_subgraph(work.graph, nodes, claim.backend.name, claim.property_name)
    first = work.node(region.ranks[0])
    refusal = turn.inquiry.ask("accept", first, lambda: accept(subgraph), "SGK122")
    if refusal is not None and refusal.code == "declined":
        return Refusal(
            "not_accepted", f"the review did not accept the region of {counted(count, 'node')}"
        )
    return refusal
