"""Reports on a finished partitioning: tables, reasons, quality and graphs."""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Explanation": "subgraphkit.partitioning.reports.explanation",
    "Memory": "subgraphkit.partitioning.reports.memory",
    "Quality": "subgraphkit.partitioning.reports.quality",
    "Shortfall": "subgraphkit.partitioning.reports.shortfalls",
    "as_data": "subgraphkit.partitioning.reports.renderings",
    "as_fragment": "subgraphkit.partitioning.reports.sections",
    "as_networkx": "subgraphkit.partitioning.reports.renderings",
    "as_page": "subgraphkit.partitioning.reports.sections",
    "as_text": "subgraphkit.partitioning.reports.renderings",
    "explain": "subgraphkit.partitioning.reports.explanation",
    "check_memory": "subgraphkit.partitioning.reports.memory",
    "find_shortfall": "subgraphkit.partitioning.reports.shortfalls",
    "foresee": "subgraphkit.partitioning.reports.memory",
    "measure": "subgraphkit.partitioning.reports.quality",
}
"""By name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
