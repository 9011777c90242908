from subgraphkit.backend.child_probe import (
    ChildProbe,
    probe_in_child,
)
from subgraphkit.backend.config import (
    Config,
    ConfigUndo,
    ResolvedConfig,
    resolve,
)
from subgraphkit.backend.conformance import (
    Conformance,
)
from subgraphkit.backend.contract import (
    Backend,
    EngineOrigin,
    ProbeResult,
)
from subgraphkit.backend.discovery import (
    BackendRecord,
)
from subgraphkit.backend.drift import (
    manifest_drift,
    manifest_from_class,
    render_manifest,
)
from subgraphkit.backend.events import (
    Check,
    CompileEvent,
    FallbackEvent,
    RunEvent,
)
from subgraphkit.backend.extensions import (
    ExtensionManager,
    register_extension,
    unregister_extension,
)
from subgraphkit.backend.hookspecs import (
    hookimpl,
    hookspec,
)
from subgraphkit.backend.listing import (
    list_backends,
    refresh_backends,
)
from subgraphkit.backend.manifest import (
    Manifest,
    parse_manifest,
    read_manifest,
)
from subgraphkit.backend.opening import (
    open_backends,
    open_fallback,
)
from subgraphkit.backend.operator import (
    ON_DEVICE,
    SubgraphOperator,
)
from subgraphkit.backend.options import (
    Option,
    cache_values,
    validate_options,
)
from subgraphkit.backend.plugin_api import (
    PLUGIN_API,
)
from subgraphkit.backend.properties import (
    properties_of,
    register_property,
    unregister_property,
)
from subgraphkit.backend.property import (
    BindContext,
    Connectivity,
    PartitionSummary,
    SubgraphProperty,
)
from subgraphkit.backend.refusal import (
    Answer,
    Refusal,
    Unsupported,
)
from subgraphkit.backend.registry import (
    get_backend,
    register_backend,
    registered,
    unregister_backend,
)
from subgraphkit.backend.selection import (
    BackendChoice,
    Selection,
    parse_selection,
)
from subgraphkit.backend.selector import (
    OpSelector,
    PatternSelector,
    Predicate,
    SubgraphSelector,
)

__all__ = [
    "ON_DEVICE",
    "PLUGIN_API",
    "Answer",
    "Backend",
    "BackendChoice",
    "BackendRecord",
    "BindContext",
    "Check",
    "ChildProbe",
    "CompileEvent",
    "Config",
    "ConfigUndo",
    "Conformance",
    "Connectivity",
    "EngineOrigin",
    "ExtensionManager",
    "FallbackEvent",
    "Manifest",
    "OpSelector",
    "Option",
    "PartitionSummary",
    "PatternSelector",
    "Predicate",
    "ProbeResult",
    "Refusal",
    "ResolvedConfig",
    "RunEvent",
    "Selection",
    "SubgraphOperator",
    "SubgraphProperty",
    "SubgraphSelector",
    "Unsupported",
    "cache_values",
    "get_backend",
    "hookimpl",
    "hookspec",
    "list_backends",
    "manifest_drift",
    "manifest_from_class",
    "open_backends",
    "open_fallback",
    "parse_manifest",
    "parse_selection",
    "probe_in_child",
    "properties_of",
    "read_manifest",
    "refresh_backends",
    "register_backend",
    "register_extension",
    "register_property",
    "registered",
    "render_manifest",
    "resolve",
    "unregister_backend",
    "unregister_extension",
    "unregister_property",
    "validate_options",
]
