"""One property's turn: its regions grow, are reviewed and claimed.

The regions of a property are grown on the quotient of what was claimed before, so every one of them
can be contracted without closing a cycle. Regions that fail a review give their nodes back, and the
rest is grown again, because what was in the way may now be gone.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Adjacency, Node
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.growth import grow_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, level_regions
from subgraphkit.partitioning.claiming.review import (
    Candidates,
    forbidden_edges,
    keep_sound,
    passed,
    peel,
    reject_bad_edges,
)
from subgraphkit.partitioning.claiming.turn_input import TurnInput
from subgraphkit.partitioning.claiming.work_table import Region

# Each round grows all regions again without what was given back. Of 2,343 turns on random graphs
# with sizes, reviews, groups and borders 456 took a second round, one a third and none a fourth.
# After that the regions that passed are kept, less those that counted on one that did not.
_REVIEW_ROUNDS = 4
# The first round drops what is wrong at the edge of all that is eligible, the next ones what is
# wrong where regions of one property meet: of 1,527 times on those graphs, 52 took a second round
# and none a third. What is wrong after the last is dropped by whole regions, which makes no new
# edges.
_BORDER_ROUNDS = 8
# A group may be offered from every neighbour of every node in it. After it has taken this many
# questions per node to be told that some node of it is not wanted, it is offered no more.
_QUESTIONS_PER_NODE = 8


@dataclass(slots=True)
class TurnOutcome:
    """The outcome of one property's turn.

    Attributes:
        lower_bound: No partitioning of the claimed nodes by this rule has fewer regions; None once
            some of them, or of those claimed before, were given back.
        maximal: False if the work budget ended before every possible merge had been tried.
        adjacency: Dependencies between units when the property had its turn.
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
    found = connected_regions(adjacency, eligible)
    return Candidates(found.regions, found.lower_bound, found.maximal)


def _grow_by_questions(turn: TurnInput, eligible: bytearray) -> Candidates:
    adjacency, connectivity = turn.view.adjacency, turn.property_.connectivity
    driver, nets = _SelectorDriver(turn), turn.nets if connectivity == "any" else None
    found = grow_regions(adjacency, eligible, driver, connectivity=connectivity, nets=nets)
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


class _SelectorDriver:
    """Puts the questions of the growing algorithm to selectors of one property.

    A unit of several nodes is taken only if the selector takes each of them; they are offered one
    by one along the edges between them. A selector that again and again takes the first nodes of a
    group and not the others is at last not asked about it any more, except as a seed.

    What is said of a seed outweighs what is said of an offered node, since the seed question is
    about the node alone.
    """

    def __init__(self, turn: TurnInput) -> None:
        self._turn = turn
        self._work = turn.work
        self._view = turn.view
        self._inquiry = turn.inquiry
        self._selector = turn.selector
        # By unit of several nodes, the questions that came to nothing.
        self._in_vain: dict[int, int] = {}

    @property
    def splittable(self) -> bool:
        """Whether a candidate may become several regions."""
        return self._inquiry.flag(self._selector, "splittable")

    def start(self, unit: int) -> bool:
        """Make a new selector and ask whether a region may start at the unit."""
        self._selector = self._inquiry.new_selector()
        return self._seed(unit)

    def restart(self, unit: int) -> bool:
        """Make the selector forget what it has seen and ask about the seed again."""
        with self._inquiry.blame("SGK121", "reset"):
            self._selector.reset()
        return self._seed(unit)

    def offer_input(self, unit: int, producer: int) -> bool:
        """Offer a unit that feeds one taken before."""
        if self._is_hopeless(producer):
            return False
        offered, taken = self._edge(producer, unit)
        refusal = self._offer(self._work.node(taken), self._work.node(offered), is_input=True)
        return self._take(producer, offered, refusal, is_seed=False)

    def offer_output(self, unit: int, consumer: int) -> bool:
        """Offer a unit that reads from one taken before."""
        if self._is_hopeless(consumer):
            return False
        taken, offered = self._edge(unit, consumer)
        refusal = self._offer(self._work.node(taken), self._work.node(offered), is_input=False)
        return self._take(consumer, offered, refusal, is_seed=False)

    def filter(self, units: Sequence[int]) -> list[int]:
        """Show the selector all that was taken, and return what it keeps.

        Raises:
            SelectorContractError: It raised or returned something that was not a candidate
                (SGK121).
        """
        ranks = self._view.ranks(units)
        candidates = [self._work.node(rank) for rank in ranks]
        kept = self._inquiry.filter(self._selector, candidates)
        order = self._work.order
        return [unit for unit in units if all(order[r] in kept for r in self._view.ranks_of(unit))]

    def _seed(self, unit: int) -> bool:
        first = self._view.ranks_of(unit)[0]
        return self._take(unit, first, self._select(first), is_seed=True)

    def _take(self, unit: int, rank: int, refusal: Refusal | None, *, is_seed: bool) -> bool:
        """Take the rest of a unit whose first node was asked about, or refuse all of it."""
        ranks = self._view.ranks_of(unit)
        at = rank
        if refusal is None and len(ranks) > 1:
            refusal, at, asked = self._take_rest(ranks, rank)
            if refusal is not None:
                self._in_vain[unit] = self._in_vain.get(unit, 0) + asked
        if refusal is None:
            return True
        if is_seed or self._turn.refusals.of(self._work.order[at]) is None:
            self._turn.refuse_group(ranks, at, refusal)
        return False

    def _is_hopeless(self, unit: int) -> bool:
        limit = _QUESTIONS_PER_NODE * len(self._view.ranks_of(unit))
        return self._in_vain.get(unit, 0) > limit

    def _take_rest(self, ranks: Sequence[int], first: int) -> tuple[Refusal | None, int, int]:
        """Offer the other nodes of a group."""
        waiting = set(ranks) - {first}
        adjacency = self._work.adjacency
        frontier = deque([first])
        unreached = iter(ranks)
        while waiting:
            if not frontier:
                # The group is not connected, so that no edge leads to the rest.
                rank = next(rank for rank in unreached if rank in waiting)
                refusal = self._select(rank)
                if refusal is not None:
                    return refusal, rank, len(ranks) - len(waiting)
                waiting.discard(rank)
                frontier.append(rank)
            rank = frontier.popleft()
            node = self._work.node(rank)
            steps = [(other, True) for other in adjacency.predecessors(rank)]
            steps += [(other, False) for other in adjacency.successors(rank)]
            for other, is_input in steps:
                if other not in waiting:
                    continue
                refusal = self._offer(node, self._work.node(other), is_input=is_input)
                if refusal is not None:
                    return refusal, other, len(ranks) - len(waiting)
                waiting.discard(other)
                frontier.append(other)
        return None, first, len(ranks)

    def _select(self, rank: int) -> Refusal | None:
        node, selector = self._work.node(rank), self._selector
        return self._inquiry.ask("select", node, lambda: selector.select(node), "SGK121")

    def _offer(self, node: Node, other: Node, *, is_input: bool) -> Refusal | None:
        question = "select_input" if is_input else "select_output"
        ask = self._selector.select_input if is_input else self._selector.select_output
        return self._inquiry.ask(question, other, lambda: ask(node, other), "SGK121")

    def _edge(self, producer: int, consumer: int) -> tuple[int, int]:
        """Return the first edge between two units, as ranks."""
        view = self._view
        if view.members is None:
            return producer, consumer
        if len(view.members[producer]) == 1 and len(view.members[consumer]) == 1:
            return view.members[producer][0], view.members[consumer][0]
        return self._edges_of_groups[producer, consumer]

    @cached_property
    def _edges_of_groups(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The first edge between any two units of which one has several nodes."""
        unit_of, members = self._view.unit_of, self._view.members or ()
        predecessors = self._work.adjacency.predecessors
        first: dict[tuple[int, int], tuple[int, int]] = {}
        for reader, consumer in enumerate(unit_of):
            for rank in predecessors(reader):
                producer = unit_of[rank]
                if len(members[consumer]) > 1 or len(members[producer]) > 1:
                    first.setdefault((producer, consumer), (rank, reader))
        return first
