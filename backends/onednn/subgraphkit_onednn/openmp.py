"""Loading of a library so that the threads of its OpenMP sleep soon after their work.

The runtime of OpenMP lets threads spin for milliseconds when they have nothing to do, on processors
that others may be computing on. It reads how long from the environment when it is loaded, and never
again. Where somebody else loaded it before, it stays as it is.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Final

__all__ = ["load"]

_RUNTIMES: Final = ("libgomp.so.1", "libiomp5.so")
_WAITING: Final = MappingProxyType({"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"})
"""For GNU's OpenMP some tens of microseconds, which is what it takes itself where it sees more
threads than processors; for that of LLVM and Intel milliseconds, of which it knows only whole."""

_SAID: Final = frozenset({"OMP_WAIT_POLICY", *_WAITING})


def load(path: str) -> tuple[ctypes.CDLL, bool]:
    """Load a library, and OpenMP with it.

    Returns:
        The library, and whether the threads of its OpenMP may spin for long: they do if the runtime
        was loaded before. What the user says in the environment holds, and none is said to spin.

    Raises:
        OSError: It cannot be loaded.
    """
    if not _SAID.isdisjoint(os.environ):
        return ctypes.CDLL(path), False
    spins = _is_loaded()
    with _variables():
        library = ctypes.CDLL(path)
        if hasattr(library, "omp_get_max_threads"):
            library.omp_get_max_threads()  # one of them reads the environment only now
    return library, spins


@cache
def _is_loaded() -> bool:
    """Say whether somebody loaded a runtime before this module did."""
    for name in _RUNTIMES:
        try:
            ctypes.CDLL(name, mode=getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_LAZY", 1))
        except OSError:
            continue
        return True
    return False


@contextmanager
def _variables() -> Iterator[None]:
    """Set the variables for a while; none of them is set."""
    os.environ.update(_WAITING)
    try:
        yield
    finally:
        for name in _WAITING:
            del os.environ[name]
