"""The contract a backend fulfils, and how backends are found, configured and opened.

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
    "BackendChoice": "selection",
    "BackendRecord": "discovery",
    "BindContext": "property",
    "Check": "events",
    "ChildProbe": "child_probe",
    "CompileEvent": "events",
    "Config": "config",
    "ConfigUndo": "config",
    "Conformance": "conformance",
    "Connectivity": "property",
    "EngineOrigin": "contract",
    "ExtensionManager": "extensions",
    "FallbackEvent": "events",
    "Manifest": "manifest",
    "OpSelector": "selector",
    "Option": "options",
    "PartitionSummary": "property",
    "PatternSelector": "selector",
    "Predicate": "selector",
    "ProbeResult": "contract",
    "Refusal": "refusal",
    "ResolvedConfig": "config",
    "RunEvent": "events",
    "Selection": "selection",
    "SubgraphOperator": "operator",
    "SubgraphProperty": "property",
    "SubgraphSelector": "selector",
    "Unsupported": "refusal",
    "cache_values": "options",
    "get_backend": "registry",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
    "list_backends": "listing",
    "manifest_drift": "drift",
    "manifest_from_class": "drift",
    "open_backends": "opening",
    "open_fallback": "opening",
    "parse_manifest": "manifest",
    "parse_selection": "selection",
    "probe_in_child": "child_probe",
    "properties_of": "properties",
    "read_manifest": "manifest",
    "refresh_backends": "listing",
    "register_backend": "registry",
    "register_extension": "extensions",
    "register_property": "properties",
    "registered": "registry",
    "render_manifest": "drift",
    "resolve": "config",
    "unregister_backend": "registry",
    "unregister_extension": "extensions",
    "unregister_property": "properties",
    "validate_options": "options",
}
"""By public name, the module of this package that defines it."""

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
