"""Assumptions of the tests' double about CUDA, tried on a device: one call or two for each.

It takes no TensorRT. Whoever runs it for a few seconds on a GPU says of the tests of the run side
whether the device that they run on is one.
"""

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from subgraphkit_tensorrt.library.cudart import Cuda

_GLOBAL: Final = 0
_THREAD_LOCAL: Final = 1
_BLOCKING: Final = 0
_REFUSED: Final = 900
_SPOILED: Final = 901
_NBYTES: Final = 1 << 16
_TOO_MUCH: Final = 1 << 60
_KEPT: Final = 1 << 62
_SAME: Final = "they are the same"
_OTHER: Final = "they differ"
_POOLED: Final = (True, True, 0)


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing that the double does as CUDA does it.

    Attributes:
        expected: What comes of the attempt.
        on_double: What comes of it there, where the double is stricter.
    """

    text: str
    attempt: Callable[[Cuda], Any]
    expected: Any
    on_double: Any = None


def deviations(cuda: Cuda) -> tuple[list[str], list[str]]:
    """Try everything; return what is otherwise than assumed, and in what the double is stricter."""
    wrong, stricter = [], []
    for one in ASSUMPTIONS:
        try:
            found = one.attempt(cuda)
        except Exception as error:  # noqa: BLE001 (it is a finding as well)
            found = f"{type(error).__name__}: {error}"
        cuda.status("cudaGetLastError")
        if found == one.on_double:
            stricter.append(one.text)
        elif found != one.expected:
            wrong.append(f"{one.text}: {found}, expected {one.expected}")
    return wrong, stricter


def _forgets(cuda: Cuda) -> Any:
    place = ctypes.c_void_p()
    status = cuda.status("cudaMalloc", ctypes.byref(place), ctypes.c_size_t(_TOO_MUCH))
    return status, cuda.status("cudaGetLastError"), cuda.status("cudaGetLastError")


def _recorded(
    cuda: Cuda, inside: Callable[[int], Any], mode: int = _THREAD_LOCAL, flags: int = 1
) -> tuple[Any, int]:
    """Return what is done while a stream is recorded, and how the recording ends."""
    place, graph = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.status("cudaStreamCreateWithFlags", ctypes.byref(place), ctypes.c_uint(flags))
    cuda.status("cudaStreamBeginCapture", place, ctypes.c_int(mode))
    found = inside(place.value or 0)
    ended = cuda.status("cudaStreamEndCapture", place, ctypes.byref(graph))
    cuda.status("cudaGetLastError")
    if graph.value:
        cuda.status("cudaGraphDestroy", graph)
    cuda.status("cudaStreamDestroy", place)
    return found, ended


def _elsewhere(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def _take(cuda: Cuda) -> int:
    place = ctypes.c_void_p()
    status = cuda.status("cudaMalloc", ctypes.byref(place), ctypes.c_size_t(_NBYTES))
    if not status:
        with suppress(Exception):
            cuda.free(place.value or 0)
    return status


def _pinned_in_recording(cuda: Cuda) -> Any:
    block = cuda.allocate_pinned(_NBYTES)
    found = _recorded(cuda, lambda _: cuda.status("cudaFreeHost", ctypes.c_void_p(block)))
    if found[0]:
        cuda.free_pinned(block)
    return found


def _default_meanwhile(cuda: Cuda, flags: int) -> int:
    device = cuda.allocate(_NBYTES)
    source = np.zeros(_NBYTES, np.uint8)
    arguments = (device, source.ctypes.data, _NBYTES, 0)

    def copy(_: int) -> None:
        with suppress(Exception):
            cuda.upload(*arguments)

    _, ended = _recorded(cuda, copy, flags=flags)
    cuda.wait_for_stream(0)
    cuda.free(device)
    return ended


def _copied(cuda: Cuda, through: Callable[[int, int, int, int], None]) -> str:
    """Say whether numbers come back that go from one block to another on two streams."""
    streams = [cuda.create_stream(), cuda.create_stream()]
    first, second, host = cuda.allocate(_NBYTES), cuda.allocate(_NBYTES), Host(cuda)
    cuda.upload(first, host.address, _NBYTES, streams[0])
    through(first, second, *streams)
    cuda.download(host.back, second, _NBYTES, streams[1])
    cuda.wait_for_stream(streams[1])
    found = host.compare()
    cuda.wait_for_device()
    host.close()
    for block in (first, second):
        cuda.free(block)
    for stream in streams:
        with suppress(Exception):  # one attempt has destroyed it
            cuda.destroy_stream(stream)
    return found


class Host:
    """Pinned memory with a pattern, and room for what comes back."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.address = cuda.allocate_pinned(2 * _NBYTES)
        self.back = self.address + _NBYTES
        self.pattern = np.arange(_NBYTES, dtype=np.uint8)
        ctypes.memmove(self.address, self.pattern.ctypes.data, _NBYTES)
        ctypes.memset(self.back, 0, _NBYTES)

    def compare(self) -> str:
        """Say whether the pattern came back."""
        back = np.frombuffer(ctypes.string_at(self.back, _NBYTES), np.uint8)
        return _SAME if (back == self.pattern).all() else _OTHER

    def close(self) -> None:
        """Free it."""
        self._cuda.free_pinned(self.address)


def _by_event(cuda: Cuda) -> Any:
    def through(first: int, second: int, one: int, two: int) -> None:
        cuda.order(one, two)  # whose event is destroyed at once
        cuda.copy(second, first, _NBYTES, two)

    return _copied(cuda, through)


def _by_graph(cuda: Cuda) -> Any:
    def through(first: int, second: int, one: int, two: int) -> None:
        graph = cuda.record_graph(lambda stream: cuda.copy(second, first, _NBYTES, stream))
        cuda.order(one, two)
        cuda.launch(graph, two)  # which is not the stream that it was recorded on
        cuda.wait_for_stream(two)
        cuda.destroy_graph(graph)

    return _copied(cuda, through)


def _by_lost_stream(cuda: Cuda) -> Any:
    def through(first: int, second: int, one: int, two: int) -> None:
        cuda.copy(second, first, _NBYTES, one)
        cuda.order(one, two)
        cuda.destroy_stream(one)

    return _copied(cuda, through)


def _pool(cuda: Cuda) -> Any:
    """Return whether memory is taken again, kept over a wait, and let go of when it is trimmed."""
    pool = cuda.create_pool(0, _KEPT)
    if not pool:  # nor anything to assume of them
        return _POOLED
    stream = cuda.create_stream()
    first = cuda.allocate_from(pool, _NBYTES, stream)
    cuda.free_on(first, stream)
    second = cuda.allocate_from(pool, _NBYTES, stream)
    cuda.free_on(second, stream)
    cuda.wait_for_stream(stream)
    kept = cuda.pool_holds(pool) >= _NBYTES
    cuda.trim_pool(pool)
    found = first == second, kept, cuda.pool_holds(pool)
    last = cuda.allocate_from(pool, _NBYTES, stream)
    cuda.destroy_pool(pool)
    cuda.free_on(last, stream)  # memory outlives its pool
    cuda.wait_for_stream(stream)
    cuda.destroy_stream(stream)
    return found


def _from_pageable(cuda: Cuda) -> str:
    stream, block, host = cuda.create_stream(), cuda.allocate(_NBYTES), Host(cuda)
    source = host.pattern.copy()
    cuda.upload(block, source.ctypes.data, _NBYTES, stream)
    source[:] = 0
    cuda.download(host.back, block, _NBYTES, stream)
    cuda.wait_for_stream(stream)
    found = host.compare()
    host.close()
    cuda.free(block)
    cuda.destroy_stream(stream)
    return found


def _device_of_thread(cuda: Cuda) -> Any:
    with cuda.on(0):
        _elsewhere(lambda: cuda.set_device(0))
        return cuda.device(), _elsewhere(cuda.device)


def _wait_inside(cuda: Cuda) -> Any:
    def wait(stream: int) -> int:
        return cuda.status("cudaStreamSynchronize", ctypes.c_void_p(stream))

    return _recorded(cuda, wait)


def _take_elsewhere(cuda: Cuda, mode: int) -> Any:
    return _recorded(cuda, lambda _: _elsewhere(lambda: _take(cuda)), mode)


def _wait_elsewhere(cuda: Cuda) -> Any:
    return _recorded(cuda, lambda _: _elsewhere(lambda: cuda.status("cudaDeviceSynchronize")))


_LOST: Final = (_REFUSED, _SPOILED)
ASSUMPTIONS: Final = (
    Assumption("an error is told once more and then forgotten", _forgets, (2, 2, 0)),
    Assumption("nobody waits for a stream that is recorded", _wait_inside, _LOST),
    Assumption(
        "who records takes no memory", lambda cuda: _recorded(cuda, lambda _: _take(cuda)), _LOST
    ),
    Assumption(
        "another thread does, where each records for itself",
        lambda cuda: _take_elsewhere(cuda, _THREAD_LOCAL)[1],
        0,
    ),
    Assumption(
        "and does not, where one records for all",
        lambda cuda: _take_elsewhere(cuda, _GLOBAL),
        _LOST,
    ),
    Assumption("who records frees no pinned memory", _pinned_in_recording, _LOST),
    Assumption("who waits for the device spoils what others record", _wait_elsewhere, _LOST),
    Assumption(
        "work on the default stream spoils the recording of a stream that minds it",
        lambda cuda: _default_meanwhile(cuda, _BLOCKING),
        _SPOILED,
    ),
    Assumption("and not that of one that lets it be", lambda cuda: _default_meanwhile(cuda, 1), 0),
    Assumption("an event orders two streams, though it is destroyed", _by_event, _SAME),
    Assumption("a graph is launched on another stream than it was recorded on", _by_graph, _SAME),
    Assumption("a stream that is destroyed does what is on it", _by_lost_stream, _SAME),
    Assumption(
        "a pool gives the same memory again, keeps it over a wait, and not when it is trimmed",
        _pool,
        _POOLED,
    ),
    Assumption(
        "a copy from pageable memory has read it when the call returns",
        _from_pageable,
        _SAME,
        _OTHER,
    ),
    Assumption("the current device is each thread's own", _device_of_thread, (0, 0)),
)
