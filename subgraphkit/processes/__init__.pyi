# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.processes.answering_child import (
    AnsweringChild,
    NoAnswer,
)
from subgraphkit.processes.child_process import (
    Ended,
    how_it_ended,
    run_child,
    stop_child,
)

__all__ = [
    "AnsweringChild",
    "Ended",
    "NoAnswer",
    "how_it_ended",
    "run_child",
    "stop_child",
]
