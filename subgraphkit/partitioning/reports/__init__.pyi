# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.partitioning.reports.explanation import (
    Explanation,
    explain,
)
from subgraphkit.partitioning.reports.memory import (
    Memory,
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

__all__ = [
    "Explanation",
    "Memory",
    "Quality",
    "as_data",
    "as_fragment",
    "as_networkx",
    "as_page",
    "as_text",
    "explain",
    "foresee",
    "measure",
]
