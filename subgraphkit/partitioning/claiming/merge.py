"""Regions made of candidates: as few as the property's rule allows, and none waits on another.

The regions are found on a graph in which earlier claims are contracted. So each region can be
contracted too without closing a cycle.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.connected import Division, connected_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, level_regions
from subgraphkit.partitioning.algorithms.quotient import split_to_size, weak_components
from subgraphkit.partitioning.claiming.graph import Pass


class Grown(NamedTuple):
    """The nodes taken by selectors.

    Attributes:
        labels: By rank, the number of the candidate a node is in; 0 for none.
        whole: Whether some candidate must stay whole, so that no other division will do.
        complete: False if a selector gave nodes back until the budget ran out. Nodes given back
            after that were not tried again.
    """

    labels: Sequence[int]
    whole: bool
    complete: bool


def divide(pass_: Pass, labels: Sequence[int], *, from_start: bool = False) -> Division:
    """Divide candidates, each by itself, into few regions that do not wait on each other.

    ``labels``: By rank, the number of the candidate a node is in; 0 for none.
    ``from_start``: See ``connected_regions``.
    """
    found = connected_regions(
        pass_.graph.adjacency,
        pass_.graph.by_vertex(labels),
        apart=pass_.asked.claim.property.connectivity == "any",
        from_start=from_start,
    )
    return found._replace(regions=[pass_.graph.ranks(region) for region in found.regions])


def merge(pass_: Pass, grown: Grown) -> tuple[list[list[int]], int, bool]:
    """Make regions of the nodes taken by selectors.

    This returns the regions by rank, a lower bound of their number under the property's rule, and
    whether every possible merge was tried.
    """
    connectivity = pass_.asked.claim.property.connectivity
    if connectivity == "any" and not grown.whole:
        taken = bytearray(map(bool, pass_.graph.by_vertex(grown.labels)))
        regions = level_regions(pass_.graph.adjacency, taken, lambda: pass_.nets)
        bound, maximal = len(regions), True
        regions = [pass_.graph.ranks(region) for region in regions]
    else:
        found = divide(pass_, grown.labels, from_start=grown.whole)
        regions, bound, maximal = found.regions, found.lower_bound, found.maximal
        if grown.labels is not pass_.eligible:
            bound = bound_of(pass_, regions)
    if (limit := pass_.asked.claim.property.max_nodes) is not None:
        bound = max(bound, -(-sum(map(len, regions)) // limit))
        if pass_.asked.flag(pass_.selector, "splittable"):
            regions = [piece for region in regions for piece in _pieces(pass_, region, limit)]
    return regions, bound, maximal and grown.complete


def bound_of(pass_: Pass, regions: Sequence[Sequence[int]]) -> int:
    """Return the fewest regions into which the nodes of some can be divided."""
    graph = pass_.graph
    taken = bytearray(graph.adjacency.count)
    for region in regions:
        for rank in region:
            taken[graph.vertex_of[rank]] = 1
    return level_bound(graph.adjacency, taken) if regions else 0


def _pieces(pass_: Pass, region: list[int], limit: int) -> list[list[int]]:
    """Cut a region into pieces of at most ``limit`` nodes, or of one vertex."""
    graph = pass_.graph
    connected = pass_.asked.claim.property.connectivity == "connected"
    pieces = []
    pending = [(sorted({graph.vertex_of[rank] for rank in region}), limit)]
    while pending:
        vertices, most = pending.pop()
        ranks = graph.ranks(vertices)
        if len(vertices) == 1 or len(ranks) <= limit:
            pieces.append(ranks)
            continue
        # A vertex may be several nodes, so a piece may still be too large.
        most = min(most, len(vertices) - 1)
        split = split_to_size(graph.adjacency, vertices, most, connected=connected)
        pending += [(piece, max(1, most // 2)) for piece in split]
    return pieces


def divide_one(pass_: Pass, ranks: Sequence[int]) -> tuple[list[list[int]], list[int], int]:
    """Divide one candidate as if there were no others.

    This returns its parts (one if it can stay whole), a way, and the edges looked at. The way
    leaves it and comes back, from rank to rank; it is empty if there is none. Neighbours on it
    share an edge or lie in one region claimed before.
    """
    graph, adjacency = pass_.graph, pass_.graph.adjacency
    inside = {graph.vertex_of[rank] for rank in ranks}
    before, way, work = _exits(adjacency, inside)
    apart = pass_.asked.claim.property.connectivity == "any"
    if not way and (apart or len(weak_components(adjacency, sorted(inside))) == 1):
        return [list(ranks)], [], work
    names = sorted({*inside, *before})
    number = {name: place for place, name in enumerate(names)}
    rows = [[number[p] for p in adjacency.predecessors(name) if p in number] for name in names]
    labels = bytearray(name in inside for name in names)
    local = Adjacency.from_predecessors(rows)
    found = connected_regions(local, labels, apart=apart, from_start=True).regions
    parts = [graph.ranks(names[place] for place in part) for part in found]
    return parts, [graph.ranks((vertex,))[0] for vertex in way], work


def _exits(adjacency: Adjacency, inside: Collection[int]) -> tuple[dict[int, int], list[int], int]:
    """Follow the edges that leave some vertices, up to the last of these.

    This returns the vertices met, each with the one before it, a way that comes back in, and the
    number of edges seen.
    """
    last, work = max(inside), 0
    before: dict[int, int] = {}
    way: list[int] = []
    queue = sorted(inside)
    for vertex in queue:
        successors = adjacency.successors(vertex)
        work += len(successors)
        for other in successors:
            if other in inside:
                if vertex not in inside and not way:
                    way = [other, vertex]
                    while way[-1] in before:
                        way.append(before[way[-1]])
            elif other < last and other not in before:
                before[other] = vertex
                queue.append(other)
    return before, way[::-1], work
