"""Child processes of our own interpreter, in which a plugin may crash, exit or never return.

Source: jax#24901, a plugin that crashed the process that asked for its version.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

__all__ = ["Ended", "child_command", "child_environment", "how_it_ended", "run_child", "stop_child"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child process ended.

    Attributes:
        code: Its exit status, negative for a signal; None if it had to be stopped.
        answer: What it wrote to standard output.
        printed: What it wrote to standard error.
        seconds: How long it took, the start of the process included.
    """

    code: int | None
    answer: str
    printed: str
    seconds: float


def child_command(module: str, words: Sequence[str] = ()) -> list[str]:
    """Return the command that runs one of our modules in a process of its own."""
    # "-P" keeps the working directory, which may hold a folder called like a module, off the path;
    # the parent's own path is handed on instead.
    return [sys.executable, "-P", "-m", module, *words]


def child_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with its import path, for a child.

    Args:
        variables: Variables to add or to replace.
    """
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **(variables or {})}


def run_child(
    module: str,
    words: Sequence[str],
    timeout_seconds: float,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Run one of our modules in a child process to its end.

    Args:
        module: Full name of the module.
        words: Its arguments.
        timeout_seconds: After how long the child, and whatever it started, is stopped.
        variables: Variables of its environment, beside this process's.

    Thread-safety: may be called from any thread; several children may run at once.
    """
    started = time.monotonic()
    # Files, not pipes: a grandchild that outlives the child would keep a pipe open for ever.
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as printed:
        command = child_command(module, words)
        code = _run(command, answer, printed, timeout_seconds, child_environment(variables))
        return Ended(code, _read(answer), _read(printed), time.monotonic() - started)


def _run(
    command: Sequence[str],
    answer: IO[bytes],
    printed: IO[bytes],
    timeout_seconds: float,
    environment: Mapping[str, str],
) -> int | None:
    """Run the child; return its exit status, or None if it had to be stopped."""
    with subprocess.Popen(  # noqa: S603 (our own interpreter and module)
        command,
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=printed,
        env=environment,
        start_new_session=True,
    ) as child:
        try:
            return child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            stop_child(child)
            return None
        except BaseException:
            stop_child(child)
            raise


def stop_child(child: "subprocess.Popen[Any]") -> None:
    """Stop a child that leads a session of its own and, where there are groups, what it started."""
    if hasattr(os, "killpg"):
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")


def how_it_ended(code: int) -> str:
    """Return ``exit status 3`` or ``signal SIGSEGV``."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
