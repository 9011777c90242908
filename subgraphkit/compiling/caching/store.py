"""The store: engines in a folder of this user, the least recently used removed when it is full.

An engine is ``<key>.engine`` and its description ``<key>.json``. The engine is put in place first,
so an entry with a description is complete. The time of the description's last change is the time
of the engine's last use.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple, Self

from subgraphkit.compiling.caching.entries import (
    DamagedError,
    Description,
    read_description,
    write_description,
)
from subgraphkit.compiling.caching.keying import EngineKey
from subgraphkit.errors import CacheError
from subgraphkit.logs import logger_of
from subgraphkit.storing import messages
from subgraphkit.storing.files import open_plain, remove_left_over, write_whole
from subgraphkit.storing.folders import default_cache_dir, private_folder
from subgraphkit.storing.locks import locked
from subgraphkit.storing.signing import signing_key

_logger = logger_of("cache")

_ENGINE: Final = ".engine"
_DESCRIPTION: Final = ".json"
_OURS: Final = re.compile(
    r"[0-9a-f]{64}\.(engine|json|lock)|\.(subgraphkit-|[0-9a-f]{64}\.)[0-9a-f]{16}\.part"
)
_LARGEST_DESCRIPTION: Final = 1 << 20
_LEFT_OVER_AFTER: Final = 3600.0
"""Seconds after which what nobody finished writing is taken for left over."""


class StoredEngine(NamedTuple):
    """An entry as it is in the folder.

    Attributes:
        last_used: When it was stored or last used, in seconds since 1970.
        description: What is known of it, or None if it is damaged.
        problem: In what it is damaged; empty if it is not, as far as was looked.
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
        """Open the store below ``cache_dir``, or at the usual place; it is made if need be.

        Raises:
            CacheError: Folder or key cannot be trusted (SGK150) or used (SGK151).
        """
        root = private_folder(cache_dir if cache_dir is not None else default_cache_dir())
        return cls(private_folder(root / "engines"), signing_key())

    # -- one engine --------------------------------------------------------------------------

    def read(self, key: EngineKey) -> bytes | None:
        """Return an engine, or None if there is none under this key; it then counts as used.

        Raises:
            DamagedError: What is there is not what was stored.
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
        """Store an engine; readers see all of it or nothing.

        Raises:
            OSError: It cannot be written; nothing is left of it.
        """
        digest = description.key
        write_whole(self._path(digest, _ENGINE), engine)
        text = write_description(description, self._signing_key)
        write_whole(self._path(digest, _DESCRIPTION), text)

    def locked(
        self, key: EngineKey, timeout: float, on_wait: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """Hold the lock of a key; see ``locks.locked``."""
        return locked(self._path(key.digest, ".lock"), timeout, on_wait)

    # -- all engines -------------------------------------------------------------------------

    def entries(self, *, deep: bool = False) -> list[StoredEngine]:
        """Return all entries, least recently used first.

        Raises:
            CacheError: The folder cannot be read (SGK151).
        """
        digests = [
            name.removesuffix(_DESCRIPTION) for name in self._scan() if name.endswith(_DESCRIPTION)
        ]
        found = (self._entry(digest, deep=deep) for digest in digests)
        entries = [entry for entry in found if entry is not None]
        return sorted(entries, key=lambda entry: (entry.last_used, entry.digest))

    def remove(self, digest: str) -> None:
        """Remove an entry, description first.

        Raises:
            CacheError: It cannot be removed (SGK151).
        """
        for suffix in (_DESCRIPTION, _ENGINE):
            path = self._path(digest, suffix)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise messages.unusable(path, "remove", error) from error

    def shrink(self, limit: int, keep: str) -> int:
        """Remove the engines least recently used until what is left fits, and what is left over.

        Sizes and times are looked at, and no file is read.

        Returns:
            How many bytes may still be added.

        Raises:
            CacheError: The folder cannot be read, or something cannot be removed (SGK151).
        """
        found = self._without_left_overs(_LEFT_OVER_AFTER)
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

    def remove_left_overs(self, age: float = _LEFT_OVER_AFTER) -> None:
        """Remove what writers that were killed have left.

        ``age``: Seconds since the last change, where nobody can tell whether the writer lives.
        """
        self._without_left_overs(age)

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

    def _without_left_overs(self, age: float) -> dict[str, os.stat_result]:
        """Remove what is left over; return what stays."""
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
