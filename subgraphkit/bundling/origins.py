"""The origin of engines: a backend here, in words that another machine compares."""

import platform
import sys
from collections.abc import Iterable
from typing import Final

from subgraphkit.backend.contract import Backend, EngineOrigin
from subgraphkit.compiling.caching.keying import name_implementation

__all__ = ["SYSTEM", "origin_here"]

SYSTEM: Final = f"{sys.platform}-{platform.machine()}-{sys.byteorder}"
"""This operating system, processor and byte order."""


def origin_here(backend: Backend, parts: Iterable[object]) -> EngineOrigin:
    """Say where engines of a backend are made, or are to run.

    Args:
        backend: The backend.
        parts: Its properties that compile.

    Raises:
        NoKeyError: It is not known which code that is, or the fingerprint is not text.
        Exception: Whatever the backend's ``fingerprint`` raises.
    """
    return EngineOrigin(
        fingerprint=str(backend.fingerprint()),
        system=SYSTEM,
        implementation=name_implementation(backend, parts),
    )
