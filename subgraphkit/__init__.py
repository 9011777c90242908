"""Split an ONNX model into subgraphs, give each to the backend that runs it best, run the whole.

The road is ``load``, ``bind``, ``partition``, ``compile_subgraphs``, ``plan`` and ``Session.run``;
``InferenceSession`` is that road in one call. Names are loaded when first used, so that importing
the package costs milliseconds and pulls in neither NumPy nor onnx.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

__version__: Final = "0.1.0"

_HOMES: Final = {
    "Backend": "subgraphkit.backend.contract",
    "Batcher": "subgraphkit.running",
    "Graph": "subgraphkit.ir",
    "InferenceSession": "subgraphkit.placing",
    "LoadLimits": "subgraphkit.limits",
    "Node": "subgraphkit.ir",
    "OpSelector": "subgraphkit.backend.selector",
    "Option": "subgraphkit.backend.options",
    "PatternSelector": "subgraphkit.backend.selector",
    "ProbeResult": "subgraphkit.backend.contract",
    "Refusal": "subgraphkit.backend.refusal",
    "RunOptions": "subgraphkit.running",
    "Session": "subgraphkit.running",
    "SessionSpec": "subgraphkit.placing",
    "Subgraph": "subgraphkit.ir",
    "SubgraphOperator": "subgraphkit.backend.operator",
    "SubgraphProperty": "subgraphkit.backend.property",
    "SubgraphSelector": "subgraphkit.backend.selector",
    "SubgraphkitError": "subgraphkit.errors",
    "Unsupported": "subgraphkit.backend.refusal",
    "bind": "subgraphkit.binding",
    "compile_subgraphs": "subgraphkit.compiling",
    "config": "subgraphkit.configuration.config",
    "errors": "subgraphkit.errors",
    "get_backend": "subgraphkit.finding.registry",
    "hookimpl": "subgraphkit.backend.hookspecs",
    "list_backends": "subgraphkit.finding.listing",
    "load": "subgraphkit.loading",
    "partition": "subgraphkit.partitioning",
    "plan": "subgraphkit.planning",
    "register_backend": "subgraphkit.finding.registry",
    "register_extension": "subgraphkit.finding.extensions",
    "register_property": "subgraphkit.finding.properties",
    "unregister_backend": "subgraphkit.finding.registry",
    "unregister_extension": "subgraphkit.finding.extensions",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
