"""CUDA graphs: runs of equal shapes, recorded once and launched again.

A graph reads what its context keeps on the device, which other shapes overwrite, so each has a
context of its own. It remembers addresses as well: those of the lane's memory, through which its
inputs and outputs are copied; when the lane gets other memory, it is recorded again. It is recorded
on a stream that nobody else knows: whatever another thread puts on a stream that is being recorded,
to read an array that was computed there, would be recorded as well.
"""

from collections.abc import Callable
from contextlib import suppress

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.logger import LOGGER
from subgraphkit_tensorrt.running.device import Device
from subgraphkit_tensorrt.running.lanes import Lane

__all__ = ["Recording"]


class Recording:
    """The CUDA graph of one context.

    Args:
        device: Where it runs.

    Thread-safety: none; goes with the context.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._graph = 0
        self._places: tuple[int, ...] = ()
        self._is_refused = False

    def run(self, lane: Lane, places: tuple[int, ...], enqueue: Callable[[int], None]) -> None:
        """Launch what was recorded, or enqueue once and record it for the next time.

        A run that cannot be recorded is enqueued as usual, now and from now on.

        Args:
            lane: Held for the run.
            places: Addresses of the memory that is read and written.
            enqueue: Puts a run on the stream that it is told.
        """
        if self._graph and self._places == places:
            self._device.cuda.launch(self._graph, lane.stream)
            return
        self._places = ()
        enqueue(lane.stream)  # the first run after new shapes does things that must not be recorded
        if self._is_refused:
            return
        lane.wait()  # for the last launch of what was recorded before, too
        self.forget()
        try:
            self._graph = self._device.cuda.recorded(enqueue)
            self._places = places
        except ExecutionError as error:
            self._is_refused = True
            LOGGER.info("runs of these shapes cannot be recorded as a CUDA graph: %s", error)

    def forget(self) -> None:
        """Let go of the graph; it must not be running."""
        graph, self._graph = self._graph, 0
        if graph:
            with suppress(ExecutionError):  # a device that failed says so of every call
                self._device.cuda.destroy_graph(graph)
