# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.configuration.config import (
    ResolvedConfig,
    resolve,
)
from subgraphkit.configuration.settings import (
    Folders,
)

__all__ = [
    "Folders",
    "ResolvedConfig",
    "resolve",
]
