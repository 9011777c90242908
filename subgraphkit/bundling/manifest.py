"""The manifest: all that a bundle says of itself, with a digest over the whole.

Nothing in it is believed before digest and kinds are checked; files are named, never placed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from subgraphkit.backend.contract import EngineOrigin
from subgraphkit.ir.structure import canonical, data_digest

FORMAT: Final = 1
"""Number of the format; it grows when an older version could not read what is written."""

MARK: Final = "subgraphkit_bundle"
"""The member that says that a file is a manifest, and of which format."""

DIGEST: Final = "sha256"
"""The member that is the SHA-256 of all others."""
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_HALF: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character, which JSON can write and nothing else can."""
_Read = TypeVar("_Read")


class MemberError(Exception):
    """A member is missing, of the wrong kind, or not what it says; the text says which."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the bundle.

    Attributes:
        name: Its name; it lies in the bundle's folder itself.
        size: Bytes.
        sha256: Digest of its content, in hexadecimal.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """A backend that runs subgraphs.

    Attributes:
        name: Its name.
        options: Values of the options it had, as JSON has them: of a backend with engines those
            that shape engines, of another those that were given.
        origin: Where its engines were made; None if there are none.
    """

    name: str
    options: Mapping[str, Any]
    origin: EngineOrigin | None


@dataclass(frozen=True, slots=True)
class SubgraphEntry:
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

    id: str
    backend: str
    property: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]
    structure: str
    engine: FileEntry | None


@dataclass(frozen=True, slots=True)
class BundleManifest:
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

    name: str
    versions: Mapping[str, str]
    model: FileEntry
    weights: FileEntry | None
    symbols: Mapping[str, int]
    shapes: Mapping[str, tuple[int | str | None, ...]]
    backends: tuple[BackendEntry, ...]
    subgraphs: tuple[SubgraphEntry, ...]

    @property
    def files(self) -> list[FileEntry]:
        """Every file but the manifest itself."""
        engines = [one.engine for one in self.subgraphs]
        return [file for file in (self.model, self.weights, *engines) if file is not None]


def write_manifest(manifest: BundleManifest) -> bytes:
    """Return the text of a manifest.

    Raises:
        ValueError: Something in it has no form in JSON.
    """
    members = {MARK: FORMAT, **asdict(manifest)}
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
    manifest = _manifest("", rest)
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


def _wrong(where: str, expected: str) -> MemberError:
    return MemberError(f"member {where!r} of its manifest is not {expected}")


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or _HALF.search(value):
        raise _wrong(where, "text")
    return value


def _size(where: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise _wrong(where, "a size")
    return value


def _dim(where: str, value: Any) -> int | str | None:
    if value is None:
        return None
    return _text(where, value) if isinstance(value, str) else _size(where, value)


def _digest(where: str, value: Any) -> str:
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise _wrong(where, "a SHA-256")
    return value


def _file_name(where: str, value: Any) -> str:
    if not isinstance(value, str) or not _FILE.fullmatch(value):
        raise _wrong(where, "a plain file name")
    return value


def _optional(kind: Callable[[str, Any], _Read]) -> Callable[[str, Any], _Read | None]:
    return lambda where, value: None if value is None else kind(where, value)


def _tuple(kind: Callable[[str, Any], _Read]) -> Callable[[str, Any], tuple[_Read, ...]]:
    def read(where: str, value: Any) -> tuple[_Read, ...]:
        if not isinstance(value, list):
            raise _wrong(where, "a list")
        return tuple(kind(f"{where}[{at}]", one) for at, one in enumerate(value))

    return read


def _mapping(kind: Callable[[str, Any], _Read]) -> Callable[[str, Any], dict[str, _Read]]:
    def read(where: str, value: Any) -> dict[str, _Read]:
        if not isinstance(value, dict):
            raise _wrong(where, "an object")
        return {_text(where, name): kind(f"{where}.{name}", one) for name, one in value.items()}

    return read


def _as_it_is(where: str, value: Any) -> Any:
    del where
    return value


def _object(
    make: Callable[..., _Read], **members: Callable[[str, Any], Any]
) -> Callable[[str, Any], _Read]:
    """Read a JSON object that has these members and no others."""

    def read(where: str, value: Any) -> _Read:
        if not isinstance(value, dict):
            raise MemberError(f"member {where!r} of its manifest is no object")
        prefix = f"{where}." if where else ""
        found = {}
        for name, kind in members.items():
            if name not in value:
                raise MemberError(f"member {prefix + name!r} of its manifest is missing")
            found[name] = kind(prefix + name, value[name])
        unknown = sorted(value.keys() - members.keys())
        if unknown:
            raise MemberError(f"member {prefix + unknown[0]!r} of its manifest is unknown")
        return make(**found)

    return read


_file: Final = _object(FileEntry, name=_file_name, size=_size, sha256=_digest)
_origin: Final = _object(EngineOrigin, fingerprint=_text, system=_text, implementation=_text)
_backend: Final = _object(
    BackendEntry, name=_text, options=_mapping(_as_it_is), origin=_optional(_origin)
)
_subgraph: Final = _object(
    SubgraphEntry,
    id=_text,
    backend=_text,
    property=_text,
    nodes=_tuple(_size),
    inputs=_tuple(_text),
    outputs=_tuple(_text),
    constants=_tuple(_text),
    structure=_text,
    engine=_optional(_file),
)
_manifest: Final = _object(
    BundleManifest,
    name=_text,
    versions=_mapping(_text),
    model=_file,
    weights=_optional(_file),
    symbols=_mapping(_size),
    shapes=_mapping(_tuple(_dim)),
    backends=_tuple(_backend),
    subgraphs=_tuple(_subgraph),
)
