"""The names of backends: published, installed, registered by a call, or of ONNX Runtime.

Nothing is imported. This has only the names of published backends and the lines that install them.
All else is in their manifests. A backend is listed once it is published: a line that installs a
free name invites somebody to take it.

Source: fsspec's table of known implementations.
"""

import importlib
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from subgraphkit.configuration import messages
from subgraphkit.errors import ConfigError, describe_exception

BACKENDS_GROUP: Final = "subgraphkit.backends"

EXTENSIONS_GROUP: Final = "subgraphkit.plugins"

KNOWN_BACKENDS: Final[Mapping[str, str]] = {
    "iree": "pip install subgraphkit-iree",
    "numpy": "pip install subgraphkit-numpy",
    "onednn": "pip install subgraphkit-onednn",
    "onnxruntime": "pip install 'subgraphkit-onnxruntime[cpu]'",
    "openvino": "pip install subgraphkit-openvino",
    "tensorrt": "pip install 'subgraphkit-tensorrt[cu13]'",
    "tvm": "pip install subgraphkit-tvm",
}

BACKEND_OF: Final[Mapping[str, str]] = {
    "TensorrtExecutionProvider": "tensorrt",
    "NvTensorRTRTXExecutionProvider": "tensorrt",
    "CUDAExecutionProvider": "tensorrt",
    "OpenVINOExecutionProvider": "openvino",
    "DnnlExecutionProvider": "onednn",
    "TvmExecutionProvider": "tvm",
    "CPUExecutionProvider": "onnxruntime",
}
"""By ONNX Runtime's name of a provider, our backend for the same device."""

_ENTRY_POINTS: Final = "entry_points.txt"
_FOLDED: Final = {name.casefold(): ours for name, ours in BACKEND_OF.items()}
_PROVIDER: Final = re.compile(r"\b\w+ExecutionProvider\b", re.IGNORECASE)


def in_our_names(text: str) -> str:
    """Return a selection with ONNX Runtime's names of providers replaced by backends."""
    found = [_FOLDED.get(name.casefold(), "") for name in _PROVIDER.findall(text)]
    return ",".join(dict.fromkeys(found)) if all(found) else ""


def plain_name(distribution: str) -> str:
    """Return a distribution's name as the packaging specification normalises it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def ships_with_us(name: str, distribution: str) -> bool:
    """Say whether a distribution is the one that this project publishes a backend in."""
    return name in KNOWN_BACKENDS and plain_name(distribution) == f"subgraphkit-{name}"


class _Installed(NamedTuple):
    """The plugins in the metadata of installed distributions.

    Attributes:
        unreadable: The errors of distributions whose metadata cannot be read.
    """

    by_group: Mapping[str, tuple[EntryPoint, ...]]
    unreadable: tuple[ConfigError, ...]


class BackendNames:
    """The backends this process knows by name; metadata is read once, when first asked for.

    A distribution whose metadata cannot be read is left out, with every other one unharmed.

    Thread-safety: all methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed: _Installed | None = None
        self._registered: set[str] = set()

    def entry_points(self, group: str = BACKENDS_GROUP) -> tuple[EntryPoint, ...]:
        """Return the entry points of installed plugins; a name may be there several times."""
        return self._read().by_group[group]

    def unreadable(self) -> tuple[ConfigError, ...]:
        """Return an error for each distribution that is left out (SGK128)."""
        return self._read().unreadable

    def _read(self) -> _Installed:
        with self._lock:
            if self._installed is None:
                self._installed = _read_metadata()
            return self._installed

    def is_installed(self, name: str) -> bool:
        """Say whether a backend of this name is installed or was registered by a call."""
        return name in self._registered or any(one.name == name for one in self.entry_points())

    def known_names(self) -> frozenset[str]:
        """Return the names of all backends that are published, installed or registered."""
        installed = {entry_point.name for entry_point in self.entry_points()}
        return frozenset(KNOWN_BACKENDS) | installed | self._registered

    def add(self, name: str) -> None:
        """Note that a backend of this name was registered by a call."""
        with self._lock:
            self._registered = self._registered | {name}

    def discard(self, name: str) -> None:
        """Note that no call's backend has this name any more."""
        with self._lock:
            self._registered = self._registered - {name}

    def forget(self) -> None:
        """Read the entry points anew when next asked; names registered by calls stay."""
        importlib.invalidate_caches()
        with self._lock:
            self._installed = None


BACKEND_NAMES: Final = BackendNames()


def _read_metadata() -> _Installed:
    found: dict[str, list[EntryPoint]] = {BACKENDS_GROUP: [], EXTENSIONS_GROUP: []}
    unreadable, seen = [], set()
    for one in distributions():
        folder = getattr(one, "_path", None)  # nothing public says where metadata is
        try:
            name = plain_name(_stem(folder.name) if folder is not None else one.name)
            # as in importlib.metadata, the first of one name hides the others
            if name not in seen:
                seen.add(name)
                for entry_point in _plugins_of(one, folder):
                    found[entry_point.group].append(entry_point)
        except Exception as error:  # noqa: BLE001 (nobody else's package may stop a run)
            where = str(folder if folder is not None else one)
            unreadable.append(messages.unreadable_metadata(where, describe_exception(error)))
    by_group = {group: tuple(several) for group, several in found.items()}
    return _Installed(MappingProxyType(by_group), tuple(unreadable))


def _stem(folder: str) -> str:
    """Return the name in ``name-1.0.dist-info``, which is read from no file."""
    return folder.removesuffix(".egg-info").removesuffix(".dist-info").partition("-")[0]


def _plugins_of(one: Distribution, folder: object) -> Iterator[EntryPoint]:
    """Yield the entry points of a distribution that are for us."""
    text = _told_in(folder) if isinstance(folder, Path) else one.read_text(_ENTRY_POINTS)
    if text is None or (BACKENDS_GROUP not in text and EXTENSIONS_GROUP not in text):
        return
    mine = [each for each in one.entry_points if each.group in {BACKENDS_GROUP, EXTENSIONS_GROUP}]
    metadata = one.metadata if mine else None  # parsed anew whenever it is asked for
    said = () if metadata is None else (metadata["Name"], metadata["Version"])
    if not all(isinstance(word, str) for word in said):  # whatever is annotated
        raise ValueError("it has no METADATA with a name and a version")
    yield from mine


def _told_in(folder: Path) -> str | None:
    """Read the entry points in a folder of metadata, with few words to the system.

    Hundreds of distributions may be installed, and this is part of every command and session.
    ValueError is for a file without an end, PermissionError for one that may not be read.
    """
    place = f"{folder}{os.sep}{_ENTRY_POINTS}"
    try:
        kind = os.stat(place).st_mode  # noqa: PTH116 (three times as quick as of a Path)
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise ValueError(f"{place} is no file")
        with open(place, encoding="utf-8") as file:  # noqa: PTH123 (as above)
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        _require_readable(folder)
    except PermissionError:
        _require_readable(folder, Path(place))
        raise
    return None


def _require_readable(*paths: Path) -> None:
    """Tell a file that is not there from one that may not be read."""
    for path in paths:
        if not os.access(path, os.R_OK) and path.exists():
            raise PermissionError(f"{path} may not be read")
