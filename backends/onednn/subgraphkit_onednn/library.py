"""Finding oneDNN, loading it, and checking that it is the one this package can speak to.

Nothing here runs before a backend is probed or bound, so importing the package works without it.

The runtime of OpenMP lets idle threads spin for milliseconds, on processors that others may need.
It reads how long from the environment when it is loaded, and never again. So the time is set while
oneDNN is loaded. If the runtime was loaded before, its time cannot be changed.
"""

import ctypes
import ctypes.util
import importlib.metadata
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from subgraphkit.errors import BackendUnavailableError
from subgraphkit_onednn.symbols import STATUSES, InplacePair, LogicalTensor, Version

_RUNTIMES: Final = ("libgomp.so.1", "libiomp5.so")
_WAITING: Final[Mapping[str, str]] = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}
"""For GNU's OpenMP some tens of microseconds, which is what it takes itself where it sees more
threads than processors; for that of LLVM and Intel milliseconds, of which it knows only whole."""

_SAID: Final = frozenset({"OMP_WAIT_POLICY", *_WAITING})


def _load(path: str) -> tuple[ctypes.CDLL, bool]:
    """Load a library, and OpenMP with it.

    Returns:
        The library, and whether the threads of its OpenMP may spin for long. They may if the
        runtime was loaded before. If the user set the time in the environment, it is left alone and
        the answer is False.

    Raises:
        OSError: It cannot be loaded.
    """
    if not _SAID.isdisjoint(os.environ):
        return ctypes.CDLL(path), False
    spins = _is_loaded()
    with _variables():
        library = ctypes.CDLL(path)
        if hasattr(library, "omp_get_max_threads"):
            library.omp_get_max_threads()  # one of them reads the environment only now
    return library, spins


@cache
def _is_loaded() -> bool:
    """Say whether somebody loaded a runtime before this module did."""
    for name in _RUNTIMES:
        try:
            ctypes.CDLL(name, mode=getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_LAZY", 1))
        except OSError:
            continue
        return True
    return False


@contextmanager
def _variables() -> Iterator[None]:
    """Set the variables for a while; none of them is set."""
    os.environ.update(_WAITING)
    try:
        yield
    finally:
        for name in _WAITING:
            del os.environ[name]


LIBRARY_VARIABLE: Final = "SUBGRAPH_ONEDNN_LIBRARY"
"""Environment variable that names another library; also that of the option ``library``."""

_WHEELS: Final = ("onednn-cpu-gomp", "onednn-cpu-iomp", "onednn-cpu-tbb")
_FILE: Final = "libdnnl.so.3"
_NEEDED: Final = (3, 2)
_AVX512: Final = 0x27  # dnnl_cpu_isa_avx512_core
_BF16: Final = 0xE7  # dnnl_cpu_isa_avx512_core_bf16
_HINT: Final = (
    "Install oneDNN:   pip install onednn-cpu-gomp\n"
    f"Or name another:  {LIBRARY_VARIABLE}=/path/to/{_FILE}"
)

_POINTER: Final = ctypes.c_void_p
_SIZE: Final = ctypes.c_size_t
_INT: Final = ctypes.c_int
_PAUSE: Final = 1  # omp_pause_soft: what was set stays
_TENSOR: Final = ctypes.POINTER(LogicalTensor)
_TENSORS: Final = ctypes.POINTER(_TENSOR)
_OUT: Final = ctypes.POINTER(_POINTER)
_SIZE_OUT: Final = ctypes.POINTER(_SIZE)
_PAIRS_OUT: Final = ctypes.POINTER(ctypes.POINTER(InplacePair))
_BYTE_OUT: Final = ctypes.POINTER(ctypes.c_uint8)
_DIMS: Final = ctypes.POINTER(ctypes.c_int64)
_FLOAT: Final = ctypes.c_float

_KINDS: Final = """
engine stream graph_tensor graph_op graph_graph graph_partition graph_compiled_partition memory_desc
post_ops primitive_attr primitive_desc
"""
_PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    **{f"dnnl_{kind}_destroy": (_POINTER,) for kind in _KINDS.split()},
    "dnnl_engine_create": (_OUT, _INT, _SIZE),
    "dnnl_stream_create": (_OUT, _POINTER, ctypes.c_uint),
    "dnnl_stream_wait": (_POINTER,),
    "dnnl_graph_logical_tensor_init_with_dims": (_TENSOR, _SIZE, _INT, _INT, _DIMS, _INT, _INT),
    "dnnl_graph_logical_tensor_init_with_strides": (_TENSOR, _SIZE, _INT, _INT, _DIMS, _DIMS, _INT),
    "dnnl_graph_logical_tensor_get_mem_size": (_TENSOR, _SIZE_OUT),
    "dnnl_graph_tensor_create": (_OUT, _TENSOR, _POINTER, _POINTER),
    "dnnl_graph_tensor_set_data_handle": (_POINTER, _POINTER),
    "dnnl_graph_op_create": (_OUT, _SIZE, _INT, ctypes.c_char_p),
    "dnnl_graph_op_add_input": (_POINTER, _TENSOR),
    "dnnl_graph_op_add_output": (_POINTER, _TENSOR),
    "dnnl_graph_op_set_attr_f32": (_POINTER, _INT, ctypes.POINTER(ctypes.c_float), _SIZE),
    "dnnl_graph_op_set_attr_bool": (_POINTER, _INT, _BYTE_OUT, _SIZE),
    "dnnl_graph_op_set_attr_s64": (_POINTER, _INT, _DIMS, _SIZE),
    "dnnl_graph_op_set_attr_str": (_POINTER, _INT, ctypes.c_char_p, _SIZE),
    "dnnl_graph_graph_create": (_OUT, _INT),
    "dnnl_graph_add_op": (_POINTER, _POINTER),
    "dnnl_graph_graph_finalize": (_POINTER,),
    "dnnl_graph_graph_filter": (_POINTER, _INT),
    "dnnl_graph_graph_get_partition_num": (_POINTER, _SIZE_OUT),
    "dnnl_graph_graph_get_partitions": (_POINTER, _SIZE, _OUT),
    "dnnl_graph_partition_get_op_num": (_POINTER, _SIZE_OUT),
    "dnnl_graph_partition_get_ops": (_POINTER, _SIZE, _SIZE_OUT),
    "dnnl_graph_partition_is_supported": (_POINTER, _BYTE_OUT),
    "dnnl_graph_partition_get_input_ports_num": (_POINTER, _SIZE_OUT),
    "dnnl_graph_partition_get_input_ports": (_POINTER, _SIZE, _TENSOR),
    "dnnl_graph_partition_get_output_ports_num": (_POINTER, _SIZE_OUT),
    "dnnl_graph_partition_get_output_ports": (_POINTER, _SIZE, _TENSOR),
    "dnnl_graph_partition_compile": (*(_POINTER,) * 2, *(_SIZE, _TENSORS) * 2, _POINTER),
    "dnnl_graph_compiled_partition_create": (_OUT, _POINTER),
    "dnnl_graph_compiled_partition_query_logical_tensor": (_POINTER, _SIZE, _TENSOR),
    "dnnl_graph_compiled_partition_get_inplace_ports": (_POINTER, _SIZE_OUT, _PAIRS_OUT),
    "dnnl_graph_compiled_partition_execute": (_POINTER, _POINTER, _SIZE, _OUT, _SIZE, _OUT),
    "dnnl_memory_desc_create_with_strides": (_OUT, _INT, _DIMS, _INT, _DIMS),
    "dnnl_post_ops_create": (_OUT,),
    "dnnl_post_ops_append_sum": (_POINTER, _FLOAT, ctypes.c_int32, _INT),
    "dnnl_post_ops_append_eltwise": (_POINTER, _INT, _FLOAT, _FLOAT),
    "dnnl_post_ops_append_binary": (_POINTER, _INT, _POINTER),
    "dnnl_primitive_attr_create": (_OUT,),
    "dnnl_primitive_attr_set_post_ops": (_POINTER, _POINTER),
    "dnnl_matmul_primitive_desc_create": (_OUT, *[_POINTER] * 6),
    "dnnl_binary_primitive_desc_create": (_OUT, _POINTER, _INT, *[_POINTER] * 4),
    "dnnl_primitive_desc_query": (_POINTER, _INT, _INT, ctypes.POINTER(ctypes.c_char_p)),
    "dnnl_graph_set_compiled_partition_cache_capacity": (_INT,),
    "dnnl_graph_set_constant_tensor_cache": (_INT,),
}
"""Argument types of what is called here; all of them return a ``dnnl_status_t``."""


class LibraryError(BackendUnavailableError):
    """oneDNN is not there, or not one that this package can speak to (SGK104)."""

    def __init__(self, problem: str, remedy: str = _HINT) -> None:
        super().__init__(
            "SGK104",
            f"backend 'onednn' is installed but cannot run here: {problem}",
            hint=remedy,
            backend="onednn",
        )
        self.problem = problem
        self.remedy = remedy


class DnnlError(RuntimeError):
    """A call of oneDNN failed; the text names the call and the status."""

    def __init__(self, call: str, number: int) -> None:
        self.status = STATUSES[number] if 0 <= number < len(STATUSES) else f"status {number}"
        super().__init__(f"{call} of oneDNN returned {self.status}")


class DnnlLibrary:
    """oneDNN, loaded and checked.

    Attributes:
        spins: Whether threads of its OpenMP may spin for milliseconds when a run is over.

    Raises:
        LibraryError: It cannot be loaded, has another version, or was built without what is needed
            (SGK104).

    Thread-safety: safe, as is oneDNN.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._functions, self.spins = _load(path)
        except OSError as error:
            raise LibraryError(f"oneDNN cannot be loaded: {error}") from error
        self.version = self._checked_version()
        self._declare()
        # Owners keep compiled partitions, so the library's own store would only keep closed ones
        # alive. The store of constants saves reordering weights at every run; its entries go with
        # their compiled partition.
        self.call("dnnl_graph_set_compiled_partition_cache_capacity", 0)
        self.call("dnnl_graph_set_constant_tensor_cache", 1)

    @property
    def has_bfloat16(self) -> bool:
        """Whether the processor computes in bfloat16 as oneDNN's kernels need it."""
        return self._has(_BF16)

    @property
    def packs_factors(self) -> bool:
        """Whether products have constant factors in a layout of their own here."""
        return self._has(_AVX512)

    def _has(self, wanted: int) -> bool:
        isa: int = self._functions.dnnl_get_effective_cpu_isa()
        return isa & wanted == wanted

    @property
    def has_openmp(self) -> bool:
        """Whether the library computes with OpenMP, so that threads can be set."""
        return hasattr(self._functions, "omp_set_num_threads")

    @property
    def max_threads(self) -> int:
        """How many threads the calling thread would compute with; 1 without OpenMP."""
        return int(self._functions.omp_get_max_threads()) if self.has_openmp else 1

    def set_threads(self, count: int) -> None:
        """Set with how many threads the calling thread computes from now on."""
        if self.has_openmp:
            self._functions.omp_set_num_threads(count)

    def end_threads(self) -> None:
        """End the threads that wait for the calling one, as far as OpenMP can; others come."""
        if hasattr(self._functions, "omp_pause_resource_all"):
            self._functions.omp_pause_resource_all(_PAUSE)

    def function(self, name: str) -> Any:
        """Return a function of the library, for calls on the way of a run."""
        return getattr(self._functions, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; DnnlError unless its status is ``success``."""
        status: int = getattr(self._functions, name)(*arguments)
        if status:
            raise DnnlError(name, status)

    def _checked_version(self) -> str:
        try:
            tell = self._functions.dnnl_version
        except AttributeError as error:
            raise LibraryError(f"{self.path} is not oneDNN: it has no dnnl_version") from error
        tell.restype = ctypes.POINTER(Version)
        found = tell().contents
        version = f"{found.major}.{found.minor}.{found.patch}"
        if found.major != _NEEDED[0] or found.minor < _NEEDED[1]:
            needed = f"at least {_NEEDED[0]}.{_NEEDED[1]} and below {_NEEDED[0] + 1}"
            raise LibraryError(f"{self.path} is oneDNN {version}, {needed} is needed")
        return version

    def _declare(self) -> None:
        for name, arguments in _PROTOTYPES.items():
            try:
                function = getattr(self._functions, name)
            except AttributeError as error:
                problem = f"{self.path} was built without oneDNN's graph API: it has no {name}"
                raise LibraryError(problem) from error
            function.argtypes = arguments
            function.restype = ctypes.c_int


def open_library(path: Path | None = None) -> DnnlLibrary:
    """Load oneDNN, once; LibraryError (SGK104) if it is not there or not the right one."""
    if given := path or os.environ.get(LIBRARY_VARIABLE):
        if not Path(given).is_file():
            raise LibraryError(f"there is no library {str(given)!r}")
        return _load_library(str(given))
    for candidate in _candidates():
        if candidate.is_file():
            return _load_library(str(candidate))
    if (found := ctypes.util.find_library("dnnl")) is None:
        raise LibraryError(f"no {_FILE} was found")
    return _load_library(found)


@lru_cache(maxsize=8)
def _load_library(path: str) -> DnnlLibrary:
    return DnnlLibrary(path)


def _candidates() -> Iterator[Path]:
    """Yield the places where a wheel leaves the library."""
    for wheel in _WHEELS:
        try:
            files = importlib.metadata.files(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield from (Path(str(file.locate())) for file in files or () if file.name == _FILE)
    yield Path(sys.prefix) / "lib" / _FILE
