# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.storing.answers import (
    Answers,
    Passing,
    is_machine_fault,
)
from subgraphkit.storing.kept_files import (
    KeptFile,
)
from subgraphkit.storing.locks import (
    locked,
)

__all__ = [
    "Answers",
    "KeptFile",
    "Passing",
    "is_machine_fault",
    "locked",
]
