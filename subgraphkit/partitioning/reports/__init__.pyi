# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.partitioning.reports.explanation import (
    Explanation,
    explain,
)
from subgraphkit.partitioning.reports.memory import (
    Memory,
    check_memory,
    foresee,
)
from subgraphkit.partitioning.reports.quality import (
    Quality,
    measure,
)
from subgraphkit.partitioning.reports.renderings import (
    as_data,
    as_networkx,
    as_text,
)
from subgraphkit.partitioning.reports.sections import (
    as_fragment,
    as_page,
)
from subgraphkit.partitioning.reports.shortfalls import (
    Shortfall,
    find_shortfall,
)

__all__ = [
    "Explanation",
    "Memory",
    "Quality",
    "Shortfall",
    "as_data",
    "as_fragment",
    "as_networkx",
    "as_page",
    "as_text",
    "check_memory",
    "explain",
    "find_shortfall",
    "foresee",
    "measure",
]
