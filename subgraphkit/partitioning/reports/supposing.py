"""What supporting an operator would be worth: how many subgraphs would vanish."""

from array import array
from collections.abc import Sequence

from subgraphkit.ir import Node
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, levels_if
from subgraphkit.partitioning.claiming import Outcome
from subgraphkit.partitioning.result import PartitioningData

__all__ = ["regions_saved"]

# Reasons that would remain if the backend had the operator.
_NOT_ABOUT_THE_OPERATOR = frozenset(
    {"excluded", "filtered", "group", "not_accepted", "not_convex", "pinned", "too_large",
     "too_small"}
)  # fmt: skip

# Counting connected regions anew for every operator is worth seconds, not minutes.
_LARGEST_CONNECTED = 100_000


def regions_saved(partitioning: PartitioningData, index: int) -> dict[str, int]:
    """Count, by refused operator, how many fewer regions a property would need with it.

    The count follows the property's own rule. For connected regions of graphs beyond 100,000 units
    it is the change of the lower bound instead.

    Args:
        partitioning: The partitioning.
        index: Place of the property among those asked.
    """
    turns = partitioning.turns
    outcome = turns.outcomes[index]
    if outcome is None or not outcome.whole:
        return {}
    rank_of = array("i", [-1]) * len(partitioning.graph.table.op_types)
    for rank, node in enumerate(partitioning.graph.order):
        rank_of[node] = rank
    refused = _refused_units(partitioning, index, outcome, rank_of)
    if not refused:
        return {}
    claimed = _claimed_units(partitioning, index, outcome, rank_of)
    connected = turns.claims[index].property.connectivity == "connected"
    by_rule = connected and outcome.adjacency.count <= _LARGEST_CONNECTED
    now = _count(outcome, claimed, (), by_rule=by_rule)
    return {
        name: now - _count(outcome, claimed, more, by_rule=by_rule)
        for name, more in sorted(refused.items())
    }


def _refused_units(
    partitioning: PartitioningData, index: int, outcome: Outcome, rank_of: Sequence[int]
) -> dict[str, list[int]]:
    column, graph = partitioning.turns.columns[index], partitioning.graph
    units: dict[str, list[int]] = {}
    for node, refusal in column.items() if column is not None else ():
        if refusal.code not in _NOT_ABOUT_THE_OPERATOR:
            name = Node(graph, node).qualified_op_type
            units.setdefault(name, []).append(outcome.unit_of[rank_of[node]])
    return units


def _claimed_units(
    partitioning: PartitioningData, index: int, outcome: Outcome, rank_of: Sequence[int]
) -> bytearray:
    claimed = bytearray(outcome.adjacency.count)
    for place, subgraph in enumerate(partitioning.subgraphs):
        if partitioning.claimed_by[place] != index:
            continue
        for node in subgraph.home:
            if not partitioning.graph.is_constant_node(node):
                claimed[outcome.unit_of[rank_of[node]]] = 1
    return claimed


def _count(outcome: Outcome, claimed: bytearray, more: Sequence[int], *, by_rule: bool) -> int:
    if not by_rule:
        if not more:
            return level_bound(outcome.adjacency, claimed)
        return levels_if(outcome.adjacency, claimed, more)
    supposed = bytearray(claimed)
    for unit in more:
        supposed[unit] = 1
    return len(connected_regions(outcome.adjacency, supposed).regions)
