"""Streams of one GPU: ours, and those of the user, by an option or for single runs."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final
from weakref import WeakValueDictionary

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.cudart import Cuda

_STREAM: Final[ContextVar[int | None]] = ContextVar("subgraphkit_tensorrt_stream", default=None)


class Streams:
    """The streams of a GPU that are ours, shared by all who work on it; see ``of``.

    Memory remembers the streams it was used on, whoever made them, so none is destroyed while
    anybody holds memory there.

    Thread-safety: may be used from any thread; the device has to be the thread's current one.
    """

    def __init__(self, cuda: Cuda, index: int) -> None:
        self._cuda = cuda
        self._lock = threading.RLock()  # a collection of garbage may come back here
        self._resting: list[int] = []
        self.released: set[int] = set()
        """Streams of users that may be gone, so that nothing is ordered behind them."""
        self._all: list[int] = []
        self._end = weakref.finalize(self, _destroy, cuda, index, self._all)
        # When an interpreter ends, CUDA may have ended before.
        self._end.atexit = False

    @classmethod
    def of(cls, cuda: Cuda, index: int) -> "Streams":
        """Return the streams of a GPU; they live as long as they are used."""
        with _LOCK:
            found = _STREAMS.get((id(cuda), index))  # which they hold, so that the id is its own
            if found is None:
                found = _STREAMS[id(cuda), index] = cls(cuda, index)
            return found

    def take(self) -> int:
        """Return a stream that nobody uses."""
        with self._lock:
            if self._resting:
                return self._resting.pop()
            stream = self._cuda.create_stream()
            self._all.append(stream)
            self.released.discard(stream)  # CUDA may name it like one that is gone
            return stream

    def give_back(self, streams: list[int]) -> None:
        """Take streams back; what was put on them need not be done."""
        with self._lock:
            self._resting.extend(streams)

    def order(self, before: int, after: int) -> None:
        """Let a stream wait for what is on another, unless that was released."""
        if before not in self.released:
            self._cuda.order(before, after)


@contextmanager
def on_stream(stream: int) -> Iterator[None]:
    """Let runs of this thread, or task, work on a stream, whatever the option ``stream`` says.

    What is put on the stream before a run is done before it, and what is put there afterwards finds
    its outputs. Outputs that are left on the device are not waited for.

    Thread-safety: counts for the thread or asynchronous task it is entered in alone.
    """
    token = _STREAM.set(int(stream))
    try:
        yield
    finally:
        _STREAM.reset(token)


def stream_for(options: Options) -> int | None:
    """Return the user's stream that a run is to work on; None for one of ours."""
    given = _STREAM.get()
    wanted: int | None = options.stream if given is None else given
    return wanted


_STREAMS: "Final[WeakValueDictionary[tuple[int, int], Streams]]" = WeakValueDictionary()
_LOCK: Final = threading.Lock()


def _destroy(cuda: Cuda, index: int, streams: list[int]) -> None:
    with suppress(ExecutionError):
        cuda.set_device(index)
        for stream in streams:
            cuda.destroy_stream(stream)
