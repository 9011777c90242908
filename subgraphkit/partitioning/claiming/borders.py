"""Borders: values that may or may not cross the edge of a property's regions.

A value that a backend cannot take or hand out at its edge (an int64 tensor, say) is no trouble
inside a region. So whether a node can be taken depends on what is taken beside it: the answer is
a greatest fixpoint: nodes with a forbidden value at the edge are dropped, which makes new edges,
until nothing changes. Every edge of the graph is looked at once when it is there and once more when
one of its ends is dropped, so the whole is linear.

Source: TF-TRT segmenter, input and output candidate functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from subgraphkit.backend.refusal import Refusal
from subgraphkit.partitioning.claiming.copies import is_copyable, may_enter
from subgraphkit.partitioning.claiming.turn_input import TurnInput

__all__ = ["forbidden_edges", "peel"]


def peel(turn: TurnInput, eligible: bytearray) -> None:
    """Drop every unit that has a forbidden value at an edge to what is not eligible.

    Args:
        turn: The turn; reasons are kept there.
        eligible: By unit, 1 for what is eligible; changed.
    """
    view, work = turn.view, turn.work
    peeling = _Peeling(view.by_rank(eligible))
    ranks = range(work.count)
    for rank in ranks if turn.inquiry.watches_outputs else ():
        if not peeling.taken[rank]:
            peeling.leaving.update(value for value, _ in work.dynamic_inputs(rank))
    waiting: list[tuple[int, str | None]] = [(r, None) for r in ranks if peeling.taken[r]]
    while waiting:
        rank, value = waiting.pop()
        refusal = _refusal_at(turn, rank, value, peeling) if peeling.taken[rank] else None
        if refusal is None:
            continue
        members = view.ranks_of(view.unit_of[rank])
        eligible[view.unit_of[rank]] = 0
        turn.refuse_group(members, rank, refusal)
        for member in members:
            peeling.taken[member] = 0
        for member in members:
            waiting += _edges_made(turn, member, peeling)


def forbidden_edges(
    turn: TurnInput, regions: Sequence[Sequence[int]], *, copies_serve: bool = True
) -> list[tuple[int, int, Refusal]]:
    """Return region, rank and reason for every node with a forbidden value at an edge.

    Args:
        turn: The turn.
        regions: For each region its ranks.
        copies_serve: Whether a reader in another of the regions is served by a copy of the
            node, if the node may be copied. Without that, what is found is right whatever
            becomes of the other regions.
    """
    region_of = {rank: index for index, ranks in enumerate(regions) for rank in ranks}
    leaving = _leaving(turn, region_of, copies_serve=copies_serve)
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


@dataclass(slots=True)
class _Peeling:
    """What is still taken while units are dropped.

    Attributes:
        taken: By rank, 1 for nodes that are.
        leaving: Values that somebody reads who is not.
    """

    taken: bytearray
    leaving: set[str] = field(default_factory=set)


def _edges_made(turn: TurnInput, rank: int, peeling: _Peeling) -> list[tuple[int, str | None]]:
    """Return the ends of the edges that dropping a node made, with what crosses there."""
    made: list[tuple[int, str | None]] = []
    for value, producer in turn.work.dynamic_inputs(rank) if turn.inquiry.watches_outputs else ():
        if producer is not None and value not in peeling.leaving:
            peeling.leaving.add(value)
            made.append((producer, value))
    if turn.watches_inputs:
        made += turn.readers.get(rank, ())
    return made


def _refusal_at(turn: TurnInput, rank: int, value: str | None, peeling: _Peeling) -> Refusal | None:
    """Look at one value that a taken node reads or makes, or at all of them."""
    work = turn.work
    if value is not None:
        if work.producer(value) == rank:
            return turn.inquiry.may_leave(work.node(rank), value)
        return _refused_input(turn, rank, value)
    refusal = _refused_inputs(turn, rank, peeling.taken.__getitem__)
    return _refused_output(turn, rank, peeling.leaving) if refusal is None else refusal


def _refused_inputs(
    turn: TurnInput, rank: int, is_inside: Callable[[int], bool | int]
) -> Refusal | None:
    """Say why a node may not read what is made outside; None if it may."""
    for value, producer in turn.work.dynamic_inputs(rank) if turn.watches_inputs else ():
        if producer is None or not is_inside(producer):
            refusal = _refused_input(turn, rank, value)
            if refusal is not None:
                return refusal
    return None


def _refused_input(turn: TurnInput, rank: int, value: str) -> Refusal | None:
    """Say why a value from outside may not be read; None if it may, or can be made inside."""
    producer = turn.work.producer(value)
    if producer is not None and is_copyable(turn, producer):
        return None
    return may_enter(turn, rank, value)


def _refused_output(turn: TurnInput, rank: int, leaving: set[str]) -> Refusal | None:
    if not turn.inquiry.watches_outputs:
        return None
    work, node = turn.work, turn.work.node(rank)
    for value in node.outputs:
        if value and (value in leaving or value in work.wanted or work.graph.is_output(value)):
            refusal = turn.inquiry.may_leave(node, value)
            if refusal is not None:
                return refusal
    return None


def _leaving(turn: TurnInput, region_of: dict[int, int], *, copies_serve: bool) -> set[str]:
    """Return the values that are read outside the region that makes them."""
    leaving: set[str] = set()
    for rank in range(turn.work.count) if turn.inquiry.watches_outputs else ():
        reader = region_of.get(rank)
        for value, producer in turn.work.dynamic_inputs(rank):
            if producer is None or region_of.get(producer, reader) == reader:
                continue
            if not (copies_serve and reader is not None and is_copyable(turn, producer)):
                leaving.add(value)
    return leaving
