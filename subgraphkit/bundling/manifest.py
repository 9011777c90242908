"""The manifest: all that a bundle says of itself, with a digest over the whole.

Nothing in it is believed before digest and kinds are checked; files are named, never placed.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from subgraphkit.backend.contract import EngineOrigin
from subgraphkit.ir.structure import canonical, data_digest

FORMAT: Final = 1
"""Number of the format; it grows when an older version could not read what is written."""

MARK: Final = "subgraphkit_bundle"
"""The member that says that a file is a manifest, and of which format."""

DIGEST: Final = "sha256"
"""The member that is the SHA-256 of all others."""

# Half a character, which JSON can write and nothing else can, is no text.
_Text = Annotated[str, Meta(pattern=r"\A[^\ud800-\udfff]*\Z")]
_Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_FileName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\Z")]


class MemberError(Exception):
    """A member is missing, of the wrong kind, or not what it says; the text says which."""


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of the manifest, which has these members and no others."""


class FileEntry(_Entry, frozen=True):
    """A file of the bundle.

    Attributes:
        name: Its name; it lies in the bundle's folder itself.
        size: Bytes.
        sha256: Digest of its content, in hexadecimal.
    """

    name: _FileName
    size: _Size
    sha256: _Digest


class OriginEntry(_Entry, frozen=True):
    """Where engines were made: an ``EngineOrigin``."""

    fingerprint: _Text
    system: _Text
    implementation: _Text

    @property
    def made(self) -> EngineOrigin:
        """The same, as backends know it."""
        return EngineOrigin(self.fingerprint, self.system, self.implementation)


class BackendEntry(_Entry, frozen=True):
    """A backend that runs subgraphs.

    Attributes:
        name: Its name.
        options: Values of the options it had, as JSON has them: of a backend with engines those
            that shape engines, of another those that were given.
        origin: Where its engines were made; None if there are none.
    """

    name: _Text
    options: Mapping[_Text, Any]
    origin: OriginEntry | None


class SubgraphEntry(_Entry, frozen=True):
    """A subgraph.

    Attributes:
        id: Its name.
        backend: Name of the backend that runs it.
        property: Name of the property that compiled it.
        nodes: Places of its nodes in the model's node list, in order.
        inputs: Values it takes, in order.
        outputs: Values it hands out, in order.
        constants: Constants it reads, in order.
        structure: Digest of operators, types and edges; see ``caching.structure``.
        engine: Its engine; None if it is compiled when the bundle is opened.
    """

    id: _Text
    backend: _Text
    property: _Text
    nodes: tuple[_Size, ...]
    inputs: tuple[_Text, ...]
    outputs: tuple[_Text, ...]
    constants: tuple[_Text, ...]
    structure: _Text
    engine: FileEntry | None


class BundleManifest(_Entry, frozen=True):
    """The description of a bundle, kept inside it.

    Attributes:
        name: What reports call the model.
        versions: Versions of the packages that wrote it, by name.
        model: The structure of the model, as ONNX.
        weights: Data of the weights that are needed; None if there are none.
        symbols: Values given to named dimensions.
        shapes: Shapes of inputs as they were bound; an entry is a size, a name or None.
        backends: The backends, in the order of claiming.
        subgraphs: The subgraphs, in the order of running.
    """

    name: _Text
    versions: Mapping[_Text, _Text]
    model: FileEntry
    weights: FileEntry | None
    symbols: Mapping[_Text, _Size]
    shapes: Mapping[_Text, tuple[_Size | _Text | None, ...]]
    backends: tuple[BackendEntry, ...]
    subgraphs: tuple[SubgraphEntry, ...]

    @property
    def files(self) -> list[FileEntry]:
        """Every file but the manifest itself."""
        engines = [one.engine for one in self.subgraphs]
        return [file for file in (self.model, self.weights, *engines) if file is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, without mark and digest."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        return members


def write_manifest(manifest: BundleManifest) -> bytes:
    """Return the text of a manifest.

    Raises:
        ValueError: Something in it has no form in JSON.
    """
    members = {MARK: FORMAT, **manifest.to_dict()}
    members[DIGEST] = data_digest(canonical(members))
    return json.dumps(members, indent=1, allow_nan=False).encode("ascii") + b"\n"


def read_manifest(members: Mapping[str, Any]) -> BundleManifest:
    """Read a manifest of the known format.

    Raises:
        MemberError: It is not what ``write_manifest`` wrote.
    """
    rest = {name: value for name, value in members.items() if name != DIGEST}
    try:
        digest = data_digest(canonical(rest))
    except (ValueError, RecursionError):
        raise MemberError("its manifest cannot be written again as it is") from None
    if members.get(DIGEST) != digest:
        raise MemberError("its manifest has another SHA-256 than when it was written")
    rest.pop(MARK, None)
    try:
        manifest = msgspec.convert(rest, BundleManifest)
    except msgspec.ValidationError as error:
        raise MemberError(f"a member of its manifest is wrong: {error}") from None
    names = [file.name for file in manifest.files]
    if len(set(names)) != len(names):
        raise MemberError("its manifest names a file twice")
    _check_backends(manifest)
    return manifest


def _check_backends(manifest: BundleManifest) -> None:
    entries = {entry.name: entry for entry in manifest.backends}
    if len(entries) != len(manifest.backends):
        raise MemberError("its manifest names a backend twice")
    for subgraph in manifest.subgraphs:
        entry = entries.get(subgraph.backend)
        if entry is None:
            raise MemberError(f"its manifest does not list backend {subgraph.backend!r}")
        if subgraph.engine is not None and entry.origin is None:
            raise MemberError(f"its manifest does not say what {subgraph.id!r} was made for")
