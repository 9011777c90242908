"""Device memory that is reused in the order of streams, and pinned memory to copy through.

A block that is given back may still be read by work that was put on a stream and has not run. So a
block remembers the streams it was used on, and whoever takes its memory next on another stream
waits for those there; the host never waits. CUDA's own pools see to that where a device has them;
elsewhere, and with an allocator of the user's, the smallest block that is kept and fits is taken.
"""

import bisect
import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.allocators import Allocator

__all__ = ["ALIGNMENT", "Block", "DeviceMemory", "Pinned", "aligned"]

ALIGNMENT: Final = 256
"""Alignment of every address that TensorRT is given, in bytes."""

_FINE: Final = 1 << 16
_KEPT: Final = 1 << 62
"""A pool keeps what was freed until it is trimmed."""

Order = Callable[[int, int], None]
"""Lets a stream, the second, wait for what is on another."""


@dataclass(slots=True)
class Block:
    """A piece of device memory.

    Attributes:
        address: Where it is; a multiple of 256.
        nbytes: Its size.
        streams: The streams on which it was used and which were not waited for.
    """

    address: int
    nbytes: int
    streams: set[int] = field(default_factory=set)


def aligned(nbytes: int) -> int:
    """Round a size up to the alignment; never 0, since TensorRT takes no null addresses."""
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


class _Source(Protocol):
    """The place that blocks come from and go to."""

    @property
    def kept_bytes(self) -> int:
        """Bytes kept for later."""

    def take(self, size: int, stream: int) -> Block | None:
        """Return a block to be used on a stream; None if there is not enough memory."""

    def give_back(self, block: Block, *, settled: bool) -> None:
        """Take a block back; ``settled`` says that the device was waited for."""

    def trim(self) -> None:
        """Free what is kept; the device was waited for."""


class _Pool:
    """A memory pool of CUDA."""

    def __init__(self, cuda: Cuda, pool: int, order: Order, released: AbstractSet[int]) -> None:
        self._cuda = cuda
        self._pool = pool
        self._order = order
        self._released = released
        self._ends = cuda.create_stream()
        """Waits for the streams of blocks that were used on several."""
        self._end = weakref.finalize(self, _let_go, cuda, pool, self._ends)
        self._end.atexit = False

    @property
    def kept_bytes(self) -> int:
        return self._cuda.pool_keeps(self._pool)

    def take(self, size: int, stream: int) -> Block | None:
        address = self._cuda.allocate_from(self._pool, size, stream)
        return Block(address, size, {stream}) if address else None

    def give_back(self, block: Block, *, settled: bool) -> None:
        alive = set() if settled else block.streams - self._released
        if len(alive) == 1:
            (stream,) = alive
        else:
            stream = self._ends
            for other in alive:
                self._order(other, stream)
        self._cuda.free_on(block.address, stream)

    def trim(self) -> None:
        self._cuda.trim_pool(self._pool)


def _let_go(cuda: Cuda, pool: int, stream: int) -> None:
    with suppress(ExecutionError):
        cuda.destroy_stream(stream)
        cuda.destroy_pool(pool)


class _Kept:
    """Blocks that are kept by size: never more bytes than were once in use together."""

    def __init__(self, cuda: Cuda, order: Order, allocator: Allocator | None) -> None:
        self._cuda = cuda
        self._order = order
        self._allocator = allocator
        self._free: list[Block] = []
        self._taken = 0
        self._peak = 0
        self.kept_bytes = 0

    def take(self, size: int, stream: int) -> Block | None:
        place = bisect.bisect_left(self._free, size, key=lambda one: one.nbytes)
        if place < len(self._free) and self._free[place].nbytes <= max(2 * size, _FINE):
            block = self._free.pop(place)
            self.kept_bytes -= block.nbytes
            for other in block.streams:
                self._order(other, stream)
            block.streams = {stream}
        else:
            address = self._allocated(size)
            if not address:
                return None
            block = Block(address, size, {stream})
        self._taken += block.nbytes
        self._peak = max(self._peak, self._taken)
        return block

    def give_back(self, block: Block, *, settled: bool) -> None:
        self._taken -= block.nbytes
        if settled:
            self._free_block(block)
            return
        bisect.insort(self._free, block, key=lambda one: one.nbytes)
        self.kept_bytes += block.nbytes
        while self.kept_bytes > self._peak:
            least = self._free.pop(0)
            self.kept_bytes -= least.nbytes
            self._free_block(least)

    def trim(self) -> None:
        blocks, self._free = self._free, []
        self.kept_bytes, self._peak = 0, self._taken
        for block in blocks:
            self._free_block(block)

    def _allocated(self, size: int) -> int:
        if self._allocator is None:
            return self._cuda.allocate(size)
        return self._allocator.allocate(size, ALIGNMENT)

    def _free_block(self, block: Block) -> None:
        if self._allocator is None:
            self._cuda.free(block.address)
            return
        # CUDA waits for the device by itself; another allocator may not.
        with suppress(ExecutionError):  # told when it happened
            self._cuda.wait_for_device()
        self._allocator.free(block.address)


class DeviceMemory:
    """Memory of one device, as much of it as a limit allows.

    Args:
        cuda: The runtime library.
        device: Number of the device.
        order: Lets a stream wait for another.
        released: Streams that may be gone; what was put on them is done.
        allocator: Where memory is taken, unless it is CUDA's.
        limit: Most bytes to hold; None for what the device has.

    Thread-safety: may be used from any thread; the device has to be the thread's current one.
    """

    def __init__(
        self,
        cuda: Cuda,
        device: int,
        order: Order,
        *,
        released: AbstractSet[int] = frozenset(),
        allocator: Allocator | None = None,
        limit: int | None = None,
    ) -> None:
        self._cuda = cuda
        self._device = device
        self._order = order
        self._released = released
        self._allocator = allocator
        self._limit = limit
        self._source: _Source | None = None
        # A collection of garbage may end an array, and so come back here, anywhere.
        self._late: deque[tuple[Block, bool]] = deque()
        self._lock = threading.RLock()
        self._owner = 0
        self.taken_bytes = 0
        """Bytes in use."""

    @property
    def kept_bytes(self) -> int:
        """Bytes kept for later."""
        return self._source.kept_bytes if self._source is not None else 0

    def take(self, nbytes: int, stream: int) -> Block:
        """Return a block to be used on a stream.

        Args:
            nbytes: Least size; may be 0.
            stream: Where it is used first; others must be ordered behind it.

        Raises:
            ExecutionError: The device has not enough memory (SGK176), or more would be held than
                the option ``memory_limit`` allows (SGK154).
        """
        size = _rounded(nbytes)
        with self._alone():
            self._stay_below(size)
            block = self._of_source().take(size, stream)
            if block is None:
                self._trim()
                block = self._of_source().take(size, stream)
            if block is None:
                raise self._short(nbytes)
            self.taken_bytes += block.nbytes
            return block

    def give_back(self, block: Block, *, is_strange: bool = False) -> None:
        """Take a block back, later if this thread is recording or in here already.

        Args:
            block: The block; its last use was put on one of its streams.
            is_strange: Whether others may have used it on streams of their own, so that the device
                is waited for.
        """
        self._late.append((block, is_strange))
        self._drain()

    def trim(self) -> None:
        """Free what is not in use; waits for the device."""
        if not self._cuda.is_recording and self._owner != threading.get_ident():
            with self._alone():
                self._trim()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock; take what is given back while it is held, or was recorded."""
        with self._lock:
            self._owner = threading.get_ident()
            try:
                self._take_late()
                yield
            finally:
                self._owner = 0
        self._drain()

    def _drain(self) -> None:
        """Take what was given back, unless whoever holds the lock will do it; never waits."""
        while self._late and not self._cuda.is_recording and self._owner != threading.get_ident():
            if not self._lock.acquire(blocking=False):
                return
            try:
                self._owner = threading.get_ident()
                self._take_late()
            finally:
                self._owner = 0
                self._lock.release()

    def _take_late(self) -> None:
        while self._late:
            block, is_strange = self._late.popleft()
            if is_strange:
                with suppress(ExecutionError):  # told when it happened
                    self._cuda.wait_for_device()
            self.taken_bytes -= block.nbytes
            self._of_source().give_back(block, settled=is_strange)

    def _trim(self) -> None:
        if self._source is not None and self._source.kept_bytes:
            with suppress(ExecutionError):  # likewise
                self._cuda.wait_for_device()
            self._source.trim()

    def _of_source(self) -> _Source:
        if self._source is None:
            own = self._allocator is not None
            pool = 0 if own else self._cuda.create_pool(self._device, _KEPT)
            self._source = (
                _Pool(self._cuda, pool, self._order, self._released)
                if pool
                else _Kept(self._cuda, self._order, self._allocator)
            )
        return self._source

    def _stay_below(self, size: int) -> None:
        if self._limit is None:
            return
        if self.taken_bytes + self.kept_bytes + size > self._limit:
            self._trim()
        if self.taken_bytes + size > self._limit:
            raise ExecutionError(
                "SGK154",
                f"{size:,} bytes of GPU {self._device} would be more than memory_limit allows: "
                f"{self.taken_bytes:,} of {self._limit:,} are in use",
                backend="tensorrt",
                hint="Raise the option memory_limit, run smaller batches, or set max_contexts "
                "lower. Weights of engines are not counted.",
            )

    def _short(self, asked: int) -> ExecutionError:
        own = f"allocator {self._allocator}" if self._allocator else f"GPU {self._device}"
        return ExecutionError(
            "SGK176",
            f"{own} has no {asked:,} bytes left: {self._cuda.free_memory():,} are "
            f"free on GPU {self._device}, {self.taken_bytes:,} are in use by this backend",
            backend="tensorrt",
            hint="Run smaller batches, set max_contexts or max_engines lower, or free memory "
            "that other programs hold (nvidia-smi shows them).",
        )


def _rounded(nbytes: int) -> int:
    """Round up so that sizes that hardly differ share blocks, wasting a quarter at most."""
    if nbytes <= _FINE:
        return aligned(nbytes)
    step = 1 << (nbytes.bit_length() - 3)
    return -(-nbytes // step) * step


class Pinned:
    """Memory of the host that the device copies from and to by itself; grows, never shrinks.

    Args:
        cuda: The runtime library.

    Thread-safety: none; one run at a time.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._address = 0
        self.nbytes = 0
        """Its size."""

    def reserve(self, nbytes: int) -> None:
        """Make it large enough; what was in it is lost, and nothing may be copying."""
        if nbytes > self.nbytes:
            self.close()
            self._address = self._cuda.allocate_pinned(_rounded(nbytes))
            self.nbytes = _rounded(nbytes)

    def address(self, offset: int) -> int:
        """Return the address of a byte."""
        return self._address + offset

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return a part of it as an array, which must not be used after it grew or was closed."""
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0:
            return np.empty(shape, dtype)
        buffer = (ctypes.c_byte * (count * dtype.itemsize)).from_address(self.address(offset))
        array: npt.NDArray[Any] = np.frombuffer(memoryview(buffer), dtype, count).reshape(shape)
        return array

    def close(self) -> None:
        """Free it."""
        address, self._address, self.nbytes = self._address, 0, 0
        if address:
            self._cuda.free_pinned(address)
