"""A small pool of threads for work that NumPy does without holding the interpreter lock.

A kernel cuts its work into parts when it is compiled and hands them to ``share``, which returns
when all are done. Two rules keep the threads from fighting over the CPUs:

* a session has as many threads as its setting ``threads`` says, the caller included;
* while a program that shares work runs, BLAS works on the calling thread alone (``BlasAlone``).
  Its own threads would wait for work by spinning, on the CPUs that this pool needs.

Which part runs on which thread differs from run to run. Results do not: parts write to different
places, and where they are cut depends on sizes alone.
"""

import itertools
import math
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from subgraphkit.backend import Progress, interrupted_here

BUFFER: Final = 1024
"""NumPy's buffer size that broadcasting a column or a row over a matrix is fastest with.

NumPy copies the smaller operand into its buffer as often as it goes in there. With its own choice
of 8192 elements that takes as long as the operation itself. It is the same on all threads, because
it decides how some sums are rounded.
"""

_WAKING_NS: Final = 60_000.0
"""What it takes another thread to begin, roughly."""

_MOST_LEAD: Final = 0.4

_WORTH_SHARING_NS: Final = 110_000
"""Work below this is done by the caller, because waking a thread takes about 60 us."""

_WORTH_FOUR_NS: Final = 3_000_000

Work = Callable[..., None]
"""Does one part of some work; takes the part, and arguments that are the same for every part."""


_given: ContextVar[int] = ContextVar("subgraphkit_numpy_threads", default=os.cpu_count() or 1)


def thread_count() -> int:
    """Return how many threads share the work here, the caller included: what was allowed."""
    return _given.get()


def allow_threads(count: int | None) -> None:
    """Set how many threads share the work in the current context; None for one per CPU."""
    _given.set(count or os.cpu_count() or 1)


_progress: ContextVar[Progress | None] = ContextVar("subgraphkit_numpy_progress", default=None)


def stop_with(progress: Progress) -> None:
    """Have what shares work in the current context stop on all threads when that is cancelled."""
    _progress.set(progress)


def cut(length: int, parts: int, multiple: int = 1) -> list[slice]:
    """Cut a range into slices of nearly the same length."""
    units = -(-length // multiple)
    parts = max(1, min(parts, units))
    edges = [min(length, units * part // parts * multiple) for part in range(parts + 1)]
    return [slice(begin, end) for begin, end in itertools.pairwise(edges)]


def _halves(length: int, multiple: int, nanoseconds: float) -> list[slice]:
    """Cut a range for two threads so that both end at the same time.

    The first slice, which the caller takes, is longer by what the other thread takes to begin.

    ``multiple``: The second slice starts at a multiple of this.
    ``nanoseconds``: What one thread takes for the whole range.
    """
    units = -(-length // multiple)
    if units < 2:  # noqa: PLR2004 (one for each thread)
        return [slice(0, length)]
    lead = min(_MOST_LEAD, _WAKING_NS / nanoseconds)
    edge = min(units - 1, round(units * (1 + lead) / 2)) * multiple
    return [slice(0, edge), slice(edge, length)]


def parts_for(nanoseconds: float) -> int:
    """Return how many parts work is worth that takes one thread this long."""
    if nanoseconds < _WORTH_SHARING_NS:
        return 1
    return 2 if nanoseconds < _WORTH_FOUR_NS else 4


def parts_of(
    length: int, parts: int, multiple: int = 1, *, nanoseconds: float = math.inf
) -> list[slice]:
    """Cut a range into an even number of slices, or one, so that two threads get equal shares.

    ``nanoseconds``: What one thread takes for the whole range. The first of two slices is longer by
    what the other thread takes to begin, so that both end at the same time.
    """
    if parts > 1:
        parts += parts % 2
    if parts == 2:  # noqa: PLR2004 (one for each of two threads)
        return _halves(length, multiple, nanoseconds)
    return cut(length, parts, multiple)


class _Job:
    """Parts that several threads take from one list, one after the other."""

    def __init__(self, work: Work, parts: Iterator[Any], arguments: tuple[Any, ...]) -> None:
        self._work = work
        self._parts = parts
        self._arguments = arguments
        self._threads = thread_count()
        self._progress = _progress.get()
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._helpers = 0
        self._closed = False
        self.error: BaseException | None = None

    def work(self) -> None:
        """Do parts until none is left."""
        work, arguments = self._work, self._arguments
        try:
            for part in self._parts:
                work(part, *arguments)
        except BaseException as error:  # noqa: BLE001 (raised again in the caller's thread)
            self.error = error
            for _ in self._parts:
                pass

    def help(self) -> None:
        """Do parts on a thread of the pool, unless the caller has finished."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
        allow_threads(self._threads)
        if (progress := self._progress) is None:
            self.work()
        else:
            self._work_until(progress)
        self._leave()

    def _work_until(self, progress: Progress) -> None:
        before = _progress.set(progress)
        try:
            interrupted_here(progress, self.work)
        except BaseException as error:  # noqa: BLE001 (raised again in the caller's thread)
            self.error = error
        finally:
            _progress.reset(before)

    def _leave(self) -> None:
        with self._lock:
            self._helpers -= 1
            if self._closed and not self._helpers:
                self._done.release()

    def finish(self) -> None:
        """Wait for the helpers; to be called by the caller when no part is left, or interrupted.

        May be called again, and must be where an interruption ended the first call.
        """
        with self._lock:
            if not self._helpers:
                self._closed = True
                return
            self._done.acquire(blocking=False)  # held already if this is the second call
            self._closed = True
        self._done.acquire()

    def abandon(self) -> None:
        """Drop the parts not begun, and wait for those that helpers are at."""
        for _ in self._parts:
            pass
        self.finish()


class _Pool:
    """Threads that sleep until there are jobs; they start when first needed and end with us."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def start(self, wanted: int) -> None:
        """Start threads until there are so many."""
        if self._started >= wanted:
            return
        with self._lock:
            while self._started < wanted:
                name = f"subgraphkit-numpy-{self._started}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
                self._started += 1

    def _serve(self) -> None:
        np.seterr(all="ignore")
        np.setbufsize(BUFFER)
        _set(_blas.libraries[0], itertools.repeat(1))
        while True:
            # no name may keep the job, and the arrays in it, alive while waiting
            self.jobs.get().help()


_pool = _Pool()


def _forget_threads() -> None:
    """Start over in a forked child, which has none of the threads."""
    global _pool, _blas  # noqa: PLW0603 (one pool a process)
    _pool = _Pool()
    _blas = _blas.successor()


def share(work: Work, parts: Sequence[Any], *arguments: Any) -> None:
    """Do every part of some work, on several threads if there is more than one part.

    Floating-point exceptions are silent on the pool's threads.

    ``work``: Called as ``work(part, *arguments)``; parts must not depend on each other.

    Raises:
        BaseException: What ``work`` raised; the other parts may or may not have been done.

    Thread-safety: may be called from any number of threads, and from within ``work``.
    """
    helpers = min(thread_count(), len(parts)) - 1
    if helpers <= 0:
        for part in parts:
            work(part, *arguments)
        return
    job = _Job(work, iter(parts), arguments)
    pool = _pool
    pool.start(helpers)
    try:
        for _ in range(helpers):
            pool.jobs.put(job)
        job.work()
        job.finish()
    except BaseException:
        # Ctrl-C: the helpers still write to memory that the caller is about to give away.
        job.abandon()
        raise
    if job.error is not None:
        raise job.error


class _Blas:
    """The number of threads of the BLAS libraries, lowered while anybody wants them alone.

    Libraries built on OpenMP have a number for every calling thread; others one for the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: list[int] = []
        self._libraries: tuple[list[Any], list[Any]] | None = None

    @property
    def libraries(self) -> tuple[list[Any], list[Any]]:
        """The BLAS libraries loaded: those with a number for every thread, those with one.

        Looked up once, because that takes milliseconds. NumPy's own is among them. One loaded later
        is not NumPy's and keeps its threads.
        """
        # Not a ``cached_property``: it has a lock in Python 3.11, for which a forked child might
        # wait forever. Two threads that look at once find the same.
        if self._libraries is None:
            # When imported it changes an environment variable, which to load a backend must not do.
            import threadpoolctl  # noqa: PLC0415 (see above)

            found = threadpoolctl.ThreadpoolController().lib_controllers
            blas = [one for one in found if one.user_api == "blas"]
            openmp = [one for one in blas if getattr(one, "threading_layer", "") == "openmp"]
            self._libraries = openmp, [one for one in blas if one not in openmp]
        return self._libraries

    def enter(self) -> list[int]:
        """Let BLAS work on the calling thread alone; return what ``leave`` needs."""
        with self._lock:
            if not self._users:
                self._before = _set(self.libraries[1], itertools.repeat(1))
            self._users += 1
        return _set(self.libraries[0], itertools.repeat(1))

    def successor(self) -> "_Blas":
        """Return what a forked child goes on with; BLAS has its threads back there."""
        if self._before:  # only then have the libraries been looked up
            _set(self.libraries[1], self._before)
        return _Blas()

    def leave(self, before: list[int]) -> None:
        """Give the threads back when nobody needs BLAS alone any more."""
        _set(self.libraries[0], before)
        with self._lock:
            self._users -= 1
            if not self._users:
                _set(self.libraries[1], self._before)


def _set(libraries: Sequence[Any], counts: Iterable[int]) -> list[int]:
    """Set the number of threads of libraries; return what it was."""
    before = []
    for one, count in zip(libraries, counts, strict=False):
        before.append(one.get_num_threads())
        # threadpoolctl 3.7 and later listen to one thread only, the first that asked
        if (clear := getattr(one, "clear_controlling_thread", None)) is not None:
            clear(force=True)
        one.set_num_threads(count)
        if clear is not None:
            clear(force=True)
    return before


_blas = _Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


class BlasAlone:
    """While entered, BLAS works on the calling thread alone, in the whole process.

    Thread-safety: may be entered by several threads; the last to leave gives the threads back.
    """

    __slots__ = ("_before", "_blas")

    def __enter__(self) -> None:
        """Take the threads away."""
        self._blas = _blas
        self._before = self._blas.enter()

    def __exit__(self, *_: object) -> None:
        """Give the threads back if nobody else wants BLAS alone."""
        self._blas.leave(self._before)
