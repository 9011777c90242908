"""A file in which something is kept that makes the next time quicker, and may be gone any day."""

import hashlib
import logging
import os
import secrets
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from subgraphkit.errors import CacheError
from subgraphkit.storing.folders import open_plain
from subgraphkit.storing.locks import locked

__all__ = ["KeptFile"]

_logger = logging.getLogger("subgraphkit.tensorrt")

_DIGEST: Final = 32
_LARGEST: Final = 1 << 30
_LOCK_TIMEOUT: Final = 30.0


class KeptFile:
    """Bytes in a file that are read as they were written, or not at all.

    Args:
        path: The file; its folder is this user's alone.
        what: What is in it, such as ``"timings"``; stands in the file and in messages.

    Thread-safety: any number of threads and processes may use the same file.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        """The file."""
        self._what = what
        self._head = f"subgraphkit-tensorrt {what} 1\n".encode()

    def lock(self) -> AbstractContextManager[object]:
        """Keep other threads and processes from reading what is about to be written anew."""
        return locked(self.path.with_suffix(".lock"), _LOCK_TIMEOUT, lambda: None)

    def read(self) -> bytes:
        """Return what is kept; nothing if there is no file or it is not as it was written."""
        try:
            descriptor, status = open_plain(self.path)
            with os.fdopen(descriptor, "rb") as file:
                stored = file.read(_LARGEST) if status.st_size <= _LARGEST else b""
        except FileNotFoundError:
            return b""
        except (OSError, CacheError) as error:
            _logger.info("%s in %s are not used: %s", self._what, self.path, error)
            return b""
        start = len(self._head) + _DIGEST
        data = stored[start:]
        if stored[:start] != self._head + hashlib.sha256(data).digest():
            _logger.warning("%s in %s are damaged and not used", self._what, self.path)
            return b""
        return data

    def write(self, data: bytes) -> None:
        """Write in one step; without room or right to write, what was there stays."""
        try:
            self._write(data)
        except OSError as error:
            _logger.info("%s are not kept in %s: %s", self._what, self.path, error)

    def _write(self, data: bytes) -> None:
        part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._head + hashlib.sha256(data).digest() + data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
