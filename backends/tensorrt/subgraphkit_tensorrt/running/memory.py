"""Device memory that is reused in the order of streams, and pinned memory to copy through.

A block that is given back may still be read by work that was put on a stream and has not run. So a
block remembers the streams it was used on, and whoever takes it next on another stream waits for
those there; the host never waits.
"""

import ctypes
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.running.allocators import Allocator
from subgraphkit_tensorrt.running.cudart import Cuda

__all__ = ["ALIGNMENT", "Block", "DeviceMemory", "Pinned", "aligned"]

ALIGNMENT: Final = 256
"""Alignment of every address that TensorRT is given, in bytes."""

_FINE: Final = 1 << 20


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


class DeviceMemory:
    """Blocks of one device, kept for the next who needs one of their size.

    Args:
        cuda: The runtime library.
        device: Number of the device.
        allocator: Where memory is taken, unless it is CUDA's.

    Thread-safety: may be used from any thread; the device has to be the thread's current one.
    """

    def __init__(self, cuda: Cuda, device: int, allocator: Allocator | None = None) -> None:
        self._cuda = cuda
        self._device = device
        self._allocator = allocator
        self._free: dict[int, list[Block]] = {}
        # A collection of garbage may end an array, and so come back here, while this is held.
        self._lock = threading.RLock()
        self.taken_bytes = 0
        """Bytes in use."""
        self.kept_bytes = 0
        """Bytes kept for later."""

    def take(self, nbytes: int, stream: int) -> Block:
        """Return a block to be used on a stream.

        Args:
            nbytes: Least size; may be 0.
            stream: Where it is used first; others must be ordered behind it.

        Raises:
            ExecutionError: The device has not enough memory (SGK176).
        """
        size = _rounded(nbytes)
        with self._lock:
            kept = self._free.get(size)
            block = kept.pop() if kept else None
            if block is not None:
                self.kept_bytes -= size
        if block is None:
            block = Block(self._allocate(size, nbytes), size)
        for other in block.streams - {stream}:
            self._cuda.order(other, stream)
        block.streams = {stream}
        with self._lock:
            self.taken_bytes += size
        return block

    def give_back(self, block: Block) -> None:
        """Take a block back whose last use was put on one of its streams."""
        with self._lock:
            self.taken_bytes -= block.nbytes
            self._free.setdefault(block.nbytes, []).append(block)
            self.kept_bytes += block.nbytes

    def discard(self, block: Block) -> None:
        """Free a block that others may have used on streams of their own."""
        with self._lock:
            self.taken_bytes -= block.nbytes
        self._free_block(block)

    def release_kept(self) -> None:
        """Free what is not in use; waits for the device."""
        with self._lock:
            blocks = [block for kept in self._free.values() for block in kept]
            self._free.clear()
            self.kept_bytes = 0
        for block in blocks:
            self._free_block(block)

    def _free_block(self, block: Block) -> None:
        if self._allocator is None:
            self._cuda.free(block.address)
            return
        # CUDA waits for the device by itself; another allocator may not.
        with suppress(ExecutionError):  # told when it happened
            self._cuda.wait_for_device()
        self._allocator.free(block.address)

    def _from_source(self, size: int) -> int:
        if self._allocator is None:
            return self._cuda.allocate(size)
        return self._allocator.allocate(size, ALIGNMENT)

    @property
    def _source(self) -> str:
        return f"GPU {self._device}" if self._allocator is None else f"allocator {self._allocator}"

    def _allocate(self, size: int, asked: int) -> int:
        address = self._from_source(size)
        if not address:
            self.release_kept()
            address = self._from_source(size)
        if not address:
            raise ExecutionError(
                "SGK176",
                f"{self._source} has no {asked:,} bytes left: {self._cuda.free_memory():,} are "
                f"free on GPU {self._device}, {self.taken_bytes:,} are in use by this backend",
                backend="tensorrt",
                hint="Run smaller batches, set max_contexts or max_engines lower, or free memory "
                "that other programs hold (nvidia-smi shows them).",
            )
        return address


def _rounded(nbytes: int) -> int:
    """Round up so that sizes that hardly differ share blocks, wasting an eighth at most."""
    if nbytes <= _FINE:
        return aligned(nbytes)
    step = 1 << (nbytes.bit_length() - 4)
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
