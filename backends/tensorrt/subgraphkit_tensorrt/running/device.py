"""One GPU as sessions use it: memory and slots, bounded and given back, and engines from plans."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.cudart import Cuda, cuda_runtime
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import check, listening
from subgraphkit_tensorrt.running.memory import Block, DeviceMemory, StreamSlot
from subgraphkit_tensorrt.running.streams import Streams

_DEVICES: "Final[WeakSet[Device]]" = WeakSet()
_LOADERS: "Final[WeakValueDictionary[tuple[object, ...], Loader]]" = WeakValueDictionary()
_LOCK: Final = threading.RLock()


class Device:
    """A GPU with memory and slots, shared by the engines that run on it with the same settings.

    ``limit``: Most bytes of memory to hold; None for what the device has.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, cuda: Cuda, index: int = 0, *, limit: int | None = None) -> None:
        self.cuda = cuda
        self.index = index
        self._streams = Streams.of(cuda, index)
        self.order = self._streams.order
        self.released = self._streams.released
        self.memory = DeviceMemory(cuda, index, self._streams, limit=limit)
        self._resting: dict[int | None, list[StreamSlot]] = {}
        self._slots: list[StreamSlot] = []
        self._lock = threading.Condition()
        self._users = 0
        self._taken: list[int] = []
        self._end = weakref.finalize(self, self._streams.give_back, self._taken)
        self._end.atexit = False
        with _LOCK:
            _DEVICES.add(self)

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
        """Return a slot, the one used last if it is free, so that its work need not be waited for.

        ``stream``: A stream of the user that it is to work on; None for one of ours. On CUDA's
            default one TensorRT would wait for the device in every run, so that a stream of ours
            takes its place, behind what is on it.
        """
        with self._lock:
            first = stream not in self._resting
            resting = self._resting.setdefault(stream, [])
            # On a stream of the user everything is in one order anyway.
            while stream is not None and not first and not resting:
                self._lock.wait()
                first = stream not in self._resting
                resting = self._resting.setdefault(stream, [])
            slot = resting.pop() if resting else self._make_slot(stream)
        if stream == 0:
            self.cuda.order(0, slot.stream)
        return slot

    def _make_slot(self, stream: int | None) -> StreamSlot:
        own = stream or self._streams.take()
        self._streams.released.discard(own)
        if not stream:
            self._taken.append(own)
        slot = StreamSlot(self.cuda, self.memory, own, user=stream)
        self._slots.append(slot)
        return slot

    def put_slot(self, slot: StreamSlot) -> None:
        """Take a slot back."""
        with self._lock:
            self._resting[slot.user].append(slot)
            if slot.user is not None:  # nobody waits for one of ours
                self._lock.notify_all()
        if slot.user == 0:
            self.cuda.order(slot.stream, 0)

    def alive(self, stream: int) -> int:
        """Return a stream, or the default one if it was released and so is done."""
        return 0 if stream in self._streams.released else stream

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
            # The streams of users may go.
            self._forget_slots([slot for slot in resting if slot.user])
        self._end_slots(resting)
        with self._lock:
            for slot in resting:
                if not slot.user:
                    self._resting.setdefault(slot.user, []).append(slot)
            self._lock.notify_all()
        with self.active():
            self.memory.trim()

    def release_stream(self, stream: int) -> None:
        """Let go of what goes with a stream of the user, which waits for what was put on it."""
        if not stream:  # CUDA's default one stays
            return
        with self._lock:
            while stream in self._resting and not self._resting[stream]:
                self._lock.wait()  # somebody is running there
            slots = list(self._resting.get(stream, ()))
            self._forget_slots(slots)
        self._end_slots(slots)
        self._streams.released.add(stream)

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

    def _forget_slots(self, slots: list[StreamSlot]) -> None:
        for slot in slots:
            self._slots.remove(slot)
            self._resting.pop(slot.user, None)
        self._lock.notify_all()

    def _end_slots(self, slots: list[StreamSlot]) -> None:
        """Wait for slots that nobody holds, and free their memory."""
        if not slots:
            return
        with self.active():
            with suppress(ExecutionError):  # what failed there was told when it failed
                self.cuda.wait_for_device()
            for slot in slots:
                slot.release_memory()


class Loader:
    """Deserializes plans on one device; sessions with the same settings share it, see ``of``.

    Raises:
        BackendUnavailableError: CUDA's runtime library cannot be used (SGK175).
        CompileError: TensorRT cannot make a runtime here (SGK162).

    Thread-safety: may be used from any thread.
    """

    def __init__(self, library: Library, options: Options) -> None:
        self.library = library
        self.device = Device(cuda_runtime(), options.device, limit=options.memory_limit)
        self._lock = threading.Lock()
        self._runtime: Any = None

    @classmethod
    def of(cls, library: Library, options: Options) -> "Loader":
        """Return the loader of these settings; it lives as long as it is used."""
        key = (
            id(library.trt),
            options.device,
            options.memory_limit,
        )
        with _LOCK:
            found = _LOADERS.get(key)
            if found is None:
                found = _LOADERS[key] = cls(library, options)
            return found

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
            try:
                return self.library.trt.Runtime(self.library.logger)
            except Exception as error:  # noqa: BLE001 (a binding raises what it likes)
                said = (*lines, f"error: {type(error).__name__}: {error}")
                return check(None, "make a runtime", said, hint="See: subgraphkit doctor.")


def release_stream(stream: int) -> None:
    """Let go of what sessions keep for a stream of the caller's, which may be destroyed then.

    Waits for what was put on it. Without, a stream has to live until the sessions are closed.

    Thread-safety: may be called from any thread; no run may be started on the stream meanwhile.
    """
    with _LOCK:
        devices = list(_DEVICES)
    for device in devices:
        device.release_stream(int(stream))
