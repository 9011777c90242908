"""Files of a backend's own that make the next time quicker, and may be gone any day."""

import hashlib
import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from subgraphkit.errors import CacheError
from subgraphkit.storing.files import open_plain, write_whole
from subgraphkit.storing.locks import locked

__all__ = ["KeptFile"]

_logger = logging.getLogger("subgraphkit.cache")

_DIGEST: Final = 32
_LARGEST: Final = 1 << 30
_LOCK_TIMEOUT: Final = 30.0


class KeptFile:
    """Bytes in a file that are read as they were written, or not at all.

    Damage is noticed and costs a line in the log; what cannot be written is not kept. Nothing is
    raised either way, because nobody needs the file.

    Args:
        path: The file, in a folder of this user alone; ``BindContext.kept_folder`` returns one.
        what: What is in it, such as ``"acme timings"``; part of the file and of messages. Change it
            with the format of the bytes, and files of the old format are not taken for new ones.

    Attributes:
        path: The file.

    Thread-safety: any number of threads and processes may use the same file. Who reads, adds and
    writes holds ``lock`` meanwhile, or what others add is lost.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._what = what
        self._head = f"subgraphkit-{what} 1\n".encode()

    def lock(self) -> AbstractContextManager[None]:
        """Keep other threads and processes from reading what is about to be written anew.

        After half a minute of waiting, or where nothing can be locked, it goes on all the same.
        """
        return locked(self.path.with_suffix(".lock"), _LOCK_TIMEOUT)

    def read(self) -> bytes:
        """Return what is kept; nothing if there is no file or it is not as it was written."""
        try:
            with open_plain(self.path) as file:
                stored = file.read(_LARGEST)
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

    def write(self, data: bytes, *, durable: bool = True) -> None:
        """Write in one step; without room or right to write, what was there stays.

        Args:
            data: All that is to be kept.
            durable: Whether it is to last through a power failure, which takes milliseconds.
        """
        whole = self._head + hashlib.sha256(data).digest() + data
        try:
            write_whole(self.path, whole, durable=durable)
        except OSError as error:
            _logger.info("%s are not kept in %s: %s", self._what, self.path, error)
