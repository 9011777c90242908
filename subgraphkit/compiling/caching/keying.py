"""The key of an engine: everything that decides what a backend makes of a subgraph."""

import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from subgraphkit import __version__
from subgraphkit.backend.contract import Backend
from subgraphkit.backend.options import cache_values
from subgraphkit.backend.property import SubgraphProperty
from subgraphkit.compiling.caching.implementations import describe_implementation
from subgraphkit.ir import Subgraph
from subgraphkit.ir.digests import (
    canonical,
    data_digest,
    file_digests,
    weight_digests,
)
from subgraphkit.ir.structure import NoKeyError, structure_digest

__all__ = ["FORMAT", "BackendIdentity", "EngineKey", "identify", "make_key"]

FORMAT: Final = 1
"""Number of the format of keys and entries; another number is another cache."""

_NAMING_KINDS: Final = frozenset({"list", "shapes"})
"""Kinds of options whose values may name nodes, values or dimensions of the model."""


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
        fields: Its members of the key.
        with_names: Whether the options may name parts of the model, so that names count.
    """

    fields: Mapping[str, Any]
    with_names: bool


def identify(backend: Backend, property_: SubgraphProperty, name: str) -> BackendIdentity:
    """Find out who compiles: library, device, code and options.

    Args:
        backend: The backend.
        property_: The property that compiles.
        name: Name of the property in reports.

    Raises:
        NoKeyError: The code cannot be told from other code, an option has no canonical form,
            or the fingerprint is not text.
        Exception: Whatever the backend's ``fingerprint`` raises.
    """
    implementation = describe_implementation(backend, [property_])
    if implementation is None:
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
    """Build the key of the engine that a backend makes of a subgraph.

    Raises:
        NoKeyError: Something in the subgraph has no canonical form.
        InvalidModelError: A weight cannot be read (SGK208, SGK211).
        Exception: Whatever the backend's ``separate_weights`` raises.
    """
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
    """Write the value of an option; what lies at a path counts, its place does not."""
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
