"""Making copied nodes at home where they are copied, if nobody else reads them."""

from subgraphkit.partitioning.claiming.refusals import RefusalColumn
from subgraphkit.partitioning.claiming.work_table import Region, Workspace

__all__ = ["pull_in"]


def pull_in(workspace: Workspace, kept: list[Region], refusals: RefusalColumn) -> None:
    """Move free nodes whose every reader runs a copy of them into one of these regions.

    A node's new home is the first of its readers' regions to run, so all its edges still lead
    forwards and no cycle can arise.

    Args:
        workspace: The work table; ``kept`` is entered into it already, and changed.
        kept: The regions of one property.
        refusals: The property's refusals.
    """
    graph = workspace.graph
    home = {rank: region for region in kept for rank in region.ranks}
    place = {id(region): at for at, region in enumerate(workspace.in_run_order())}
    copied = {rank for region in kept for rank in region.copies}
    # Readers first, so that a chain is pulled in from its end.
    for rank in sorted(copied, reverse=True):
        node = workspace.order[rank]
        made = graph.table.outputs[node]
        if not workspace.free[rank] or any(map(graph.is_output, made)):
            continue
        if not workspace.wanted.isdisjoint(made):
            # A copy in somebody else's region reads it, which no edge of the graph shows.
            continue
        readers = _regions_reading(workspace, home, rank)
        if not readers:
            continue
        new_home = min(readers, key=lambda region: place[id(region)])
        new_home.copies -= {rank}
        new_home.ranks = sorted([*new_home.ranks, rank])
        home[rank] = new_home
        workspace.free[rank] = 0
        refusals.clear((node,))


def _regions_reading(workspace: Workspace, home: dict[int, Region], rank: int) -> list[Region]:
    """Return the regions of a node's readers, or nothing if a reader runs without a copy."""
    found = []
    for reader in workspace.graph.adjacency.successors(workspace.order[rank]):
        region = home.get(workspace.rank_of[reader])
        if region is None or rank not in region.copies:
            return []
        found.append(region)
    return found
