"""Long loops compute one at a time while threads wait for the interpreter.

Each is Python code, and holds the interpreter for most of its time. Beside eight of them, an event
loop would get one of nine slices, and a request needs many.
"""

import threading
import time
from typing import Final

_LOOK_SECONDS: Final = 0.005
_LEASE_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 1.0
"""After such a time the thread has done something else, so its times say nothing."""
_ALONE: Final = 0.9
"""A thread that computed for so much of its time has the interpreter to itself."""


class _Lease:
    """Who computes, and until when.

    It ends by itself, as a loop may be interrupted between any two steps. Two may take it at once:
    then both compute for a while.
    """

    owner: int = 0
    until: float = 0.0


_lease: Final = _Lease()


class _Here(threading.local):
    """When this thread looked last, and the processor time that it had used by then."""

    looked: float = 0.0
    computed: float = 0.0


_here: Final = _Here()


def let_others_by() -> None:
    """Wait for this thread's turn if it waits for the interpreter anyway.

    Called now and then by whatever repeats Python code without end.

    Thread-safety: may be called from any thread, and may be interrupted.
    """
    now, here, me = time.monotonic(), _here, threading.get_ident()
    passed = now - here.looked
    if passed < _LOOK_SECONDS:
        return
    computed = time.thread_time()
    is_crowded = computed - here.computed < _ALONE * passed and passed < _IDLE_SECONDS
    while is_crowded and _lease.owner != me and (left := _lease.until - now) > 0:
        time.sleep(left)
        now = time.monotonic()
    if is_crowded:
        _lease.owner, _lease.until = me, now + _LEASE_SECONDS
    here.looked, here.computed = now, computed
