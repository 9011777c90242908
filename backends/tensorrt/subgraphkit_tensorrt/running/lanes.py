"""Streams of one GPU, and lanes: streams with the memory of what runs there."""

import threading
import weakref
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.memory import Block, DeviceMemory, Pinned

__all__ = ["Lane", "Streams"]


class Streams:
    """The streams of a GPU that are ours, shared by all who work on it; see ``of``.

    Memory remembers the streams it was used on, whoever made them, so none is destroyed while
    anybody holds memory there.

    Args:
        cuda: The runtime library.
        index: Number of the device.

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


class Lane:
    """A stream with its memory: the holder of a lane may put work on its stream.

    Work on one stream runs in order, so all engines that run in a lane share its memory.

    Args:
        cuda: The runtime library.
        memory: Memory of the device.
        streams: Streams of the device.
        stream: Address of the stream.
        is_users: Whether the stream is one of the user's, on which others put work as well.

    Attributes:
        stream: Address of the stream.
        is_users: Whether the stream is one of the user's, on which others put work as well.
        up: Pinned memory to upload from.
        down: Pinned memory to download to.

    Thread-safety: none; held by one run at a time.
    """

    def __init__(
        self,
        cuda: Cuda,
        memory: DeviceMemory,
        streams: Streams,
        stream: int,
        *,
        is_users: bool = False,
    ) -> None:
        self._cuda = cuda
        self._memory = memory
        self._streams = streams
        self.stream = stream
        self.is_users = is_users
        self.up = Pinned(cuda)
        self.down = Pinned(cuda)
        self._blocks: dict[str, Block] = {}
        self._copies: int | None = None
        self._uploading: int | None = None

    @property
    def copies(self) -> int:
        """A second stream, for copies that need not wait for what is computed."""
        if self._copies is None:
            self._copies = self._streams.take()
        return self._copies

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return self._blocks["scratch"].nbytes if "scratch" in self._blocks else 0

    @property
    def held_bytes(self) -> int:
        """Bytes of all its memory."""
        blocks = sum(block.nbytes for block in self._blocks.values())
        return blocks + self.up.nbytes + self.down.nbytes

    def scratch(self, nbytes: int) -> Block:
        """Return scratch memory of at least this size; it is overwritten by the next engine."""
        return self._block("scratch", nbytes)

    def ends(self, nbytes: int) -> Block:
        """Return memory for inputs and outputs that are copied; likewise."""
        return self._block("ends", nbytes)

    def ready_to_upload(self, nbytes: int, stream: int | None = None) -> None:
        """Make room in ``up`` for copies on a stream, that of the lane unless another is named.

        Waits until the copies made from it before are done.
        """
        if self._uploading is not None:
            self._cuda.wait_for_stream(self._uploading)
        self.up.reserve(nbytes)
        self._uploading = self.stream if stream is None else stream

    def wait(self) -> None:
        """Wait for everything on the stream.

        Raises:
            ExecutionError: Something on it failed (SGK174).
        """
        self._cuda.wait_for_stream(self.stream)
        if self._uploading == self.stream:
            self._uploading = None

    def release_memory(self) -> None:
        """Free the memory; nothing may be going on in the lane."""
        self.up.close()
        self.down.close()
        self._uploading = None
        while self._blocks:
            self._memory.give_back(self._blocks.popitem()[1])
        if self._copies is not None:
            self._streams.give_back([self._copies])
            self._copies = None

    def _block(self, kind: str, nbytes: int) -> Block:
        block = self._blocks.get(kind)
        if block is None or block.nbytes < nbytes:
            if block is not None:
                del self._blocks[kind]
                self._memory.give_back(block)
            block = self._blocks[kind] = self._memory.take(nbytes, self.stream)
        return block


_STREAMS: "Final[WeakValueDictionary[tuple[int, int], Streams]]" = WeakValueDictionary()
_LOCK: Final = threading.Lock()


def _destroy(cuda: Cuda, index: int, streams: list[int]) -> None:
    with suppress(ExecutionError):
        cuda.set_device(index)
        for stream in streams:
            cuda.destroy_stream(stream)
