"""Small facts kept from bind to bind: what the parser answered, and what the builder refused.

Each lies in a JSON file of its own, named by a digest of all it depends on, below the folder that
the core keeps for the backend. What is missing, damaged or unreadable is found out again.
"""

import contextlib
import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any, Final

from subgraphkit.errors import CacheError
from subgraphkit.storing.folders import open_plain

__all__ = ["Kept"]

_logger = logging.getLogger("subgraphkit.tensorrt")

_MOST_FILES: Final = 2000
_LARGEST: Final = 1 << 24


class Kept:
    """Facts of one kind, in memory for this process and in files if there is a folder for them.

    Args:
        kind: What kind of facts; the name of a folder.
        folder: The folder that the core keeps for the backend; None if nothing is to be kept.

    Thread-safety: any number of threads and processes may use the same folder.
    """

    _known: Final[dict[tuple[str, str, str], Any]] = {}

    def __init__(self, kind: str, folder: Path | None) -> None:
        self._kind = kind
        self._folder = folder / kind if folder is not None else None

    def get(self, key: str) -> Any:
        """Return what was put there; None if nothing was, or it cannot be read."""
        place = self._place(key)
        if place in self._known:
            return self._known[place]
        if self._folder is None:
            return None
        try:
            descriptor, status = open_plain(self._folder / f"{key}.json")
            with os.fdopen(descriptor, "rb") as file:
                found = json.loads(file.read(_LARGEST)) if status.st_size <= _LARGEST else None
        except (OSError, CacheError, ValueError):
            return None
        self._known[place] = found
        return found

    def put(self, key: str, fact: Any) -> None:
        """Keep a fact, JSON-able and not None."""
        if len(self._known) >= _MOST_FILES:
            self._known.clear()
        self._known[self._place(key)] = fact
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._write(self._folder / f"{key}.json", json.dumps(fact).encode())
            self._make_room()
        except OSError as error:
            _logger.info("%s are not kept in %s: %s", self._kind, self._folder, error)

    def _place(self, key: str) -> tuple[str, str, str]:
        return str(self._folder), self._kind, key

    def _write(self, path: Path, data: bytes) -> None:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def _make_room(self) -> None:
        """Forget the oldest facts, where there are many."""
        if self._folder is None:
            return
        files = list(self._folder.glob("*.json"))
        if len(files) <= _MOST_FILES:
            return
        with contextlib.suppress(OSError):  # another process may be making room as well
            files.sort(key=lambda path: path.stat().st_mtime)
            for path in files[: len(files) // 2]:
                path.unlink(missing_ok=True)
