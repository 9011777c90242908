"""Bundles: a compiled plan in a folder, to be run elsewhere without partitioning or compiling."""

from typing import Final

from subgraphkit.lazy import lazy_names

_HOMES: Final = {
    "BundleCall": "subgraphkit.bundling.opening",
    "BundleContents": "subgraphkit.bundling.collecting",
    "BundleFiles": "subgraphkit.bundling.reading",
    "check_target": "subgraphkit.bundling.writing",
    "collect": "subgraphkit.bundling.collecting",
    "is_bundle": "subgraphkit.bundling.reading",
    "open_bundle": "subgraphkit.bundling.opening",
    "write_bundle": "subgraphkit.bundling.writing",
}
"""By public name, the module that defines it."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
