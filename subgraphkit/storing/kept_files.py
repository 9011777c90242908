"""Files of a backend's own that make the next time quicker, and may be gone any day.

Answers of a library are kept in them as well, so that no question is put to it twice. All are
signed with this user's key, as engines are.
"""

import contextlib
import hashlib
import hmac
import json
import os
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from subgraphkit.errors import CacheError
from subgraphkit.logs import logger_of
from subgraphkit.storing import messages
from subgraphkit.storing.files import locked, open_plain, remove_left_over, write_whole
from subgraphkit.storing.folders import (
    BACKENDS,
    default_cache_dir,
    default_state_dir,
    private_folder,
)

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
        write_whole(path, os.urandom(_LENGTH), replace=False)
        return _read(path)
    except CacheError:
        raise
    except OSError as error:
        raise messages.unusable(path, "read or make its key", error) from error


def _read(path: Path) -> bytes:
    with open_plain(path, secret=True) as file:
        key = file.read(_LENGTH + 1)
    if len(key) != _LENGTH:
        raise messages.untrusted_path(
            path, "is not a key", f"Remove it, and a new one is made: rm {path}"
        )
    return key


_logger = logger_of("cache")

_SIGNATURE: Final = 32
_LARGEST: Final = 1 << 30
_LOCK_TIMEOUT: Final = 30.0


class KeptFile:
    """Bytes in a file that are read as this user has written them there, or not at all.

    The file is signed with the user's key and its own name. A file that is damaged, or came with
    somebody's project, costs a line in the log. Nothing is raised, even if it cannot be written,
    because nobody needs the file.

    Args:
        path: The file, in a folder of this user alone; ``BindContext.kept_folder`` returns one.
        what: Its contents, such as ``"acme timings"``; part of the file and of messages. Change it
            with the format of the bytes, so that old files are not taken for new ones.

    Attributes:
        path: The file.

    Thread-safety: any number of threads and processes may use the same file. Hold ``lock`` while
    you read, add and write, or additions of others are lost.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._what = what
        self._head = f"subgraphkit-{what} 2\n".encode()

    def lock(self) -> AbstractContextManager[None]:
        """Keep other threads and processes from reading a file that is about to be rewritten.

        After half a minute of waiting, or if nothing can be locked, it goes on.
        """
        return locked(self.path.with_suffix(".lock"), _LOCK_TIMEOUT)

    def read(self) -> bytes:
        """Return the bytes; nothing if there is no file, or it has changed."""
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
        if not hmac.compare_digest(stored[:start], self._seal_of(key, data)):
            _logger.warning("%s in %s are damaged and not used", self._what, self.path)
            return b""
        return data

    def write(self, data: bytes, *, durable: bool = True) -> None:
        """Write in one step; without room or right to write, the old file stays.

        Args:
            data: All bytes to keep.
            durable: Whether it is to last through a power failure, which takes milliseconds.
        """
        try:
            write_whole(self.path, self._seal_of(signing_key(), data) + data, durable=durable)
        except (OSError, CacheError) as error:
            _logger.info("%s are not kept in %s: %s", self._what, self.path, error)

    def _seal_of(self, key: bytes, data: bytes) -> bytes:
        signature = hmac.new(key, self._head + os.fsencode(self.path.name) + b"\n", "sha256")
        signature.update(data)
        return self._head + signature.digest()


_logger = logger_of("cache")

_MOST_FILES: Final = 2_000
_ANSWER: Final = re.compile(r"[0-9a-f]{64}\.(answer|json)")
_UNKNOWN: Final = object()
_OF_THE_MACHINE: Final = re.compile(
    r"bad[ _]?alloc|out ?of ?memory|no space left|too many open files", re.IGNORECASE
)

_Said = TypeVar("_Said")


class Passing(NamedTuple):
    """An answer that holds for now alone, because the machine was at fault and not the question.

    Attributes:
        answer: The answer.
    """

    answer: Any


class Answers:
    """Answers by question: in memory for as long as the object lives, in files where there is room.

    A question is text or bytes with all that the answer depends on. That is its subject, as
    ``onnx_io.node_key`` writes it, and the options that count. If answers are kept in files, it
    also holds the versions of library and format, and the device. Equal questions are one.

    The answers unused for longest go first. A file that is missing, damaged or not this user's
    alone is a question to be asked again.

    Args:
        kind: What kind of answers; the name of the folder in which they are kept.
        most: How many are remembered in memory.

    Thread-safety: any number of threads and processes may ask. Two with the same question at the
    same time may both have to ask the library.
    """

    def __init__(self, kind: str, most: int = 10_000) -> None:
        self._kind = kind
        self._most = most
        self._known: dict[tuple[Path | None, str], Any] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many answers are in memory."""
        return len(self._known)

    def recall(
        self, question: str | bytes, ask: Callable[[], _Said | Passing], folder: Path | None = None
    ) -> _Said:
        """Return the earlier answer, or ask.

        Args:
            question: The question.
            ask: Puts it to the library. Its errors are not remembered, nor is an answer that is
                ``Passing``. So ``lambda: Passing(None)`` looks without asking.
            folder: The folder of the backend, see ``BindContext.kept_folder``; answers have to be
                JSON then, and sequences are lists. None for memory alone.
        """
        digest = _digest(question)
        found = self._find(digest, folder)
        if found is _UNKNOWN:
            found = ask()
            if isinstance(found, Passing):
                found = found.answer
            else:
                self._keep(digest, found, folder)
        answer: _Said = found
        return answer

    def put(self, question: str | bytes, answer: Any, folder: Path | None = None) -> None:
        """Remember an answer in place of the known one."""
        self._keep(_digest(question), answer, folder)

    def _find(self, digest: str, folder: Path | None) -> Any:
        place = folder, digest
        with self._lock:
            if place in self._known:
                found = self._known[place] = self._known.pop(place)  # the youngest is the last
                return found
        data = self._file(digest, folder).read() if folder is not None else b""
        if not data:
            return _UNKNOWN
        found = json.loads(data)
        self._remember(place, found)
        return found

    def _keep(self, digest: str, answer: Any, folder: Path | None) -> None:
        self._remember((folder, digest), answer)
        if folder is not None:
            with contextlib.suppress(OSError):  # then there is no room for the file either
                (folder / self._kind).mkdir(mode=0o700, exist_ok=True)
            self._file(digest, folder).write(json.dumps(answer).encode(), durable=False)
            _make_room(folder / self._kind)

    def _remember(self, place: tuple[Path | None, str], answer: Any) -> None:
        with self._lock:
            self._known.pop(place, None)
            self._known[place] = answer
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]

    def _file(self, digest: str, folder: Path) -> KeptFile:
        return KeptFile(folder / self._kind / f"{digest}.answer", self._kind)


def is_machine_fault(said: BaseException | str) -> bool:
    """Say whether a library failed for lack of memory, room or files, not for its task.

    Args:
        said: Its error, or its words.
    """
    return isinstance(said, MemoryError | OSError) or bool(_OF_THE_MACHINE.search(str(said)))


def forget_answers(cache_dir: Path | None) -> int:
    """Remove the answers that backends keep in files; CacheError (SGK151) without a home."""
    removed = 0
    above = (cache_dir or default_cache_dir()) / BACKENDS
    for path in (
        file for backend in _folders(above) for kind in _folders(backend) for file in _entries(kind)
    ):
        if not remove_left_over(path) and _ANSWER.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
    return removed


def _digest(question: str | bytes) -> str:
    data = question.encode(errors="surrogatepass") if isinstance(question, str) else question
    return hashlib.sha256(data).hexdigest()


def _make_room(folder: Path) -> None:
    """Forget the oldest answers, if there are many, and leftovers of killed writers."""
    files = [file for file in _entries(folder) if not remove_left_over(file)]
    files = [file for file in files if _ANSWER.fullmatch(file.name)]
    if len(files) <= _MOST_FILES:
        return
    with contextlib.suppress(OSError):  # another process may be making room as well
        files.sort(key=lambda file: file.stat().st_mtime)
        for file in files[: len(files) // 2]:
            file.unlink(missing_ok=True)


def _folders(above: Path) -> list[Path]:
    return [one for one in _entries(above) if one.is_dir() and not one.is_symlink()]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
