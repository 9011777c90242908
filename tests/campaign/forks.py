"""A step carried out in a fork of a child, so that it may lose its limits, its disk or its life."""

import ctypes
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tests.campaign.children import how_it_died
from tests.campaign.trials import Outcome, WrongError, outcome_of

_NEW_MOUNTS: Final = 0x20000
_NEW_USER: Final = 0x10000000
_PRIVATE: Final = 0x44000
_DIE_WITH_PARENT: Final = 1


def in_fork(step: Callable[[], Outcome | None], seconds: float = 30.0) -> Outcome:
    """Carry a step out in a fork of this process; that it ran to its end, None says.

    Args:
        step: The step; what it raises is an outcome.
        seconds: After how long it hangs, and is killed.
    """
    above, below = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(above)
        _child(step, below)
    os.close(below)
    try:
        ready, _, _ = select.select([above], [], [], seconds)
        data = b""
        while ready and (part := os.read(above, 1 << 16)):
            data += part
    finally:
        os.close(above)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if data:
        return Outcome(**json.loads(data))
    if not ready:
        return Outcome("hang", "fork", f"silent for {seconds:g} s")
    return how_it_died(os.waitstatus_to_exitcode(status))


def killed_after(step: Callable[[], object], seconds: float) -> None:
    """Begin a step in a fork, and kill that after so long, wherever it is."""
    pid = os.fork()
    if not pid:
        die_with_parent()
        try:
            step()
        finally:
            os._exit(0)
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def die_with_parent() -> None:
    """Let the system end this process as soon as the one that started it has gone."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def mount_small(folder: Path, size: int) -> bool:
    """Let a folder be a file system of so many bytes, for this process only.

    Returns:
        Whether the system allows it.
    """
    library = ctypes.CDLL(None)
    allowed = not library.unshare(_NEW_MOUNTS) or not library.unshare(_NEW_USER | _NEW_MOUNTS)
    if not allowed or library.mount(b"none", b"/", None, _PRIVATE, None):
        return False
    options = f"size={size}".encode()
    return not library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options)


def _child(step: Callable[[], Outcome | None], below: int) -> None:
    """Take the step, and report it; never returns."""
    die_with_parent()
    try:
        outcome = _outcome(step)
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
            resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
        os.write(below, json.dumps(outcome().as_json()).encode())
    finally:
        os._exit(0)


def _outcome(step: Callable[[], Outcome | None]) -> Callable[[], Outcome]:
    """Take a step; return what tells the outcome, once there is room to do so."""
    try:
        found = step() or Outcome("ran")
    except WrongError as error:
        text = str(error)[:300]
        return lambda: Outcome("wrong", "result", text)
    except BaseException as error:  # noqa: BLE001 (this is what is looked for)
        return partial(outcome_of, error)
    return lambda: found
