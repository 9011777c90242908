"""The key of an engine: everything that decides an engine for a subgraph.

It has a digest of the backend's sources, because a plugin under development changes without its
version. An engine of the old code would hide the repairs of the new code.
"""

import platform
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from subgraphkit import __version__
from subgraphkit.backend.contract import Backend
from subgraphkit.backend.options import cache_values
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.ir import Subgraph
from subgraphkit.ir.structure import (
    NoKeyError,
    canonical,
    data_digest,
    file_digests,
    structure_digest,
    weight_digests,
)

_NOT_THE_PLUGINS: Final = frozenset({"abc", "builtins", "subgraphkit", "typing"})


def describe_implementation(backend: Backend, parts: Iterable[object]) -> dict[str, str] | None:
    """Tell which code compiles for a backend.

    It is the distribution with its version (empty if there is none) and the digest of the sources.
    It is None if neither is known: nothing then tells one state of the code from another.
    NoKeyError: a source has changed since it was loaded, so the code that runs is not known.
    """
    loaded = _loaded_at((backend, *parts))
    tops = sorted(loaded)
    sources = {top: _source_digest(top, loaded[top]) for top in tops}
    providers = [provider for top, provider in _providers(backend) if top in tops]
    if not providers and not (sources and all(sources.values())):
        return None
    return {"distribution": ", ".join(providers), "sources": data_digest(canonical(sources))}


def name_implementation(backend: Backend, parts: Iterable[object]) -> str:
    """Name the code around the engines of a backend, for another machine to compare.

    A release is named by distribution and version, because its sources do not change; what belongs
    to no distribution, by the digest of its sources. NoKeyError: it has neither, or has changed.
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
    """Return the top modules of backends of its name, with their distributions."""
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
            dated = vars(cls).get("_defined_at")
            moments.setdefault(top, []).extend([] if dated is None else [dated])
    known = [moment for dates in moments.values() for moment in dates]
    return {top: min(dates or known, default=0.0) for top, dates in moments.items()}


def _source_digest(top: str, loaded: float) -> str:
    """Digest a module or package on disk, empty if not there; NoKeyError if it has changed."""
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
    """Say whether a loaded file is newer than that; others do not count."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == top]
    files = [getattr(module, "__file__", None) for module in modules]
    return any(Path(file).stat().st_mtime > loaded for file in files if file)


@lru_cache(maxsize=256)
def _digest(place: Path, _loaded: float) -> str:  # modules loaded again are read again
    digests = file_digests(place, "*.py")
    return data_digest(canonical(digests)) if digests else ""


FORMAT: Final = 1
"""Number of the format of keys and entries; another number is another cache."""

# Kinds of options whose values may name nodes, values or dimensions of the model.
_NAMING_KINDS: Final = frozenset({"list", "shapes"})


class EngineKey(NamedTuple):
    """The key under which an engine is stored.

    Attributes:
        fields: All that decides what the engine is; JSON-able, kept beside the engine and compared
            in full.
        digest: The SHA-256 of the fields, in hexadecimal; the name of the entry.
    """

    fields: Mapping[str, Any]
    digest: str


class BackendIdentity(NamedTuple):
    """The part of a key that is the same for every subgraph one property compiles in one bind.

    Attributes:
        with_names: Whether the options may name parts of the model, so that names count.
    """

    fields: Mapping[str, Any]
    with_names: bool


def identify(backend: Backend, property_: SubgraphProperty, name: str) -> BackendIdentity:
    """Describe the compiler: library, device, code and options.

    NoKeyError: the code cannot be told from other code, or something has no canonical form.
    """
    if (implementation := describe_implementation(backend, [property_])) is None:
        raise NoKeyError("neither a version nor the source of the backend is known")
    fingerprint: object = backend.fingerprint()
    if not isinstance(fingerprint, str):
        raise NoKeyError(f"fingerprint() returned a {type(fingerprint).__name__}")
    options = {option.name: option for option in backend.options}
    values = cache_values(backend.options, backend.option_values)
    fields = {
        "format": FORMAT,
        "subgraphkit": __version__,
        "system": f"{sys.platform}-{platform.machine()}-{sys.byteorder}",
        "backend": backend.name,
        "property": name,
        "fingerprint": fingerprint,
        "options": {key: _option(value) for key, value in values.items()},
        **implementation,
    }
    naming = any(values[key] and options[key].kind in _NAMING_KINDS for key in values)
    return BackendIdentity(fields, naming)


def make_key(subgraph: Subgraph, backend: Backend, identity: BackendIdentity) -> EngineKey:
    """Build the key of the engine that a backend makes of a subgraph; NoKeyError if it has none."""
    separate = frozenset(backend.separate_weights(subgraph))
    kept = [name not in separate for name in subgraph.constants]
    held = [one for name, one in subgraph.constants.items() if name not in separate]
    fields = {
        **identity.fields,
        "structure": structure_digest(subgraph, with_names=identity.with_names),
        "weights": data_digest(canonical([kept, weight_digests(held)])),
    }
    return EngineKey(fields, data_digest(canonical(fields)))


def _option(value: Any) -> Any:
    """Write the value of an option; the contents of a path count, its place does not."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case Path():
            return {"path": _files(value)}
        case Mapping():
            return {"mapping": [[_option(key), _option(one)] for key, one in value.items()]}
        case tuple() | list():
            return [_option(one) for one in value]
        case _:
            raise NoKeyError(f"an option is a {type(value).__name__}")


def _files(path: Path) -> Any:
    try:
        return file_digests(path) or str(path)
    except OSError as error:
        raise NoKeyError(f"{path} cannot be read: {error.strerror}") from None
