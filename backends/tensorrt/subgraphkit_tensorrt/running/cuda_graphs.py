"""CUDA graphs: runs of equal shapes, recorded once and launched again.

A recording remembers addresses, so each has buffers of its own that inputs are copied into and
outputs out of. It is made on a stream that nobody else knows: whatever another thread puts on a
stream that is being recorded, to read an array that was computed there, would be recorded as well.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.logger import LOGGER
from subgraphkit_tensorrt.running.device import Device, Lane
from subgraphkit_tensorrt.running.memory import Block

__all__ = ["Recording", "Recordings"]

_MOST: Final = 8


@dataclass(slots=True)
class Recording:
    """The CUDA graph and the memory for runs of one kind.

    Attributes:
        blocks: By tensor, the memory that is read and written.
        graph: What is launched; 0 before it was recorded.
        refused: Whether it could not be recorded.
    """

    blocks: dict[str, Block] = field(default_factory=dict)
    graph: int = 0
    refused: bool = False


class Recordings:
    """The recordings of one context, those used last.

    Args:
        device: Where they run.

    Thread-safety: none; goes with the context.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kept: OrderedDict[Hashable, Recording] = OrderedDict()

    def __len__(self) -> int:
        """Return how many can be launched."""
        return sum(1 for recording in self._kept.values() if recording.graph)

    def of(self, key: Hashable) -> Recording:
        """Return the recording of a kind of run, a new one if there is none."""
        recording = self._kept.get(key)
        if recording is None:
            recording = self._kept[key] = Recording()
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            _, oldest = self._kept.popitem(last=False)
            self._release(oldest)
        return recording

    def run(self, recording: Recording, lane: Lane, enqueue: Callable[[int], None]) -> None:
        """Launch what was recorded, or enqueue once and record it for the next time.

        A run that cannot be recorded is enqueued as usual, now and from now on; ``enqueue`` is
        told on which stream.
        """
        cuda = self._device.cuda
        if recording.graph:
            cuda.launch(recording.graph, lane.stream)
            return
        enqueue(lane.stream)  # the first run after new shapes does things that must not be recorded
        if recording.refused:
            return
        lane.wait()
        try:
            recording.graph = self._recorded(enqueue)
        except ExecutionError as error:
            recording.refused = True
            LOGGER.info("runs of these shapes cannot be recorded as a CUDA graph: %s", error)

    def _recorded(self, enqueue: Callable[[int], None]) -> int:
        cuda = self._device.cuda
        stream = cuda.create_stream()
        try:
            cuda.begin_capture(stream)
            try:
                enqueue(stream)
            except BaseException:
                cuda.give_up_capture(stream)
                raise
            return cuda.end_capture(stream)
        finally:
            cuda.destroy_stream(stream)

    def close(self) -> None:
        """Let go of all; nothing may be running."""
        while self._kept:
            self._release(self._kept.popitem()[1])

    def _release(self, recording: Recording) -> None:
        if recording.graph:
            with suppress(ExecutionError):  # a device that failed says so of every call
                self._device.cuda.destroy_graph(recording.graph)
        for block in recording.blocks.values():
            self._device.memory.give_back(block)
