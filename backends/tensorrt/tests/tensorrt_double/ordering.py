"""The order of work on streams, and what breaks it: memory that two of them touch at once.

Streams, events and waits of the host make an order, whatever the schedule; it is kept as one clock
per stream. Of two accesses to the same memory, one of which writes, one has to come first by it.
So a missing event is found in every schedule, also in one whose result happens to be right.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Work = Callable[[], object]

Clock = dict[int, int]
"""By number of a stream, how far its work is known to be done."""
Span = tuple[int, int]
"""Address and bytes of what is touched."""


def merge(clock: Clock, other: Clock) -> None:
    """Take over what another clock knows."""
    for stream, tick in other.items():
        if clock.get(stream, -1) < tick:
            clock[stream] = tick


@dataclass(slots=True)
class _Access:
    start: int
    end: int
    stream: int
    tick: int
    writes: bool


@dataclass(slots=True, eq=False)
class Allocation:
    """A piece of device memory, and who touched it last.

    Attributes:
        buffer: The memory of the host that stands for it.
        size: Its bytes.
        freed: Whether it was given back, in the order of the program.
    """

    buffer: object
    start: int
    offset: int
    size: int
    device: int
    freed: bool = False
    accesses: list[_Access] = field(default_factory=list)

    def holds(self, span: Span) -> bool:
        """Say whether it holds the whole of a span."""
        return self.start <= span[0] and span[0] + span[1] <= self.start + self.size

    def touch(self, span: Span, stream: int, clock: Clock, *, writes: bool) -> Iterable[str]:
        """Note an access; return what it collides with."""
        start, end = span[0], span[0] + span[1]
        if start == end:
            return []
        if self.freed:
            return [f"{span[1]} bytes at {start:#x} are used after they were freed"]
        found = [
            f"stream {stream} {_does(writes)} {span[1]} bytes at {start:#x}, which "
            f"stream {one.stream} {_does(one.writes)} in no order with it"
            for one in self.accesses
            if one.start < end
            and start < one.end
            and (writes or one.writes)
            and clock.get(one.stream, -1) < one.tick
        ]
        self.accesses = [
            one
            for one in self.accesses
            if not (start <= one.start and one.end <= end)
            or not (writes or (one.stream == stream and not one.writes))
        ]
        self.accesses.append(_Access(start, end, stream, clock[stream], writes))
        return found


def _does(writes: bool) -> str:  # noqa: FBT001 (one of two words)
    return "writes" if writes else "reads"


@dataclass(slots=True)
class Step:
    """Work on a stream: what it does, what it waits for, what it touches."""

    work: Work
    needs: tuple["Stream", int] | None = None
    reads: Sequence[Span] = ()
    writes: Sequence[Span] = ()


@dataclass(slots=True, eq=False)
class Stream:
    """A stream: its work, how much of it is done, and what is known to be done before the next.

    Attributes:
        blocks: Whether it and the default stream wait for each other.
        recorded: What is being recorded from it, if anything, with the mode and the thread.
    """

    number: int
    device: int
    work: list[Step] = field(default_factory=list)
    done: int = 0
    clock: Clock = field(default_factory=dict)
    recorded: list[Step] | None = None
    recorder: int = 0
    mode: int = 0
    blocks: bool = False
    is_valid: bool = True
    failure: Exception | None = None
