"""Guarded reading of a bundle: no links, no files of other users, every digest checked."""

import contextlib
import hashlib
import json
import mmap
import os
import stat
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from subgraphkit.backend.contract import EngineOrigin
from subgraphkit.bundling import messages
from subgraphkit.ir.structure import canonical, data_digest, file_digest
from subgraphkit.storing.files import accepted, open_through_no_link
from subgraphkit.storing.folders import HAS_OWNERS, ownership_problem
from subgraphkit.storing.kept_files import Answers, Passing

FORMAT: Final = 1
"""Number of the format; it grows when an older version cannot read the new one."""

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
    """A member is missing, of the wrong kind, or false; the text says which."""


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of the manifest, which has these members and no others."""


class FileEntry(_Entry, frozen=True):
    """A file of the bundle.

    Attributes:
        name: Its name; it lies in the bundle's folder itself.
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
        options: Values of its options, in JSON: those that shape engines, or, of a backend without
            engines, those that were given.
        origin: Where its engines were made; None if there are none.
    """

    name: _Text
    options: Mapping[_Text, Any]
    origin: OriginEntry | None


class SubgraphEntry(_Entry, frozen=True):
    """A subgraph.

    Attributes:
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
    """Return the text of a manifest; ValueError if something in it has no form in JSON."""
    members = {MARK: FORMAT, **manifest.to_dict()}
    members[DIGEST] = data_digest(canonical(members))
    return json.dumps(members, indent=1, allow_nan=False).encode("ascii") + b"\n"


def read_manifest(members: Mapping[str, Any]) -> BundleManifest:
    """Read a manifest; MemberError if ``write_manifest`` did not write it."""
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
        if (entry := entries.get(subgraph.backend)) is None:
            raise MemberError(f"its manifest does not list backend {subgraph.backend!r}")
        if subgraph.engine is not None and entry.origin is None:
            raise MemberError(f"its manifest does not say what {subgraph.id!r} was made for")


MANIFEST: Final = "manifest.json"

_LARGEST_MANIFEST: Final = 256 << 20
# Bytes of a mapping that are hashed between two looks at whether somebody pressed Ctrl-C.
_LARGE_CHUNK: Final = 64 << 20
_VERIFIED: Final = Answers("verified", most=100)
# After so many nanoseconds, a change gives a file another time; clocks tick slowly.
_SETTLED: Final = 2 * 10**9
# The user who may write anything anyway; files in an image are often root's.
_ROOT: Final = 0


def is_bundle(folder: Path) -> bool:
    """Say whether a folder looks like a bundle of any format; nothing of it is trusted."""
    path = folder / MANIFEST
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size <= _LARGEST_MANIFEST:
            members = json.loads(path.read_bytes())
            return isinstance(members, dict) and MARK in members
    return False


class BundleFiles:
    """The files of one bundle.

    Raises:
        BundleError: It is no bundle or of an unknown format (SGK181), damaged (SGK182), or somebody
            else could have written it (SGK183).

    Attributes:
        manifest: The manifest; digest and kinds are checked, files are not.
        digest: The SHA-256 of the manifest, which has those of all files.
        is_own: Whether the folder is this user's, no other user can write to it, and no link leads
            there. Its files may be mapped then.
    """

    def __init__(self, folder: Path, *, trust: bool) -> None:
        self._trust = trust
        try:
            self.folder = folder.resolve(strict=True)
            status = self.folder.stat()
        except (OSError, RuntimeError) as error:
            raise messages.not_a_bundle(folder, f"it cannot be opened ({error})") from error
        if not stat.S_ISDIR(status.st_mode):
            raise messages.not_a_bundle(folder, "it is a file")
        if not os.path.lexists(self.folder / MANIFEST):
            raise messages.not_a_bundle(folder, f"there is no {MANIFEST} in it")
        self._check_owner(self.folder, status)
        is_there = self.folder == Path(os.path.abspath(folder))  # noqa: PTH100 (links stay)
        self.is_own = HAS_OWNERS and is_there and not ownership_problem(self.folder, status)
        self.manifest = self._read_manifest()

    def read(self, entry: FileEntry) -> bytes:
        """Return a file; BundleError if changed (SGK182), or another user's to write (SGK183)."""
        with self._open(entry.name) as file:
            # A manifest must not decide how much memory is taken.
            held = os.fstat(file.fileno()).st_size
            data = self._read(entry.name, file, min(held, entry.size) + 1)
        self._check(entry, max(len(data), held), data_digest(data))
        return data

    def map(self, entry: FileEntry, kept: Path | None = None) -> memoryview:
        """Map a file into memory, read-only, and hold the mapping itself against the digest.

        Processes that map the same file share its content in memory. Truncating it ends them with
        SIGBUS, and writing to it changes their results. So nobody but this user may be able to, and
        only another folder ever replaces a bundle. A file that has not changed since is not hashed
        again.

        ``kept``: The folder that remembers files with right digests; None for the memory of this
        process alone. Errors are those of ``read``.
        """
        with self._open(entry.name) as file:
            status = os.fstat(file.fileno())
            self._check_size(entry, status.st_size)
            if ownership_problem(self.folder / entry.name, status) or not entry.size:
                return memoryview(self.read(entry))
            try:
                content = memoryview(mmap.mmap(file.fileno(), entry.size, prot=mmap.PROT_READ))
            except OSError as error:
                raise messages.unreadable(self.folder / entry.name, error) from error

        def verify() -> bool | Passing:
            hasher = hashlib.sha256()
            for start in range(0, entry.size, _LARGE_CHUNK):
                hasher.update(content[start : start + _LARGE_CHUNK])
            self._check(entry, entry.size, hasher.hexdigest())
            is_settled = time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns) > _SETTLED
            return is_settled or Passing(answer=True)

        # A change to a file changes its times, and nobody can set back one of them.
        times = status.st_mtime_ns, status.st_ctime_ns
        place = entry.sha256, status.st_dev, status.st_ino, status.st_size, *times
        _VERIFIED.recall(repr(place), verify, kept)
        return content

    def check(self, entry: FileEntry) -> None:
        """Hold a file against its digest, as ``read``, without keeping it in memory."""
        with self._open(entry.name) as file:
            try:
                digest = file_digest(file)
            except OSError as error:
                raise messages.unreadable(self.folder / entry.name, error) from error
            self._check(entry, file.tell(), digest)

    def _read(self, name: str, file: Any, count: int) -> bytes:
        try:
            return bytes(file.read(count))
        except OSError as error:
            raise messages.unreadable(self.folder / name, error) from error

    def _check(self, entry: FileEntry, size: int, digest: str) -> None:
        self._check_size(entry, size)
        if digest != entry.sha256:
            problem = f"{entry.name!r} has another SHA-256 than when it was written"
            raise messages.bad_bundle(self.folder, problem)

    def _check_size(self, entry: FileEntry, size: int) -> None:
        if size != entry.size:
            has = f"{entry.name!r} has {'more' if size > entry.size else f'{size} bytes'}"
            raise messages.bad_bundle(self.folder, f"{has} instead of {entry.size}")

    def _read_manifest(self) -> BundleManifest:
        with self._open(MANIFEST) as file:
            text = self._read(MANIFEST, file, _LARGEST_MANIFEST + 1)
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            raise messages.bad_bundle(self.folder, "its manifest is not JSON") from None
        if not isinstance(members, dict) or MARK not in members:
            raise messages.not_a_bundle(self.folder, f"its {MANIFEST} is of something else")
        if members[MARK] != FORMAT or type(members[MARK]) is not int:
            raise messages.unknown_format(self.folder, members[MARK], FORMAT, _version_in(members))
        try:
            manifest = read_manifest(members)
        except MemberError as error:
            raise messages.bad_bundle(self.folder, str(error)) from None
        self.digest: str = members[DIGEST]
        return manifest

    def _open(self, name: str) -> Any:
        """Open a file for reading, through no link."""
        path = self.folder / name
        if path.is_symlink():
            raise messages.bad_bundle(self.folder, f"{name!r} is a symbolic link")
        try:
            file = open_through_no_link(path)
        except FileNotFoundError:
            raise messages.bad_bundle(self.folder, f"{name!r} is missing") from None
        except OSError as error:
            raise messages.unreadable(path, error) from error
        return accepted(file, partial(self._check_file, path))

    def _check_file(self, path: Path, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise messages.bad_bundle(self.folder, f"{path.name!r} is not a regular file")
        self._check_owner(path, status)

    def _check_owner(self, path: Path, status: os.stat_result) -> None:
        problem = ownership_problem(path, status, owners=[_ROOT], whole=self.folder)
        if problem is not None and not self._trust:
            raise messages.untrusted_bundle(path, *problem)


def _version_in(members: dict[str, Any]) -> str:
    versions = members.get("versions")
    found = versions.get("subgraphkit") if isinstance(versions, dict) else None
    return found if isinstance(found, str) else "of another version"
