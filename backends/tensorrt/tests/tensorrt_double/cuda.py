"""CUDA's runtime library in Python: its memory is that of the host, and its streams run late.

What is put on a stream happens when somebody waits for the stream, or when a schedule drawn from a
seed lets the stream get on, so that a wait that is missing gives wrong results. New memory is full
of ones, which are NaNs; memory that was freed is poisoned and no longer found. Work that touches
memory out of order, or on the wrong device, is a violation in every schedule.
"""
# ruff: noqa: N802 (the names are those of the libraries)

import ctypes
import random
import threading
from collections.abc import Sequence
from typing import Any

from backends.tensorrt.tests.tensorrt_double.events import Events
from backends.tensorrt.tests.tensorrt_double.graphs import Graphs
from backends.tensorrt.tests.tensorrt_double.ordering import (
    Allocation,
    Clock,
    Span,
    Step,
    Stream,
    Work,
    merge,
)
from backends.tensorrt.tests.tensorrt_double.pools import Pools

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
_FREED = 0xDD
_POOLS_SUPPORTED = 115
_DEVICES = 2
_HOST = -9
"""The number that stands for the host among those of streams."""
_DONE = Step(lambda: None)
"""Takes the place of work that is done, which would keep alive what it used."""
_SILENT = {"cudaGetLastError", "cudaGetErrorString"}


def _remembering(owner: type) -> type:
    """Let every function fail as it is told to, and each thread remember what failed last."""
    for name in dir(owner):
        if name.startswith("cuda") and name not in _SILENT:
            setattr(owner, name, _remembered(name, getattr(owner, name)))
    return owner


def _remembered(name: str, function: Any) -> Any:
    def called(self: Any, *arguments: Any) -> int:
        status = self.broken or self.failing.get(name, 0) or function(self, *arguments)
        if status:
            self._local.last = status
        return int(status)

    return called


@_remembering
class DoubleCuda(Events, Graphs, Pools):
    """The functions that are used, with their C arguments.

    Attributes:
        violations: What was done that a real device would not have survived.
        copies: How often was copied, by kind: 1 to the device, 2 to the host, 3 within.
        failing: Names of functions that fail from now on, with their status.
        broken: Status of an error that CUDA reports of every call from now on; 0 for none.

    Thread-safety: may be used from any thread.
    """

    def __init__(
        self, memory: int = 1 << 32, schedule: int | None = None, *, pools: bool = True
    ) -> None:
        super().__init__()
        self.violations: list[str] = []
        self.copies = {1: 0, 2: 0, 3: 0}
        self.failing: dict[str, int] = {}
        self.broken = 0
        self.free_bytes = memory
        self.pools = pools
        self._draw = random.Random(schedule) if schedule is not None else None
        self._total = memory
        self._lock = threading.RLock()
        self._memory: dict[int, Allocation] = {}
        self._quarantine: list[object] = []
        self._pinned: dict[int, Any] = {}
        self._host: Clock = {}
        self._defaults = [Stream(-1 - one, one) for one in range(_DEVICES)]
        self._handles = 0x1000
        self._local = threading.local()

    # -- for the double of TensorRT ----------------------------------------------------------

    def view(self, address: int, nbytes: int) -> memoryview:
        """Return device memory, if it is there."""
        found = self.allocation((address, nbytes))
        place = found.offset + address - found.start
        return memoryview(found.buffer).cast("B")[place : place + nbytes]  # type: ignore[arg-type]

    def allocation(self, span: Span) -> Allocation:
        """Return the memory that holds a span."""
        for found in self._memory.values():
            if found.holds(span):
                return found
        raise LookupError(f"{span[1]} bytes at {span[0]:#x} are not memory of the device")

    def put(
        self, stream: int, work: Work, reads: Sequence[Span] = (), writes: Sequence[Span] = ()
    ) -> None:
        """Put work on a stream, or into what is being recorded from it."""
        with self._lock:
            self._put(self._at(stream), Step(work, None, reads, writes))

    def finish(self, stream: int) -> None:
        """Do the work on a stream; the host knows it to be done."""
        with self._lock:
            found = self._at(stream)
            self._advance(found, len(found.work))
            merge(self._host, found.clock)

    def is_recording(self, stream: int) -> bool:
        """Say whether a stream is being recorded."""
        return self._at(stream).recorded is not None

    def reserve(self, nbytes: int) -> Allocation:
        """Return memory that a library takes for itself, which is not counted."""
        with self._lock:
            self.free_bytes += nbytes
            found = self._allocate(nbytes, self.current)
            assert found is not None
            return found

    def change_at_once(self, memory: Allocation, *, ends: bool = False) -> None:
        """Let the host write memory, or end it, which what is on streams must not use any more."""
        with self._lock:
            self._host[_HOST] = self._host.get(_HOST, 0) + 1
            whole = (memory.start, memory.size)
            self.violations += memory.touch(whole, _HOST, dict(self._host), writes=True)
            if ends:
                self._release(memory)
                self.free_bytes -= memory.size

    def is_on(self, device: int, what: str) -> None:
        """See that a device is the current one when something on it is used."""
        if self.current != device:
            self.violations.append(
                f"{what} of device {device} is used while device {self.current} is current"
            )

    @property
    def current(self) -> int:
        """The current device of this thread."""
        return int(getattr(self._local, "device", 0))

    @property
    def last_error(self) -> int:
        """The error that this thread was told last and has not taken away."""
        return self.broken or int(getattr(self._local, "last", 0))

    @property
    def live_bytes(self) -> int:
        """Bytes of device memory that are allocated."""
        return self._total - self.free_bytes

    # -- the schedule ------------------------------------------------------------------------

    def _at(self, stream: int | None) -> Stream:
        return self._streams[stream] if stream else self._defaults[self.current]

    def _put(self, stream: Stream, step: Step) -> None:
        self.is_on(stream.device, "a stream")
        if stream.recorded is not None:
            stream.recorded.append(step)
            return
        self._wait_implicitly(stream)
        merge(stream.clock, self._host)
        if step.needs is None:
            stream.clock[stream.number] = len(stream.work)
            self._touch(stream, step)
        stream.work.append(step)
        self._let_on()

    def _wait_implicitly(self, stream: Stream) -> None:
        """Let the default stream and those that were not made to let it be wait for each other."""
        default = self._defaults[stream.device]
        blocking = [one for one in self._streams.values() if one.blocks]
        others = blocking if stream is default else [default] if stream.blocks else []
        for other in others:
            if other.recorded is not None:
                other.is_valid = False
            elif other.device == stream.device:
                stream.work.append(Step(lambda: None, (other, len(other.work))))
                merge(stream.clock, other.clock)

    def _touch(self, stream: Stream, step: Step) -> None:
        for spans, writes in ((step.reads, False), (step.writes, True)):
            for span in spans:
                if not span[1]:
                    continue
                try:
                    found = self.allocation(span)
                except LookupError as error:
                    self.violations.append(str(error))
                    continue
                if found.device != stream.device:
                    self.violations.append("memory of another device is touched")
                self.violations += found.touch(span, stream.number, stream.clock, writes=writes)

    def _let_on(self) -> None:
        """Let streams get on as the schedule wants it."""
        if self._draw is None:
            return
        for _ in range(self._draw.randrange(4)):
            late = [one for one in self._all() if one.done < len(one.work)]
            if not late:
                return
            stream = self._draw.choice(late)
            self._advance(stream, min(stream.done + self._draw.randint(1, 4), len(stream.work)))

    def _all(self) -> list[Stream]:
        return [*self._defaults, *self._streams.values()]

    def _advance(self, stream: Stream, until: int) -> None:
        while stream.done < until:
            step, stream.work[stream.done] = stream.work[stream.done], _DONE
            stream.done += 1
            if step.needs is not None:
                self._advance(*step.needs)
            try:
                step.work()
            except Exception as error:  # noqa: BLE001 (a device reports it at the next wait)
                self.violations.append(f"{type(error).__name__}: {error}")
                stream.failure = error

    # -- devices -----------------------------------------------------------------------------

    def cudaRuntimeGetVersion(self, place: Any) -> int:
        place._obj.value = 12080
        return 0

    def cudaGetDeviceCount(self, place: Any) -> int:
        place._obj.value = _DEVICES
        return 0

    def cudaDeviceGetAttribute(self, place: Any, attribute: Any, device: Any) -> int:
        del device
        place._obj.value = int(self.pools and attribute.value == _POOLS_SUPPORTED)
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
            if self._spoils(of_all=True):
                return _NOT_WHILE_CAPTURING
            self._finish_all()
        return 0

    def _finish_all(self) -> None:
        for stream in self._all():
            self._advance(stream, len(stream.work))
            merge(self._host, stream.clock)

    def cudaGetLastError(self) -> int:
        last, self._local.last = self.last_error, 0
        return last

    def cudaGetErrorString(self, status: Any) -> bytes:
        return _TEXTS.get(status.value, b"unknown error")

    # -- memory ------------------------------------------------------------------------------

    def cudaMalloc(self, place: Any, nbytes: Any) -> int:
        with self._lock:
            if self._spoils():
                return _NOT_WHILE_CAPTURING
            found = self._allocate(nbytes.value, self.current)
            place._obj.value = found.start if found is not None else None
            return 0 if found is not None else _OUT_OF_MEMORY

    def cudaFree(self, address: Any) -> int:
        with self._lock:
            if self._spoils():
                return _NOT_WHILE_CAPTURING
            self._finish_all()
            if address.value not in self._memory:
                self.violations.append(f"freed {address.value} which is not allocated")
                return _INVALID
            self._release(self._memory[address.value])
            return 0

    def _allocate(self, size: int, device: int) -> Allocation | None:
        if size > self.free_bytes:
            return None
        buffer = (ctypes.c_ubyte * (size + _ALIGNMENT))()
        ctypes.memset(buffer, _POISON, size + _ALIGNMENT)
        start = ctypes.addressof(buffer)
        offset = -start % _ALIGNMENT
        found = Allocation(buffer, start + offset, offset, size, device)
        self._memory[found.start] = found
        self.free_bytes -= size
        return found

    def _release(self, found: Allocation) -> None:
        del self._memory[found.start]
        ctypes.memset(found.start, _FREED, found.size)
        self._quarantine.append(found.buffer)  # so that its address is not that of other memory
        del self._quarantine[:-256]
        self.free_bytes += found.size

    def cudaHostAlloc(self, place: Any, nbytes: Any, flags: Any) -> int:
        del flags
        if self._spoils():
            return _NOT_WHILE_CAPTURING
        buffer = (ctypes.c_ubyte * nbytes.value)()
        ctypes.memset(buffer, _POISON, nbytes.value)
        self._pinned[ctypes.addressof(buffer)] = buffer
        place._obj.value = ctypes.addressof(buffer)
        return 0

    def cudaFreeHost(self, address: Any) -> int:
        with self._lock:
            if self._spoils():
                return _NOT_WHILE_CAPTURING
            buffer = self._pinned.pop(address.value)
            ctypes.memset(buffer, _FREED, len(buffer))
            self._quarantine.append(buffer)
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

        reads = [] if way == 1 else [(of, size)]
        self.put(stream.value or 0, copy, reads, [] if way == 2 else [(to, size)])
        return 0

    # -- inside ------------------------------------------------------------------------------

    def _pinned_at(self, address: int) -> int | None:
        found = (start for start, it in self._pinned.items() if start <= address < start + len(it))
        return next(found, None)

    def _handle(self) -> int:
        self._handles += 0x10
        return self._handles
