"""The names of backends: published, installed, or registered by a call; nothing is imported.

Of a published backend only the name and the line that installs it are known here; all else is in
its manifest. Nothing is listed before it is published: a line that installs a name nobody owns
invites whoever takes it.

Source: fsspec's table of known implementations.
"""

import importlib
import importlib.metadata
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["BACKENDS_GROUP", "BACKEND_NAMES", "KNOWN_BACKENDS", "BackendNames"]

BACKENDS_GROUP: Final = "subgraphkit.backends"
"""Entry-point group in which backends register."""

KNOWN_BACKENDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "numpy": "pip install subgraphkit-numpy",
        "onednn": "pip install subgraphkit-onednn",
        "onnxruntime": "pip install 'subgraphkit-onnxruntime[cpu]'",
        "openvino": "pip install subgraphkit-openvino",
        "tensorrt": "pip install 'subgraphkit-tensorrt[cu13]'",
        "tvm": "pip install subgraphkit-tvm",
    }
)
"""By backend name, the command that installs it."""


class BackendNames:
    """The backends this process knows by name; entry points are read once, when first asked for.

    Thread-safety: all methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entry_points: tuple[importlib.metadata.EntryPoint, ...] | None = None
        self._registered: set[str] = set()

    def entry_points(self) -> tuple[importlib.metadata.EntryPoint, ...]:
        """Return the entry points of installed backends; a name may be there several times."""
        with self._lock:
            if self._entry_points is None:
                found = importlib.metadata.entry_points(group=BACKENDS_GROUP)
                self._entry_points = tuple(found)
            return self._entry_points

    def is_installed(self, name: str) -> bool:
        """Say whether a backend of this name is installed or was registered by a call."""
        return name in self._registered or any(one.name == name for one in self.entry_points())

    def known(self) -> frozenset[str]:
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
            self._entry_points = None


BACKEND_NAMES: Final = BackendNames()
"""The names known in this process."""
