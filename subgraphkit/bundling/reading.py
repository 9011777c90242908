"""Guarded reading of a bundle: no links, no files of other users, every digest checked."""

import contextlib
import hashlib
import json
import mmap
import os
import stat
import time
from pathlib import Path
from typing import Any, Final

from subgraphkit.bundling import messages
from subgraphkit.bundling.manifest import (
    DIGEST,
    FORMAT,
    MARK,
    BundleManifest,
    FileEntry,
    MemberError,
    read_manifest,
)
from subgraphkit.ir.structure import data_digest, file_digest
from subgraphkit.storing.answers import Answers, Passing
from subgraphkit.storing.files import open_through_no_link
from subgraphkit.storing.folders import HAS_OWNERS, ownership_problem

MANIFEST: Final = "manifest.json"
"""Name of the file that makes a folder a bundle."""

_LARGEST_MANIFEST: Final = 256 << 20
_LARGE_CHUNK: Final = 64 << 20
"""Bytes of a mapping that are hashed between two looks at whether somebody pressed Ctrl-C."""
_VERIFIED: Final = Answers("verified", most=100)
_SETTLED: Final = 2 * 10**9
"""Nanoseconds from which on whoever changes a file gives it another time; clocks tick slowly."""
_ROOT: Final = 0
"""Who may write anything anyway, such as the interpreter; files in an image are often root's."""


def is_bundle(folder: Path) -> bool:
    """Say whether a folder looks like a bundle, of whatever format; nothing of it is believed."""
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
        manifest: What it says of itself; digest and kinds are checked, files are not.
        digest: The SHA-256 of the manifest, in which there are those of all files.
        is_own: Whether the folder is this user's, no other user can write to it, and no link leads
            there: what is in it may be mapped.
    """

    def __init__(self, folder: Path, *, trust: bool) -> None:
        self._trust = trust
        try:
            self.folder = folder.resolve(strict=True)
            status = self.folder.stat()
        except (OSError, RuntimeError) as error:
            raise messages.not_a_bundle(folder, f"it cannot be opened ({error})") from error
        if not stat.S_ISDIR(status.st_mode):
            raise messages.not_a_bundle(folder, "it is no folder")
        if not os.path.lexists(self.folder / MANIFEST):
            raise messages.not_a_bundle(folder, f"there is no {MANIFEST} in it")
        self._check_owner(self.folder, status)
        is_there = self.folder == Path(os.path.abspath(folder))  # noqa: PTH100 (links stay)
        self.is_own = HAS_OWNERS and is_there and not ownership_problem(self.folder, status)
        self.manifest = self._read_manifest()

    def read(self, entry: FileEntry) -> bytes:
        """Return a file, all of which is as it was written.

        Raises:
            BundleError: It was changed (SGK182), or another user could have written it (SGK183).
        """
        with self._opened(entry.name) as file:
            # What a manifest says must not decide how much memory is taken.
            held = os.fstat(file.fileno()).st_size
            data = self._read(entry.name, file, min(held, entry.size) + 1)
        self._check(entry, max(len(data), held), data_digest(data))
        return data

    def map(self, entry: FileEntry, kept: Path | None = None) -> memoryview:
        """Map a file into memory, read-only, and hold the mapping itself against the digest.

        Processes that map the same file have its content in memory once. Truncating it ends them
        with SIGBUS, and writing to it changes what they compute. So nobody but this user may be
        able to, and a bundle is only ever replaced by another folder. A file that is the same as
        when it had that digest is not hashed again.

        ``kept``: The folder where it is remembered which files had their digests; None for the
        memory of this process alone.

        Raises:
            BundleError: As ``read``.
        """
        with self._opened(entry.name) as file:
            status = os.fstat(file.fileno())
            self._check_size(entry, status.st_size)
            if ownership_problem(self.folder / entry.name, status) or not entry.size:
                return memoryview(self.read(entry))
            try:
                content = memoryview(mmap.mmap(file.fileno(), entry.size, prot=mmap.PROT_READ))
            except OSError as error:
                raise messages.unreadable(self.folder / entry.name, error) from error

        def verified() -> bool | Passing:
            hasher = hashlib.sha256()
            for start in range(0, entry.size, _LARGE_CHUNK):
                hasher.update(content[start : start + _LARGE_CHUNK])
            self._check(entry, entry.size, hasher.hexdigest())
            is_settled = time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns) > _SETTLED
            return is_settled or Passing(answer=True)

        # Who changes a file changes its times, of which one cannot be set back.
        times = status.st_mtime_ns, status.st_ctime_ns
        place = entry.sha256, status.st_dev, status.st_ino, status.st_size, *times
        _VERIFIED.recall(repr(place), verified, kept)
        return content

    def check(self, entry: FileEntry) -> None:
        """Hold a file against its digest without keeping it in memory.

        Raises:
            BundleError: As ``read``.
        """
        with self._opened(entry.name) as file:
            try:
                digest = file_digest(file)
            except OSError as error:
                raise messages.unreadable(self.folder / entry.name, error) from error
            self._check(entry, file.tell(), digest)

    def _read(self, name: str, file: Any, count: int) -> bytes:
        try:
            data: bytes = file.read(count)
        except OSError as error:
            raise messages.unreadable(self.folder / name, error) from error
        return data

    def _check(self, entry: FileEntry, size: int, digest: str) -> None:
        self._check_size(entry, size)
        if digest != entry.sha256:
            raise messages.damaged(
                self.folder, f"{entry.name!r} has another SHA-256 than when it was written"
            )

    def _check_size(self, entry: FileEntry, size: int) -> None:
        if size != entry.size:
            more = "more" if size > entry.size else f"{size} bytes"
            raise messages.damaged(
                self.folder, f"{entry.name!r} has {more} instead of {entry.size}"
            )

    def _read_manifest(self) -> BundleManifest:
        with self._opened(MANIFEST) as file:
            text = self._read(MANIFEST, file, _LARGEST_MANIFEST + 1)
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            raise messages.damaged(self.folder, "its manifest is not JSON") from None
        if not isinstance(members, dict) or MARK not in members:
            raise messages.not_a_bundle(self.folder, f"its {MANIFEST} is of something else")
        if members[MARK] != FORMAT or type(members[MARK]) is not int:
            raise messages.unknown_format(self.folder, members[MARK], FORMAT, _version_in(members))
        try:
            manifest = read_manifest(members)
        except MemberError as error:
            raise messages.damaged(self.folder, str(error)) from None
        self.digest: str = members[DIGEST]
        return manifest

    def _opened(self, name: str) -> Any:
        """Open a file for reading, through no link."""
        path = self.folder / name
        if path.is_symlink():
            raise messages.damaged(self.folder, f"{name!r} is a symbolic link")
        try:
            file = open_through_no_link(path)
        except FileNotFoundError:
            raise messages.damaged(self.folder, f"{name!r} is missing") from None
        except OSError as error:
            raise messages.unreadable(path, error) from error
        try:
            self._check_file(path, os.fstat(file.fileno()))
        except BaseException:
            file.close()
            raise
        return file

    def _check_file(self, path: Path, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise messages.damaged(self.folder, f"{path.name!r} is not a regular file")
        self._check_owner(path, status)

    def _check_owner(self, path: Path, status: os.stat_result) -> None:
        problem = ownership_problem(path, status, owners=[_ROOT], whole=self.folder)
        if problem is not None and not self._trust:
            raise messages.untrusted(path, *problem)


def _version_in(members: dict[str, Any]) -> str:
    versions = members.get("versions")
    found = versions.get("subgraphkit") if isinstance(versions, dict) else None
    return found if isinstance(found, str) else "of another version"
