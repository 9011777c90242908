# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit import (
    errors,
)
from subgraphkit.backend.contract import (
    Backend,
    ProbeResult,
)
from subgraphkit.backend.hookspecs import (
    hookimpl,
)
from subgraphkit.backend.operator import (
    SubgraphOperator,
)
from subgraphkit.backend.options import (
    Option,
)
from subgraphkit.backend.property import (
    SubgraphProperty,
)
from subgraphkit.backend.refusal import (
    Refusal,
    Unsupported,
)
from subgraphkit.backend.selector import (
    OpSelector,
    PatternSelector,
    SubgraphSelector,
)
from subgraphkit.binding import (
    bind,
)
from subgraphkit.compiling import (
    compile_subgraphs,
)
from subgraphkit.configuration.config import (
    config,
)
from subgraphkit.errors import (
    SubgraphkitError,
)
from subgraphkit.finding.extensions import (
    register_extension,
    unregister_extension,
)
from subgraphkit.finding.listing import (
    list_backends,
)
from subgraphkit.finding.properties import (
    register_property,
)
from subgraphkit.finding.registry import (
    get_backend,
    register_backend,
    unregister_backend,
)
from subgraphkit.ir import (
    Graph,
    Node,
    Subgraph,
)
from subgraphkit.limits import (
    LoadLimits,
)
from subgraphkit.loading import (
    load,
)
from subgraphkit.partitioning import (
    partition,
)
from subgraphkit.placing import (
    InferenceSession,
    SessionSpec,
)
from subgraphkit.planning import (
    plan,
)
from subgraphkit.running import (
    Batcher,
    RunOptions,
    Session,
)

__all__ = [
    "Backend",
    "Batcher",
    "Graph",
    "InferenceSession",
    "LoadLimits",
    "Node",
    "OpSelector",
    "Option",
    "PatternSelector",
    "ProbeResult",
    "Refusal",
    "RunOptions",
    "Session",
    "SessionSpec",
    "Subgraph",
    "SubgraphOperator",
    "SubgraphProperty",
    "SubgraphSelector",
    "SubgraphkitError",
    "Unsupported",
    "bind",
    "compile_subgraphs",
    "config",
    "errors",
    "get_backend",
    "hookimpl",
    "list_backends",
    "load",
    "partition",
    "plan",
    "register_backend",
    "register_extension",
    "register_property",
    "unregister_backend",
    "unregister_extension",
]

__version__: str
