"""The double's CUDA graphs: work that is recorded, and put on a stream as often as wanted."""
# ruff: noqa: N802 (the names are those of the libraries)

import threading
from typing import Any

from backends.tensorrt.tests.tensorrt_double.ordering import Clock, Step, Stream

_INVALID = 1
_CAPTURE_INVALID = 901
_GLOBAL = 0
_RELAXED = 2


class Graphs:
    """The functions of graphs; what waits for the device spoils what its thread records.

    A recording of the global mode is spoiled by whatever thread.
    """

    launches = 0
    spoils_every_capture = False
    _lock: Any
    _streams: dict[int, Stream]
    _host: Clock

    def __init__(self) -> None:
        super().__init__()
        self._graphs: dict[int, list[Step]] = {}
        self._launched: dict[int, tuple[Stream, int]] = {}

    def _capturing(self) -> list[Stream]:
        """Return the recordings that do not survive what this thread does now."""
        mine = threading.get_ident()
        return [
            one
            for one in self._streams.values()
            if one.recorded is not None
            and one.mode != _RELAXED
            and (one.recorder == mine or one.mode == _GLOBAL)
        ]

    def _spoils(self, *, of_all: bool = False) -> bool:
        """Say whether a call is made inside a recording that does not survive it.

        ``of_all``: Whether recordings of other threads do not survive it either.
        """
        every = (one for one in self._streams.values() if one.recorded is not None)
        spoiled = list(every) if of_all else self._capturing()
        for stream in spoiled:
            stream.is_valid = False
        return bool(spoiled)

    def cudaStreamBeginCapture(self, stream: Any, mode: Any) -> int:
        found = self._streams[stream.value]
        found.recorded, found.recorder, found.is_valid = [], threading.get_ident(), True
        found.mode = mode.value
        return 0

    def cudaStreamEndCapture(self, stream: Any, place: Any) -> int:
        with self._lock:
            found = self._streams[stream.value]
            recorded, found.recorded = found.recorded, None
            if recorded is None:
                return _INVALID
            if not found.is_valid or self.spoils_every_capture:
                return _CAPTURE_INVALID
            place._obj.value = self._handle()
            self._graphs[place._obj.value] = recorded
        return 0

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
        stream, done = self._launched.pop(graph.value, (None, 0))
        if stream is not None and self._host.get(stream.number, -1) < done:
            self.violations.append("a graph is destroyed that may be running")
        del self._graphs[graph.value]
        return 0

    def cudaGraphLaunch(self, graph: Any, stream: Any) -> int:
        self.launches += 1
        with self._lock:
            found = self._at(stream.value)
            for step in self._graphs[graph.value]:
                self._put(found, step)
            self._launched[graph.value] = found, len(found.work) - 1
        return 0
