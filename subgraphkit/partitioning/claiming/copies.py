"""Copies of cheap nodes that regions run besides their own, so that values need not cross.

A node may be copied if the property says so, its selector takes the node, and everything it needs
may be had: each of its inputs either comes from a node that may be copied along, or may enter the
region and may leave wherever it is made. That last holds for regions claimed before as well: what
was inside one of them stays inside unless its own property agrees.
"""

from collections.abc import Collection, Iterator, Sequence

from subgraphkit.backend.refusal import Refusal
from subgraphkit.binding.folding import RANDOM
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.turn_input import TurnInput
from subgraphkit.partitioning.claiming.work_table import Region, WorkTable

# A chain of n cheap nodes, each read by a region of its own, would be copied n * n / 2 times.
_COPIES_PER_NODE = 2
_COPIES_AT_LEAST = 1_000


def most_copies(node_count: int) -> int:
    """Return how many copies one pass makes at most: 1000 and two for every node of the model.

    The regions are served in their order. The first for which they do not last gets as many as are
    left, all after it get none. A region that cannot do without more is refused.
    """
    return _COPIES_AT_LEAST + _COPIES_PER_NODE * node_count


def is_copyable(turn: TurnInput, rank: int) -> bool:
    """Say whether a node may be copied into regions of the property, with what it needs."""
    known, work = turn.copyable, turn.work
    pending = [rank] if turn.copies else []
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        if not _is_cheap(turn, current):
            known[current] = False
            continue
        unknown = [
            producer
            for _, producer in work.dynamic_inputs(current)
            if producer is not None and producer not in known
        ]
        pending += unknown
        if not unknown:
            known[current] = _can_feed(turn, current)
    return turn.copies and known[rank]


def copies_for(
    turn: TurnInput, ranks: Sequence[int], room: int
) -> tuple[frozenset[int] | None, bool]:
    """Return what to copy into a region: copyable producers of its inputs, and theirs.

    Where there is no room for all, these are the copies that the region cannot do without, because
    the value may not cross, here or where it is made; and others as far as there is room.

    Returns:
        The ranks, or None if not even those fit that it cannot do without; and whether these are
        all.
    """
    copies: set[int] = set()
    inside = frozenset(ranks)
    wished = _copyable_producers(turn, ranks, inside)
    if all(_add(turn, copies, producer, inside, room) for producer in wished):
        return frozenset(copies), True
    copies.clear()
    required = _required(turn, ranks, wished)
    if not all(_add(turn, copies, producer, inside, room) for producer in required):
        return None, False
    for producer in wished:
        if not _add(turn, copies, producer, inside, room):
            break
    return frozenset(copies), False


def may_enter(turn: TurnInput, rank: int, value: str) -> Refusal | None:
    """Say why a value may not enter a region at a node; None if it may."""
    if value in turn.work.unavailable:
        return Refusal("border", f"value {value!r} would have to be computed here and cannot be")
    return turn.inquiry.may_enter(turn.work.node(rank), value)


def _copyable_producers(
    turn: TurnInput, ranks: Sequence[int], inside: frozenset[int]
) -> dict[int, None]:
    """List the copyable nodes outside that a region reads from, each once, as they are read."""
    return dict.fromkeys(
        producer
        for rank in (ranks if turn.copies else ())
        for _, producer in turn.work.dynamic_inputs(rank)
        if producer is not None and producer not in inside and is_copyable(turn, producer)
    )


def _required(turn: TurnInput, ranks: Sequence[int], producers: Collection[int]) -> Iterator[int]:
    """Go through the producers of values that may not cross."""
    work = turn.work
    for rank in ranks:
        for value, producer in work.dynamic_inputs(rank):
            if producer is None or producer not in producers:
                continue
            if may_enter(turn, rank, value) is not None or (
                turn.takes_rank[producer]
                and turn.inquiry.may_leave(work.node(producer), value) is not None
            ):
                yield producer


def _add(
    turn: TurnInput, copies: set[int], producer: int, inside: frozenset[int], room: int
) -> bool:
    """Add a node and all it needs to copies, if there is room; say whether there was."""
    added: set[int] = set()
    pending = [producer]
    while pending:
        current = pending.pop()
        if current in copies or current in added:
            continue
        if len(copies) + len(added) >= room:
            return False
        added.add(current)
        pending += _copyable_producers(turn, [current], inside)
    copies |= added
    return True


def _is_cheap(turn: TurnInput, rank: int) -> bool:
    work, inquiry = turn.work, turn.inquiry
    node = work.node(rank)
    if turn.barred[rank] or rank in turn.groups.together:
        return False
    # Two runs of a random one differ, so a copy would change results.
    if node.bodies or node.op_type in RANDOM:
        return False
    # A foreign node was copied before, so it is known to be cheap.
    if not work.foreign[rank]:
        ask = inquiry.claim.property.duplicable
        if not inquiry.overrides("duplicable"):
            return False
        if inquiry.ask("duplicable", node, lambda: ask(node), "SGK122") is not None:
            return False
    selector = turn.selector if turn.selector.stateless else inquiry.new_selector()
    return inquiry.ask("select", node, lambda: selector.select(node), "SGK121") is None


def _can_feed(turn: TurnInput, rank: int) -> bool:
    return all(
        (producer is not None and turn.copyable[producer])
        or (may_enter(turn, rank, value) is None and _may_be_had(turn, value, producer))
        for value, producer in turn.work.dynamic_inputs(rank)
    )


def _may_be_had(turn: TurnInput, value: str, producer: int | None) -> bool:
    """Say whether a value may leave the region that makes it, or is to make it."""
    work = turn.work
    if producer is None or work.foreign[producer]:
        return True
    if work.graph.is_output(value) or value in work.wanted:
        return True
    node = work.node(producer)
    if work.free[producer]:
        # Where nobody has it yet, whoever takes it later is asked then.
        return not turn.takes_rank[producer] or turn.inquiry.may_leave(node, value) is None
    owner = work.region_of(producer)
    if owner is None or _leaves(work, owner, producer, value):
        return True
    return work.inquiries[owner.claimant].may_leave(node, value) is None


def _leaves(work: WorkTable, owner: Region, producer: int, value: str) -> bool:
    """Say whether somebody outside a region reads a value of it without a copy of its own."""
    for node in work.graph.adjacency.successors(work.order[producer]):
        rank = work.rank_of[node]
        reader = work.region_of(rank) if rank >= 0 else None
        if reader is owner or (reader is not None and producer in reader.copies):
            continue
        if value in work.graph.read_by(node):
            return True
    return False


def pull_in(work: WorkTable, kept: list[Region], refusals: RefusalColumn) -> None:
    """Move free nodes whose every reader runs a copy of them into one of these regions.

    A node's new home is the first of its readers' regions to run, so all its edges still lead
    forwards and no cycle can arise.
    """
    graph = work.graph
    home = {rank: region for region in kept for rank in region.ranks}
    place = {id(region): at for at, region in enumerate(work.in_run_order())}
    copied = {rank for region in kept for rank in region.copies}
    # Readers first, so that a chain is pulled in from its end.
    for rank in sorted(copied, reverse=True):
        node = work.order[rank]
        made = graph.table.outputs[node]
        if not work.free[rank] or any(map(graph.is_output, made)):
            continue
        if not work.wanted.isdisjoint(made):
            # A copy in somebody else's region reads it, which no edge of the graph shows.
            continue
        readers = _regions_reading(work, home, rank)
        if not readers:
            continue
        new_home = min(readers, key=lambda region: place[id(region)])
        new_home.copies -= {rank}
        new_home.ranks = sorted([*new_home.ranks, rank])
        home[rank] = new_home
        work.free[rank] = 0
        refusals.clear((node,))


def _regions_reading(work: WorkTable, home: dict[int, Region], rank: int) -> list[Region]:
    """Return the regions of a node's readers, or nothing if a reader runs without a copy."""
    found = []
    for reader in work.graph.adjacency.successors(work.order[rank]):
        region = home.get(work.rank_of[reader])
        if region is None or rank not in region.copies:
            return []
        found.append(region)
    return found
