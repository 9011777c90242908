"""Folders of this user alone: their places, and whether you can trust files in them.

The core keeps engines. A backend may keep files of its own in ``kept_folder``, which
``BindContext.kept_folder`` returns.

An engine is run like a program, so nobody but the user may be able to put one there. So the
folder's owner and mode are checked. On Windows they say nothing and are not checked, because the
profile's access list protects the folder.
"""

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from subgraphkit.errors import CacheError
from subgraphkit.logs import logger_of
from subgraphkit.storing import messages

_logger = logger_of("cache")

_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
HAS_OWNERS: Final = os.name == "posix"
"""Whether files have an owner and a mode that say who may write them."""

BACKENDS: Final = "backends"
"""Name of the folder, beside that of the engines, in which each backend has one."""


def default_cache_dir() -> Path:
    """Return the folder for files that can be made again; CacheError (SGK151) without a home."""
    return _place("cache")


def default_state_dir() -> Path:
    """Return the folder for the key, never inside a cache; CacheError (SGK151) without a home."""
    return _place("state")


def kept_folder(cache_dir: Path | None, backend: str) -> Path | None:
    """Return the folder where a backend may keep files for quicker binds, such as timings.

    It is this user's alone, and any file in it may be gone tomorrow. A file of ``KeptFile`` or
    ``Answers`` is read as it was written, or not at all.

    ``cache_dir``: The folder of the cache; None for the default.

    Returns:
        The folder; None if the place cannot be used or trusted.
    """
    try:
        root = private_folder(cache_dir or default_cache_dir())
        return private_folder(private_folder(root / BACKENDS) / backend)
    except CacheError as error:
        _logger.info("backend %s keeps nothing: %s", backend, error.message)
        return None


def _place(kind: Literal["cache", "state"]) -> Path:
    from platformdirs import PlatformDirs  # noqa: PLC0415 (only those who store pay for it)

    try:
        places = PlatformDirs("subgraphkit", appauthor=False, opinion=False)
        path = Path(places.user_cache_dir if kind == "cache" else places.user_state_dir)
        if not path.is_absolute():
            raise RuntimeError("the home directory is not known")  # noqa: TRY301 (as it may itself)
    except RuntimeError as error:
        raise messages.unusable("~", "find", error) from error
    return path


def private_folder(folder: Path) -> Path:
    """Make a folder of this user alone; CacheError if untrusted (SGK150) or not made (SGK151)."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except FileExistsError as error:
        if not folder.is_symlink():
            raise messages.unusable(folder, "be kept in", error) from error
        status = folder.lstat()
    except OSError as error:
        raise messages.unusable(folder, "be kept in", error) from error
    if stat.S_ISLNK(status.st_mode):
        raise messages.untrusted_path(folder, "is a symbolic link", "Name the folder it leads to.")
    require_owner(folder, status)
    return folder


def ownership_problem(
    path: Path, status: os.stat_result, *, owners: Collection[int] = (), whole: Path | None = None
) -> tuple[str, str] | None:
    """Return who else could have written a file or a folder, with a remedy; None if nobody could.

    ``whole``: The folder that is to be mended with all that is in it; None for the path alone.
    """
    if not HAS_OWNERS:
        return None
    if status.st_uid not in (os.geteuid(), *owners):
        return (
            f"belongs to user {status.st_uid} and you are user {os.geteuid()}",
            f"If it is yours: chown -R {os.geteuid()} {whole or path}",
        )
    if status.st_mode & _OTHERS_MAY_WRITE:
        place = f"-R go-w {whole}" if whole else f"go-w {path}"
        return (
            f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})",
            f"Remove what others may have put there, then: chmod {place}",
        )
    return None


def require_owner(path: Path, status: os.stat_result) -> None:
    """Refuse a file or folder that somebody else could have written (CacheError, SGK150)."""
    if (problem := ownership_problem(path, status)) is not None:
        raise messages.untrusted_path(path, *problem)
