"""Running: arrays in, arrays out; the last step of the road."""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "Batcher": "subgraphkit.running.batching",
    "IOBinding": "subgraphkit.running.binding_io",
    "NodeArg": "subgraphkit.running.feeds",
    "Profile": "subgraphkit.running.profiling",
    "Recorder": "subgraphkit.running.profiling",
    "RunOptions": "subgraphkit.running.stopping",
    "RunStats": "subgraphkit.running.observing",
    "Session": "subgraphkit.running.session",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
