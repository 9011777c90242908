"""An entry: an engine, and beside it a signed description that is checked in full."""

import hmac
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from subgraphkit.compiling.caching.keying import FORMAT, EngineKey
from subgraphkit.ir.structure import canonical, data_digest

_MEMBERS: Final = frozenset({"schema", "key", "fields", "size", "sha256", "about", "hmac"})
_ABOUT: Final[Mapping[str, type | tuple[type, ...]]] = {
    "model": str,
    "subgraph": str,
    "node_count": int,
    "seconds": (int, float),
    "created": (int, float),
}


class DamagedError(Exception):
    """An entry is not what was stored; the text says in what."""


class About(NamedTuple):
    """Facts about an engine for people; no part of its key.

    Attributes:
        model: Name of the graph it was first compiled for.
        subgraph: Identifier of the subgraph it was first compiled for.
        seconds: How long compiling took.
        created: When it was stored, in seconds since 1970.
    """

    model: str
    subgraph: str
    node_count: int
    seconds: float
    created: float


class Description(NamedTuple):
    """The description of a stored engine."""

    key: EngineKey
    size: int
    sha256: str
    about: About

    def check_engine(self, engine: bytes) -> None:
        """Compare an engine with the description.

        Raises:
            DamagedError: It is another one.
        """
        if len(engine) != self.size:
            raise DamagedError(f"the engine has {len(engine)} bytes instead of {self.size}")
        if data_digest(engine) != self.sha256:
            raise DamagedError("the engine has another SHA-256 than when it was stored")


def write_description(description: Description, signing_key: bytes) -> bytes:
    """Return the text of a description, signed."""
    about = description.about
    members = {
        "schema": FORMAT,
        "key": description.key.digest,
        "fields": description.key.fields,
        "size": description.size,
        "sha256": description.sha256,
        "about": {name: getattr(about, name) for name in _ABOUT},
    }
    signed = {**members, "hmac": _signature(members, signing_key)}
    return json.dumps(signed, indent=1, sort_keys=True).encode("ascii") + b"\n"


def read_description(text: bytes, digest: str, signing_key: bytes) -> Description:
    """Read a description; nothing in it is believed before the signature is checked.

    Raises:
        DamagedError: It is not what ``write_description`` wrote for that key.
    """
    try:
        members = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedError("the description is not JSON") from None
    if not isinstance(members, dict) or members.keys() != _MEMBERS:
        raise DamagedError("the description lacks members or has unknown ones")
    signature = members.pop("hmac")
    expected = _signature(members, signing_key)
    if not isinstance(signature, str) or not hmac.compare_digest(
        signature.encode("utf-8", "replace"), expected.encode()
    ):
        raise DamagedError("the signature is not one of this user's key")
    if members["schema"] != FORMAT:
        raise DamagedError(f"the description is of format {members['schema']!r}, not {FORMAT}")
    if members["key"] != digest or data_digest(canonical(members["fields"])) != digest:
        raise DamagedError("the description belongs to another key")
    return _typed(members)


def _typed(members: Mapping[str, Any]) -> Description:
    about = members["about"]
    fits = (
        isinstance(members["fields"], dict)
        and isinstance(members["size"], int)
        and isinstance(members["sha256"], str)
        and isinstance(about, dict)
        and about.keys() == _ABOUT.keys()
        and all(isinstance(about[name], kind) for name, kind in _ABOUT.items())
    )
    if not fits:
        raise DamagedError("a member of the description has the wrong type")
    key = EngineKey(members["fields"], members["key"])
    return Description(key, members["size"], members["sha256"], About(**about))


def _signature(members: Mapping[str, Any], signing_key: bytes) -> str:
    return hmac.new(signing_key, canonical(members), "sha256").hexdigest()
