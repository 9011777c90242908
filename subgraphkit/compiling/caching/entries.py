"""An entry: an engine, and beside it a signed description that is checked in full."""

import hmac
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from subgraphkit.compiling.caching.keying import FORMAT
from subgraphkit.ir.structure import canonical, data_digest


class DamagedError(Exception):
    """An entry is not what was stored; the text says in what."""


class About(Struct, frozen=True, forbid_unknown_fields=True):
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


class Description(Struct, frozen=True, forbid_unknown_fields=True):
    """The description of a stored engine.

    Attributes:
        key: Digest of the key.
        fields: Fields of the key.
        schema: The format.
    """

    key: str
    fields: dict[str, Any]
    size: int
    sha256: str
    about: About
    schema: int = FORMAT

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
    members = msgspec.to_builtins(description)
    signed = {**members, "hmac": _signature(members, signing_key)}
    return json.dumps(signed, indent=1, sort_keys=True).encode("ascii") + b"\n"


def read_description(text: bytes, digest: str, signing_key: bytes) -> Description:
    """Read a description; nothing in it is believed before the signature is checked.

    Raises:
        DamagedError: It is not what ``write_description`` wrote for that key.
    """
    try:
        members = json.loads(text)
        signature = str(members.pop("hmac")).encode("utf-8", "replace")
        expected = _signature(members, signing_key)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise DamagedError("the description is not JSON with a signature") from None
    if not hmac.compare_digest(signature, expected.encode()):
        raise DamagedError("the signature is not one of this user's key")
    try:
        found = msgspec.convert(members, Description)
    except msgspec.ValidationError as error:
        raise DamagedError(f"a member of the description is wrong: {error}") from None
    if found.schema != FORMAT:
        raise DamagedError(f"the description is of format {found.schema}, not {FORMAT}")
    if found.key != digest or data_digest(canonical(found.fields)) != digest:
        raise DamagedError("the description belongs to another key")
    return found


def _signature(members: Mapping[str, Any], signing_key: bytes) -> str:
    return hmac.new(signing_key, canonical(members), "sha256").hexdigest()
