"""Assumptions of the tests' double about CUDA, tried on a device: one call or two for each.

It takes no TensorRT. Run on a GPU for a few seconds, it shows whether the double behaves as CUDA
does.
"""

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from subgraphkit_tensorrt.library.cudart import Cuda

_GLOBAL: Final = 0
_THREAD_LOCAL: Final = 1
_BLOCKING: Final = 0
_NON_BLOCKING: Final = 1
_SPOILED: Final = 901
_LOST: Final = (900, _SPOILED)
"""What a call is told that a recording does not survive, and what ends it."""
_NBYTES: Final = 1 << 16
_TOO_MUCH: Final = 1 << 60
_SAME: Final = "they are the same"
_OTHER: Final = "they differ"
_POOLED: Final = (True, True, 0)
_PATTERN: Final = np.arange(_NBYTES, dtype=np.uint8)


class Assumption(NamedTuple):
    """One thing that the double does as CUDA does it.

    Attributes:
        expected: What comes of the attempt.
        on_double: What comes of it there, where the double is stricter.
    """

    text: str
    attempt: Callable[[Cuda], Any]
    expected: Any
    on_double: Any


ASSUMPTIONS: Final[list[Assumption]] = []
_Attempt = TypeVar("_Attempt", bound=Callable[..., Any])


def _assume(text: str, expected: Any, on_double: Any = None) -> Callable[[_Attempt], _Attempt]:
    def add(attempt: _Attempt) -> _Attempt:
        ASSUMPTIONS.append(Assumption(text, attempt, expected, on_double))
        return attempt

    return add


def deviations(cuda: Cuda) -> tuple[list[str], list[str]]:
    """Try everything; return what is otherwise than assumed, and in what the double is stricter."""
    wrong, stricter = [], []
    for one in ASSUMPTIONS:
        try:
            found = one.attempt(cuda)
        except Exception as error:  # noqa: BLE001 (it is a finding as well)
            found = f"{type(error).__name__}: {error}"
        cuda.status("cudaGetLastError")
        if found == one.on_double != one.expected:
            stricter.append(one.text)
        elif found != one.expected:
            wrong.append(f"{one.text}: {found}, expected {one.expected}")
    return wrong, stricter


def _record_work(
    cuda: Cuda, inside: Callable[[Any], Any], mode: int = _THREAD_LOCAL, flags: int = _NON_BLOCKING
) -> tuple[Any, int]:
    """Return what is done while a stream is recorded, and how the recording ends."""
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.status("cudaStreamCreateWithFlags", ctypes.byref(stream), ctypes.c_uint(flags))
    cuda.status("cudaStreamBeginCapture", stream, ctypes.c_int(mode))
    found = inside(stream)
    ended = cuda.status("cudaStreamEndCapture", stream, ctypes.byref(graph))
    cuda.status("cudaGetLastError")
    if graph.value:
        cuda.status("cudaGraphDestroy", graph)
    cuda.status("cudaStreamDestroy", stream)
    return found, ended


def _elsewhere(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def _take(cuda: Cuda, nbytes: int = _NBYTES) -> int:
    place = ctypes.c_void_p()
    status = cuda.status("cudaMalloc", ctypes.byref(place), ctypes.c_size_t(nbytes))
    if not status:
        with suppress(Exception):
            cuda.free(place.value or 0)
    return status


@_assume("an error is told once more and then forgotten", (2, 2, 0))
def _forgets(cuda: Cuda) -> Any:
    return _take(cuda, _TOO_MUCH), cuda.status("cudaGetLastError"), cuda.status("cudaGetLastError")


@_assume("nobody waits for a stream that is recorded", _LOST)
def _waits_inside(cuda: Cuda) -> Any:
    return _record_work(cuda, lambda stream: cuda.status("cudaStreamSynchronize", stream))


@_assume("who records takes no memory", _LOST)
def _takes_inside(cuda: Cuda) -> Any:
    return _record_work(cuda, lambda _: _take(cuda))


@_assume("another thread does, where each records for itself", (0, 0))
def _takes_elsewhere(cuda: Cuda, mode: int = _THREAD_LOCAL) -> Any:
    return _record_work(cuda, lambda _: _elsewhere(lambda: _take(cuda)), mode)


@_assume("and does not, where one records for all", _LOST)
def _takes_beside_all(cuda: Cuda) -> Any:
    return _takes_elsewhere(cuda, _GLOBAL)


@_assume("who records frees no pinned memory", _LOST)
def _frees_pinned(cuda: Cuda) -> Any:
    block = cuda.allocate_pinned(_NBYTES)
    found = _record_work(cuda, lambda _: cuda.status("cudaFreeHost", ctypes.c_void_p(block)))
    if found[0]:
        cuda.free_pinned(block)
    return found


@_assume("who waits for the device spoils what others record", _LOST)
def _waits_elsewhere(cuda: Cuda) -> Any:
    return _record_work(cuda, lambda _: _elsewhere(lambda: cuda.status("cudaDeviceSynchronize")))


@_assume("work on the default stream spoils the recording of one that minds it", _SPOILED)
def _default_meanwhile(cuda: Cuda, flags: int = _BLOCKING) -> int:
    block = cuda.allocate(_NBYTES)

    def copy(_: Any) -> None:
        with suppress(Exception):
            cuda.upload(block, _PATTERN.ctypes.data, _NBYTES, 0)

    _, ended = _record_work(cuda, copy, flags=flags)
    cuda.wait_for_stream(0)
    cuda.free(block)
    return ended


@_assume("and not that of one that lets it be", 0)
def _default_beside(cuda: Cuda) -> int:
    return _default_meanwhile(cuda, _NON_BLOCKING)


def _arrives(cuda: Cuda, through: Callable[[int, int, int, int], None]) -> str:
    """Say whether numbers come back that go through two blocks on two streams."""
    streams = cuda.create_stream(), cuda.create_stream()
    first, second = cuda.allocate(_NBYTES), cuda.allocate(_NBYTES)
    host = cuda.allocate_pinned(2 * _NBYTES)
    back = host + _NBYTES
    ctypes.memmove(host, _PATTERN.ctypes.data, _NBYTES)
    ctypes.memset(back, 0, _NBYTES)
    cuda.upload(first, host, _NBYTES, streams[0])
    through(first, second, *streams)
    cuda.download(back, second, _NBYTES, streams[1])
    cuda.wait_for_stream(streams[1])
    is_same = ctypes.string_at(back, _NBYTES) == _PATTERN.tobytes()
    cuda.wait_for_device()
    cuda.free_pinned(host)
    for block in (first, second):
        cuda.free(block)
    for stream in streams:
        with suppress(Exception):  # one attempt has destroyed it
            cuda.destroy_stream(stream)
    return _SAME if is_same else _OTHER


@_assume("an event orders two streams, though it is destroyed", _SAME)
def _by_event(cuda: Cuda) -> str:
    def through(first: int, second: int, one: int, two: int) -> None:
        cuda.order(one, two)  # whose event is destroyed at once
        cuda.copy(second, first, _NBYTES, two)

    return _arrives(cuda, through)


@_assume("a graph is launched on another stream than it was recorded on", _SAME)
def _by_graph(cuda: Cuda) -> str:
    def through(first: int, second: int, one: int, two: int) -> None:
        graph = cuda.record_graph(lambda stream: cuda.copy(second, first, _NBYTES, stream))
        cuda.order(one, two)
        cuda.launch(graph, two)
        cuda.wait_for_stream(two)
        cuda.destroy_graph(graph)

    return _arrives(cuda, through)


@_assume("a stream that is destroyed does what is on it", _SAME)
def _by_lost_stream(cuda: Cuda) -> str:
    def through(first: int, second: int, one: int, two: int) -> None:
        cuda.copy(second, first, _NBYTES, one)
        cuda.order(one, two)
        cuda.destroy_stream(one)

    return _arrives(cuda, through)


@_assume("a copy from pageable memory has read it when the call returns", _SAME, _OTHER)
def _from_pageable(cuda: Cuda) -> str:
    source = _PATTERN.copy()

    def through(_: int, second: int, __: int, two: int) -> None:
        cuda.upload(second, source.ctypes.data, _NBYTES, two)
        source[:] = 0

    return _arrives(cuda, through)


@_assume("a pool gives memory again, keeps it over a wait, and not when it is trimmed", _POOLED)
def _pool(cuda: Cuda) -> Any:
    pool = cuda.create_pool(0)
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


@_assume("the current device is each thread's own", (0, 0))
def _device_of_thread(cuda: Cuda) -> Any:
    with cuda.on(0):
        _elsewhere(lambda: cuda.set_device(0))
        return cuda.device(), _elsewhere(cuda.device)
