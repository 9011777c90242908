"""A wait that Ctrl-C and cancelling end at once, for work in a library that hears neither.

The work is done by a helper thread, because a library that computes gives Python's signal handlers
no chance in the thread that called it.
"""

import atexit
import contextlib
import contextvars
import ctypes
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache, partial
from typing import Final, TypeVar

from subgraphkit.backend.progress import Progress, ProgressEvent
from subgraphkit.errors import CompileTimeoutError
from subgraphkit.logs import logger_of

_logger = logger_of("compile")

_LOOK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 1.0
"""What a library that can be stopped, or one that is nearly done, gets to come to its end."""

_Result = TypeVar("_Result")


def attended(
    work: Callable[[Progress], _Result],
    progress: Progress,
    release: Callable[[_Result], object],
    seconds: float | None = None,
) -> _Result:
    """Have work done by a helper thread, and wait for it until it is cancelled.

    Work that does not stop when it is cancelled goes on by itself until it comes to its next step,
    or the program ends; the program does not wait for it.

    ``seconds``: How long it may take; None for as long as it takes.

    Raises:
        CompileTimeoutError: It took longer (SGK135).
        BaseException: Whatever the work raises, what ``progress`` was cancelled with, or what came
            up in the thread that waits, such as ``KeyboardInterrupt``.

    Thread-safety: may be called from any thread.
    """
    watched = Progress(None, progress)
    future: Future[_Result] = Future()
    thread = threading.Thread(
        target=contextvars.copy_context().run,
        args=(_do, future, work, watched),
        name="subgraphkit compile",
        daemon=True,
    )
    end = math.inf if seconds is None else time.monotonic() + seconds
    try:
        thread.start()  # which waits as well, and is left by Ctrl-C with the thread under way
        while not wait((future,), min(_LOOK_SECONDS, end - time.monotonic())).done:
            if time.monotonic() >= end:
                watched.cancel(_too_long(watched.latest, seconds or 0))
            watched.check()
        return future.result()
    except BaseException as error:
        if not future.done():
            watched.cancel(error)
            with contextlib.suppress(KeyboardInterrupt):  # a second one is not to be waited for
                wait((future,), _PATIENCE_SECONDS)
        if not future.done():
            _logger.info("what is being compiled goes on by itself to its next step")
            _leave_without_it()
        if not future.done() or future.exception() is not error:
            future.add_done_callback(lambda made: made.exception() or release(made.result()))
        raise


def _too_long(event: ProgressEvent | None, seconds: float) -> CompileTimeoutError:
    what = "nothing was compiled yet"
    if event is not None and event.subgraph:
        whole = f"{event.done} of {event.total} done" if event.total else f"{event.done} done"
        what = f"subgraph {event.subgraph!r} was being compiled on backend {event.backend!r}"
        what += f", {event.phase}: {whole} after {event.seconds:.1f} s"
    return CompileTimeoutError(
        "SGK135",
        f"compiling took longer than timeout_s={seconds:g}: {what}",
        hint="Give it more time, leave the backend out of the list, or let the session answer "
        "meanwhile with build='background'.",
    )


def _do(future: "Future[_Result]", work: Callable[[Progress], _Result], progress: Progress) -> None:
    try:
        result = work(progress)
    except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
        future.set_exception(error)
    else:
        future.set_result(result)


@cache
def _leave_without_it() -> None:
    """Have the program end at once when it ends, with its own status: a thread is in a library.

    What the library has registered to be done at the end would pull the ground from under it, and
    it registers more while it is at work: what is registered last is done first, so this is
    registered again when Python ends. And Python before 3.14 ends a thread that comes back
    meanwhile in a way that C++ takes for a fault of the whole program; that thread sleeps instead,
    but for faults before that the program aborts.
    """
    with contextlib.suppress(AttributeError, OSError):  # where the system has no such calls
        system = ctypes.CDLL(None)
        leave = partial(system.on_exit, system._exit, None)  # noqa: SLF001 (its name)
        leave()
        atexit.register(leave)
        set_terminate = ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE  # noqa: SLF001 (its name)
        atexit.register(set_terminate, system.pause)
