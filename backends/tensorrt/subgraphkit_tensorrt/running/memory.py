"""Device memory that is reused in the order of streams, memory of the host to copy through, slots.

A block that is given back may still be read by work that was put on a stream and has not run. So a
block remembers the streams it was used on, and its memory is reused behind those: CUDA's own pools
see to that, and the host never waits. Where a device has no pools, memory is freed at once, for
which CUDA waits.
"""

import ctypes
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.cudart import Cuda

ALIGNMENT: Final = 256
"""Alignment of every address that TensorRT is given, in bytes."""

_FINE: Final = 1 << 16
_GRAIN: Final = 512
"""The bytes that a pool takes at least."""


@dataclass(slots=True)
class Block:
    """A piece of device memory.

    Attributes:
        streams: The streams on which it was used and which were not waited for.
    """

    address: int
    nbytes: int
    streams: set[int] = field(default_factory=set)


def align_up(nbytes: int) -> int:
    """Round a size up to the alignment; never 0, since TensorRT takes no null addresses."""
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


class DeviceMemory:
    """Memory of one device.

    Thread-safety: may be used from any thread; the device has to be the thread's current one.
    """

    def __init__(self, cuda: Cuda, device: int) -> None:
        self._cuda = cuda
        self._device = device
        self._pool: int | None = None
        self._joining_stream = 0
        self.taken_bytes = 0
        # A collection of garbage may end an array, and so come back here, anywhere.
        self._taking = threading.RLock()
        self._counting = threading.RLock()

    @property
    def kept_bytes(self) -> int:
        """Bytes kept for later, those that streams have yet to let go of among them."""
        return max((self._cuda.pool_holds(self._pool) if self._pool else 0) - self.taken_bytes, 0)

    def take(self, nbytes: int, stream: int) -> Block:
        """Return a block to be used on a stream.

        ``stream``: Where it is used first; others must be ordered behind it.

        Raises:
            ExecutionError: The device has not enough memory (SGK176).
        """
        size = _round_up(nbytes)
        with self._taking:
            if self._pool is None:
                self._open()
            address = self._allocate(size, stream)
            if not address:
                self.trim()
                address = self._allocate(size, stream)
            if not address:
                raise self._short(nbytes)
            self._count(size)
        return Block(address, size, {stream})

    def give_back(self, block: Block) -> None:
        """Take a block back; its last use was put on one of its streams. Never waits for a lock."""
        self._count(-block.nbytes)
        if not self._pool:
            self._cuda.free(block.address)
            return
        streams = block.streams
        stream = next(iter(streams)) if len(streams) == 1 else self._joining_stream
        try:
            for other in streams:
                self._cuda.order(other, stream)
        except ExecutionError:  # a stream of another library's is gone
            with suppress(ExecutionError):
                self._cuda.wait_for_device()
        self._cuda.free_on(block.address, stream)

    def trim(self) -> None:
        """Free what is not in use; waits for the device."""
        if self._pool and self.kept_bytes:
            with suppress(ExecutionError):  # told when it happened
                self._cuda.wait_for_device()
            self._cuda.trim_pool(self._pool)

    def _open(self) -> None:
        self._pool = self._cuda.create_pool(self._device)
        if self._pool:
            self._joining_stream = self._cuda.create_stream()
            """Waits for the streams of blocks that were used on several."""
            end = weakref.finalize(self, _end_pool, self._cuda, self._pool, self._joining_stream)
            end.atexit = False

    def _allocate(self, size: int, stream: int) -> int:
        if self._pool:
            return self._cuda.allocate_from(self._pool, size, stream)
        return self._cuda.allocate(size)

    def _count(self, nbytes: int) -> None:
        with self._counting:
            self.taken_bytes += nbytes

    def _short(self, asked: int) -> ExecutionError:
        return ExecutionError(
            "SGK176",
            f"GPU {self._device} has no {asked:,} bytes left: {self._cuda.free_memory():,} are "
            f"free, {self.taken_bytes:,} are in use by this backend",
            backend="tensorrt",
            hint="Run smaller batches, set max_contexts or max_engines lower, or free memory "
            "that other programs hold (nvidia-smi shows them).",
        )


def _end_pool(cuda: Cuda, pool: int, stream: int) -> None:
    with suppress(ExecutionError):
        cuda.destroy_stream(stream)
        cuda.destroy_pool(pool)


def _round_up(nbytes: int) -> int:
    """Round up so that sizes that hardly differ share blocks, wasting a quarter at most."""
    step = _GRAIN if nbytes <= _FINE else 1 << (nbytes.bit_length() - 3)
    return max(-(-nbytes // step), 1) * step


class Pinned:
    """Memory of the host that the device copies from and to by itself; grows, never shrinks.

    Thread-safety: none; one run at a time.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._address = 0
        self.nbytes = 0

    def reserve(self, nbytes: int) -> None:
        """Make it large enough; what was in it is lost, and nothing may be copying."""
        if nbytes > self.nbytes:
            self.close()
            self._address = self._cuda.allocate_pinned(_round_up(nbytes))
            self.nbytes = _round_up(nbytes)

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


class StreamSlot:
    """A stream with its memory: the holder of a slot may put work on its stream.

    Work on one stream runs in order, so all engines that run in a slot share its memory.

    Attributes:
        user: The stream of the user that it works on, or in order with; None for one of ours alone.
        generation: Counts up when memory of it moves.
        is_uploading: Whether what is in ``up`` may be being copied.

    Thread-safety: none; held by one run at a time.
    """

    def __init__(
        self, cuda: Cuda, memory: DeviceMemory, stream: int, *, user: int | None = None
    ) -> None:
        self._cuda = cuda
        self._memory = memory
        self.stream = stream
        self.user = user
        self.up = Pinned(cuda)
        self.down = Pinned(cuda)
        self._blocks: dict[str, Block] = {}
        self.is_uploading = False
        self.generation = 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return self._blocks["scratch"].nbytes if "scratch" in self._blocks else 0

    def reserve_upload(self, nbytes: int) -> None:
        """Make room in ``up``; waits until the copies made from what it was are done."""
        if nbytes > self.up.nbytes:
            if self.is_uploading:
                self.wait()
            self.up.reserve(nbytes)
            self.generation += 1

    def reserve_download(self, nbytes: int) -> None:
        """Make room in ``down``, into which nothing may be copying."""
        if nbytes > self.down.nbytes:
            self.down.reserve(nbytes)
            self.generation += 1

    def wait(self) -> None:
        """Wait for everything on the stream; ExecutionError (SGK174) if something failed."""
        self._cuda.wait_for_stream(self.stream)
        self.is_uploading = False

    def release_memory(self) -> None:
        """Free the memory; nothing may be going on in the slot."""
        self.generation += 1
        self.up.close()
        self.down.close()
        self.is_uploading = False
        while self._blocks:
            self._memory.give_back(self._blocks.popitem()[1])

    def block(self, kind: Literal["scratch", "io"], nbytes: int) -> Block:
        """Return memory of at least this size, which the next engine overwrites."""
        block = self._blocks.get(kind)
        if block is None or block.nbytes < nbytes:
            if block is not None:
                del self._blocks[kind]
                self._memory.give_back(block)
                if self._memory.kept_bytes > nbytes:  # what was outgrown adds up
                    self._memory.trim()
            block = self._blocks[kind] = self._memory.take(nbytes, self.stream)
            self.generation += 1
        return block
