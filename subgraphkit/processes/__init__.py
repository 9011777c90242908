"""Child processes of our own interpreter, in which a plugin may crash, exit or never return.

Any backend may use them, for a library that does not survive what it is asked.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "AnsweringChild": "subgraphkit.processes.answering_child",
    "Ended": "subgraphkit.processes.child_process",
    "NoAnswer": "subgraphkit.processes.answering_child",
    "how_it_ended": "subgraphkit.processes.child_process",
    "run_child": "subgraphkit.processes.child_process",
    "stop_child": "subgraphkit.processes.child_process",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
