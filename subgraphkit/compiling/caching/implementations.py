"""The code that compiles a subgraph: the distribution of a backend, and a digest of its sources.

A version alone does not tell one state of a plugin under development from the next, and an engine
made by code that has since been mended would hide the mending.
"""

import sys
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.contract import Backend
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.ir.digests import canonical, data_digest, file_digests
from subgraphkit.ir.structure import NoKeyError

__all__ = ["describe_implementation", "name_implementation"]

_NOT_THE_PLUGINS: Final = frozenset({"abc", "builtins", "subgraphkit", "typing"})


def describe_implementation(backend: Backend, parts: Iterable[object]) -> dict[str, str] | None:
    """Tell which code compiles for a backend.

    Args:
        backend: The backend.
        parts: Other objects whose classes have a hand in it, such as the property.

    Returns:
        The distribution with its version (empty if there is none) and the digest of the sources;
        None if neither is known, so that nothing tells one state of the code from another.

    Raises:
        NoKeyError: A source has changed since it was loaded, so the code that runs is not known.
    """
    loaded = _loaded_at((backend, *parts))
    tops = sorted(loaded)
    sources = {top: _source_digest(top, loaded[top]) for top in tops}
    providers = [provider for top, provider in _providers(backend) if top in tops]
    if not providers and not (sources and all(sources.values())):
        return None
    return {
        "distribution": ", ".join(providers),
        "sources": data_digest(canonical(sources)),
    }


def name_implementation(backend: Backend, parts: Iterable[object]) -> str:
    """Name the code around the engines of a backend, for another machine to compare.

    A release is named by distribution and version, because its sources do not change; what belongs
    to no distribution, by the digest of its sources.

    Args:
        backend: The backend.
        parts: Other objects whose classes have a hand in it, such as the properties.

    Raises:
        NoKeyError: The code of a part belongs to no distribution and has no sources, or these have
            changed since they were loaded.
    """
    providers = dict(_providers(backend))
    named = []
    for top, loaded in sorted(_loaded_at((backend, *parts)).items()):
        digest = "" if top in providers else _source_digest(top, loaded)
        if top not in providers and not digest:
            raise NoKeyError(f"neither a version nor the source of {top} is known")
        named.append(providers.get(top) or f"{top} {digest}")
    return ", ".join(named)


def _providers(backend: Backend) -> list[tuple[str, str]]:
    """Return top modules with the distributions that bring them, of what is called like it."""
    return [
        (record.entry_point.partition(":")[0].partition(".")[0], record.provider)
        for record in CATALOGUE.find(backend.name)
        if record.version
    ]


def _loaded_at(parts: Iterable[object]) -> dict[str, float]:
    """Return when each plugin's first class of these was defined, by its top module."""
    moments: dict[str, list[float]] = {}
    for cls in chain.from_iterable(type(part).__mro__ for part in parts):
        top = cls.__module__.partition(".")[0]
        if top not in _NOT_THE_PLUGINS:
            dated = vars(cls).get("defined_at")
            moments.setdefault(top, []).extend([] if dated is None else [dated])
    known = [moment for dates in moments.values() for moment in dates]
    return {top: min(dates or known, default=0.0) for top, dates in moments.items()}


def _source_digest(top: str, loaded: float) -> str:
    """Return the digest of a module or package on disk; empty if it is not there.

    Raises:
        NoKeyError: Something was changed after it was loaded.
    """
    module: Any = sys.modules.get(top)
    path = getattr(module, "__file__", None)
    if not path:
        return ""
    place = Path(path).parent if hasattr(module, "__path__") else Path(path)
    try:
        if _is_changed(top, loaded):
            raise NoKeyError(f"a source of {top} was changed after it was loaded")
        return _digest(place, loaded)
    except OSError:
        return ""


def _is_changed(top: str, loaded: float) -> bool:
    """Say whether a file that was loaded is newer than that; what is not loaded does not count."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == top]
    files = [getattr(module, "__file__", None) for module in modules]
    return any(Path(file).stat().st_mtime > loaded for file in files if file)


@lru_cache(maxsize=256)
def _digest(place: Path, loaded: float) -> str:
    del loaded  # what is loaded again is read again
    digests = file_digests(place, "*.py")
    return data_digest(canonical(digests)) if digests else ""
