"""One property's turn: its regions grow, are reviewed and claimed.

The regions of a property are grown on the quotient of what was claimed before, so every one of them
can be contracted without closing a cycle. Regions that fail a review give their nodes back, and the
rest is grown again, because what was in the way may now be gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.growth import grow_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, level_regions
from subgraphkit.partitioning.claiming.borders import forbidden_edges, peel
from subgraphkit.partitioning.claiming.copies import pull_in
from subgraphkit.partitioning.claiming.review import (
    Candidates,
    keep_sound,
    passed,
    reject_bad_edges,
)
from subgraphkit.partitioning.claiming.selector_driver import SelectorDriver
from subgraphkit.partitioning.claiming.turn_input import TurnInput
from subgraphkit.partitioning.claiming.work_table import Region

__all__ = ["TurnOutcome", "take_turn"]

# Each round grows all regions again without what was given back. Of 2,343 turns on random graphs
# with sizes, reviews, groups and borders 456 took a second round, one a third and none a fourth.
# After that the regions that passed are kept, less those that counted on one that did not.
_REVIEW_ROUNDS = 4
# The first round drops what is wrong at the edge of all that is eligible, the next ones what is
# wrong where regions of one property meet: of 1,527 times on those graphs, 52 took a second round
# and none a third. What is wrong after the last is dropped by whole regions, which makes no new
# edges.
_BORDER_ROUNDS = 8


@dataclass(slots=True)
class TurnOutcome:
    """What came of applying one property.

    Attributes:
        regions: Number of regions claimed.
        lower_bound: No partitioning of the claimed nodes by this rule has fewer regions; None once
            some of them, or of those claimed before, were given back.
        maximal: False if the work budget ended before every possible merge had been tried.
        adjacency: Dependencies between units when the property had its turn.
        unit_of: The unit of each rank.
        eligible: By unit, 1 for what the property could take.
        whole: Whether the turn was over the whole graph rather than one region given back.
    """

    regions: int
    lower_bound: int | None
    maximal: bool
    adjacency: Adjacency
    unit_of: Sequence[int]
    eligible: bytearray
    whole: bool = True


def take_turn(turn: TurnInput) -> TurnOutcome:
    """Let one property claim regions of what is free.

    Args:
        turn: What the turn depends on; the claimed regions are entered into its work table.

    Raises:
        SelectorContractError: A selector (SGK121) or the property (SGK122) broke its contract.
    """
    eligible = bytearray(turn.takes)
    candidates, kept = Candidates([]), []
    for _ in range(_REVIEW_ROUNDS):
        candidates = _grow_within_borders(turn, eligible)
        kept = passed(turn, candidates)
        for units in candidates.rejected:
            for unit in units:
                eligible[unit] = 0
        if not candidates.rejected:
            break
    else:
        kept = keep_sound(turn, kept)
    bound = _bound(turn, candidates, kept)
    for region in kept:
        turn.work.claim(region)
        turn.refusals.clear(map(turn.work.order.__getitem__, region.ranks))
    if any(region.copies for region in kept):
        pull_in(turn.work, kept, turn.refusals)
    view = turn.view
    return TurnOutcome(len(kept), bound, candidates.maximal, view.adjacency, view.unit_of, eligible)


def _grow_within_borders(turn: TurnInput, eligible: bytearray) -> Candidates:
    """Grow candidate regions whose edges are crossed by permitted values only."""
    view = turn.view
    if not turn.watches_edges:
        return _grow(turn, eligible)
    for _ in range(_BORDER_ROUNDS):
        peel(turn, eligible)
        candidates = _grow(turn, eligible)
        forbidden = forbidden_edges(turn, [view.ranks(units) for units in candidates.regions])
        if not forbidden:
            return candidates
        for _, rank, refusal in forbidden:
            unit = view.unit_of[rank]
            if eligible[unit]:
                eligible[unit] = 0
                turn.refuse_group(view.ranks_of(unit), rank, refusal)
    peel(turn, eligible)
    candidates = _grow(turn, eligible)
    reject_bad_edges(turn, candidates)
    return candidates


def _grow(turn: TurnInput, eligible: bytearray) -> Candidates:
    adjacency, connectivity = turn.view.adjacency, turn.property_.connectivity
    if not any(eligible):
        return Candidates([], 0)
    if not turn.selector.stateless:
        return _grow_by_questions(turn, eligible)
    if connectivity == "any":
        regions = level_regions(adjacency, eligible, turn.nets)
        return Candidates(regions, len(regions))
    found = connected_regions(adjacency, eligible, turn.nets)
    return Candidates(found.regions, found.lower_bound, found.maximal)


def _grow_by_questions(turn: TurnInput, eligible: bytearray) -> Candidates:
    adjacency, connectivity = turn.view.adjacency, turn.property_.connectivity
    found = grow_regions(adjacency, eligible, SelectorDriver(turn), connectivity=connectivity)
    for exclusion in found.excluded:
        refusal = Refusal("filtered", "the selector's filter dropped the node")
        if exclusion.reason == "declined":
            continue
        if exclusion.reason == "not_convex":
            nodes = [turn.work.node(turn.view.ranks_of(unit)[0]) for unit in exclusion.path]
            shown = ": " * bool(nodes) + " > ".join(node.label for node in nodes)
            text = f"taking the node would make subgraphs wait on each other{shown}"
            refusal = Refusal("not_convex", text)
        turn.refuse(turn.view.ranks_of(exclusion.unit), refusal)
    return Candidates(found.regions, maximal=found.complete)


def _bound(turn: TurnInput, candidates: Candidates, kept: Sequence[Region]) -> int:
    """Return the fewest regions into which what was kept can be divided."""
    view, bound, limit = turn.view, candidates.lower_bound, turn.property_.max_nodes
    if candidates.rejected or bound is None:
        claimed = bytearray(view.adjacency.count)
        for region in kept:
            for rank in region.ranks:
                claimed[view.unit_of[rank]] = 1
        bound = level_bound(view.adjacency, claimed) if kept else 0
    if limit is None:
        return bound
    return max(bound, -(-sum(len(region.ranks) for region in kept) // limit))
