from .batching import Batcher as Batcher
from .binding_io import IOBinding as IOBinding
from .feeds import NodeArg as NodeArg
from .observing import RunStats as RunStats
from .profiling import Profile as Profile
from .profiling import Recorder as Recorder
from .session import Session as Session
from .stopping import RunOptions as RunOptions
