"""Owners of oneDNN's objects: each destroys its object when it is closed or forgotten."""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Self

from subgraphkit_onednn import symbols
from subgraphkit_onednn.library import DnnlLibrary
from subgraphkit_onednn.threads import release

Tensors = Sequence[symbols.LogicalTensor]


class Handle:
    """One object of the library."""

    def __init__(self, library: DnnlLibrary, kind: str, *arguments: Any, maker: str = "") -> None:
        self.library = library
        self.pointer = ctypes.c_void_p()
        self.destroy = library.function(f"dnnl_{kind}_destroy")
        library.call(maker or f"dnnl_{kind}_create", ctypes.byref(self.pointer), *arguments)

    @classmethod
    def adopt(cls, library: DnnlLibrary, kind: str, pointer: int | None) -> Self:
        """Own an object that the library made elsewhere."""
        handle = cls.__new__(cls)
        handle.library = library
        handle.pointer = ctypes.c_void_p(pointer)
        handle.destroy = library.function(f"dnnl_{kind}_destroy")
        return handle

    def close(self) -> None:
        """Destroy the object; closing twice does nothing."""
        if pointer := getattr(self, "pointer", None):
            self.pointer = ctypes.c_void_p()
            self.destroy(pointer)

    def __del__(self) -> None:
        """Destroy the object."""
        self.close()


class DnnlEngine(Handle):
    """An engine of oneDNN: the processor."""

    def __init__(self, library: DnnlLibrary) -> None:
        super().__init__(library, "engine", symbols.CPU, 0)


class Stream(Handle):
    """An order of execution on an engine; used by one thread at a time."""

    def __init__(self, engine: DnnlEngine) -> None:
        super().__init__(engine.library, "stream", engine.pointer, symbols.IN_ORDER)

    def wait(self) -> None:
        """Wait until all that was put on the stream is done."""
        self.library.call("dnnl_stream_wait", self.pointer)


class Tensor(Handle):
    """A logical tensor with memory that somebody else owns."""

    def __init__(
        self, engine: DnnlEngine, logical: symbols.LogicalTensor, address: int = 0
    ) -> None:
        super().__init__(
            engine.library, "graph_tensor", ctypes.byref(logical), engine.pointer, address or None
        )


_ELEMENTS: Final[Any] = {"f32": ctypes.c_float, "s64": ctypes.c_int64, "bool": ctypes.c_uint8}
"""By kind of an attribute, what it is made of."""


class Operation(Handle):
    """One operation, before it is put into a graph."""

    def __init__(self, library: DnnlLibrary, number: int, kind: str) -> None:
        name = f"{kind}_{number}".encode()
        super().__init__(library, "graph_op", number, symbols.OPERATIONS[kind], name)

    def connect(self, inputs: Tensors, outputs: Tensors) -> None:
        """Add inputs and outputs in their order."""
        for logical in inputs:
            self.library.call("dnnl_graph_op_add_input", self.pointer, ctypes.byref(logical))
        for logical in outputs:
            self.library.call("dnnl_graph_op_add_output", self.pointer, ctypes.byref(logical))

    def set(self, name: str, value: Any) -> None:
        """Set an attribute; its name says of what kind the value is."""
        number, kind = symbols.ATTRIBUTES[name]
        one = kind.removesuffix("s")
        given: Any = str(value).encode()
        if kind != "str":
            values = list(value) if kind != one else [value]
            given = (_ELEMENTS[one] * len(values))(*values)
        self.library.call(f"dnnl_graph_op_set_attr_{one}", self.pointer, number, given, len(given))


class Partition(Handle):
    """Operations that the library compiles together."""

    @property
    def operations(self) -> list[int]:
        """Numbers of the operations."""
        count = ctypes.c_size_t()
        self.library.call("dnnl_graph_partition_get_op_num", self.pointer, ctypes.byref(count))
        numbers = (ctypes.c_size_t * count.value)()
        self.library.call("dnnl_graph_partition_get_ops", self.pointer, count, numbers)
        return list(numbers)

    @property
    def is_supported(self) -> bool:
        """Whether the library can compile it."""
        answer = ctypes.c_uint8()
        self.library.call("dnnl_graph_partition_is_supported", self.pointer, ctypes.byref(answer))
        return bool(answer.value)

    def ports(self, side: str) -> list[int]:
        """Return the numbers of its ``"input"`` or ``"output"`` tensors, in calling order."""
        count = ctypes.c_size_t()
        name = f"dnnl_graph_partition_get_{side}_ports"
        self.library.call(f"{name}_num", self.pointer, ctypes.byref(count))
        logical = (symbols.LogicalTensor * count.value)()
        self.library.call(name, self.pointer, count, logical)
        return [int(tensor.id) for tensor in logical]


class CompiledPartition(Handle):
    """A partition with code for given shapes and layouts."""

    def __init__(
        self, partition: Partition, engine: DnnlEngine, inputs: Tensors, outputs: Tensors
    ) -> None:
        super().__init__(partition.library, "graph_compiled_partition", partition.pointer)
        self.destroy = partial(release, self.destroy)
        ports = len(inputs), _references(inputs), len(outputs), _references(outputs)
        given = partition.pointer, self.pointer, *ports, engine.pointer
        self.library.call("dnnl_graph_partition_compile", *given)

    def layout(self, number: int) -> symbols.LogicalTensor:
        """Return a tensor of the partition with the layout it was compiled for."""
        found = symbols.LogicalTensor()
        question = self.pointer, number, ctypes.byref(found)
        self.library.call("dnnl_graph_compiled_partition_query_logical_tensor", *question)
        return found

    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Return inputs and outputs that may have the same memory, by number."""
        count = ctypes.c_size_t()
        pairs = ctypes.POINTER(symbols.InplacePair)()
        question = self.pointer, ctypes.byref(count), ctypes.byref(pairs)
        self.library.call("dnnl_graph_compiled_partition_get_inplace_ports", *question)
        return [(pairs[i].input_id, pairs[i].output_id) for i in range(count.value)]


class DnnlGraph(Handle):
    """A graph of oneDNN: its operations, before it is partitioned."""

    def __init__(self, library: DnnlLibrary) -> None:
        super().__init__(library, "graph_graph", symbols.CPU)

    def add(self, operation: Operation) -> None:
        """Put a copy of an operation into the graph."""
        self.library.call("dnnl_graph_add_op", self.pointer, operation.pointer)

    def partitions(self) -> list[Partition]:
        """Partition the graph, fusing what the library can fuse."""
        self.library.call("dnnl_graph_graph_finalize", self.pointer)
        self.library.call("dnnl_graph_graph_filter", self.pointer, symbols.FUSION)
        count = ctypes.c_size_t()
        self.library.call("dnnl_graph_graph_get_partition_num", self.pointer, ctypes.byref(count))
        found = (ctypes.c_void_p * count.value)()
        self.library.call("dnnl_graph_graph_get_partitions", self.pointer, count, found)
        return [Partition.adopt(self.library, "graph_partition", pointer) for pointer in found]


def logical_tensor(
    library: DnnlLibrary, number: int, data_type: int, dims: Sequence[int], how: Any, kind: int
) -> symbols.LogicalTensor:
    """Make a logical tensor; ``how`` it lies is a layout, or strides."""
    made, many = symbols.LogicalTensor(), ctypes.c_int64 * len(dims)
    head = ctypes.byref(made), number, data_type, len(dims), many(*dims)
    if isinstance(how, int):
        library.call("dnnl_graph_logical_tensor_init_with_dims", *head, how, kind)
    else:
        library.call("dnnl_graph_logical_tensor_init_with_strides", *head, many(*how), kind)
    return made


def size_of(library: DnnlLibrary, logical: symbols.LogicalTensor) -> int:
    """Return how many bytes a tensor of a known layout takes."""
    size = ctypes.c_size_t()
    ends = ctypes.byref(logical), ctypes.byref(size)
    library.call("dnnl_graph_logical_tensor_get_mem_size", *ends)
    return size.value


def _references(tensors: Tensors) -> Any:
    pointers = [ctypes.pointer(tensor) for tensor in tensors]
    return (ctypes.POINTER(symbols.LogicalTensor) * len(pointers))(*pointers)
