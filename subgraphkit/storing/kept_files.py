"""Files of a backend's own that make the next time quicker, and may be gone any day.

They are signed with this user's key, as engines and answers are.
"""

import contextlib
import hmac
import os
import secrets
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from subgraphkit.errors import CacheError
from subgraphkit.logs import logger_of
from subgraphkit.storing import messages
from subgraphkit.storing.files import locked, open_plain, write_whole
from subgraphkit.storing.folders import default_state_dir, private_folder

_LENGTH: Final = 32
_NAME: Final = "engine-cache.key"


def signing_key() -> bytes:
    """Return this user's key; a random one is made when it is first asked for.

    Raises:
        CacheError: The key, or the folder it is in, can be read or written by others (SGK150), or
            not by us (SGK151).

    Thread-safety: any number of threads and processes may ask at once; all get the same key.
    """
    path = private_folder(default_state_dir()) / _NAME
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
        # If somebody else is faster, theirs holds.
        write_whole(path, secrets.token_bytes(_LENGTH), replace=False)
        return _read(path)
    except CacheError:
        raise
    except OSError as error:
        raise messages.unusable(path, "read or make its key", error) from error


def _read(path: Path) -> bytes:
    with open_plain(path, secret=True) as file:
        key = file.read(_LENGTH + 1)
    if len(key) != _LENGTH:
        raise messages.untrusted(
            path, "is not a key", f"Remove it, and a new one is made: rm {path}"
        )
    return key


_logger = logger_of("cache")

_SIGNATURE: Final = 32
_LARGEST: Final = 1 << 30
_LOCK_TIMEOUT: Final = 30.0


class KeptFile:
    """Bytes in a file that are read as this user has written them there, or not at all.

    The file is signed with the user's key and its own name. What is damaged, or came with a project
    of somebody's, costs a line in the log; what cannot be written is not kept. Nothing is raised
    either way, because nobody needs the file.

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
        self._head = f"subgraphkit-{what} 2\n".encode()

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
            key = signing_key()
        except FileNotFoundError:
            return b""
        except (OSError, CacheError) as error:
            _logger.info("%s in %s are not used: %s", self._what, self.path, error)
            return b""
        start = len(self._head) + _SIGNATURE
        data = stored[start:]
        if not hmac.compare_digest(stored[:start], self._sealed(key, data)):
            _logger.warning("%s in %s are damaged and not used", self._what, self.path)
            return b""
        return data

    def write(self, data: bytes, *, durable: bool = True) -> None:
        """Write in one step; without room or right to write, what was there stays.

        Args:
            data: All that is to be kept.
            durable: Whether it is to last through a power failure, which takes milliseconds.
        """
        try:
            write_whole(self.path, self._sealed(signing_key(), data) + data, durable=durable)
        except (OSError, CacheError) as error:
            _logger.info("%s are not kept in %s: %s", self._what, self.path, error)

    def _sealed(self, key: bytes, data: bytes) -> bytes:
        signature = hmac.new(key, self._head + os.fsencode(self.path.name) + b"\n", "sha256")
        signature.update(data)
        return self._head + signature.digest()
