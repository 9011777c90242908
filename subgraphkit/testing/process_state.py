"""State that all code of a process shares, and that a plugin is to leave as it was."""

import locale
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

__all__ = ["changes", "output_kept", "process_state"]

_LAST_OUTPUT: Final = 600
_VARIABLES: Final = "the environment"


def process_state() -> dict[str, Any]:
    """Return what can be compared of this process's state, by what people call it."""
    return {
        _VARIABLES: dict(os.environ),
        "the working directory": os.getcwd(),  # noqa: PTH109 (compared as text)
        "the warning filters": [str(one) for one in warnings.filters],
        "the handlers of the root logger": [str(one) for one in logging.getLogger().handlers],
        "the level of the root logger": logging.getLogger().level,
        "what logging is disabled": logging.root.manager.disable,
        "the error state of NumPy": np.geterr(),
        "the print options of NumPy": str(np.get_printoptions()),
        "the random state of NumPy": str(np.random.get_state()),  # noqa: NPY002 (what others use)
        "the random state of Python": hash(random.getstate()),
        "what becomes of signals": [str(signal.getsignal(one)) for one in signal.valid_signals()],
        "sys.excepthook": sys.excepthook is sys.__excepthook__,
        "sys.stdout": sys.stdout is sys.__stdout__,
        "the recursion limit": sys.getrecursionlimit(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "what new files permit": _mask(),
        "how often threads change": sys.getswitchinterval(),
    }


def _mask() -> int:
    mask = os.umask(0o077)  # it cannot be asked for alone
    os.umask(mask)
    return mask


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return what differs between two states, variables of the environment by name."""
    changed = [one for one in before if one != _VARIABLES and before[one] != after[one]]
    variables = after[_VARIABLES].items() ^ before[_VARIABLES].items()
    return changed + [f"the variable {name}" for name in sorted({name for name, _ in variables})]


@contextmanager
def output_kept(tell: Callable[[str], None], streams: Sequence[int] = (1, 2)) -> Iterator[None]:
    """Keep what Python or C code writes to standard output and standard error.

    Args:
        tell: Called at the end with the last of what was written.
        streams: Which descriptors are kept.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(stream) for stream in streams]
    with tempfile.TemporaryFile() as kept:
        for stream in streams:
            os.dup2(kept.fileno(), stream)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, copy in zip(streams, saved, strict=True):
                os.dup2(copy, stream)
                os.close(copy)
            kept.seek(0)
            tell(kept.read().decode("utf-8", errors="replace").strip()[-_LAST_OUTPUT:])
