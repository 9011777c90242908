"""One GPU as sessions use it: memory and slots, bounded and given back, and engines from plans."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final
from weakref import WeakValueDictionary

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.cudart import Cuda, cuda_runtime
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import listening, make
from subgraphkit_tensorrt.running.memory import Block, DeviceMemory, StreamSlot

_DEVICES: "Final[WeakValueDictionary[tuple[int, int], Device]]" = WeakValueDictionary()
_LOADERS: "Final[WeakValueDictionary[tuple[int, int], Loader]]" = WeakValueDictionary()
_LOCK: Final = threading.RLock()


class Device:
    """A GPU with memory and slots; all engines that run on it and all arrays there share it.

    Memory remembers the streams it was used on. So our streams are destroyed after all memory.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, cuda: Cuda, index: int = 0) -> None:
        self.cuda = cuda
        self.index = index
        self.order = cuda.order
        self.memory = DeviceMemory(cuda, index)
        self._resting: dict[int | None, list[StreamSlot]] = {}
        self._slots: list[StreamSlot] = []
        self._lock = threading.RLock()
        self._returns = threading.Condition(self._lock)
        self._users = 0
        self._streams: list[int] = []
        self._end = weakref.finalize(self, _destroy, cuda, index, self._streams)
        # When an interpreter ends, CUDA may have ended before.
        self._end.atexit = False

    @classmethod
    def of(cls, cuda: Cuda, index: int) -> "Device":
        """Return a GPU; it lives as long as it is used."""
        key = id(cuda), index  # which it holds, so that the id is its own
        with _LOCK:
            return _DEVICES.get(key) or _DEVICES.setdefault(key, cls(cuda, index))

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
        self.trim()

    def active(self) -> AbstractContextManager[None]:
        """Make it the current device of this thread, and the former one again afterwards."""
        return self.cuda.on(self.index)

    @contextmanager
    def slot(self, stream: int | None = None) -> Iterator[StreamSlot]:
        """Hold a slot."""
        slot = self.take_slot(stream)
        try:
            yield slot
        finally:
            self.put_slot(slot)

    def take_slot(self, stream: int | None) -> StreamSlot:
        """Return a slot; the one used last if it is free, so that there is no work to wait for.

        ``stream``: A stream of the user that it is to work on; None for one of ours. On CUDA's
            default stream, TensorRT would wait for the device in every run. So a stream of ours
            takes its place and waits for the work that is already on it.
        """
        with self._lock:
            # On a stream of the user everything is in one order anyway.
            while stream is not None and self._resting.get(stream) == []:
                self._returns.wait()
            resting = self._resting.setdefault(stream, [])
            slot = resting.pop() if resting else self._make_slot(stream)
        if stream == 0:
            self.cuda.order(0, slot.stream)
        return slot

    def _make_slot(self, stream: int | None) -> StreamSlot:
        own = stream or self.cuda.create_stream()
        if not stream:
            self._streams.append(own)
        slot = StreamSlot(self.cuda, self.memory, own, user=stream)
        self._slots.append(slot)
        return slot

    def put_slot(self, slot: StreamSlot) -> None:
        """Take a slot back."""
        with self._lock:
            self._resting[slot.user].append(slot)
            if slot.user is not None:  # nobody waits for one of ours
                self._returns.notify_all()
        if slot.user == 0:
            self.cuda.order(slot.stream, 0)

    def give_back(self, block: Block) -> None:
        """Take the memory of an array that is no longer needed; for finalizers."""
        with self.active():
            self.memory.give_back(block)
            if not self._users:  # nobody will do it later
                self.memory.trim()

    def trim(self) -> None:
        """Give back the memory that nobody is using, of slots that rest and of freed blocks."""
        with self._lock:
            resting = [slot for slots in self._resting.values() for slot in slots]
            for slots in self._resting.values():
                slots.clear()
            for slot in resting:
                if slot.user:  # that stream may go
                    self._slots.remove(slot)
                    self._resting.pop(slot.user, None)
            self._returns.notify_all()
        with self.active():
            with suppress(ExecutionError):  # what failed there was told when it failed
                self.cuda.wait_for_device()
            for slot in resting:
                slot.release_memory()
        with self._lock:
            for slot in resting:
                if not slot.user:
                    self._resting.setdefault(slot.user, []).append(slot)
            self._returns.notify_all()
        with self.active():
            self.memory.trim()

    def info(self) -> dict[str, Any]:
        """Return what it holds, in bytes."""
        with self._lock:
            scratch = sum(slot.scratch_bytes for slot in self._slots)
            pinned = sum(slot.up.nbytes + slot.down.nbytes for slot in self._slots)
            count = len(self._slots)
        with self.active():
            kept = self.memory.kept_bytes
        return {
            "device": self.name,
            "streams": count,
            "shared_scratch_bytes": scratch,
            "pinned_bytes": pinned,
            "device_bytes_in_use": self.memory.taken_bytes,
            "device_bytes_kept": kept,
        }


def _destroy(cuda: Cuda, index: int, streams: list[int]) -> None:
    with suppress(ExecutionError), cuda.on(index):
        for stream in streams:
            cuda.destroy_stream(stream)


class Loader:
    """Deserializes plans on one device; sessions share it, see ``of``.

    Raises:
        BackendUnavailableError: CUDA's runtime library cannot be used (SGK175).
        CompileError: TensorRT cannot make a runtime here (SGK162).

    Thread-safety: may be used from any thread.
    """

    def __init__(self, library: Library, options: Options) -> None:
        self.library = library
        self.device = Device.of(cuda_runtime(), options.device)
        self._lock = threading.Lock()
        self._runtime: Any = None

    @classmethod
    def of(cls, library: Library, options: Options) -> "Loader":
        """Return the loader of a library and a device; it lives as long as it is used."""
        key = id(library.trt), options.device
        with _LOCK:
            return _LOADERS.get(key) or _LOADERS.setdefault(key, cls(library, options))

    def load(self, blob: bytes) -> Any:
        """Return an ``ICudaEngine``, or None if TensorRT does not take the plan.

        TensorRT refuses plans with code for the host inside.
        """
        with self._lock:
            if self._runtime is None:
                self._runtime = self._make_runtime()
            runtime = self._runtime
            engine = runtime.deserialize_cuda_engine(blob)
            if engine is None and self.device.memory.kept_bytes:
                self.device.memory.trim()  # the plan may have been too large beside it
                engine = runtime.deserialize_cuda_engine(blob)
            return engine

    def _make_runtime(self) -> Any:
        with listening() as lines:
            trt, logger, hint = self.library.trt, self.library.logger, "See: subgraphkit doctor."
            return make("make a runtime", lambda: trt.Runtime(logger), lines, hint=hint)
