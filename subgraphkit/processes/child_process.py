"""Child processes of our own interpreter, in which a plugin may crash, exit or never return.

Source: jax#24901, a plugin that crashed the process that asked for its version.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

_PIECE: Final = 1 << 16
# How long to wait for the last words of a process that may have ended.
_SETTLING_SECONDS: Final = 0.1
# How long to wait if there are some and they have not been read, as on a machine that is busy.
_READING_SECONDS: Final = 10.0


_MOST_CROWDED: Final = 4.0


def crowd() -> float:
    """Return how many processes compete for each processor, from 1 to 4.

    Limits of wall time are multiplied by it where slowness is blamed on a process. On a busy
    machine, a process gets only a part of the time.
    """
    if not hasattr(os, "getloadavg"):  # Windows
        return 1.0
    return min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), _MOST_CROWDED)


class KeptEnd:
    """The end of a process's output, which may go on for ever; a thread reads it as it comes.

    A file would grow as long as the process prints. It does not wait for processes that outlive it
    with the pipe open.

    Args:
        most: Bytes that are kept.

    Attributes:
        sink: The descriptor that the process is to write to.

    Thread-safety: safe.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()
        self._thread: threading.Thread | None = None
        self._source, self.sink = os.pipe()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipe, if there never was a process."""
        if self._thread is None:
            os.close(self.sink)
            os.close(self._source)

    def begin(self) -> None:
        """Read, now that the process has the descriptor."""
        os.close(self.sink)
        self._thread = threading.Thread(target=self._read, name="subgraphkit tail", daemon=True)
        self._thread.start()

    def text(self, most: int | None = None) -> str:
        """Return the kept output, or its last bytes."""
        if self._thread is not None:
            self._thread.join(_SETTLING_SECONDS)
            end = time.monotonic() + _READING_SECONDS
            while self._thread.is_alive() and self._is_behind() and time.monotonic() < end:
                self._thread.join(_SETTLING_SECONDS)
        return bytes(self._kept[-(most or self._most) :]).decode("utf-8", errors="replace")

    def _is_behind(self) -> bool:
        try:
            return bool(select.select([self._source], (), (), 0)[0])
        except (OSError, ValueError):  # the thread has closed it, or this system has no such thing
            return False

    def _read(self) -> None:
        with open(self._source, "rb", buffering=0) as source:  # noqa: PTH123 (a descriptor)
            while piece := source.read(_PIECE):
                self._kept += piece
                del self._kept[: -self._most]


def child_command(module: str, words: Sequence[str] = ()) -> list[str]:
    """Return the command that runs one of our modules in a process of its own."""
    # "-P" keeps the working directory, which may hold a folder called like a module, off the path;
    # the parent's own path is handed on instead.
    return [sys.executable, "-P", "-m", module, *words]


def child_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with its import path and further variables, for a child."""
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **(variables or {})}


def stop_child(child: "subprocess.Popen[Any]") -> None:
    """Stop a child that leads its own session and, where the system has groups, its processes."""
    if hasattr(os, "killpg"):
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def how_it_ended(code: int) -> str:
    """Return ``exit status 3`` or ``signal SIGSEGV``."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
