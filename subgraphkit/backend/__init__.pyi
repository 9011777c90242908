# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.backend.conformance import (
    Conformance,
)
from subgraphkit.backend.contract import (
    Backend,
    EngineOrigin,
    Evidence,
    Pool,
    ProbeResult,
)
from subgraphkit.backend.events import (
    Check,
    CompileEvent,
    Event,
    FallbackEvent,
    RunEvent,
    StepEvent,
)
from subgraphkit.backend.footprint import (
    Footprint,
    attention_scores,
    constant_bytes,
    is_elementwise,
    peak_of_values,
    scaled_weights,
)
from subgraphkit.backend.hookspecs import (
    hookimpl,
    hookspec,
)
from subgraphkit.backend.interruption import (
    Interrupted,
    interrupted_here,
    interruptible,
)
from subgraphkit.backend.manifest import (
    Manifest,
    options_of,
    parse_manifest,
    read_manifest,
)
from subgraphkit.backend.messages import (
    did_you_mean,
    option_out_of_range,
    unavailable,
)
from subgraphkit.backend.operator import (
    ON_DEVICE,
    InnerTime,
    SubgraphOperator,
    fill_buffers,
)
from subgraphkit.backend.option_values import (
    OptionShapes,
    read_bool,
    read_int,
)
from subgraphkit.backend.options import (
    Option,
    cache_values,
    validate_options,
)
from subgraphkit.backend.plugin_api import (
    PLUGIN_API,
)
from subgraphkit.backend.progress import (
    Progress,
    ProgressEvent,
    ProgressListener,
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
from subgraphkit.backend.selector import (
    OpSelector,
    PatternSelector,
    Predicate,
    SubgraphSelector,
)
from subgraphkit.backend.selftest import (
    ModelOpener,
    OpenedModel,
    SelfCheck,
)
from subgraphkit.limits import (
    LoadLimits,
)

__all__ = [
    "ON_DEVICE",
    "PLUGIN_API",
    "Answer",
    "Backend",
    "BindContext",
    "Check",
    "CompileEvent",
    "Conformance",
    "Connectivity",
    "EngineOrigin",
    "Event",
    "Evidence",
    "FallbackEvent",
    "Footprint",
    "InnerTime",
    "Interrupted",
    "LoadLimits",
    "Manifest",
    "ModelOpener",
    "OpSelector",
    "OpenedModel",
    "Option",
    "OptionShapes",
    "PartitionSummary",
    "PatternSelector",
    "Pool",
    "Predicate",
    "ProbeResult",
    "Progress",
    "ProgressEvent",
    "ProgressListener",
    "Refusal",
    "RunEvent",
    "SelfCheck",
    "StepEvent",
    "SubgraphOperator",
    "SubgraphProperty",
    "SubgraphSelector",
    "Unsupported",
    "attention_scores",
    "cache_values",
    "constant_bytes",
    "did_you_mean",
    "fill_buffers",
    "hookimpl",
    "hookspec",
    "interrupted_here",
    "interruptible",
    "is_elementwise",
    "option_out_of_range",
    "options_of",
    "parse_manifest",
    "peak_of_values",
    "read_bool",
    "read_int",
    "read_manifest",
    "scaled_weights",
    "unavailable",
    "validate_options",
]
