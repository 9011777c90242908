"""Files beside a model that hold its tensors: found, opened and judged by one pair of eyes.

The path to a file is walked from the root, one descriptor after the other. Links are read and
walked by hand; no step follows one by itself. So the folders on the way are known, even if somebody
moves them meanwhile. A file is opened only in a trusted folder, or below one. The rules go beyond
the fixes of onnx's own loader (CVE-2022-25882, CVE-2024-27318, CVE-2026-27489, CVE-2026-34446).
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import InvalidModelError
from subgraphkit.onnx_io.payloads import read_into
from subgraphkit.storing.files import accepted

MoreFolders = Callable[[], Sequence[Path]]
"""Returns the folders that are trusted beside a model's own; asked only if data is elsewhere."""

# Links that one path may go through; the limit of Linux.
_LONGEST_WAY: Final = 40

_HAS_DESCRIPTORS: Final = os.open in os.supports_dir_fd and os.readlink in os.supports_dir_fd
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
# O_PATH lets through folders that one may enter and not list.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
# Opening a pipe must not wait for a writer.
_FILE: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_Parts = tuple[str, ...]
_Read = TypeVar("_Read")
# Size, times of the last change, and number of a file. One of the times can be set back.
_State = tuple[int, ...]


class _RefusedError(Exception):
    """A location is not a plain file in a folder that is trusted; says why."""


class DataFolders:
    """The folders that one model's data may be in: its own, those trusted with it, all below them.

    It trusts the folder in the model's path, and your ``data_roots``. If that path is a link, it
    also trusts the folder that the link leads to, as in the cache of a model hub. A hard link may
    be to another user's file, so a file with a second name is read only in your ``data_roots``.

    Some systems, such as Windows, cannot open a file from a folder's descriptor. There a path is
    resolved and then opened, and anybody who may write in these folders could change it in between.

    Thread-safety: safe.
    """

    def __init__(
        self,
        model: Path,
        more: MoreFolders = tuple,
        mapped: Mapping[str, memoryview] = MappingProxyType({}),
    ) -> None:
        self.folder, self.mapped = model.parent, mapped
        # The folder alone: where the model itself is, is known when it is read.
        folder = _real(model.parent)
        self._anchor, self._own = folder.anchor, folder.parts[1:]
        self._name = model.name
        self._trusted = {self._own}
        self._named: set[_Parts] = set()
        self._more = more
        self._seen: dict[str, _State] = {}
        self._read: dict[str, _State] = {}
        self._digests: dict[tuple[str, _State], str] = {}

    def read_model(self, read: Callable[[BinaryIO, int], _Read]) -> _Read | None:
        """Read the model itself, and trust the folder that its path leads to.

        It is None if there is no plain file, which includes one that is moved meanwhile.
        """
        try:
            with self._open_file(self._name, self._trust_folder_of) as file:
                self._seen[""] = state = _state(file)
                return read(file, state[0])
        except (_RefusedError, OSError):
            return None

    def size_of(self, location: str, subject: str) -> int:
        """Return the bytes of a data file as of the first question; raises as ``open``."""
        if location in self.mapped:
            return len(self.mapped[location])
        state = self._seen.get(location) if location else None  # which is the model itself
        if state is None:
            with self.open(location, subject) as file:
                state = self._seen[location] = _state(file)
        return state[0]

    def read_again(self, start: int, length: int) -> npt.NDArray[np.uint8]:
        """Read bytes of the model once more, if unchanged; else InvalidModelError (SGK188)."""
        with suppress(_RefusedError, OSError), self._again("") as file:
            if _state(file) == self._seen[""]:
                file.seek(start)
                data = np.empty(length, np.uint8)
                if read_into(file, data):
                    return data
        raise InvalidModelError(
            "SGK188",
            f"the weights of {self._name!r} were let go when they were compiled, and the file they "
            "would be read from again was changed or removed since",
            hint="Open the session again. To keep weights in memory, load the model first: "
            "InferenceSession(subgraphkit.load(path)).",
            location=self._name,
        )

    def require_same(self, location: str, file: BinaryIO) -> None:
        """Refuse a data file written to since it was first read (InvalidModelError, SGK188)."""
        # The file's number is left out: network file systems change it now and then.
        state = _state(file)[:2]
        if self._read.setdefault(location, state) != state:
            raise InvalidModelError(
                "SGK188",
                f"weights in {location!r} are needed, and the file was changed since others were "
                "read from it",
                hint="Load the model again. Replace model and data by new files in a new folder.",
                location=location,
            )

    def digest(self) -> str | None:
        """Return the digest of the model and of all its data files; None if one has changed.

        For a model in one file it is the SHA-256 of that file. Otherwise it is that of a JSON
        object with the digest of each file by location. The model has an empty name there.
        """
        from subgraphkit.ir.structure import (  # noqa: PLC0415 (few models are digested)
            canonical,
            data_digest,
            file_digest,
        )

        found: dict[str, str] = {}
        for location, state in sorted(self._seen.items()):
            try:
                opened = self._again(location)
            except (_RefusedError, OSError):
                return None
            with opened as file:
                if (digest := self._digests.get((location, state))) is None:
                    digest = file_digest(file)
                if _state(file) != state:
                    return None
            found[location] = self._digests[location, state] = digest
        return found[""] if len(found) == 1 else data_digest(canonical(found))

    def _again(self, location: str) -> BinaryIO:
        if location:
            return self._open_trusted(_check_location(location))
        return self._open_file(self._name, self._trust_folder_of)

    def open(self, location: str, subject: str) -> BinaryIO:
        """Open a data file; InvalidModelError if not trusted (SGK210), or missing (SGK211)."""
        try:
            return self._open_trusted(_check_location(location))
        except _RefusedError as reason:
            raise InvalidModelError(
                "SGK210",
                f"{subject} is at {location!r}, {reason}",
                hint="Data is read below the model's folder and the one its path is a link into. "
                "If you trust its folder,\nname it: data_roots=[...] in Python, --data-root on "
                "the command line, or SUBGRAPH_DATA_ROOTS.",
                location=location,
            ) from None
        except OSError as error:
            raise InvalidModelError(
                "SGK211",
                f"{subject} is missing: {location!r} cannot be opened ({error.strerror})",
                hint="Keep the data file beside the model file.",
            ) from error

    def _open_trusted(self, location: str) -> BinaryIO:
        way: list[_Parts] = []

        def judge(path: _Parts) -> None:
            self._require_trusted(path)
            way.append(path)

        try:
            file = self._open_file(location, judge)
        except OSError:
            # Outside trusted folders, even a missing file is refused in the same way.
            self._require_trusted(Path(os.path.normpath(self._start(location))).parts[1:])
            raise
        has_names = os.fstat(file.fileno()).st_nlink > 1
        if has_names and not self._is_below(self._all_named(), way[0]):
            file.close()
            raise _RefusedError("which has a second name: a hard link may be to any file")
        return file

    def _start(self, location: str) -> Path:
        return Path(self._anchor, *self._own, location)

    def _open_file(self, location: str, judge: Callable[[_Parts], None]) -> BinaryIO:
        """Open a file, once it is known where it really is and that was judged."""
        if not _HAS_DESCRIPTORS:
            path = os.path.realpath(self._start(location), strict=True)
            judge(Path(path).parts[1:])
            return _plain(os.open(path, _FILE))
        start = () if location.startswith("/") else self._own
        with _Way(self._anchor) as way:
            name = way.walk((*start, *_split(location)))
            judge((*way.names, name))
            return way.file(name)

    def _trust_folder_of(self, file: _Parts) -> None:
        self._trusted.add(file[:-1])

    def _require_trusted(self, file: _Parts) -> None:
        if not self._is_below(self._trusted, file) and not self._is_below(self._all_named(), file):
            path = str(Path(self._anchor, *file))
            raise _RefusedError(f"which leads to {path!r}, outside the folders that are trusted")

    def _all_named(self) -> set[_Parts]:
        # Later callers get the same answer, even under another configuration.
        self._named |= {_real(folder).parts[1:] for folder in self._more()}
        self._more = tuple
        return self._named

    @staticmethod
    def _is_below(folders: set[_Parts], file: _Parts) -> bool:
        return any(file[: len(folder)] == folder for folder in folders)


class _Way:
    """Folders from the top of the file system down, each held by a descriptor, none a link."""

    def __init__(self, top: str) -> None:
        self.names: list[str] = []
        self._held = [os.open(top, _FOLDER)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._held:
            os.close(self._held.pop())

    def walk(self, path: _Parts) -> str:
        """Go to the folder in which a path ends, links walked; return the last name, no link."""
        pending, links = deque(path), 0
        while pending:
            name = pending.popleft()
            if name == "..":
                self._back()
                continue
            target = self._enter(name) if pending else self._link(name)
            if target is not None:
                links += 1
                if links > _LONGEST_WAY:
                    raise _RefusedError("which goes through too many links")
                if target.startswith("/"):
                    self._back(everywhere=True)
                pending.extendleft(reversed(_split(target)))
            elif not pending:
                return name
        raise _RefusedError("which is not a regular file")

    def _back(self, *, everywhere: bool = False) -> None:
        """Return to the folder one came from, or to the top."""
        while self.names:
            self.names.pop()
            os.close(self._held.pop())
            if not everywhere:
                return

    def _enter(self, name: str) -> str | None:
        """Go into a folder; if it is a link, stay and return its target."""
        try:
            inner = os.open(name, _FOLDER, dir_fd=self._held[-1])
        except OSError as error:
            if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
                raise
            if (target := self._link(name)) is None:
                raise
            return target
        self._held.append(inner)
        self.names.append(name)
        return None

    def _link(self, name: str) -> str | None:
        """Return the target of a link; None if it is not a link."""
        try:
            return os.readlink(name, dir_fd=self._held[-1])
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return None

    def file(self, name: str) -> BinaryIO:
        """Open a file."""
        # A device may do something when it is opened.
        status = os.stat(name, dir_fd=self._held[-1], follow_symlinks=False)
        _require_plain(status)
        return _plain(os.open(name, _FILE, dir_fd=self._held[-1]))


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError:  # it was exchanged for something else at this moment
        return path.absolute()


def _state(file: BinaryIO) -> _State:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _plain(descriptor: int) -> BinaryIO:
    return accepted(os.fdopen(descriptor, "rb"), _require_plain)


def _require_plain(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _RefusedError("which is not a regular file")


def _check_location(location: str) -> str:
    parts = _split(location)
    if not parts or "\0" in location:
        raise _RefusedError("which is not a file name")
    if "\\" in location or ":" in parts[0]:
        raise _RefusedError("which is not a path with slashes alone")
    return location


def _split(path: str) -> _Parts:
    return tuple(part for part in path.split("/") if part not in {"", "."})
