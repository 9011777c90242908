"""One GPU as sessions use it: its memory, its streams, and the scratch that goes with a stream."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.running.cudart import Cuda
from subgraphkit_tensorrt.running.memory import Block, DeviceMemory, Pinned

__all__ = ["Device", "Lane"]


class Lane:
    """A stream with what belongs to it: whoever holds a lane may put work on its stream.

    Work on one stream runs in order, so all engines that run in a lane share its scratch memory.

    Attributes:
        stream: Address of the stream.
        up: Pinned memory to upload from.
        down: Pinned memory to download to.

    Thread-safety: none; held by one run at a time.
    """

    def __init__(self, cuda: Cuda, memory: DeviceMemory, stream: int) -> None:
        self._cuda = cuda
        self._memory = memory
        self.stream = stream
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


class Device:
    """A GPU with memory and lanes, shared by all engines in the process that run on it.

    Its streams live as long as it does, and arrays hold it, so that a stream named by an array
    exists.

    Args:
        cuda: The runtime library.
        index: Number of the device.
        stream: Stream of the user to put everything on; without, each lane makes one.
        owner: Kept alive as long as the device, such as an allocator TensorRT was given.

    Thread-safety: may be used from any thread.
    """

    def __init__(
        self, cuda: Cuda, index: int = 0, *, stream: int | None = None, owner: object = None
    ) -> None:
        self.cuda = cuda
        self.index = index
        self.memory = DeviceMemory(cuda, index)
        self._owner = owner
        self._user_stream = stream
        self._resting: list[Lane] = []
        self._lanes: list[Lane] = []
        self._lock = threading.Condition()
        self._users = 0
        self._streams: list[int] = []
        self._end = weakref.finalize(self, _destroy, cuda, index, self._streams)
        # When an interpreter ends, CUDA may have ended before.
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
            resting = list(self._resting)
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
    def lane(self) -> Iterator[Lane]:
        """Hold a lane, the one used last if it is free, so that its work need not be waited for."""
        lane = self._take_lane()
        try:
            yield lane
        finally:
            with self._lock:
                self._resting.append(lane)
                self._lock.notify()

    def give_back(self, block: Block) -> None:
        """Take the memory of an array that is no longer needed; for finalizers."""
        with self.active():
            self.memory.give_back(block)

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

    def _take_lane(self) -> Lane:
        with self._lock:
            # On a stream of the user everything is in one order anyway.
            while self._user_stream is not None and self._lanes and not self._resting:
                self._lock.wait()
            if self._resting:
                return self._resting.pop()
            stream = self._user_stream
            if stream is None:
                stream = self.cuda.create_stream()
                self._streams.append(stream)
            lane = Lane(self.cuda, self.memory, stream)
            self._lanes.append(lane)
            return lane


def _destroy(cuda: Cuda, index: int, streams: list[int]) -> None:
    with suppress(ExecutionError):
        cuda.set_device(index)
        for stream in streams:
            cuda.destroy_stream(stream)
