"""Streams: several runs under way at once, results in order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from subgraphkit.errors import CallerError
from tests.fakes import ReferenceOperator, claiming
from tests.unit.running.test_answering import PATIENCE, item, opened


def test_a_stream_keeps_the_order_and_reads_no_further_than_it_runs() -> None:
    read = 0

    def items() -> Iterator[dict[str, Any]]:
        nonlocal read
        for number in range(30):
            read += 1
            yield item(number)

    with opened() as session:
        got = 0
        for place, (y,) in enumerate(session.stream(items(), depth=3)):
            assert y == -place
            got += 1
            assert read <= place + 3
        assert got == 30
        assert list(session.stream([], 2)) == []
        with pytest.raises(CallerError, match=r"SGK142.*depth"):
            session.stream(items(), depth=0)


def test_two_subgraphs_of_a_stream_work_at_the_same_time() -> None:
    # Each waits in its run for the other: on the item before it, or after it.
    both = threading.Barrier(2, timeout=PATIENCE)

    def meeting(*, first: bool) -> Callable[[Any], ReferenceOperator]:
        class Meeting(ReferenceOperator):
            def run(self, inputs: Sequence[Any], outputs: Any = None) -> Sequence[Any]:
                self.count = getattr(self, "count", 0) + 1
                if self.count != (1 if first else 6):
                    both.wait()
                return super().run(inputs, outputs)

        return Meeting

    backends = [
        claiming(["Relu"], "first", make=meeting(first=True)),
        claiming(["Neg"], "second", make=meeting(first=False)),
    ]
    with opened(backend=backends) as session:
        assert [y[0] for (y,) in session.stream(map(item, range(6)), depth=2)] == [
            0, -1, -2, -3, -4, -5,
        ]  # fmt: skip


def test_an_error_in_a_stream_comes_at_its_place() -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield item(1)
        yield item(2)
        raise LookupError("no more")

    with opened() as session:
        for items, kind in (
            ([item(1), item(2), {}, item(4)], CallerError),
            (broken(), LookupError),
        ):
            results = session.stream(items, depth=4)
            assert [next(results)[0][0], next(results)[0][0]] == [-1, -2]
            with pytest.raises(kind):
                next(results)
            assert list(results) == []


def test_a_stream_of_what_arrives_answers_before_the_next_arrives() -> None:
    async def main() -> None:
        answers: asyncio.Queue[float] = asyncio.Queue()

        async def items() -> AsyncIterator[dict[str, Any]]:
            value = 1.0
            for _ in range(5):
                yield item(value)
                value = 1 - await answers.get()

        with opened() as session:
            seen = []
            async for (y,) in session.stream(items(), depth=4):
                seen.append(y[0])
                answers.put_nowait(float(y[0]))
            assert seen == [-1, -2, -3, -4, -5]

    asyncio.run(main())
