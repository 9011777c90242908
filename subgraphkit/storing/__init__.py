"""Folders of this user alone, with the files, locks and answers of libraries kept in them.

All of it may be used by any backend. What is kept makes the next time quicker and never changes a
result; it may be gone tomorrow, so nothing is raised where it cannot be read or written.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Answers": "subgraphkit.storing.answers",
    "KeptFile": "subgraphkit.storing.kept_files",
    "Passing": "subgraphkit.storing.answers",
    "is_machine_fault": "subgraphkit.storing.answers",
    "locked": "subgraphkit.storing.locks",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
