"""Bundles: a compiled plan in a folder, to be run elsewhere without partitioning or compiling."""

from subgraphkit.bundling.collecting import BundleContents, collect
from subgraphkit.bundling.opening import BundleCall, open_bundle
from subgraphkit.bundling.reading import BundleFiles, is_bundle
from subgraphkit.bundling.writing import check_target, write_bundle

__all__ = [
    "BundleCall",
    "BundleContents",
    "BundleFiles",
    "check_target",
    "collect",
    "is_bundle",
    "open_bundle",
    "write_bundle",
]
