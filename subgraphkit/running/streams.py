"""Streams of runs: several under way at once, on threads of their own, and results in order."""

import os
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from threading import TIMEOUT_MAX
from typing import Any, Final

from subgraphkit.errors import RunTimeoutError
from subgraphkit.running.gate import run_forked
from subgraphkit.running.messages import run_closed
from subgraphkit.running.stopping import RunOptions

_Feeds = Mapping[str, Any]
_Results = list[Any]
_Run = Callable[..., _Results]

_PATIENCE_SECONDS: Final = 0.1
"""What a run whose time is up gets to come to its next step before nobody waits for it any more."""


def submit_run(pool: Any, run: _Run, *feeds: _Feeds, **how: Any) -> "Future[_Results]":
    """Have a run done by another thread, in the context of this one.

    ``pool``: An ``Executor``, or ``Turns``.
    """
    try:
        future: Future[_Results] = pool.submit(copy_context().run, run, *feeds, **how)
    except RuntimeError as error:
        if "shutdown" in str(error):  # and not that there are too many threads
            run_closed({})
        raise
    return future


def patience(timeout: float | None) -> float | None:
    """Return how many seconds to wait for a run that may take so long; None for ever."""
    if timeout is None or timeout >= TIMEOUT_MAX:  # Python can wait for no longer
        return None
    return timeout + _PATIENCE_SECONDS


async def await_run(future: "Future[_Results]", timeout: float | None) -> _Results:  # noqa: ASYNC109 (see ``Answering.arun``)
    """Wait for results while the event loop goes on; dropped when nobody waits any more.

    ``timeout``: Seconds to wait before RunTimeoutError (SGK138); None for as long as it takes.
    """
    import asyncio  # noqa: PLC0415 (who awaits has it; to others it costs more than a session)

    mine = asyncio.wrap_future(future)
    try:
        if patience(timeout) is None:
            return await mine
        await asyncio.wait([mine], timeout=timeout)
        if not mine.done() and not future.cancel():  # it has begun, and may come to its next step
            await asyncio.wait([mine], timeout=_PATIENCE_SECONDS)
        if mine.done() and not mine.cancelled():
            return mine.result()
    finally:
        future.cancel()  # at once, before another thread begins it
        mine.cancel()
    raise RunTimeoutError(
        "SGK138",
        f"the run took longer than timeout={timeout:g}, and has not come to an end",
        hint="The session can be run again; what is left of this run is dropped.",
    )


def _failed_future(error: Exception) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _begin_runs(pool: Executor, run: _Run, items: Iterable[_Feeds]) -> "Iterator[Future[_Results]]":
    """Begin a run for each item when it is asked for; an error of the items takes its place."""
    try:
        for feeds in items:
            yield submit_run(pool, run, feeds)
    except Exception as error:  # noqa: BLE001 (raised at its place)
        yield _failed_future(error)


def stream_runs(
    run: _Run, options: RunOptions, items: Iterable[_Feeds], depth: int
) -> Iterator[_Results]:
    """Yield the results of runs in order; see ``Answering.stream``."""
    process = os.getpid()
    pool = ThreadPoolExecutor(depth, "subgraphkit stream")
    futures = _begin_runs(pool, run, items)
    under_way: deque[Future[_Results]] = deque()
    try:
        under_way.extend(islice(futures, depth))
        while under_way:
            yield under_way.popleft().result()
            if os.getpid() != process:
                run_forked({})
            under_way.extend(islice(futures, 1))
    finally:
        if os.getpid() == process:
            options.cancel()
            for future in under_way:
                future.cancel()
            pool.shutdown()


async def _begun_async(
    pool: Executor, run: _Run, items: AsyncIterable[_Feeds]
) -> AsyncIterator[Any]:
    from asyncio import wrap_future  # noqa: PLC0415 (as above)

    try:
        async for feeds in items:
            yield wrap_future(submit_run(pool, run, feeds))
    except Exception as error:  # noqa: BLE001 (raised at its place)
        yield wrap_future(_failed_future(error))


async def astream_runs(
    run: _Run, options: RunOptions, items: AsyncIterable[_Feeds], depth: int
) -> AsyncIterator[_Results]:
    """Yield the results of runs in order, as soon as they are there; as ``stream_runs``."""
    import asyncio  # noqa: PLC0415 (as above)

    pool = ThreadPoolExecutor(depth, "subgraphkit stream")
    futures = _begun_async(pool, run, items)
    under_way: deque[asyncio.Future[_Results]] = deque()
    reading: asyncio.Future[Any] | None = None
    ended = False
    try:
        while True:
            if reading is None and not ended and len(under_way) < depth:
                reading = asyncio.ensure_future(anext(futures, None))
            awaited: list[Any] = [*islice(under_way, 1), *filter(None, [reading])]
            if not awaited:
                return
            await asyncio.wait(awaited, return_when="FIRST_COMPLETED")
            if reading is not None and reading.done():
                begun, reading = reading.result(), None
                under_way.extend(filter(None, [begun]))
                ended = begun is None
            if under_way and under_way[0].done():
                yield under_way.popleft().result()
    finally:
        options.cancel()
        for one in (*filter(None, [reading]), *under_way):
            if not one.cancel() and not one.cancelled():
                one.exception()  # nobody will ask for it, and asyncio would report that
        pool.shutdown(wait=False)
