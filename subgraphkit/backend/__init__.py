"""The contract between the core and a backend: the classes its author writes and uses.

Names are imported when they are first used: the contract brings NumPy along, and hooks bring
pluggy, which ``import subgraphkit`` and ``list_backends`` must not pay for. ``__init__.pyi`` says
the same to type checkers; a test keeps the two alike.
"""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "ON_DEVICE": "subgraphkit.backend.operator",
    "PLUGIN_API": "subgraphkit.backend.plugin_api",
    "Answer": "subgraphkit.backend.refusal",
    "Backend": "subgraphkit.backend.contract",
    "BindContext": "subgraphkit.backend.property",
    "Check": "subgraphkit.backend.events",
    "CompileEvent": "subgraphkit.backend.events",
    "Conformance": "subgraphkit.backend.conformance",
    "Connectivity": "subgraphkit.backend.property",
    "EngineOrigin": "subgraphkit.backend.contract",
    "Event": "subgraphkit.backend.events",
    "Evidence": "subgraphkit.backend.contract",
    "FallbackEvent": "subgraphkit.backend.events",
    "Footprint": "subgraphkit.backend.footprint",
    "InnerTime": "subgraphkit.backend.operator",
    "Interrupted": "subgraphkit.backend.interruption",
    "LoadLimits": "subgraphkit.limits",
    "Manifest": "subgraphkit.backend.manifest",
    "ModelOpener": "subgraphkit.backend.selftest",
    "OpSelector": "subgraphkit.backend.selector",
    "OpenedModel": "subgraphkit.backend.selftest",
    "Option": "subgraphkit.backend.options",
    "OptionShapes": "subgraphkit.backend.option_values",
    "PartitionSummary": "subgraphkit.backend.property",
    "PatternSelector": "subgraphkit.backend.selector",
    "Pool": "subgraphkit.backend.contract",
    "Predicate": "subgraphkit.backend.selector",
    "ProbeResult": "subgraphkit.backend.contract",
    "Progress": "subgraphkit.backend.progress",
    "ProgressEvent": "subgraphkit.backend.progress",
    "ProgressListener": "subgraphkit.backend.progress",
    "Refusal": "subgraphkit.backend.refusal",
    "RunEvent": "subgraphkit.backend.events",
    "SelfCheck": "subgraphkit.backend.selftest",
    "StepEvent": "subgraphkit.backend.events",
    "SubgraphOperator": "subgraphkit.backend.operator",
    "SubgraphProperty": "subgraphkit.backend.property",
    "SubgraphSelector": "subgraphkit.backend.selector",
    "Unsupported": "subgraphkit.backend.refusal",
    "attention_scores": "subgraphkit.backend.footprint",
    "cache_values": "subgraphkit.backend.options",
    "constant_bytes": "subgraphkit.backend.footprint",
    "did_you_mean": "subgraphkit.backend.messages",
    "fill_buffers": "subgraphkit.backend.operator",
    "hookimpl": "subgraphkit.backend.hookspecs",
    "hookspec": "subgraphkit.backend.hookspecs",
    "interrupted_here": "subgraphkit.backend.interruption",
    "interruptible": "subgraphkit.backend.interruption",
    "is_elementwise": "subgraphkit.backend.footprint",
    "option_out_of_range": "subgraphkit.backend.messages",
    "options_of": "subgraphkit.backend.manifest",
    "parse_manifest": "subgraphkit.backend.manifest",
    "peak_of_values": "subgraphkit.backend.footprint",
    "read_bool": "subgraphkit.backend.option_values",
    "read_int": "subgraphkit.backend.option_values",
    "read_manifest": "subgraphkit.backend.manifest",
    "scaled_weights": "subgraphkit.backend.footprint",
    "unavailable": "subgraphkit.backend.messages",
    "validate_options": "subgraphkit.backend.options",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
