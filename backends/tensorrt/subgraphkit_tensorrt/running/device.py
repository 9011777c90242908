"""One GPU as sessions use it: its memory, its streams, and the scratch that goes with a stream."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakValueDictionary

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.running.allocators import Allocator
from subgraphkit_tensorrt.running.cudart import Cuda
from subgraphkit_tensorrt.running.memory import Block, DeviceMemory, Pinned

__all__ = ["Device", "Lane"]


class Lane:
    """A stream with its pinned memory: the holder of a lane may put work on its stream.

    Work on one stream runs in order, so all engines that run in a lane share its scratch memory.

    Attributes:
        stream: Address of the stream.
        is_users: Whether the stream is one of the user's, on which others put work as well.
        up: Pinned memory to upload from.
        down: Pinned memory to download to.

    Thread-safety: none; held by one run at a time.
    """

    def __init__(
        self, cuda: Cuda, memory: DeviceMemory, stream: int, *, is_users: bool = False
    ) -> None:
        self._cuda = cuda
        self._memory = memory
        self.stream = stream
        self.is_users = is_users
        self.up = Pinned(cuda)
        self.down = Pinned(cuda)
        self._scratch: Block | None = None
        self._uploading = False

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return self._scratch.nbytes if self._scratch is not None else 0

    def scratch(self, nbytes: int) -> Block:
        """Return scratch memory of at least this size; it is overwritten by the next engine."""
        if self._scratch is None or self._scratch.nbytes < nbytes:
            if self._scratch is not None:
                self._memory.give_back(self._scratch)
                self._scratch = None
            self._scratch = self._memory.take(nbytes, self.stream)
        return self._scratch

    def ready_to_upload(self, nbytes: int) -> None:
        """Make room in ``up``, when the copies made from it before are done."""
        if self._uploading:
            self._cuda.wait_for_stream(self.stream)
        self.up.reserve(nbytes)
        self._uploading = True

    def wait(self) -> None:
        """Wait for everything on the stream.

        Raises:
            ExecutionError: Something on it failed (SGK174).
        """
        self._cuda.wait_for_stream(self.stream)
        self._uploading = False

    def release_memory(self) -> None:
        """Free the memory; the stream must be at rest."""
        self.up.close()
        self.down.close()
        if self._scratch is not None:
            self._memory.give_back(self._scratch)
            self._scratch = None


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
            return stream

    def give_back(self, streams: list[int]) -> None:
        """Take streams back; what was put on them need not be done."""
        with self._lock:
            self._resting.extend(streams)


_STREAMS: "Final[WeakValueDictionary[tuple[int, int], Streams]]" = WeakValueDictionary()
_LOCK: Final = threading.Lock()


class Device:
    """A GPU with memory and lanes, shared by the engines that run on it with the same settings.

    Args:
        cuda: The runtime library.
        index: Number of the device.
        allocator: Where memory is taken, unless it is CUDA's; kept alive as long as the device.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, cuda: Cuda, index: int = 0, *, allocator: Allocator | None = None) -> None:
        self.cuda = cuda
        self.index = index
        self.memory = DeviceMemory(cuda, index, allocator)
        self._streams = Streams.of(cuda, index)
        self._resting: dict[int | None, list[Lane]] = {}
        self._lanes: list[Lane] = []
        self._lock = threading.Condition()
        self._users = 0
        self._taken: list[int] = []
        self._end = weakref.finalize(self, self._streams.give_back, self._taken)
        self._end.atexit = False

    @property
    def name(self) -> str:
        """The name by which operators and arrays call it, such as ``"cuda:0"``."""
        return f"cuda:{self.index}"

    def retain(self) -> None:
        """Count one more engine or operator that uses it."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Count one less; after the last, memory is freed that is not in use elsewhere."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            resting = [lane for lanes in self._resting.values() for lane in lanes]
            # From now on the streams of users may go.
            self._resting = {None: [lane for lane in resting if not lane.is_users]}
            self._lanes = [lane for lane in self._lanes if not lane.is_users]
        with self.active():
            for lane in resting:
                with suppress(ExecutionError):  # what failed there was told when it failed
                    lane.wait()
                lane.release_memory()
            self.memory.release_kept()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make it the current device of this thread, and the former one again afterwards."""
        before = self.cuda.device()
        if before != self.index:
            self.cuda.set_device(self.index)
        try:
            yield
        finally:
            if before != self.index:
                self.cuda.set_device(before)

    @contextmanager
    def lane(self, stream: int | None = None) -> Iterator[Lane]:
        """Hold a lane, the one used last if it is free, so that its work need not be waited for.

        Args:
            stream: Stream of the user to work on, which has to live until nobody uses the device
                any more; without, one of ours.
        """
        lane = self._take_lane(stream)
        try:
            yield lane
        finally:
            with self._lock:
                self._resting[stream].append(lane)
                self._lock.notify_all()

    def give_back(self, block: Block) -> None:
        """Take the memory of an array that is no longer needed; for finalizers."""
        with self._lock:
            is_used = self._users > 0
        with self.active():
            # When the last user is gone, nobody will free what is kept.
            if is_used:
                self.memory.give_back(block)
            else:
                self.memory.discard(block)

    def discard(self, block: Block) -> None:
        """Free the memory of an array that others may have read; for finalizers."""
        with self.active():
            self.memory.discard(block)

    def info(self) -> dict[str, Any]:
        """Return what it holds, in bytes."""
        with self._lock:
            scratch = sum(lane.scratch_bytes for lane in self._lanes)
            pinned = sum(lane.up.nbytes + lane.down.nbytes for lane in self._lanes)
        return {
            "device": self.name,
            "streams": len(self._lanes),
            "shared_scratch_bytes": scratch,
            "pinned_bytes": pinned,
            "device_bytes_in_use": self.memory.taken_bytes,
            "device_bytes_kept": self.memory.kept_bytes,
        }

    def _take_lane(self, stream: int | None) -> Lane:
        with self._lock:
            first = stream not in self._resting
            resting = self._resting.setdefault(stream, [])
            # On a stream of the user everything is in one order anyway.
            while stream is not None and not first and not resting:
                self._lock.wait()
            if resting:
                return resting.pop()
            own = self._streams.take() if stream is None else stream
            if stream is None:
                self._taken.append(own)
            lane = Lane(self.cuda, self.memory, own, is_users=stream is not None)
            self._lanes.append(lane)
            return lane


def _destroy(cuda: Cuda, index: int, streams: list[int]) -> None:
    with suppress(ExecutionError):
        cuda.set_device(index)
        for stream in streams:
            cuda.destroy_stream(stream)
