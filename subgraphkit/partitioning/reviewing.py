"""Reviewing candidate regions: size limits, the property's own review, copies."""

from dataclasses import dataclass, field

from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.ir import Node, make_subgraph
from subgraphkit.partitioning.algorithms.splitting import split_to_size
from subgraphkit.partitioning.asking import Inquiry
from subgraphkit.partitioning.bordering import Borders
from subgraphkit.partitioning.refusing import RefusalColumn
from subgraphkit.partitioning.workspace import Region, View, Workspace

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

    Args:
        inquiry: The property asked.
        index: Its place among those asked.
        workspace: The work table.
        view: The graph in units.
        borders: What may cross edges.
        refusals: Where to keep the reasons.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        index: int,
        workspace: Workspace,
        *,
        view: View,
        borders: Borders,
        refusals: RefusalColumn,
    ) -> None:
        self._inquiry = inquiry
        self._property = inquiry.claim.property
        self._index = index
        self._workspace = workspace
        self._view = view
        self._borders = borders
        self._refusals = refusals
        self._connected = self._property.connectivity == "connected"
        self._has_own_review = _reviews(inquiry.claim.property)
        self.loose: frozenset[int] = frozenset()
        """Ranks of groups that do not hang together by themselves."""

    def review(self, candidates: Candidates) -> list[Region]:
        """Return the regions that pass; give back the others and say why."""
        kept = []
        for units in self._sized(candidates):
            region = self._region(units)
            refusal = self._judge(region)
            if refusal is None:
                kept.append(region)
            else:
                self.reject(candidates, units, refusal)
        return sorted(kept, key=lambda region: region.ranks[0])

    def reject(self, candidates: Candidates, units: list[int], refusal: Refusal) -> None:
        """Give one candidate back."""
        candidates.rejected.append(units)
        for rank in self._view.ranks(units):
            self._refusals.refuse(self._workspace.order[rank], refusal)

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
            for piece in self._pieces(units, limit):
                count = len(self._view.ranks(piece))
                if count <= limit:
                    cut.regions.append(piece)
                else:
                    text = f"an atomic group has {count} nodes, the property's maximum is {limit}"
                    self.reject(candidates, piece, Refusal("too_large", text))
        if self._borders.active:
            self.drop_bad_edges(cut)
            candidates.rejected += cut.rejected
        return cut.regions

    def _pieces(self, units: list[int], limit: int) -> list[list[int]]:
        """Cut a region into pieces of at most ``limit`` nodes, or of one unit."""
        pieces, pending = [], [(units, limit)]
        while pending:
            current, most_units = pending.pop()
            if len(self._view.ranks(current)) <= limit or len(current) == 1:
                pieces.append(current)
                continue
            # Units may hold several nodes each, so a piece may still be too large.
            most_units = min(most_units, max(1, len(current) - 1))
            nets = self._workspace.nets(self._view)
            split = split_to_size(
                self._view.adjacency, sorted(current), most_units, nets, connected=self._connected
            )
            pending += [(piece, max(1, most_units // 2)) for piece in split]
        return pieces

    def _region(self, units: list[int]) -> Region:
        ranks = self._view.ranks(units)
        connected = self._connected and self.loose.isdisjoint(ranks)
        return Region(self._index, ranks, self._borders.copies_for(ranks), connected)

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


def _reviews(property_: SubgraphProperty) -> bool:
    own = type(property_).accept is not SubgraphProperty.accept
    return own or "accept" in vars(property_)
