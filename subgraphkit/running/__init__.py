"""Running: arrays in, arrays out; the last step of the road."""

from subgraphkit.running.binding_io import IOBinding
from subgraphkit.running.profiling import Profile
from subgraphkit.running.session import Session
from subgraphkit.running.stopping import RunOptions
from subgraphkit.running.values import NodeArg

__all__ = ["IOBinding", "NodeArg", "Profile", "RunOptions", "Session"]
