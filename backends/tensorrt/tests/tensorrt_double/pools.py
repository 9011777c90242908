"""The double's memory pools: memory that is taken and freed in the order of streams."""
# ruff: noqa: N802 (the names are those of the libraries)

import ctypes
from dataclasses import dataclass, field
from typing import Any

from backends.tensorrt.tests.tensorrt_double.ordering import Step, merge

_THRESHOLD = 4
_RESERVED = 5
_USED = 7
_OUT_OF_MEMORY = 2
_NOT_WHILE_CAPTURING = 900
_POISON = 0xFF
_FREED = 0xDD
_GRAIN = 512


@dataclass(slots=True, eq=False)
class _Pool:
    device: int
    threshold: int = 0
    used: int = 0
    reserved: int = 0
    free: list[Any] = field(default_factory=list)
    """Memory with the stream and the place in its work where it was freed, and the clock there."""


class Pools:
    """The functions of pools; memory that was freed goes to whoever wants no more than that."""

    _lock: Any

    def __init__(self) -> None:
        self._pools: dict[int, _Pool] = {}
        self._gone: list[_Pool] = []
        self._pool_of: dict[int, _Pool] = {}

    def cudaMemPoolCreate(self, place: Any, properties: Any) -> int:
        numbers = ctypes.cast(properties, ctypes.POINTER(ctypes.c_int))
        assert [numbers[one] for one in range(3)] == [1, 0, 1]  # pinned, not shared, on a device
        with self._lock:
            place._obj.value = self._handle()
            self._pools[place._obj.value] = _Pool(numbers[3])
        return 0

    def cudaMemPoolDestroy(self, pool: Any) -> int:
        with self._lock:
            found = self._pools.pop(pool.value)
            found.threshold = 0  # what is in use stays until it is freed
            self._gone.append(found)
            self._trim(found, 0)
        return 0

    def cudaMemPoolSetAttribute(self, pool: Any, attribute: Any, value: Any) -> int:
        assert attribute.value == _THRESHOLD
        self._pools[pool.value].threshold = value._obj.value
        return 0

    def cudaMemPoolGetAttribute(self, pool: Any, attribute: Any, value: Any) -> int:
        found = self._pools[pool.value]
        value._obj.value = {_RESERVED: found.reserved, _USED: found.used}[attribute.value]
        return 0

    def cudaMemPoolTrimTo(self, pool: Any, keep: Any) -> int:
        with self._lock:
            if self._spoils():
                return _NOT_WHILE_CAPTURING
            self._trim(self._pools[pool.value], keep.value)
        return 0

    def cudaMallocFromPoolAsync(self, place: Any, nbytes: Any, pool: Any, stream: Any) -> int:
        with self._lock:
            found, target = self._pools[pool.value], self._at(stream.value)
            size = -(-nbytes.value // _GRAIN) * _GRAIN
            if target.recorded is not None:
                self.violations.append("memory is taken on a stream that is recorded")
            fitting = [one for one in found.free if size <= one[0].size <= 2 * size]
            if fitting:
                entry = min(reversed(fitting), key=lambda one: one[0].size)
                found.free.remove(entry)
                memory, other, until, clock = entry
                self._put(target, Step(lambda: None, (other, until)))
                merge(target.clock, clock)
                memory.freed = False
            else:
                if (memory := self._allocate(size, found.device)) is None:
                    return _OUT_OF_MEMORY
                found.reserved += memory.size
            found.used += memory.size
            self._pool_of[memory.start] = found
            whole = (memory.start, memory.size)
            self.put(stream.value, lambda: ctypes.memset(*_of(whole, _POISON)), (), [whole])
            place._obj.value = memory.start
        return 0

    def cudaFreeAsync(self, address: Any, stream: Any) -> int:
        with self._lock:
            if (found := self._pool_of.pop(address.value, None)) is None:
                self.violations.append(f"freed {address.value} which is not of a pool")
                return 1
            memory, target = self._memory[address.value], self._at(stream.value)
            whole = (memory.start, memory.size)
            self.put(stream.value, lambda: ctypes.memset(*_of(whole, _FREED)), (), [whole])
            memory.freed = True
            found.used -= memory.size
            found.free.append((memory, target, len(target.work), dict(target.clock)))
        return 0

    def _trim_pools(self) -> None:
        """Let go of what pools keep beyond their threshold, as happens when the host waits."""
        for pool in (*self._pools.values(), *self._gone):
            if pool.reserved > pool.threshold:
                self._trim(pool, pool.threshold)

    def _trim(self, pool: _Pool, keep: int) -> None:
        for entry in list(pool.free):
            memory, other, until, _ = entry
            if pool.reserved > keep and other.done >= until:
                pool.free.remove(entry)
                pool.reserved -= memory.size
                self._release(memory)


def _of(span: tuple[int, int], value: int) -> tuple[int, int, int]:
    return span[0], value, span[1]
