"""Applying one property: ask, grow, review, claim.

The regions of a property are grown on the quotient of what was claimed before, so every one of them
can be contracted without closing a cycle. Regions that fail a review give their nodes back, and the
rest is grown again, because what was in the way may now be gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.ir import Adjacency, Node
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.convexity import weak_components
from subgraphkit.partitioning.algorithms.growth import grow_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, level_regions
from subgraphkit.partitioning.claiming.borders import Borders, refuse_unit
from subgraphkit.partitioning.claiming.claimants import Claim
from subgraphkit.partitioning.claiming.copies import Copying
from subgraphkit.partitioning.claiming.driving import SelectorDriver
from subgraphkit.partitioning.claiming.pulling import pull_in
from subgraphkit.partitioning.claiming.questioning import BorderQuestions
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.review import Candidates, Reviewer
from subgraphkit.partitioning.claiming.work_table import Region, View, Workspace

__all__ = ["Outcome", "claim_regions"]

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
class Outcome:
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


def claim_regions(
    workspace: Workspace,
    claims: Sequence[Claim],
    index: int,
    refusals: RefusalColumn,
    barred: bytearray,
) -> Outcome:
    """Let one property claim regions of what is free.

    Args:
        workspace: The work table; the claimed regions are entered into it.
        claims: All properties in order.
        index: The place of the one whose turn it is.
        refusals: Where its reasons are kept.
        barred: By rank, 1 for nodes that constraints keep from the backend; their reasons are in
            ``refusals`` already.

    Raises:
        SelectorContractError: A selector (SGK121) or the property (SGK122) broke its contract.
    """
    turn = _Turn(workspace, claims, index, refusals, barred)
    eligible = turn.eligible
    reviewer = Reviewer(
        turn.inquiry,
        index,
        workspace,
        view=turn.view,
        borders=turn.borders,
        refusals=refusals,
        splittable=turn.inquiry.flag(turn.selector, "splittable"),
    )
    reviewer.loose = turn.loose
    # What the last property parts, nobody is left to keep together.
    reviewer.torn = turn.torn if index + 1 < len(claims) else ()
    candidates, kept = Candidates([]), []
    for _ in range(_REVIEW_ROUNDS):
        candidates = turn.grow_within_borders(eligible, reviewer)
        kept = reviewer.review(candidates)
        for units in candidates.rejected:
            for unit in units:
                eligible[unit] = 0
        if not candidates.rejected:
            break
    else:
        kept = reviewer.keep_sound(kept)
    bound = turn.bound(candidates, kept)
    _commit(workspace, kept, refusals)
    view = turn.view
    return Outcome(len(kept), bound, candidates.maximal, view.adjacency, view.unit_of, eligible)


def _commit(workspace: Workspace, kept: list[Region], refusals: RefusalColumn) -> None:
    for region in kept:
        workspace.claim(region)
        refusals.clear(map(workspace.order.__getitem__, region.ranks))
    if any(region.copies for region in kept):
        pull_in(workspace, kept, refusals)


class _Turn:
    """One property's turn up to the review: its view of the graph, its questions, its growth.

    Attributes:
        loose: Ranks of groups that do not hang together by themselves.
        torn: Atoms that could not be made one unit.
        eligible: By unit, 1 for what the property may take.
    """

    def __init__(
        self,
        workspace: Workspace,
        claims: Sequence[Claim],
        index: int,
        refusals: RefusalColumn,
        barred: bytearray,
    ) -> None:
        self.workspace = workspace
        self.claim = claims[index]
        self.refusals = refusals
        self.barred = bytearray(barred)
        self.inquiry = Inquiry(self.claim, workspace.graph)
        self.loose: frozenset[int] = frozenset()
        self.torn: list[Sequence[int]] = []
        self._together: set[int] = set(workspace.in_atoms)
        self.view: View = self._view()
        self.selector: SubgraphSelector = self.inquiry.new_selector()
        self.eligible = self._ask_eligible()
        questions = BorderQuestions(self.inquiry, index, workspace)
        copying = Copying(
            self.inquiry,
            workspace,
            self.selector,
            barred=self.barred,
            together=self._together,
            takes=self.view.by_rank(self.eligible),
            claims=claims,
            questions=questions,
        )
        self.borders = Borders(workspace, questions, copying)

    def _ask_eligible(self) -> bytearray:
        free = np.array(self.workspace.free, np.uint8)
        candidates = bytearray((free & ~np.array(self.barred, np.uint8)).tobytes())
        wanted = candidates
        if self.selector.stateless:
            wanted = self.inquiry.ask_each(self.selector, self.workspace, candidates, self.refusals)
        eligible = self.view.whole_units(wanted)
        if self.view.members is not None:
            self._refuse_parts(wanted, eligible)
        return eligible

    def grow_within_borders(self, eligible: bytearray, reviewer: Reviewer) -> Candidates:
        """Grow candidate regions whose edges are crossed by permitted values only."""
        borders = self.borders
        if not borders.active:
            return self._grow(eligible)
        for _ in range(_BORDER_ROUNDS):
            borders.peel(self.view, eligible, self.refusals)
            candidates = self._grow(eligible)
            regions = [self.view.ranks(units) for units in candidates.regions]
            forbidden = borders.forbidden(regions)
            if not forbidden:
                return candidates
            for _, rank, refusal in forbidden:
                unit = self.view.unit_of[rank]
                if eligible[unit]:
                    eligible[unit] = 0
                    members = self.view.ranks_of(unit)
                    refuse_unit(self.workspace, members, rank, refusal, self.refusals)
        borders.peel(self.view, eligible, self.refusals)
        candidates = self._grow(eligible)
        reviewer.drop_bad_edges(candidates)
        return candidates

    def bound(self, candidates: Candidates, kept: list[Region]) -> int:
        """Return the fewest regions into which what was kept can be divided."""
        bound = candidates.lower_bound
        if candidates.rejected or bound is None:
            claimed = bytearray(self.view.adjacency.count)
            for region in kept:
                for rank in region.ranks:
                    claimed[self.view.unit_of[rank]] = 1
            bound = level_bound(self.view.adjacency, claimed) if kept else 0
        limit = self.claim.property.max_nodes
        if limit is None:
            return bound
        return max(bound, -(-sum(len(region.ranks) for region in kept) // limit))

    def _view(self) -> View:
        groups = self._named_groups()
        named = {rank for group in groups for rank in group}
        view, dropped = self.workspace.view(groups)
        for ranks in dropped:
            if named.isdisjoint(ranks):
                self.torn.append(ranks)
            else:
                self._bar(ranks, "the group cannot stay together: a path leaves it and comes back")
        return view

    def _named_groups(self) -> list[list[int]]:
        """Return the property's groups as ranks; bar what is left of groups claimed in part."""
        workspace = self.workspace
        groups = []
        for nodes in self.inquiry.groups():
            ranks = {workspace.rank_of[node] for node in nodes}
            inside = sorted(rank for rank in ranks if rank >= 0 and not workspace.constant[rank])
            if len(ranks) > 1:
                self._together.update(inside)
            free = [rank for rank in inside if workspace.free[rank]]
            if min(ranks, default=0) < 0 or len(free) < len(inside):
                self._bar(free, "another node of the group was claimed before")
            elif free:
                groups.append(free)
                if len(weak_components(workspace.adjacency, free)) > 1:
                    self.loose |= frozenset(free)
        return groups

    def _bar(self, ranks: Collection[int], text: str) -> None:
        refusal = Refusal("group", text)
        for rank in ranks:
            self.barred[rank] = 1
            self.refusals.refuse(self.workspace.order[rank], refusal)

    def _refuse_parts(self, wanted: bytearray, eligible: bytearray) -> None:
        """Refuse what is wanted of groups that are not wanted as a whole."""
        unit_of, order = self.view.unit_of, self.workspace.order
        missing: dict[int, int] = {}
        for rank in compress(range(len(wanted)), wanted):
            unit = unit_of[rank]
            if eligible[unit]:
                continue
            if unit not in missing:
                missing[unit] = next(r for r in self.view.ranks_of(unit) if not wanted[r])
            at = missing[unit]
            reason = self.refusals.of(order[at])
            if reason is not None:
                refuse_unit(self.workspace, [at, rank], at, reason, self.refusals)

    def _grow(self, eligible: bytearray) -> Candidates:
        view = self.view
        if not any(eligible):
            return Candidates([], 0)
        if not self.selector.stateless:
            return self._grow_by_questions(eligible)
        nets = self.workspace.nets(view)
        if self.claim.property.connectivity == "any":
            regions = level_regions(view.adjacency, eligible, nets)
            return Candidates(regions, len(regions))
        result = connected_regions(view.adjacency, eligible, nets)
        return Candidates(result.regions, result.lower_bound, result.maximal)

    def _grow_by_questions(self, eligible: bytearray) -> Candidates:
        driver = SelectorDriver(
            self.inquiry, self.workspace, self.view, self.refusals, self.inquiry.new_selector()
        )
        connectivity = self.claim.property.connectivity
        result = grow_regions(self.view.adjacency, eligible, driver, connectivity=connectivity)
        for exclusion in result.excluded:
            if exclusion.reason == "declined":
                continue
            refusal = self._excluded(exclusion.reason, exclusion.path)
            for rank in self.view.ranks_of(exclusion.unit):
                self.refusals.refuse(self.workspace.order[rank], refusal)
        return Candidates(result.regions, maximal=result.complete)

    def _excluded(self, reason: str, path: Sequence[int]) -> Refusal:
        if reason == "filtered":
            return Refusal("filtered", "the selector's filter dropped the node")
        shown = " > ".join(self._label(unit) for unit in path)
        text = "taking the node would make subgraphs wait on each other"
        return Refusal("not_convex", f"{text}: {shown}" if shown else text)

    def _label(self, unit: int) -> str:
        rank = self.view.ranks_of(unit)[0]
        return Node(self.workspace.graph, self.workspace.order[rank]).label
