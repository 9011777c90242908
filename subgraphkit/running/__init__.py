"""Running: arrays in, arrays out; the last step of the road."""

from subgraphkit.running.batching import Batcher
from subgraphkit.running.binding_io import IOBinding
from subgraphkit.running.profiling import Profile
from subgraphkit.running.session import Session
from subgraphkit.running.stopping import RunOptions
from subgraphkit.running.tally import RunStats
from subgraphkit.running.values import NodeArg

__all__ = ["Batcher", "IOBinding", "NodeArg", "Profile", "RunOptions", "RunStats", "Session"]
