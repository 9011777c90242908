# Written by python -m tests.house.stubs from the table in __init__.py.

from subgraphkit.bundling.collecting import (
    BundleContents,
    collect,
)
from subgraphkit.bundling.opening import (
    BundleCall,
    open_bundle,
)
from subgraphkit.bundling.reading import (
    BundleFiles,
    is_bundle,
)
from subgraphkit.bundling.writing import (
    check_target,
    write_bundle,
)

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
