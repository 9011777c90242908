"""The key with which this user's engines, kept files and answers are signed.

It is outside the cache, so a cache that comes with a project, an archive or a volume is worth
nothing to who made it: nothing in it is signed with this user's key, and all of it is made again.
"""

import contextlib
import secrets
from pathlib import Path
from typing import Final

from subgraphkit.errors import CacheError
from subgraphkit.storing import messages
from subgraphkit.storing.files import open_plain, write_whole
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
