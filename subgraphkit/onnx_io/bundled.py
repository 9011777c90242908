"""A bound model written for a bundle: its structure, and beside it the weights that are needed.

A model read back binds to the same types: shape inference looks only into small weights, so these
stay in the model. All others lie in a file of their own, or nowhere if only engines need them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from subgraphkit.errors import InternalError
from subgraphkit.ir import BoundGraph, Initializer, Node
from subgraphkit.ir.values import EVALUATED
from subgraphkit.onnx_io.model import SETTLED
from subgraphkit.onnx_io.operator_types import LARGEST_READ, is_foreign
from subgraphkit.onnx_io.protos import copy_fields, write_value_info
from subgraphkit.onnx_io.weights import IN_ENGINES
from subgraphkit.onnx_io.writing import OnnxGraphWriter, reference_to, self_contained, tensor_of
from subgraphkit.types import DataType

Write = Callable[[bytes | memoryview], object]

# Bytes; a cache line, for the data of one weight.
_ALIGNMENT: Final = 64
# Bytes that a file of weights is a multiple of, so that nothing else is in its last page.
_PAGE: Final = 4096
_UNNAMED: Final = "weights-in-a-file"
_FLOATS: Final = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE})


def write_bundled_model(
    graph: BoundGraph,
    constants: Mapping[str, Initializer],
    kept: Collection[str],
    write: Write,
    location: Callable[[], str],
    settled: Iterable[str] = (),
) -> bytes:
    """Write the model of a bound graph, with the data of the kept constants alone.

    ``settled``: Weights from which something was computed that the model states.
    """
    if not isinstance(graph.writer, OnnxGraphWriter):
        raise InternalError(f"graph {graph.name!r} cannot be written as ONNX")
    held, kept = {**constants, **graph.defaults}, {*kept, *graph.defaults}
    return _Writing(graph, graph.writer, held, kept, write).model(location, settled)


@dataclass(eq=False)
class _Writing:
    """Writes one model."""

    graph: BoundGraph
    writer: OnnxGraphWriter
    held: Mapping[str, Initializer]
    kept: Collection[str]
    write: Write
    place: int = 0

    def model(self, location: Callable[[], str], settled: Iterable[str]) -> bytes:
        source = self.writer.model
        made = onnx.ModelProto()
        copy_fields(source, made, without=("graph", "functions", "metadata_props"))
        made.metadata_props.extend(one for one in source.metadata_props if one.key != SETTLED)
        if names := sorted(settled):
            made.metadata_props.add(key=SETTLED, value="\0".join(names))
        target, written = made.graph, source.graph
        copy_fields(written, target, without=("node", "initializer", "sparse_initializer"))
        for tensor in written.initializer:
            target.initializer.append(self._tensor(tensor, self.held[tensor.name]))
        for sparse in written.sparse_initializer:
            # Dense from now on, as the graph knows it; apart, because inference never read it.
            target.initializer.append(self._apart(self.held[sparse.values.name]))
        stated = {one.name for one in (*written.value_info, *written.output)}
        for index, node in enumerate(written.node):
            target.node.append(self._node(node, index))
            if is_foreign(node, self.graph.opset_imports):
                # Where it is opened nobody may know the operator.
                for name in set(node.output).difference(stated) & self.graph.types.keys():
                    target.value_info.append(write_value_info(name, self.graph.types[name]))
        if self.place:
            self.write(bytes(-self.place % _PAGE))
            _name_file(target, location())
        data: bytes = made.SerializeToString()
        return data

    def _tensor(self, tensor: onnx.TensorProto, constant: Initializer) -> onnx.TensorProto:
        if _is_inside(tensor, constant):
            return tensor_of(constant) if constant.version else tensor
        return self._apart(constant)

    def _apart(self, constant: Initializer, *, is_small: bool = False) -> onnx.TensorProto:
        """Put data into the file, or leave it out; checks of a model read whole numbers as well."""
        size = 0 if constant.type.dtype in _FLOATS else constant.type.nbytes or 0
        is_kept = is_small or constant.name in self.kept
        if not is_kept and not 0 < size <= 8 * LARGEST_READ:
            return reference_to(constant, location=IN_ENGINES)
        data = _bytes_of(constant)
        gap = -self.place % _ALIGNMENT
        self.write(bytes(gap))
        self.write(data)
        start = self.place + gap
        self.place = start + len(data)
        return reference_to(constant, location=_UNNAMED, offset=start, length=len(data))

    def _node(self, node: onnx.NodeProto, index: int) -> onnx.NodeProto:
        constant = self.held.get(node.output[0])
        if index in self.graph.left_out and constant is not None:
            return self._stating(node, constant)
        if constant is None or not self.graph.is_constant_node(index):
            view = Node(self.graph, index)
            return self_contained(self.writer.node_proto(view), view)
        value = next((one for one in node.attribute if one.name == "value"), None)
        if value is None:
            return node
        tensor = self._tensor(value.t, constant)
        return node if tensor is value.t else _constant_node(node, tensor)

    def _stating(self, node: onnx.NodeProto, constant: Initializer) -> onnx.NodeProto:
        """Return a node that states the result of a node computed at bind.

        Inference finds in the model its own results, and none that were computed after it.
        """
        size = constant.type.nbytes or 0
        is_small = size <= LARGEST_READ
        is_inside = is_small and (node.op_type in EVALUATED or not size)
        made = tensor_of(constant) if is_inside else self._apart(constant, is_small=is_small)
        return _constant_node(node, made)


def _constant_node(node: onnx.NodeProto, value: onnx.TensorProto) -> onnx.NodeProto:
    """Return a node that states the output of another one."""
    return helper.make_node("Constant", [], node.output, name=node.name, value=value)


def _name_file(graph: onnx.GraphProto, name: str) -> None:
    stated = (one.t for node in graph.node for one in node.attribute if one.HasField("t"))
    for tensor in chain(graph.initializer, stated):
        for entry in tensor.external_data:
            if entry.value == _UNNAMED:
                entry.value = name


def _is_inside(tensor: onnx.TensorProto, constant: Initializer) -> bool:
    """Say whether data stays in the model: if inference reads it, or it has no other form.

    Other data must not stay, or inference would find out more than it did.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    if constant.type.dtype is DataType.STRING:
        return True
    return (constant.type.nbytes or 0) <= LARGEST_READ and tensor.ByteSize() <= LARGEST_READ


def _bytes_of(constant: Initializer) -> memoryview | bytes:
    bits = constant.type.dtype.bits
    if bits % 8:
        packed: bytes = tensor_of(constant).raw_data
        return packed
    array: npt.NDArray[Any] = np.ascontiguousarray(constant.array())
    return array.reshape(-1).view(np.uint8).data
