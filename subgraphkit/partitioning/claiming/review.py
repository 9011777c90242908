"""Reviewing candidate regions: size limits, the property's own review, copies."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node, make_subgraph
from subgraphkit.partitioning.algorithms.nets import Nets
from subgraphkit.partitioning.algorithms.pieces import split_to_size
from subgraphkit.partitioning.claiming.borders import Borders
from subgraphkit.partitioning.claiming.copies import most_copies
from subgraphkit.partitioning.claiming.questioning import overrides
from subgraphkit.partitioning.claiming.questions import Inquiry
from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.work_table import Region, View, Workspace

__all__ = ["Candidates", "Reviewer"]


@dataclass(slots=True)
class Candidates:
    """Candidate regions in units, with what is known of their number.

    Attributes:
        regions: The candidates.
        lower_bound: The fewest regions possible, or None if it has to be computed.
        maximal: Whether every possible merge was tried.
        rejected: Candidates given back; they are not among ``regions``.
    """

    regions: list[list[int]]
    lower_bound: int | None = None
    maximal: bool = True
    rejected: list[list[int]] = field(default_factory=list)


class Reviewer:
    """Reviews the candidates of one property.

    Copies count towards ``max_nodes``, since the backend compiles them too. What a region's pieces
    are is not the selector's business: ``filter`` has seen the candidate as a whole, and a selector
    that wants it whole says so by ``splittable = False``; then a region that is too large is given
    back instead of being cut.

    Attributes:
        loose: Ranks of groups that do not hang together by themselves.
        torn: Sets of ranks that should stay together and could not be made one unit; a property
            after this one can take what this one would part.

    Args:
        inquiry: The property asked.
        index: Its place among those asked.
        workspace: The work table.
        view: The graph in units.
        borders: What may cross edges.
        refusals: Where to keep the reasons.
        splittable: Whether the selector lets its regions be cut.
    """

    def __init__(  # noqa: PLR0913 (all that a review depends on)
        self,
        inquiry: Inquiry,
        index: int,
        workspace: Workspace,
        *,
        view: View,
        borders: Borders,
        refusals: RefusalColumn,
        splittable: bool = True,
    ) -> None:
        self._inquiry = inquiry
        self._property = inquiry.claim.property
        self._index = index
        self._workspace = workspace
        self._view = view
        self._borders = borders
        self._refusals = refusals
        self._connected = self._property.connectivity == "connected"
        self._has_own_review = overrides(inquiry.claim.property, "accept")
        self._splittable = splittable
        self._copies_left = 0
        self.loose: frozenset[int] = frozenset()
        self.torn: Sequence[Sequence[int]] = ()

    def review(self, candidates: Candidates) -> list[Region]:
        """Return the regions that pass; give back the others and say why."""
        kept = []
        made = sum(len(region.copies) for region in self._workspace.regions)
        self._copies_left = most_copies(len(self._workspace.graph.table.op_types)) - made
        for units in self._sized(candidates):
            region = self._region(units)
            refusal = _NO_ROOM if region is None else self._judge(region)
            if region is not None and refusal is None:
                kept.append(region)
            elif refusal is not None:
                self.reject(candidates, units, refusal)
        self._reject_torn(candidates, kept)
        return sorted(kept, key=lambda region: region.ranks[0])

    def keep_sound(self, kept: list[Region]) -> list[Region]:
        """Give back regions that break a promise because a region beside them was given back.

        The last resort, where there is no round left to grow them again: what is found does not
        depend on which other regions stay, so once is enough.
        """
        bad: dict[int, Refusal] = {}
        if self._borders.active:
            ranks = [region.ranks for region in kept]
            found = self._borders.forbidden(ranks, copies_serve=False)
            bad = {index: refusal for index, _, refusal in found}
        sound = [region for index, region in enumerate(kept) if index not in bad]
        for index, refusal in bad.items():
            self._refuse(kept[index].ranks, refusal)
        while parted := self._parted(sound):
            inside = frozenset(rank for ranks in parted for rank in ranks)
            for region in sound:
                if not inside.isdisjoint(region.ranks):
                    self._refuse(region.ranks, _TORN)
            sound = [region for region in sound if inside.isdisjoint(region.ranks)]
        return sound

    def reject(self, candidates: Candidates, units: list[int], refusal: Refusal) -> None:
        """Give one candidate back."""
        candidates.rejected.append(units)
        self._refuse(self._view.ranks(units), refusal)

    def drop_bad_edges(self, candidates: Candidates) -> None:
        """Give back whole regions with forbidden values, which makes no new edges."""
        ranks = [self._view.ranks(units) for units in candidates.regions]
        bad = {index: refusal for index, _, refusal in self._borders.forbidden(ranks)}
        for index, refusal in bad.items():
            self.reject(candidates, candidates.regions[index], refusal)
        candidates.regions = [
            units for index, units in enumerate(candidates.regions) if index not in bad
        ]

    def _sized(self, candidates: Candidates) -> list[list[int]]:
        """Cut regions that are too large; what an atomic group makes too large is given back."""
        limit = self._property.max_nodes
        if limit is None:
            return candidates.regions
        cut = Candidates([])
        for units in candidates.regions:
            pieces = self._pieces(units, limit) if self._splittable else [units]
            for piece in pieces:
                if self._fits(piece, limit):
                    cut.regions.append(piece)
                else:
                    self.reject(candidates, piece, self._too_large(piece, limit))
        if self._borders.active:
            self.drop_bad_edges(cut)
            candidates.rejected += cut.rejected
        return cut.regions

    def _pieces(self, units: list[int], limit: int) -> list[list[int]]:
        """Cut a region into pieces of at most ``limit`` nodes, or of one unit."""
        pieces, pending = [], [(units, limit)]
        while pending:
            current, most_units = pending.pop()
            if len(current) == 1 or self._fits(current, limit):
                pieces.append(current)
                continue
            # Units may hold several nodes each, and need copies, so a piece may still be too large.
            most_units = min(most_units, max(1, len(current) - 1))
            split = split_to_size(
                self._view.adjacency,
                sorted(current),
                most_units,
                self._nets,
                connected=self._connected,
            )
            pending += [(piece, max(1, most_units // 2)) for piece in split]
        return pieces

    @cached_property
    def _nets(self) -> Nets:
        return self._workspace.nets(self._view)

    def _fits(self, units: list[int], limit: int) -> bool:
        """Say whether a region is small enough, with the copies that it cannot do without."""
        count = self._view.node_count(units)
        if count > limit or not self._borders.copying.active:
            return count <= limit
        ranks, copying = self._view.ranks(units), self._borders.copying
        if copying.all_copies(ranks, limit - count) is not None:
            return True
        return copying.fitting_copies(ranks, limit - count) is not None

    def _too_large(self, units: list[int], limit: int) -> Refusal:
        count = self._view.node_count(units)
        what = "a region that may not be cut" if len(units) > 1 else "an atomic group"
        if count == 1 or count <= limit:
            nodes = "1 node" if count == 1 else f"{count} nodes"
            what, shown = "a region", f"{nodes} and cannot do without copies of others"
        else:
            shown = f"{count} nodes"
        return Refusal("too_large", f"{what} has {shown}, the property's maximum is {limit}")

    def _region(self, units: list[int]) -> Region | None:
        """Make a region with its copies; None if there are too few left for it to have."""
        ranks = self._view.ranks(units)
        copies = self._copies_for(ranks)
        if copies is None:
            return None
        connected = self._connected and self.loose.isdisjoint(ranks)
        return Region(self._index, ranks, copies, connected)

    def _copies_for(self, ranks: Sequence[int]) -> frozenset[int] | None:
        copying, limit = self._borders.copying, self._property.max_nodes
        if not copying.active:
            return frozenset()
        left = room = self._copies_left
        if limit is not None:
            room = min(left, limit - len(ranks))
        copies = copying.all_copies(ranks, room)
        if copies is not None:
            self._copies_left -= len(copies)
            return copies
        copies = copying.fitting_copies(ranks, room)
        # Nobody gets any more, so that looking for what fits takes no time from here on.
        self._copies_left = 0 if room == left else left - len(copies or ())
        return copies

    def _reject_torn(self, candidates: Candidates, kept: list[Region]) -> None:
        """Give the nodes of parted groups back, so that the rest is grown without them."""
        for ranks in self._parted(kept):
            for unit in {self._view.unit_of[rank] for rank in ranks}:
                self.reject(candidates, [unit], _TORN)

    def _parted(self, kept: list[Region]) -> list[Sequence[int]]:
        """Return the groups of ``torn`` of which some region holds some nodes and not all."""
        if not self.torn:
            return []
        home = {rank: index for index, region in enumerate(kept) for rank in region.ranks}
        return [ranks for ranks in self.torn if len({home.get(rank) for rank in ranks}) > 1]

    def _refuse(self, ranks: Collection[int], refusal: Refusal) -> None:
        for rank in ranks:
            self._refusals.refuse(self._workspace.order[rank], refusal)

    def _judge(self, region: Region) -> Refusal | None:
        count, minimum = len(region.ranks), self._property.min_nodes
        if count < minimum:
            nodes = "1 node" if count == 1 else f"{count} nodes"
            return Refusal("too_small", f"region of {nodes}, the property's minimum is {minimum}")
        if not self._has_own_review:
            return None
        order, graph, claim = self._workspace.order, self._workspace.graph, self._inquiry.claim
        subgraph = make_subgraph(
            graph,
            [order[rank] for rank in sorted({*region.ranks, *region.copies})],
            claim.backend.name,
            claim.property_name,
            copies=frozenset(order[rank] for rank in region.copies),
        )
        first = Node(graph, order[region.ranks[0]])
        accept = self._property.accept
        refusal = self._inquiry.ask("accept", first, lambda: accept(subgraph), "SGK122")
        if refusal is not None and refusal.code == "declined":
            nodes = "1 node" if count == 1 else f"{count} nodes"
            return Refusal("not_accepted", f"the review did not accept the region of {nodes}")
        return refusal


_TORN = Refusal(
    "group",
    "QuantizeLinear and DequantizeLinear stay together, and a path between them is not taken",
)
_NO_ROOM = Refusal(
    "border", "the nodes that would have to be copied here are too many for one pass"
)
