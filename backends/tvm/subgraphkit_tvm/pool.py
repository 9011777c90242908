"""TVM's threads: how many compute, that they sleep, and that no thread is tied to a processor.

TVM makes a pool for every thread that runs its code. It reads environment variables then, and by
default its workers wait by spinning for tens of milliseconds. They and the caller are tied to one
processor each. Every thread that the caller starts later would be tied too, even one of another
library. The pool is therefore made here, before code of TVM runs, and its workers sleep.
"""

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from subgraphkit_tvm.library import tvm

_SETTINGS: Final[Mapping[str, str]] = {"TVM_BIND_THREADS": "0", "TVM_THREAD_POOL_SPIN_COUNT": "100"}
"""No thread is tied to a processor; a worker looks for work a hundred times, then it sleeps."""

_COUNT: Final = "TVM_NUM_THREADS"
_ANY_KIND: Final = 1
"""Of processors with cores of two kinds: the large ones first."""

_Task: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

_lock: Final = threading.Lock()
_of_thread: Final = threading.local()


def use_threads(count: int | None) -> None:
    """Let the calling thread compute with so many threads, itself included.

    A pool never grows: a thread that first computed with one thread cannot have more later.
    """
    used = getattr(_of_thread, "count", -1)
    if used == count:
        return
    if used == -1:
        _of_thread.whole = _make_pool(count)
    wanted = min(count or _of_thread.whole, _of_thread.whole)
    with _lock, _variables(count):
        _function("runtime.config_threadpool")(_ANY_KIND, wanted)
    _of_thread.count = count


def _make_pool(count: int | None) -> int:
    """Make the pool of the calling thread; return how many threads it has."""
    with _lock, _variables(count):
        size = int(_function("runtime.NumThreads")())
        # Every worker reads the environment before its first task.
        launch = getattr(ctypes.CDLL(None), "TVMBackendParallelLaunch", None)
        if launch is not None:
            launch(_Task(lambda *_: 0), None, 0)
        return size


@contextmanager
def _variables(count: int | None) -> Iterator[None]:
    """Set variables of the environment for a while, but for those that the user has set."""
    wanted = {**_SETTINGS, **({_COUNT: str(count)} if count else {})}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _function(name: str) -> Any:
    return tvm().get_global_func(name)
