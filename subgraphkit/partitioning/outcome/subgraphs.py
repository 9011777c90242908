"""Subgraphs made of the claimed regions: constants at home, edges drawn, everything verified."""

from collections.abc import Collection
from itertools import compress

from subgraphkit.ir import Subgraph, boundaries, make_subgraph
from subgraphkit.partitioning.claiming.turns import Turns
from subgraphkit.partitioning.claiming.work_table import Region, WorkTable
from subgraphkit.partitioning.outcome.verification import (
    region_by_rank,
    verify_borders,
    verify_edges,
    verify_regions,
)

__all__ = ["Cut", "cut"]

Cut = tuple[Subgraph, int]
"""A subgraph and the place of the property that claimed it."""


def cut(work: WorkTable, turns: Turns, also_wanted: Collection[str] = ()) -> list[Cut]:
    """Turn the claimed regions into subgraphs, in an order in which they can run.

    A ``Constant`` node goes where its first reader is. One that nobody reads goes to the last
    subgraph of the last property, or to a subgraph of its own if there is no other; its value is
    known without running anything.

    Args:
        work: The work table, with every node claimed.
        turns: What came of all turns.
        also_wanted: Values read outside the part of the graph that the pass works on.

    Raises:
        InternalError: The verifier found a broken promise.
    """
    verify_regions(work, work.regions)
    ordered = work.in_run_order()
    constants = _constants_by_region(work, ordered, turns)
    nodes = [
        work.nodes_of(region, constants.get(index, ())) for index, region in enumerate(ordered)
    ]
    copies = {
        index: work.copied_nodes(region) for index, region in enumerate(ordered) if region.copies
    }
    edges = boundaries(work.graph, nodes, copies, also_wanted=also_wanted)
    made = []
    for index, (region, row, edge) in enumerate(zip(ordered, nodes, edges, strict=True)):
        claim = turns.claims[region.claimant]
        subgraph = make_subgraph(
            work.graph,
            row,
            claim.backend.name,
            claim.property_name,
            copies=copies.get(index, ()),
            edge=edge,
        )
        made.append((subgraph, region.claimant))
    verify_edges(work, [subgraph for subgraph, _ in made], also_wanted)
    verify_borders(work, made)
    return made


def _constants_by_region(
    work: WorkTable, ordered: list[Region], turns: Turns
) -> dict[int, list[int]]:
    """Place every constant rank; may append one region that holds nothing else."""
    if not any(work.constant):
        return {}
    made, order = work.graph.table.outputs, work.order
    ranks = range(work.count)
    homeless = {made[order[rank]][0]: rank for rank in compress(ranks, work.constant)}
    region_of = region_by_rank(work, ordered)
    placed: dict[int, list[int]] = {}
    for rank in ranks:
        for value in work.graph.read_by(order[rank]):
            if value in homeless and region_of[rank] >= 0:
                placed.setdefault(region_of[rank], []).append(homeless.pop(value))
    if homeless:
        if not ordered:
            ordered.append(Region(len(turns.claims) - 1, []))
        last = max(range(len(ordered)), key=lambda index: (ordered[index].claimant, index))
        placed.setdefault(last, []).extend(homeless.values())
    return placed
