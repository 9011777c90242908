"""The store: engines in a folder of this user, the least recently used removed when it is full.

An engine is ``<key>.engine`` and its description ``<key>.json``. The engine is put in place first,
so an entry with a description is complete. The time of the description's last change is the time
of the engine's last use.
"""

import contextlib
import hmac
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import Struct

from subgraphkit.compiling.caching.keying import FORMAT, EngineKey
from subgraphkit.errors import CacheError
from subgraphkit.ir.structure import canonical, data_digest
from subgraphkit.logs import logger_of
from subgraphkit.storing import messages
from subgraphkit.storing.files import locked, open_plain, remove_left_over, write_whole
from subgraphkit.storing.folders import default_cache_dir, private_folder
from subgraphkit.storing.kept_files import signing_key


class DamagedError(Exception):
    """An entry differs from the stored one; the text says in what."""


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
    """The description of a stored engine."""

    key: str
    fields: dict[str, Any]
    size: int
    sha256: str
    about: About
    schema: int = FORMAT

    def check_engine(self, engine: bytes) -> None:
        """Refuse an engine that is not the one described (DamagedError)."""
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
    """Read a description once its signature is checked; DamagedError if that is wrong."""
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


_logger = logger_of("cache")

_ENGINE: Final = ".engine"
_DESCRIPTION: Final = ".json"
_OURS: Final = re.compile(
    r"[0-9a-f]{64}\.(engine|json|lock)|\.(subgraphkit-|[0-9a-f]{64}\.)[0-9a-f]{16}\.part"
)
_LARGEST_DESCRIPTION: Final = 1 << 20
# Seconds after which an unfinished file is taken for left over.
_LEFT_OVER_AFTER: Final = 3600.0


class StoredEngine(NamedTuple):
    """An entry as it is in the folder.

    Attributes:
        last_used: When it was stored or last used, in seconds since 1970.
        description: What is known of it, or None if it is damaged.
        problem: Its damage; empty if none was found so far.
    """

    digest: str
    size: int
    last_used: float
    description: Description | None
    problem: str = ""

    @property
    def backend(self) -> str:
        """Name of the backend it belongs to; empty if that is not known."""
        return str(self.description.fields["backend"]) if self.description else ""


class EngineStore:
    """Engines by key, in one folder.

    Thread-safety: any number of threads and processes may use a folder at once.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder = folder
        self._signing_key = key

    @classmethod
    def open(cls, cache_dir: Path | None) -> Self:
        """Open the store below ``cache_dir``, or at the usual place; it is made if need be."""
        root = private_folder(cache_dir if cache_dir is not None else default_cache_dir())
        return cls(private_folder(root / "engines"), signing_key())

    # -- one engine --------------------------------------------------------------------------

    def read(self, key: EngineKey) -> bytes | None:
        """Return an engine, or None if there is none under this key; it then counts as used.

        Raises:
            DamagedError: The entry differs from the stored one.
            CacheError: Others could have written it (SGK150).
            OSError: It cannot be read.
        """
        try:
            description = self._describe(key.digest)
        except FileNotFoundError:
            return None
        if description.fields != key.fields:
            raise DamagedError("the description has other fields than the key")
        engine = self._engine(description)
        with contextlib.suppress(OSError):  # where nothing can be written
            os.utime(self._path(key.digest, _DESCRIPTION))
        return engine

    def write(self, description: Description, engine: bytes) -> None:
        """Store an engine, all of it or nothing; OSError if it cannot be written."""
        digest = description.key
        write_whole(self._path(digest, _ENGINE), engine)
        text = write_description(description, self._signing_key)
        write_whole(self._path(digest, _DESCRIPTION), text)

    def hold_lock(
        self, key: EngineKey, timeout: float, on_wait: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """Hold the lock of a key; see ``files.locked``."""
        return locked(self._path(key.digest, ".lock"), timeout, on_wait)

    # -- all engines -------------------------------------------------------------------------

    def entries(self, *, deep: bool = False) -> list[StoredEngine]:
        """Return all entries, least recently used first; CacheError (SGK151) if unreadable."""
        digests = [
            name.removesuffix(_DESCRIPTION) for name in self._scan() if name.endswith(_DESCRIPTION)
        ]
        found = (self._entry(digest, deep=deep) for digest in digests)
        entries = [entry for entry in found if entry is not None]
        return sorted(entries, key=lambda entry: (entry.last_used, entry.digest))

    def remove(self, digest: str) -> None:
        """Remove an entry, description first; CacheError (SGK151) if it cannot be."""
        for suffix in (_DESCRIPTION, _ENGINE):
            path = self._path(digest, suffix)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise messages.unusable(path, "remove", error) from error

    def shrink(self, limit: int, keep: str) -> int:
        """Remove leftovers, and the least recently used engines until the rest fits.

        Sizes and times are looked at, and no file is read. This returns the bytes that still fit.
        """
        found = self.remove_left_overs()
        sizes: dict[str, int] = {}
        used: list[tuple[float, str]] = []
        for name, status in found.items():
            digest, _, suffix = name.partition(".")
            sizes[digest] = sizes.get(digest, 0) + status.st_size
            if suffix == "json":
                used.append((status.st_mtime, digest))
        total = sum(sizes.values())  # with what is being written
        for _, digest in sorted(used):
            if total <= limit:
                break
            if digest != keep:
                self.remove(digest)
                total -= sizes[digest]
                _logger.info("engine %s is removed to make room", digest)
        return limit - total

    def remove_left_overs(self, age: float = _LEFT_OVER_AFTER) -> dict[str, os.stat_result]:
        """Remove leftovers of killed writers; return the rest.

        ``age``: Seconds since the last change, where nobody can tell whether the writer lives.
        """
        found, latest, stays = self._scan(), time.time() - age, {}
        for name, status in found.items():
            digest, _, suffix = name.partition(".")
            orphan = suffix == "engine" and f"{digest}.json" not in found
            if remove_left_over(self.folder / name):
                continue
            if (orphan or suffix not in {"engine", "json"}) and status.st_mtime <= latest:
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink()
                    continue
            stays[name] = status
        return stays

    # -- inside ------------------------------------------------------------------------------

    def _path(self, digest: str, suffix: str) -> Path:
        return self.folder / f"{digest}{suffix}"

    def _scan(self) -> dict[str, os.stat_result]:
        """Return the status of every file that is ours, by name; others are left alone."""
        found = {}
        try:
            with os.scandir(self.folder) as files:
                for file in files:
                    if _OURS.fullmatch(file.name):
                        with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                            found[file.name] = file.stat(follow_symlinks=False)
        except OSError as error:
            raise messages.unusable(self.folder, "list", error) from error
        return found

    def _describe(self, digest: str) -> Description:
        text = _read(self._path(digest, _DESCRIPTION), _LARGEST_DESCRIPTION)
        return read_description(text, digest, self._signing_key)

    def _engine(self, description: Description) -> bytes:
        try:
            engine = _read(self._path(description.key, _ENGINE), description.size)
        except FileNotFoundError:
            raise DamagedError("the engine is missing") from None
        description.check_engine(engine)
        return engine

    def _entry(self, digest: str, *, deep: bool) -> StoredEngine | None:
        """Look at an entry; None if it has gone meanwhile."""
        description, problem = None, ""
        try:
            status = self._path(digest, _DESCRIPTION).lstat()
        except OSError:
            return None
        try:
            description = self._describe(digest)
            if deep:
                self._engine(description)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            problem = str(error)
        except CacheError as error:
            problem = error.message
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
        size = status.st_size + _size_of(self._path(digest, _ENGINE))
        return StoredEngine(digest, size, status.st_mtime, description, problem)


def _read(path: Path, limit: int) -> bytes:
    """Read a file, but no more than one byte beyond ``limit``."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise DamagedError(f"{path.suffix[1:]} has {size} bytes, more than {limit}")
        return file.read(limit + 1)


def _size_of(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.lstat().st_size
    return 0
