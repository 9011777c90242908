"""CUDA's runtime library by ctypes: memory, streams, events and graphs.

TensorRT allocates nothing and copies nothing for its caller. The few calls needed are the same in
CUDA 11, 12 and 13, so the library is called directly. A page of ``docs/decisions`` has the reasons.

Source: CUDA Runtime API, sections 6.1, 6.4, 6.5, 6.9, 6.10, 6.13 and 6.30; driver_types.h of CUDA
12.8 and 13.
"""

import ctypes
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from subgraphkit.errors import BackendUnavailableError, ExecutionError

_NAMES: Final = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0")
"""What the loader knows them by, newest first; that of CUDA 11 names its minor version."""
_FOLDERS: Final = ("nvidia.cu13", "nvidia.cuda_runtime")
"""Packages of NVIDIA's wheels that hold the library."""

_OUT_OF_MEMORY: Final = 2
_NON_BLOCKING: Final = 1
_NO_TIMING: Final = 2
_THREAD_LOCAL: Final = 1
_INSUFFICIENT_DRIVER: Final = 35
_HINTS: Final = {
    3: "CUDA does not survive a fork: start workers with the method 'spawn', or bind in the worker."
}
_HINT: Final = (
    "An error of an earlier kernel may show only now; CUDA_LAUNCH_BLOCKING=1 tells where it "
    "happened."
)
_POOLS_SUPPORTED: Final = 115
_POOL_PROPERTIES: Final = 88
"""Bytes of a ``cudaMemPoolProps``: kinds of memory and handle, kind and number of the device."""
_KEEPS: Final = 4
_ALL: Final = 1 << 62
_RESERVED: Final = 5
_HOST_TO_DEVICE: Final = 1
_DEVICE_TO_HOST: Final = 2
_DEVICE_TO_DEVICE: Final = 3


class Cuda:
    """The calls, checked: a status other than success is an ``ExecutionError`` (SGK174).

    Addresses, streams, events and graphs are plain integers; a stream of 0 is CUDA's default one.

    Thread-safety: may be used from any thread; the current device is each thread's own.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        # A device that is waited for spoils whatever any thread records there.
        self._undisturbed = threading.RLock()

    # -- devices -----------------------------------------------------------------------------

    def version(self) -> str:
        """Return the version of the library, such as ``"12.8"``."""
        number = self._number("cudaRuntimeGetVersion")
        return f"{number // 1000}.{number % 1000 // 10}"

    def device(self) -> int:
        """Return the current device of this thread."""
        return self._number("cudaGetDevice")

    def set_device(self, index: int) -> None:
        """Make a device the current one of this thread."""
        self._call("cudaSetDevice", ctypes.c_int(index))

    @contextmanager
    def on(self, index: int) -> Iterator[None]:
        """Make a device the current one of this thread, and the former one again afterwards."""
        before = self.enter(index)
        try:
            yield
        finally:
            self.leave(index, before)

    def enter(self, index: int) -> int:
        """Make a device the current one of this thread; return the former, for ``leave``."""
        before = self.device()
        if before != index:
            self.set_device(index)
        return before

    def leave(self, index: int, before: int) -> None:
        """Make the former device the current one again."""
        if before != index:
            self.set_device(before)

    def free_memory(self) -> int:
        """Return the bytes that are free on the current device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def wait_for_device(self) -> None:
        """Wait until everything put on any stream of the current device is done."""
        with self._undisturbed:
            self._call("cudaDeviceSynchronize")

    # -- memory ------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Return the address of device memory, or 0 if there is not enough."""
        return self._allocated_address("cudaMalloc", ctypes.c_size_t(nbytes))

    def free(self, address: int) -> None:
        """Free device memory; waits for the device."""
        self._call("cudaFree", ctypes.c_void_p(address))

    def create_pool(self, index: int) -> int:
        """Return a pool of memory of a device, which keeps what is freed; 0 for no such thing."""
        asked = ctypes.c_int(_POOLS_SUPPORTED), ctypes.c_int(index)
        if not self._number("cudaDeviceGetAttribute", *asked):
            return 0
        properties = (ctypes.c_int * (_POOL_PROPERTIES // 4))(1, 0, 1, index)
        pool = ctypes.c_void_p(self._made("cudaMemPoolCreate", ctypes.byref(properties)))
        kept = ctypes.c_uint64(_ALL)
        self._call("cudaMemPoolSetAttribute", pool, ctypes.c_int(_KEEPS), ctypes.byref(kept))
        return pool.value or 0

    def destroy_pool(self, pool: int) -> None:
        """Let go of a pool; memory that is in use stays until it is freed."""
        self._call("cudaMemPoolDestroy", ctypes.c_void_p(pool))

    def trim_pool(self, pool: int) -> None:
        """Give the device what a pool keeps and nothing uses any more."""
        self._call("cudaMemPoolTrimTo", ctypes.c_void_p(pool), ctypes.c_size_t(0))

    def pool_holds(self, pool: int) -> int:
        """Return the bytes of the device that a pool holds, in use or kept for later."""
        handle, found = ctypes.c_void_p(pool), ctypes.c_uint64()
        self._call("cudaMemPoolGetAttribute", handle, ctypes.c_int(_RESERVED), ctypes.byref(found))
        return found.value

    def allocate_from(self, pool: int, nbytes: int, stream: int) -> int:
        """Return memory that may be used on a stream from now on, or 0 if there is not enough."""
        where = (ctypes.c_void_p(pool), ctypes.c_void_p(stream))
        return self._allocated_address("cudaMallocFromPoolAsync", ctypes.c_size_t(nbytes), *where)

    def free_on(self, address: int, stream: int) -> None:
        """Give memory of a pool back in the order of a stream."""
        self._call("cudaFreeAsync", ctypes.c_void_p(address), ctypes.c_void_p(stream))

    def allocate_pinned(self, nbytes: int) -> int:
        """Return the address of memory of the host that the device reads and writes itself."""
        return self._made("cudaHostAlloc", ctypes.c_size_t(nbytes), ctypes.c_uint(0))

    def free_pinned(self, address: int) -> None:
        """Free pinned memory."""
        self._call("cudaFreeHost", ctypes.c_void_p(address))

    def upload(self, device: int, host: int, nbytes: int, stream: int) -> None:
        """Copy from the host to the device, in the order of a stream."""
        self._copy(device, host, nbytes, _HOST_TO_DEVICE, stream)

    def download(self, host: int, device: int, nbytes: int, stream: int) -> None:
        """Copy from the device to the host, in the order of a stream."""
        self._copy(host, device, nbytes, _DEVICE_TO_HOST, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device, in the order of a stream."""
        self._copy(target, source, nbytes, _DEVICE_TO_DEVICE, stream)

    # -- streams and events ------------------------------------------------------------------

    def create_stream(self) -> int:
        """Make a stream that does not wait for the default one."""
        return self._made("cudaStreamCreateWithFlags", ctypes.c_uint(_NON_BLOCKING))

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream."""
        self._call("cudaStreamDestroy", ctypes.c_void_p(stream))

    def wait_for_stream(self, stream: int) -> None:
        """Wait for all that is on a stream; ExecutionError (SGK174) if something failed."""
        self._call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def order(self, before: int, after: int) -> None:
        """Let later work on ``after`` wait for work on ``before``; the host does not wait."""
        if before == after:
            return
        event = ctypes.c_void_p(self._made("cudaEventCreateWithFlags", ctypes.c_uint(_NO_TIMING)))
        try:
            self._call("cudaEventRecord", event, ctypes.c_void_p(before))
            self._call("cudaStreamWaitEvent", ctypes.c_void_p(after), event, ctypes.c_uint(0))
        finally:
            # CUDA keeps what it needs of an event until the wait is over.
            self._call("cudaEventDestroy", event)

    # -- graphs ------------------------------------------------------------------------------

    def record_graph(self, work: Callable[[int], None]) -> int:
        """Record what is put on a stream, and do not do it; return what can be launched.

        No garbage is collected meanwhile. A collected object may free memory of the device, and
        that spoils a recording in the same thread.

        Raises:
            ExecutionError: The recording is not valid (SGK174).
        """
        graph, stream = ctypes.c_void_p(), self.create_stream()
        handle = ctypes.c_void_p(stream)
        try:
            with self._undisturbed, _without_garbage_collection():
                self._call("cudaStreamBeginCapture", handle, ctypes.c_int(_THREAD_LOCAL))
                try:
                    work(stream)
                finally:
                    ended = self._library.cudaStreamEndCapture(handle, ctypes.byref(graph))
                    self._library.cudaGetLastError()
            if ended:
                raise self._failure("cudaStreamEndCapture", ended)
            return self._made("cudaGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        finally:
            if graph.value:
                self._library.cudaGraphDestroy(graph)
            self.destroy_stream(stream)

    def launch(self, graph: int, stream: int) -> None:
        """Put a recorded graph on a stream."""
        self._call("cudaGraphLaunch", ctypes.c_void_p(graph), ctypes.c_void_p(stream))

    def destroy_graph(self, graph: int) -> None:
        """Destroy a graph that can be launched."""
        self._call("cudaGraphExecDestroy", ctypes.c_void_p(graph))

    # -- calling -----------------------------------------------------------------------------

    def status(self, name: str, *arguments: Any) -> int:
        """Return what a function of the library returns, unchecked."""
        return int(getattr(self._library, name)(*arguments))

    def _allocated_address(self, name: str, *arguments: Any) -> int:
        place = ctypes.c_void_p()
        status = getattr(self._library, name)(ctypes.byref(place), *arguments)
        if status == _OUT_OF_MEMORY:
            self._library.cudaGetLastError()  # or the next call would report it again
            return 0
        if status:
            raise self._failure(name, status)
        return place.value or 0

    def _copy(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        what = ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(nbytes)
        self._call("cudaMemcpyAsync", *what, ctypes.c_int(kind), ctypes.c_void_p(stream))

    def _number(self, name: str, *arguments: Any) -> int:
        place = ctypes.c_int()
        self._call(name, ctypes.byref(place), *arguments)
        return place.value

    def _made(self, name: str, *arguments: Any) -> int:
        place = ctypes.c_void_p()
        self._call(name, ctypes.byref(place), *arguments)
        return place.value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise self._failure(name, status)

    def _failure(self, name: str, status: int) -> ExecutionError:
        self._library.cudaGetLastError()
        return ExecutionError(
            "SGK174",
            f"CUDA's {name} returned {status} ({_text(self._library, status)})",
            backend="tensorrt",
            hint=_HINTS.get(status, _HINT),
            status=status,
        )


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


_FOUND: Final[list[Cuda]] = []
_LOCK: Final = threading.Lock()


def cuda_runtime() -> Cuda:
    """Return CUDA's runtime library: the newest that this machine's driver can serve.

    Looked for once in a process, in NVIDIA's wheels and where the system's loader looks.

    Raises:
        BackendUnavailableError: There is none (SGK175).

    Thread-safety: may be called from any thread.
    """
    with _LOCK:
        if not _FOUND:
            _FOUND.append(Cuda(_library()))
        return _FOUND[0]


@contextmanager
def on_device(index: int) -> Iterator[None]:
    """Make a device the current one of this thread, on which TensorRT builds and loads engines.

    Engines are built on machines without a GPU as well; there, this does nothing.
    """
    try:
        cuda = cuda_runtime()
    except BackendUnavailableError:
        yield
        return
    with cuda.on(index):
        yield


def _library() -> Any:
    problems = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int()
        status = library.cudaGetDeviceCount(ctypes.byref(count))
        if status == 0:
            return library
        problems.append(f"{name} says {_text(library, status)}")
        if status != _INSUFFICIENT_DRIVER:  # another version would say the same
            break
    raise BackendUnavailableError(
        "SGK175",
        "CUDA's runtime library cannot be used: " + ("; ".join(problems) or "it is not installed"),
        backend="tensorrt",
        hint="Install it: pip install nvidia-cuda-runtime-cu12, or nvidia-cuda-runtime for CUDA "
        "13; or add the folder that holds libcudart to LD_LIBRARY_PATH.",
    )


def _candidates() -> Iterator[str]:
    for name in _NAMES:
        yield name
        for folder in _wheel_folders():
            yield from map(str, sorted(folder.glob(f"lib/{name}*")))


def _wheel_folders() -> Iterator[Path]:
    for package in _FOLDERS:
        try:
            spec = find_spec(package)
        except ModuleNotFoundError:
            continue
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ())


def _text(library: Any, status: int) -> str:
    function = library.cudaGetErrorString
    if isinstance(library, ctypes.CDLL):
        function.restype = ctypes.c_char_p
    text: bytes = function(ctypes.c_int(status)) or b"unknown"
    return text.decode("utf-8", "replace")
