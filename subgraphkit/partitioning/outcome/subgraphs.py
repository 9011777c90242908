"""From claimed regions to subgraphs: constants find a home, edges are drawn, all is verified."""

from collections.abc import Collection, Sequence
from itertools import compress

from subgraphkit.ir import Subgraph, boundaries, make_subgraph
from subgraphkit.partitioning.algorithms.quotient import run_order
from subgraphkit.partitioning.claiming.turns import Turns
from subgraphkit.partitioning.claiming.work_table import Region, Workspace
from subgraphkit.partitioning.outcome.verification import (
    region_by_rank,
    verify_borders,
    verify_edges,
    verify_regions,
)

__all__ = ["Cut", "cut"]

Cut = tuple[Subgraph, int]
"""A subgraph and the place of the property that claimed it."""


def cut(workspace: Workspace, turns: Turns, also_wanted: Collection[str] = ()) -> list[Cut]:
    """Turn the claimed regions into subgraphs, in an order in which they can run.

    A ``Constant`` node goes where its first reader is. One that nobody reads goes to the last
    subgraph of the last property, or to a subgraph of its own if there is no other; its value is
    known without running anything.

    Args:
        workspace: The work table, with every node claimed.
        turns: What came of all turns.
        also_wanted: Values read outside the part of the graph that the pass works on.

    Raises:
        InternalError: The verifier found a broken promise.
    """
    regions = workspace.regions
    verify_regions(workspace, regions)
    ordered = [regions[index] for index in _order(workspace, regions)]
    constants = _constants_by_region(workspace, ordered, turns)
    node_at = workspace.order
    nodes = [
        _nodes(workspace, _runs(region, constants.get(index)))
        for index, region in enumerate(ordered)
    ]
    copies = {
        index: frozenset(node_at[rank] for rank in region.copies)
        for index, region in enumerate(ordered)
        if region.copies
    }
    edges = boundaries(workspace.graph, nodes, copies, also_wanted=also_wanted)
    made = []
    for index, (region, row, edge) in enumerate(zip(ordered, nodes, edges, strict=True)):
        claim = turns.claims[region.claimant]
        subgraph = make_subgraph(
            workspace.graph,
            row,
            claim.backend.name,
            claim.property_name,
            copies=copies.get(index, ()),
            edge=edge,
        )
        made.append((subgraph, region.claimant))
    verify_edges(workspace, [subgraph for subgraph, _ in made], also_wanted)
    verify_borders(workspace, made, turns.claims)
    return made


def _order(workspace: Workspace, regions: Sequence[Region]) -> list[int]:
    return run_order(workspace.adjacency, [region.ranks for region in regions])


def _runs(region: Region, constants: list[int] | None) -> list[int]:
    if not constants and not region.copies:
        return region.ranks
    return sorted({*region.ranks, *region.copies, *(constants or ())})


def _nodes(workspace: Workspace, ranks: list[int]) -> list[int]:
    if workspace.in_file_order:
        return ranks
    return [workspace.order[rank] for rank in ranks]


def _constants_by_region(
    workspace: Workspace, ordered: list[Region], turns: Turns
) -> dict[int, list[int]]:
    """Place every constant rank; may append one region that holds nothing else."""
    if not any(workspace.constant):
        return {}
    made, order = workspace.graph.table.outputs, workspace.order
    ranks = range(workspace.count)
    homeless = {made[order[rank]][0]: rank for rank in compress(ranks, workspace.constant)}
    region_of = region_by_rank(workspace, ordered)
    placed: dict[int, list[int]] = {}
    for rank in ranks:
        for value in workspace.read_by(order[rank]):
            if value in homeless and region_of[rank] >= 0:
                placed.setdefault(region_of[rank], []).append(homeless.pop(value))
    if homeless:
        if not ordered:
            ordered.append(Region(len(turns.claims) - 1, []))
        last = max(range(len(ordered)), key=lambda index: (ordered[index].claimant, index))
        placed.setdefault(last, []).extend(homeless.values())
    return placed
