# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.running.batching import (
    Batcher,
)
from subgraphkit.running.binding_io import (
    IOBinding,
)
from subgraphkit.running.feeds import (
    NodeArg,
)
from subgraphkit.running.observing import (
    RunStats,
)
from subgraphkit.running.profiling import (
    Profile,
    Recorder,
)
from subgraphkit.running.session import (
    Session,
)
from subgraphkit.running.stopping import (
    RunOptions,
)

__all__ = [
    "Batcher",
    "IOBinding",
    "NodeArg",
    "Profile",
    "Recorder",
    "RunOptions",
    "RunStats",
    "Session",
]
