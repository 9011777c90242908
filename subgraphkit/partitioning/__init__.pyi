# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.partitioning.claiming.claimants import (
    Claim,
)
from subgraphkit.partitioning.claiming.constraints import (
    Constraints,
    NodeSelector,
)
from subgraphkit.partitioning.claiming.refusals import (
    RefusedBy,
)
from subgraphkit.partitioning.partitioning import (
    Partitioning,
    partition,
    partition_within,
)
from subgraphkit.partitioning.reports.explanation import (
    AskedProperty,
    Explanation,
)
from subgraphkit.partitioning.reports.quality import (
    BackendQuality,
    Quality,
)

__all__ = [
    "AskedProperty",
    "BackendQuality",
    "Claim",
    "Constraints",
    "Explanation",
    "NodeSelector",
    "Partitioning",
    "Quality",
    "RefusedBy",
    "partition",
    "partition_within",
]
