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
from subgraphkit.running.stopping import RunOptions

_Feeds = Mapping[str, Any]
_Results = list[Any]
_Run = Callable[..., _Results]

_PATIENCE_SECONDS: Final = 0.1
"""How long a run whose time is up may take to its next step before nobody waits for it."""
_HINT: Final = "The session can be run again; what is left of this run is dropped."


def submit_run(pool: Executor, run: _Run, *feeds: _Feeds) -> "Future[_Results]":
    """Have a run done by another thread, in the context of this one."""
    return pool.submit(copy_context().run, run, *feeds)


def patience(timeout: float | None) -> float | None:
    """Return how many seconds to wait for a run that may take so long; None for ever."""
    if timeout is None or timeout >= TIMEOUT_MAX:  # Python can wait for no longer
        return None
    return timeout + _PATIENCE_SECONDS


async def await_run(
    answer: Any,
    timeout: float | None,  # noqa: ASYNC109 (see ``Answering.arun``)
    withdraw: Callable[[], bool],
) -> _Results:
    """Wait for results while the event loop goes on, and for no longer than they may take.

    ``answer``: A future of the loop.
    ``timeout``: Seconds to wait before RunTimeoutError (SGK138); None for as long as it takes.
    ``withdraw``: Gives the run up; False if it has begun, and may come to its next step.
    """

    def be_late() -> None:
        if not answer.done():
            text = f"the run took longer than timeout={timeout:g}, and has not come to an end"
            answer.set_exception(RunTimeoutError("SGK138", text, hint=_HINT))

    def give_up() -> None:
        if withdraw():
            be_late()
        else:
            handles.append(loop.call_later(_PATIENCE_SECONDS, be_late))

    # Neither calls itself: such a function would hold the feeds until Python looks for cycles.
    loop, handles = answer.get_loop(), []
    if timeout is not None and patience(timeout) is not None:
        handles.append(loop.call_later(timeout, give_up))
    try:
        results: _Results = await answer
    finally:
        for handle in handles:
            handle.cancel()
    return results


def _begin_runs(pool: Executor, run: _Run, items: Iterable[_Feeds]) -> "Iterator[Future[_Results]]":
    """Begin a run for each item when it is asked for; an error of the items takes its place."""
    try:
        for feeds in items:
            yield submit_run(pool, run, feeds)
    except Exception as error:  # noqa: BLE001 (raised at its place)
        failed: Future[_Results] = Future()
        failed.set_exception(error)
        yield failed


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


async def astream_runs(
    run: _Run, options: RunOptions, items: AsyncIterable[_Feeds], depth: int
) -> AsyncIterator[_Results]:
    """Yield the results of runs in order, as soon as they are there; as ``stream_runs``."""
    import asyncio  # noqa: PLC0415 (as above)

    pool = ThreadPoolExecutor(depth, "subgraphkit stream")
    room, under_way = asyncio.Semaphore(depth), asyncio.Queue[Any]()

    async def begin() -> None:
        try:
            await room.acquire()
            async for feeds in items:
                under_way.put_nowait(asyncio.wrap_future(submit_run(pool, run, feeds)))
                await room.acquire()
        finally:
            under_way.put_nowait(beginning)

    beginning = asyncio.ensure_future(begin())
    try:
        while (first := await under_way.get()) is not beginning:
            yield await first
            room.release()
        await beginning  # raises the error of the items
    finally:
        options.cancel()
        pool.shutdown(wait=False)
        beginning.cancel()
        await asyncio.wait([beginning])  # the items are nobody's any more
        while not under_way.empty():
            one = under_way.get_nowait()
            if not one.cancel() and not one.cancelled():
                one.exception()  # nobody will ask for it, and asyncio would report that
