"""CUDA's runtime library in Python: its memory is that of the host, and its streams are lazy.

What is put on a stream happens when somebody waits for the stream, and not before, so that a wait
that is missing gives wrong results. New memory is full of ones, which are NaNs; memory that was
freed is no longer found.
"""
# ruff: noqa: N802 (the names are those of the libraries)

import ctypes
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["DoubleCuda"]

_INVALID = 1
_OUT_OF_MEMORY = 2
_FAILED = 719
_NOT_WHILE_CAPTURING = 900
_TEXTS = {
    _INVALID: b"invalid argument",
    _OUT_OF_MEMORY: b"out of memory",
    _FAILED: b"launch failed",
}
_ALIGNMENT = 256
_POISON = 0xFF
Work = Callable[[], None]


class _Stream:
    def __init__(self, device: int = 0) -> None:
        self.device = device
        self.work: list[Work] = []
        self.done = 0
        self.recorded: list[Work] | None = None
        self.failure: Exception | None = None


class DoubleCuda:
    """The functions that are used, with their C arguments.

    Args:
        memory: Bytes of device memory.

    Attributes:
        violations: What was done that a real device would not have survived.
        copies: How often was copied, by kind: 1 to the device, 2 to the host, 3 within.
        waits: How often the host waited for a stream.
        failing: Names of functions that fail from now on, with their status.
        refuses_capture: Whether nothing can be recorded.

    Thread-safety: may be used from any thread.
    """

    def __init__(self, memory: int = 1 << 32) -> None:
        self.violations: list[str] = []
        self.copies = {1: 0, 2: 0, 3: 0}
        self.failing: dict[str, int] = {}
        self.launches = 0
        self.waits = 0
        self.free_bytes = memory
        self._total = memory
        self._lock = threading.RLock()
        self._memory: dict[int, tuple[Any, int, int]] = {}
        self._pinned: dict[int, Any] = {}
        self._streams: dict[int, _Stream] = {0: _Stream()}
        self._events: dict[int, tuple[_Stream, int]] = {}
        self._event_devices: dict[int, int] = {}
        self._graphs: dict[int, list[Work]] = {}
        self._handles = 0x1000
        self._local = threading.local()

    # -- for the double of TensorRT ----------------------------------------------------------

    def view(self, address: int, nbytes: int) -> memoryview:
        """Return device memory, if it is there."""
        for start, (buffer, offset, size) in self._memory.items():
            if start <= address and address + nbytes <= start + size:
                place = offset + address - start
                return memoryview(buffer).cast("B")[place : place + nbytes]
        raise LookupError(f"{nbytes} bytes at {address:#x} are not memory of the device")

    def put(self, stream: int, work: Work) -> None:
        """Put work on a stream, or into what is being recorded from it."""
        with self._lock:
            found = self._streams[stream]
            (found.work if found.recorded is None else found.recorded).append(work)

    def finish(self, stream: int) -> None:
        """Do the work on a stream."""
        with self._lock:
            found = self._streams[stream]
            self._advance(found, len(found.work))

    def is_recording(self, stream: int) -> bool:
        """Say whether a stream is being recorded."""
        return self._streams[stream].recorded is not None

    @property
    def current(self) -> int:
        """The current device of this thread."""
        return int(getattr(self._local, "device", 0))

    @property
    def live_bytes(self) -> int:
        """Bytes of device memory that are allocated."""
        return self._total - self.free_bytes

    def _advance(self, stream: _Stream, until: int) -> None:
        while stream.done < until:
            work = stream.work[stream.done]
            stream.done += 1
            try:
                work()
            except Exception as error:  # noqa: BLE001 (a device reports it at the next wait)
                self.violations.append(f"{type(error).__name__}: {error}")
                stream.failure = error

    # -- devices -----------------------------------------------------------------------------

    def cudaRuntimeGetVersion(self, place: Any) -> int:
        place._obj.value = 12080
        return 0

    def cudaGetDeviceCount(self, place: Any) -> int:
        place._obj.value = 2
        return 0

    def cudaGetDevice(self, place: Any) -> int:
        place._obj.value = self.current
        return 0

    def cudaSetDevice(self, index: Any) -> int:
        self._local.device = index.value
        return 0

    def cudaMemGetInfo(self, free: Any, total: Any) -> int:
        free._obj.value, total._obj.value = self.free_bytes, self._total
        return 0

    def cudaDeviceSynchronize(self) -> int:
        with self._lock:
            for stream in self._streams.values():
                self._advance(stream, len(stream.work))
        return 0

    def cudaGetLastError(self) -> int:
        return 0

    def cudaGetErrorString(self, status: Any) -> bytes:
        return _TEXTS.get(status.value, b"unknown error")

    # -- memory ------------------------------------------------------------------------------

    def cudaMalloc(self, place: Any, nbytes: Any) -> int:
        with self._lock:
            if self._capturing():
                return _NOT_WHILE_CAPTURING
            size = nbytes.value
            if size > self.free_bytes:
                return _OUT_OF_MEMORY
            buffer = (ctypes.c_ubyte * (size + _ALIGNMENT))()
            ctypes.memset(buffer, _POISON, size + _ALIGNMENT)
            start = ctypes.addressof(buffer)
            offset = -start % _ALIGNMENT
            self._memory[start + offset] = (buffer, offset, size)
            self.free_bytes -= size
            place._obj.value = start + offset
            return 0

    def cudaFree(self, address: Any) -> int:
        with self._lock:
            self.cudaDeviceSynchronize()
            if address.value not in self._memory:
                self.violations.append(f"freed {address.value} which is not allocated")
                return _INVALID
            self.free_bytes += self._memory.pop(address.value)[2]
            return 0

    def cudaHostAlloc(self, place: Any, nbytes: Any, flags: Any) -> int:
        del flags
        buffer = (ctypes.c_ubyte * nbytes.value)()
        ctypes.memset(buffer, _POISON, nbytes.value)
        self._pinned[ctypes.addressof(buffer)] = buffer
        place._obj.value = ctypes.addressof(buffer)
        return 0

    def cudaFreeHost(self, address: Any) -> int:
        with self._lock:
            self._pinned.pop(address.value)
        return 0

    def cudaMemcpyAsync(self, target: Any, source: Any, nbytes: Any, kind: Any, stream: Any) -> int:
        to, of, size, way = target.value, source.value, nbytes.value, kind.value
        pinned = self._pinned_at(of if way == 1 else to)

        def copy() -> None:
            self.copies[way] += 1
            if pinned is not None and pinned not in self._pinned:
                raise LookupError("memory of the host was freed while the device copied")
            if way != 1:
                self.view(of, size)
            if way != 2:
                self.view(to, size)
            ctypes.memmove(to, of, size)

        if self._status("cudaMemcpyAsync"):
            return self._status("cudaMemcpyAsync")
        self.put(stream.value or 0, copy)
        return 0

    # -- streams and events ------------------------------------------------------------------

    def cudaStreamCreateWithFlags(self, place: Any, flags: Any) -> int:
        del flags
        with self._lock:
            place._obj.value = self._handle()
            self._streams[place._obj.value] = _Stream(self.current)
        return 0

    def cudaStreamDestroy(self, stream: Any) -> int:
        with self._lock:
            self.finish(stream.value)
            del self._streams[stream.value]
        return 0

    def cudaStreamSynchronize(self, stream: Any) -> int:
        with self._lock:
            self.waits += 1
            found = self._streams[stream.value or 0]
            if found.recorded is not None:
                return _NOT_WHILE_CAPTURING
            self._advance(found, len(found.work))
            failure, found.failure = found.failure, None
            return _FAILED if failure is not None else 0

    def cudaEventCreateWithFlags(self, place: Any, flags: Any) -> int:
        del flags
        with self._lock:
            place._obj.value = self._handle()
            self._event_devices[place._obj.value] = self.current
        return 0

    def cudaEventRecord(self, event: Any, stream: Any) -> int:
        with self._lock:
            found = self._streams[stream.value or 0]
            # The default stream is that of the current device.
            where = found.device if stream.value else self.current
            if self._event_devices[event.value] != where:
                self.violations.append("an event is recorded on the stream of another device")
            self._events[event.value] = (found, len(found.work))
        return 0

    def cudaStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        del flags
        with self._lock:
            other, place = self._events[event.value]
        self.put(stream.value or 0, lambda: self._advance(other, place))
        return 0

    def cudaEventDestroy(self, event: Any) -> int:
        with self._lock:
            del self._events[event.value], self._event_devices[event.value]
        return 0

    # -- graphs ------------------------------------------------------------------------------

    def cudaStreamBeginCapture(self, stream: Any, mode: Any) -> int:
        del mode
        if self._status("cudaStreamBeginCapture"):
            return self._status("cudaStreamBeginCapture")
        self._streams[stream.value].recorded = []
        return 0

    def cudaStreamEndCapture(self, stream: Any, place: Any) -> int:
        with self._lock:
            found = self._streams[stream.value]
            recorded, found.recorded = found.recorded, None
            if recorded is None:
                return _INVALID
            place._obj.value = self._handle()
            self._graphs[place._obj.value] = recorded
        return self._status("cudaStreamEndCapture")

    def cudaGraphInstantiateWithFlags(self, place: Any, graph: Any, flags: Any) -> int:
        del flags
        with self._lock:
            place._obj.value = self._handle()
            self._graphs[place._obj.value] = list(self._graphs[graph.value])
        return 0

    def cudaGraphDestroy(self, graph: Any) -> int:
        del self._graphs[graph.value]
        return 0

    def cudaGraphExecDestroy(self, graph: Any) -> int:
        if self._status("cudaGraphExecDestroy"):
            return self._status("cudaGraphExecDestroy")
        del self._graphs[graph.value]
        return 0

    def cudaGraphLaunch(self, graph: Any, stream: Any) -> int:
        self.launches += 1
        for work in self._graphs[graph.value]:
            self.put(stream.value, work)
        return 0

    # -- inside ------------------------------------------------------------------------------

    def _pinned_at(self, address: int) -> int | None:
        found = (
            start for start, one in self._pinned.items() if start <= address < start + len(one)
        )
        return next(found, None)

    def _capturing(self) -> bool:
        return any(stream.recorded is not None for stream in self._streams.values())

    def _status(self, name: str) -> int:
        return self.failing.get(name, 0)

    def _handle(self) -> int:
        self._handles += 0x10
        return self._handles
