"""Which code compiles a subgraph: the distribution of a backend, and a digest of its sources.

A version alone does not tell one state of a plugin under development from the next, and an engine
made by code that has since been mended would hide the mending.
"""

import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.discovery import CATALOGUE
from subgraphkit.compiling.caching.digests import canonical, data_digest, file_digests

__all__ = ["describe_implementation"]

_NOT_THE_PLUGINS: Final = frozenset({"abc", "builtins", "subgraphkit", "typing"})


def describe_implementation(backend: Backend, parts: Iterable[object]) -> dict[str, str] | None:
    """Tell which code compiles for a backend.

    Args:
        backend: The backend.
        parts: Other objects whose classes have a hand in it, such as the property.

    Returns:
        The distribution with its version (empty if there is none) and the digest of the sources;
        None if neither is known, so that nothing tells one state of the code from another.
    """
    tops = {
        cls.__module__.partition(".")[0]
        for part in (backend, *parts)
        for cls in type(part).__mro__
        if cls.__module__.partition(".")[0] not in _NOT_THE_PLUGINS
    }
    sources = {top: _source_digest(top) for top in sorted(tops)}
    providers = [
        record.provider
        for record in CATALOGUE.find(backend.name)
        if record.version and record.entry_point.partition(":")[0].partition(".")[0] in tops
    ]
    if not providers and not (sources and all(sources.values())):
        return None
    return {
        "distribution": ", ".join(providers),
        "sources": data_digest(canonical(sources)),
    }


@lru_cache(maxsize=256)
def _source_digest(top: str) -> str:
    """Return the digest of a module or package as it is now on disk; empty if it is not there."""
    module: Any = sys.modules.get(top)
    path = getattr(module, "__file__", None)
    if not path:
        return ""
    place = Path(path)
    try:
        digests = file_digests(place.parent if hasattr(module, "__path__") else place, "*.py")
    except OSError:
        return ""
    return data_digest(canonical(digests)) if digests else ""
