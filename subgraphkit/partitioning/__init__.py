"""Partitioning: the third step of the road, from a bound graph to subgraphs.

``partition`` lets every backend claim regions in order and returns a ``Partitioning``: every node
in exactly one subgraph, every region convex, the whole acyclic, and a reason for every refusal.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "AskedProperty": "subgraphkit.partitioning.reports.explanation",
    "BackendQuality": "subgraphkit.partitioning.reports.quality",
    "Claim": "subgraphkit.partitioning.claiming.claimants",
    "Constraints": "subgraphkit.partitioning.claiming.constraints",
    "Explanation": "subgraphkit.partitioning.reports.explanation",
    "NodeSelector": "subgraphkit.partitioning.claiming.constraints",
    "Partitioning": "subgraphkit.partitioning.partitioning",
    "Quality": "subgraphkit.partitioning.reports.quality",
    "RefusedBy": "subgraphkit.partitioning.claiming.refusals",
    "partition": "subgraphkit.partitioning.partitioning",
    "partition_within": "subgraphkit.partitioning.partitioning",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
