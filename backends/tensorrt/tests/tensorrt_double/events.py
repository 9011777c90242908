"""The double's streams and events, and the order that they make."""
# ruff: noqa: N802 (the names are those of the libraries)

from typing import Any

from backends.tensorrt.tests.tensorrt_double.ordering import Clock, Step, Stream, merge

_FAILED = 719
_NOT_WHILE_CAPTURING = 900
_NON_BLOCKING = 1


class Events:
    """The functions of streams and events."""

    _lock: Any
    _host: Clock

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, tuple[Stream, int, Clock]] = {}
        self._event_devices: dict[int, int] = {}

    def cudaStreamCreateWithFlags(self, place: Any, flags: Any) -> int:
        with self._lock:
            made = place._obj.value = self._handle()
            blocks = flags.value != _NON_BLOCKING
            self._streams[made] = Stream(made, self.current, blocks=blocks)
        return 0

    def cudaStreamDestroy(self, stream: Any) -> int:
        with self._lock:
            if self._spoils():
                return _NOT_WHILE_CAPTURING
            found = self._streams[stream.value]
            self._advance(found, len(found.work))
            del self._streams[stream.value]
        return 0

    def cudaStreamSynchronize(self, stream: Any) -> int:
        with self._lock:
            self.waits += 1
            found = self._at(stream.value)
            if self._spoils() or found.recorded is not None:
                found.is_valid = False
                return _NOT_WHILE_CAPTURING
            self._let_on()
            self.finish(stream.value)
            self._trim_pools()
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
            found = self._at(stream.value)
            if self._event_devices[event.value] != found.device:
                self.violations.append("an event is recorded on the stream of another device")
            merge(found.clock, self._host)
            self._events[event.value] = (found, len(found.work), dict(found.clock))
        return 0

    def cudaStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        del flags
        with self._lock:
            other, place, clock = self._events[event.value]
            found = self._at(stream.value)
            self._put(found, Step(lambda: None, (other, place)))
            merge(found.clock, clock)
        return 0

    def cudaEventDestroy(self, event: Any) -> int:
        with self._lock:
            self._events.pop(event.value, None)
            del self._event_devices[event.value]
        return 0
