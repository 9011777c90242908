"""The contract between the core and a backend: what its author writes, and what it is given.

Names are imported when they are first used: the contract brings NumPy along, and hooks bring
pluggy, which ``import subgraphkit`` and ``list_backends`` must not pay for. ``__init__.pyi`` says
the same to type checkers; a test keeps the two alike.
"""

import importlib
from typing import Final

_HOMES: Final = {
    "ON_DEVICE": "operator",
    "PLUGIN_API": "plugin_api",
    "Answer": "refusal",
    "Backend": "contract",
    "BindContext": "property",
    "Check": "events",
    "CompileEvent": "events",
    "Conformance": "conformance",
    "Connectivity": "property",
    "EngineOrigin": "contract",
    "FallbackEvent": "events",
    "Manifest": "manifest",
    "OpSelector": "selector",
    "Option": "options",
    "OptionShapes": "option_values",
    "PartitionSummary": "property",
    "PatternSelector": "selector",
    "Predicate": "selector",
    "ProbeResult": "contract",
    "Refusal": "refusal",
    "RunEvent": "events",
    "SubgraphOperator": "operator",
    "SubgraphProperty": "property",
    "SubgraphSelector": "selector",
    "Unsupported": "refusal",
    "cache_values": "options",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
    "options_of": "manifest",
    "parse_manifest": "manifest",
    "read_manifest": "manifest",
    "validate_options": "options",
}
"""By public name, the module of this package that defines it."""

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
    "FallbackEvent",
    "Manifest",
    "OpSelector",
    "Option",
    "OptionShapes",
    "PartitionSummary",
    "PatternSelector",
    "Predicate",
    "ProbeResult",
    "Refusal",
    "RunEvent",
    "SubgraphOperator",
    "SubgraphProperty",
    "SubgraphSelector",
    "Unsupported",
    "cache_values",
    "hookimpl",
    "hookspec",
    "options_of",
    "parse_manifest",
    "read_manifest",
    "validate_options",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
