"""A batcher: requests of many callers, stacked along their batch axis and run as one."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, Self

import numpy as np

from subgraphkit.binding import BoundModel
from subgraphkit.errors import CallerError, SubgraphkitError
from subgraphkit.running.answering import Answering
from subgraphkit.running.devices import is_on_device
from subgraphkit.running.emission import pick_results
from subgraphkit.running.feeds import admit_input, check_names, places_of
from subgraphkit.running.gate import start_over_in_children
from subgraphkit.running.messages import check_count, check_seconds, not_batched
from subgraphkit.running.streams import await_run
from subgraphkit.types import Dim, TensorType

_IDLE_SECONDS: Final = 1.0
"""Without requests for so long, the thread ends; the next request starts another."""

_PROBED_ROWS: Final = (2, 3)
"""Numbers of rows to try, if the types do not say that outputs have a row for each input row."""


@dataclass(slots=True, eq=False)
class _Request:
    """The request of one caller.

    Attributes:
        places: The places of the outputs wanted; None for all.
        kind: Requests of one kind are stacked; None runs alone.
        timeout_s: Seconds that its run may take.
        since: When it came.
    """

    feeds: Mapping[str, Any]
    places: Sequence[int] | None
    rows: int
    kind: tuple[Any, ...] | None
    timeout_s: float | None = None
    future: "Future[list[Any]]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """Puts requests that come at about the same time together, and answers each with its own rows.

    Requests are stacked along the first axis of every input, if they agree in dtype and in all
    other sizes. A wrong request fails alone. Wrong feeds are found before they are stacked. If a
    stacked run fails, its requests run one by one.

    Args:
        session: Runs them; it stays the caller's, and is to be closed after the batcher.
        max_batch: How many rows are stacked at most; a request that has more runs alone.
        max_wait_s: How many seconds a request waits for others at most, while none is run.

    Raises:
        CallerError: The first axes of the inputs, or of the outputs, are not one dimension that is
            open (SGK196); a number makes no sense (SGK142).

    If the types do not say whether an output has a row per input row, the batcher first runs the
    model on made-up inputs. The model has to see to it that rows do not depend on one another.

    Thread-safety: safe; one batch runs at a time.
    """

    def __init__(self, session: Answering, max_batch: int = 32, max_wait_s: float = 0.002) -> None:
        check_count("max_batch", max_batch)
        check_seconds("max_wait_s", max_wait_s, may_be_none=False)
        graph = session.graph
        _check_rows(session, _common_dimension(graph))
        self._session, self._max_batch, self._max_wait_s = session, max_batch, max_wait_s
        self._doors = {name: admit_input(graph, name) for name in graph.inputs}
        self._output_places = {name: place for place, name in enumerate(graph.outputs)}
        self._closed = False
        self.leave_parent()
        start_over_in_children(self)

    def leave_parent(self) -> None:
        """Go on in a forked child, whose requests are others and which has no thread for them."""
        self._changed = threading.Condition()
        self._waiting: dict[Any, list[_Request]] = {}
        self._thread: threading.Thread | None = None

    def submit(
        self,
        input_feed: Mapping[str, Any],
        output_names: Sequence[str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> "Future[list[Any]]":
        """Have a request answered; the arrays are not to be changed before it is.

        Args:
            input_feed: Arrays by input name.
            output_names: As for ``Session.run``.
            timeout_s: Seconds that its run may take; the longest of a batch holds for all of it.

        Returns:
            What takes the results, or the error that ``Session.run`` would raise.

        Raises:
            CallerError: The batcher is closed (SGK144).
        """
        try:
            request = self._request_of(input_feed, output_names)
            request.timeout_s = timeout_s
        except SubgraphkitError as error:
            refused: Future[list[Any]] = Future()
            refused.set_exception(error)
            return refused
        with self._changed:
            if self._closed:
                raise CallerError("SGK144", "the batcher is closed", hint="Make a new one.")
            if self._thread is None:
                thread = threading.Thread(
                    target=self._serve, name="subgraphkit batcher", daemon=True
                )
                thread.start()
                self._thread = thread
            self._waiting.setdefault(request.kind or request, []).append(request)
            self._changed.notify_all()
        return request.future

    async def arun(
        self,
        input_feed: Mapping[str, Any],
        output_names: Sequence[str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (its error has a code, as has that of run)
    ) -> list[Any]:
        """Answer a request while the event loop goes on; one that is not begun in time is dropped.

        Args:
            input_feed: Arrays by input name.
            output_names: As for ``Session.run``.
            timeout: Seconds that it may take, and its run after that.

        Raises:
            RunTimeoutError: It took longer than it may (SGK138).
            SubgraphkitError: As for ``Session.run``; or the batcher is closed (SGK144).
        """
        from asyncio import wrap_future  # noqa: PLC0415 (awaiting code has it)

        check_seconds("timeout", timeout)
        future = self.submit(input_feed, output_names, timeout_s=timeout)
        return await await_run(wrap_future(future), timeout, future.cancel)

    def close(self) -> None:
        """Answer earlier requests, and take no more. May be called more than once."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread not in (None, threading.current_thread()):
            thread.join()

    def __enter__(self) -> Self:
        """Return the batcher, which is closed on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the batcher."""
        self.close()

    # -- inside ------------------------------------------------------------------------------

    def _request_of(self, feeds: Any, names: Sequence[str] | None) -> _Request:
        """Make a request of the feeds; one that is unlike others runs alone."""
        places = places_of(names, self._output_places) if names else None
        if not isinstance(feeds, Mapping) or any(map(is_on_device, feeds.values())):
            return _Request(feeds, places, 0, None)
        check_names(self._session.graph, feeds)
        admitted = {name: admit(feeds[name]) for name, admit in self._doors.items()}
        rows = {array.shape[0] for array in admitted.values()}
        if len(rows) > 1 or len(feeds) > len(admitted):
            return _Request(feeds, places, 0, None)
        kind = tuple((array.dtype, array.shape[1:]) for array in admitted.values())
        return _Request(admitted, places, rows.pop(), kind)

    def _serve(self) -> None:
        while batch := self._next_batch():
            begun = [one for one in batch if one.future.set_running_or_notify_cancel()]
            del batch
            self._answer(begun)
            del begun  # nothing is kept alive while there is nothing to do

    def _next_batch(self) -> list[_Request]:
        """Wait for the requests to be run next; there are none where the thread is to end."""
        with self._changed:
            while True:
                kind = min(self._waiting, key=self._due, default=None)
                left = _IDLE_SECONDS if kind is None else self._due(kind) - time.monotonic()
                if kind is not None and (left <= 0 or self._closed):
                    return self._take_batch(kind)
                if kind is None and self._closed:
                    break
                if not self._changed.wait(min(left, threading.TIMEOUT_MAX)) and kind is None:
                    break
            self._thread = None
            return []

    def _due(self, kind: Any) -> float:
        """Return when requests of one kind are to be run: at once if there are enough."""
        requests = self._waiting[kind]
        rows = 0
        for one in requests:
            rows += one.rows
            if rows >= self._max_batch or one.kind is None:
                return one.since - self._max_wait_s
        return requests[0].since + self._max_wait_s

    def _take_batch(self, kind: Any) -> list[_Request]:
        """Take as many requests as make a batch off those that wait."""
        requests = self._waiting.pop(kind)
        ends = accumulate(one.rows for one in requests)
        count = max(1, sum(end <= self._max_batch for end in ends))
        if count < len(requests):
            self._waiting[kind] = requests[count:]
        return requests[:count]

    def _answer(self, requests: list[_Request]) -> None:
        if len(requests) > 1 and self._run_stacked(requests):
            return
        for one in requests:
            try:
                results = self._session.run(None, one.feeds, timeout_s=one.timeout_s)
                if one.places is not None:
                    results = pick_results(results, one.places)
            except BaseException as error:  # noqa: BLE001 (raised where somebody waits)
                one.future.set_exception(error)
            else:
                one.future.set_result(results)

    def _run_stacked(self, requests: list[_Request]) -> bool:
        """Run requests as one; say whether that went well."""
        try:
            feeds = {
                name: np.concatenate([one.feeds[name] for one in requests])
                for name in requests[0].feeds
            }
            limits = [one.timeout_s for one in requests if one.timeout_s is not None]
            limit = max(limits) if len(limits) == len(requests) else None
            results = self._session.run(None, feeds, timeout_s=limit)
            ends = list(accumulate(one.rows for one in requests))
            if any(array.shape[:1] != (ends[-1],) for array in results):
                return False
            shares = [
                [array[end - one.rows : end].copy() for array in results]
                for one, end in zip(requests, ends, strict=True)
            ]
        except BaseException:  # noqa: BLE001 (it comes up again where it belongs)
            return False
        for one, mine in zip(requests, shares, strict=True):
            one.future.set_result(mine if one.places is None else pick_results(mine, one.places))
        return True


def _common_dimension(graph: BoundModel) -> Dim:
    """Return the first dimension of all inputs; CallerError (SGK196) if none, or it is fixed."""
    found: set[Dim] = set()
    for name in graph.inputs:
        type_ = graph.types.get(name)
        if not isinstance(type_, TensorType) or not type_.shape:
            raise not_batched(f"input {name!r} is {type_}, and has no axis for the batch")
        if isinstance(type_.shape[0], int):
            raise not_batched(f"the first axis of input {name!r}, {type_}, is fixed")
        found.add(type_.shape[0])
    if len(found) != 1:
        names = ", ".join(sorted(map(repr, found)))
        raise not_batched(f"the first axes of its inputs are {names or 'none'}, expected one")
    return found.pop()


def _check_rows(session: Answering, dimension: Dim) -> None:
    """Require a row of each output for each of the inputs; else CallerError (SGK196)."""
    graph = session.graph
    unsure = []
    for place, name in enumerate(graph.outputs):
        type_ = graph.types.get(name)
        shape = type_.shape if isinstance(type_, TensorType) else ()
        if shape is not None and (not shape or isinstance(shape[0], int)):
            raise not_batched(f"output {name!r} is {type_}, and has no row for each of the inputs'")
        if shape is None or shape[0] is None or shape[0] != dimension:
            unsure.append((place, name))
    for rows in _PROBED_ROWS if unsure else ():
        try:
            results = session.run(None, session.made_up({f"{n}[0]": rows for n in graph.inputs}))
        except SubgraphkitError as error:
            raise not_batched(
                f"its types do not say that output {unsure[0][1]!r} has a row for each of the "
                f"inputs', and it could not be tried: {error.message}"
            ) from error
        for place, name in unsure:
            if np.shape(results[place])[:1] != (rows,):
                raise not_batched(
                    f"output {name!r} has shape {np.shape(results[place])} for {rows} rows of input"
                )
