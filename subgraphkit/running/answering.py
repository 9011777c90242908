"""Answers of a session to many requests: warm-up, health, counts, coroutines and streams."""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Self, overload

import numpy as np

from subgraphkit.binding import BoundModel, Shapes, given_shapes
from subgraphkit.errors import ExecutionError, InputError, ModelError, RunTimeoutError
from subgraphkit.running.feeds import NodeArg, node_args
from subgraphkit.running.gate import Gate
from subgraphkit.running.messages import check_count, check_seconds, queue_full
from subgraphkit.running.observing import Observer, RunStats
from subgraphkit.running.stopping import RunOptions
from subgraphkit.running.streams import astream_runs, await_run, patience, stream_runs
from subgraphkit.running.turns import Turns

_SEED: Final = 0
_FEWEST_WORKERS: Final = 4
"""So that others fill the gaps of a run: between its steps, and where it waits for a device."""


class Answering(ABC):
    """The part of a session that serves requests; all of it is made of ``run``.

    Thread-safety: as ``Session``.
    """

    _gate: Gate
    _observer: Observer
    _workers: Turns | None = None
    _pulse: "Future[bool] | None" = None
    _small_feeds: Mapping[str, Any] | None = None

    @property
    @abstractmethod
    def graph(self) -> BoundModel:
        """The bound model."""

    def get_inputs(self) -> list[NodeArg]:
        """Describe the inputs that must be fed, in order."""
        return node_args(self.graph, self.graph.inputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Describe the inputs that may be fed and have a default otherwise."""
        return node_args(self.graph, tuple(self.graph.defaults))

    def get_outputs(self) -> list[NodeArg]:
        """Describe the outputs, in order."""
        return node_args(self.graph, self.graph.outputs)

    @abstractmethod
    def close(self) -> None:
        """Release what the operators hold. May be called more than once."""

    @abstractmethod
    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        *,
        timeout_s: float | None = None,
    ) -> list[Any]:
        """Compute outputs."""

    def warm_up(
        self, shapes: Shapes | None = None, runs: int = 1, *, feeds: Mapping[str, Any] | None = None
    ) -> float:
        """Run on made-up inputs, so that the first request is as quick as the others.

        Later pings run on the same inputs.

        Args:
            shapes: Sizes of named dimensions and shapes of inputs that are still open, as for
                ``bind``; best those of the requests. Open dimensions get small sizes that the
                network can work with.
            runs: How often to run.
            feeds: Arrays for inputs that cannot be made up, or are to be these.

        Returns:
            Seconds that the last of the runs took.

        Raises:
            CallerError: An input cannot be made up (SGK197); the shapes do not fit the model
                (SGK220, SGK221); ``runs`` is no count (SGK142).
            SubgraphkitError: As for ``run``.
        """
        check_count("runs", runs)
        made = self.made_up(shapes, feeds)
        seconds = 0.0
        for _ in range(runs):
            started = time.perf_counter()
            self.run(None, made)
            seconds = time.perf_counter() - started
        self._small_feeds = made
        return seconds

    def made_up(
        self, shapes: Shapes | None = None, feeds: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return feeds that fit the model: those given, and others as small as it can work with.

        Args:
            shapes: As for ``warm_up``.
            feeds: As for ``warm_up``.

        Raises:
            CallerError: As for ``warm_up``.
        """
        from subgraphkit.binding.samples import samples  # noqa: PLC0415 (few warm up)

        graph, given = self.graph, feeds or {}
        symbols, whole = given_shapes(graph, shapes or {}, strict=graph.settings.strict)
        known = {name: np.shape(value) for name, value in given.items()}
        made = samples(graph, known, whole, symbols, _SEED)
        return {**{name: feed.array for name, feed in made.items()}, **given}

    def ping(self, timeout_s: float = 10.0, *, recent_s: float = 0.0) -> bool:
        """Make sure that the session answers: one small run, which has to be over in time.

        It runs on a thread of its own, on the inputs of the last ``warm_up``. Without these it
        makes inputs up as ``warm_up`` does. Pings at the same time share a run. Errors of requests
        do not count.

        Args:
            timeout_s: Seconds that it may take, a wait for other runs included.
            recent_s: If another run has returned results within so many seconds, that is an answer,
                too. Runs are counted from the first ping with this argument on, see ``stats``.

        Returns:
            True, as otherwise it raises.

        Raises:
            RunTimeoutError: It does not, in time (SGK138).
            SubgraphkitError: As for ``run``: it cannot answer, be it closed (SGK144), a parent's
                (SGK127) or on a backend that fails (such as SGK131, SGK136).
            CallerError: An input cannot be made up (SGK197); call ``warm_up(feeds=...)`` before.
        """
        check_seconds("timeout_s", timeout_s, may_be_none=False)
        check_seconds("recent_s", recent_s, may_be_none=False)
        tally, end = self._observer.tally, time.monotonic() + min(timeout_s, threading.TIMEOUT_MAX)
        if recent_s > 0 and tally is not None and time.monotonic() - tally.last <= recent_s:
            return True
        pulse = self._pulse
        if pulse is None or pulse.done():
            pulse = self._pulse = Future()
            given = pulse, timeout_s, recent_s
            try:
                threading.Thread(
                    target=self._beat, args=given, name="subgraphkit ping", daemon=True
                ).start()
            except RuntimeError as error:  # there are too many threads
                pulse.set_exception(error)
        wait([pulse], patience(timeout_s))
        left = end - time.monotonic()
        if pulse.done() and left > 0 and isinstance(pulse.exception(), RunTimeoutError):
            return self.ping(left, recent_s=recent_s)  # its beginner had less time
        if pulse.done():
            return pulse.result()
        raise RunTimeoutError(
            "SGK138",
            f"the session did not answer a ping within timeout_s={timeout_s:g}",
            hint="A run hangs in a backend, or others take that long: give it more time, or "
            "take another run for an answer, with recent_s.",
        )

    def _beat(self, pulse: "Future[bool]", timeout_s: float, recent_s: float) -> None:
        try:
            if recent_s > 0:
                self.stats()  # here, as it waits for the runs that are under way
            if self._small_feeds is None:
                self._small_feeds = self.made_up()
            self.run(None, self._small_feeds, timeout_s=timeout_s)
        except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
            # made-up inputs may not fit the model; the session has answered then, too
            if isinstance(error, InputError | ExecutionError | ModelError) and (
                error.fault in {"caller", "model"}
            ):
                pulse.set_result(True)
            else:
                pulse.set_exception(error)
        else:
            pulse.set_result(True)
        finally:
            self._pulse = None  # an error would keep the run's objects alive

    def stats(self) -> RunStats:
        """Return the counts of runs since the first call, which begins to count.

        The first call waits for the runs that are under way.
        """
        if self._observer.tally is None:
            self._gate.alone(self._begin_tally)
        tally = self._observer.tally
        assert tally is not None  # noqa: S101 (for the type checker: it was begun)
        return tally.stats(self._gate.count_inside())

    @property
    def waiting(self) -> int:
        """How many calls of ``arun`` wait for their turn now."""
        return len(self._pool())

    @abstractmethod
    def _begin_tally(self) -> None:
        """Count runs from now on; called while there is none."""

    async def arun(
        self,
        input_feed: Mapping[str, Any],
        output_names: Sequence[str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (its error has a code, as has that of run)
        max_waiting: int = 1000,
        caller: Hashable = None,
    ) -> list[Any]:
        """Compute outputs on a thread of the session, while the event loop goes on.

        So many runs go on at once as the session has threads to compute with, at least four. Others
        wait for their turn. Runs that take far longer than others do not keep these waiting. Runs
        of less than 0.2 ms are done one after the other, as another thread would only cost time.

        If the task is cancelled, or the time is up, the run ends at its next step. You can run the
        session again at once; nothing waits for a long step.

        Args:
            input_feed: Arrays by input name.
            output_names: As for ``run``.
            timeout: Seconds that it may take, a wait for its turn included.
            max_waiting: How many others may wait for their turn before it.
            caller: For whom it is; callers take turns. None is one as well.

        Raises:
            RunTimeoutError: It took longer than it may (SGK138).
            CallerError: So many wait already (SGK198, whose fault is the machine's); the timeout
                is no number of seconds (SGK142).
            SubgraphkitError: As for ``run``.
        """
        import asyncio  # noqa: PLC0415 (others pay more for it than for a session)

        check_seconds("timeout", timeout)
        check_count("max_waiting", max_waiting)
        options, turns = RunOptions(timeout, since=time.monotonic()), self._pool()
        if len(turns) >= max_waiting:
            raise queue_full(max_waiting)
        answer = asyncio.get_running_loop().create_future()
        run = partial(copy_context().run, self.run, output_names, input_feed, options)
        turn = turns.submit(run, answer, caller)
        try:
            return await await_run(answer, timeout, partial(turns.withdraw, turn))
        except BaseException:
            turns.withdraw(turn)
            options.cancel()
            raise

    @overload
    def stream(
        self,
        items: Iterable[Mapping[str, Any]],
        depth: int = ...,
        *,
        output_names: Sequence[str] | None = ...,
    ) -> Iterator[list[Any]]: ...

    @overload
    def stream(
        self,
        items: AsyncIterable[Mapping[str, Any]],
        depth: int = ...,
        *,
        output_names: Sequence[str] | None = ...,
    ) -> AsyncIterator[list[Any]]: ...

    def stream(
        self,
        items: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
        depth: int = 4,
        *,
        output_names: Sequence[str] | None = None,
    ) -> Iterator[list[Any]] | AsyncIterator[list[Any]]:
        """Run on one item after the other, several at once, and return the results in order.

        A device and the processor then work at the same time, on different items. An operator that
        is not thread-safe still has one run at a time.

        Args:
            items: Feeds. They are read when there is room for one more, never before.
            depth: How many are under way at most.
            output_names: As for ``run``.

        Returns:
            An iterator of results; for ``async for`` if the items are. It ends with the first error
            of a run, or of the items, at that place. Then, and if it is closed, other runs end at
            their next step.

        Raises:
            InputError: There is no such output (SGK143). The iterator raises it, and the errors of
                ``run``.
            CallerError: ``depth`` is no count (SGK142).
        """
        check_count("depth", depth)
        options = RunOptions()

        def run(feeds: Mapping[str, Any]) -> list[Any]:
            return self.run(output_names, feeds, options)

        if isinstance(items, AsyncIterable):
            return astream_runs(run, options, items, depth)
        return stream_runs(run, options, items, depth)

    def __call__(self, *arrays: Any, **feeds: Any) -> dict[str, Any]:
        """Compute all outputs from inputs given in order or by name; returns them by name.

        Raises:
            InputError: There are more arrays than inputs, or one is given twice (SGK142).
            SubgraphkitError: As for ``run``.
        """
        named = dict(zip(self.graph.inputs, arrays, strict=False))
        if len(arrays) > len(named) or named.keys() & feeds:
            raise InputError(
                "SGK142",
                f"{len(arrays)} inputs are given in order, and {', '.join(feeds) or 'none'} by "
                f"name; the model has {', '.join(self.graph.inputs) or 'none'}",
            )
        feeds |= named
        return dict(zip(self.graph.outputs, self.run(None, feeds), strict=True))

    def __enter__(self) -> Self:
        """Return the session, which is closed on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session."""
        self.close()

    # -- inside ------------------------------------------------------------------------------

    def _pool(self) -> Turns:
        if (pool := self._workers) is None:
            count = self.graph.settings.threads or os.cpu_count() or 1
            made = Turns(max(count, _FEWEST_WORKERS))
            pool = self.__dict__.setdefault("_workers", made)  # of two, the first stays
        return pool

    def _forget_threads(self) -> None:
        """Go on in a forked child, without the threads of the parent."""
        self.__dict__.pop("_workers", None)
        self._pulse = None
        if self._observer.tally is not None:
            self._observer.tally.leave_parent()
