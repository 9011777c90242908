"""From a subgraph back to a stand-alone ``ModelProto``, with its weights or beside them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, numpy_helper

from subgraphkit.ir import Initializer, Node, Subgraph, WeightsPlace
from subgraphkit.onnx_io.attribute_rules import body_protos
from subgraphkit.onnx_io.protos import copy_of, drop_notes, state_value
from subgraphkit.types import DataType, TensorType

_OLDEST_IR = 4

OUTSIDE: Final = "weights-outside-the-model"
"""The file name in initializers whose data was left out of a model."""

# Kinds of attributes in which a tensor may be that is in a file.
_HELD: Final = frozenset({AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.TENSOR})

# Constants of this many bytes and fewer stay inside: compilers look into shapes and axes. It is
# the threshold of onnx's own ``save_model`` as well.
_SMALL: Final = 1024


class OnnxGraphWriter:
    """Writes nodes and subgraphs of one graph as ONNX."""

    def __init__(
        self, model: onnx.ModelProto, graph: onnx.GraphProto, inputs: Sequence[tuple[str, ...]]
    ) -> None:
        self.model = model
        """The model; not to be changed, and its large weights may have been taken out."""
        self._graph = graph
        self._inputs = inputs

    def node_proto(self, node: Node) -> onnx.NodeProto:
        """Return the node with its inputs in the graph; not to be changed."""
        proto: onnx.NodeProto = self._graph.node[node.id]
        read = node.graph.table.inputs[node.id]
        stated = self._inputs[node.id]
        if stated is read or stated == read:
            return proto
        # A copy that it read in the model was left out.
        renamed = copy_of(proto)
        del renamed.input[:]
        renamed.input.extend(read)
        return renamed

    def subgraph_model(
        self, subgraph: Subgraph, weights: WeightsPlace, *, notes: bool
    ) -> onnx.ModelProto:
        """Write a subgraph with typed inputs, outputs and inner values.

        Names are those of the original model. The IR version is at least 4, so that constants need
        not be inputs. Data in the model's own files is read, so that the result needs none of them.
        Weights that stay outside are the exception.
        """
        model = onnx.ModelProto(
            ir_version=max(self.model.ir_version, _OLDEST_IR), producer_name="subgraphkit"
        )
        for domain, version in subgraph.graph.opset_imports.items():
            model.opset_import.add(domain=domain, version=version)
        graph = model.graph
        graph.name = subgraph.id
        types, outputs = subgraph.graph.types, subgraph.graph.table.outputs
        for name in subgraph.inputs:
            state_value(graph.input.add(), name, types.get(name))
        for name in subgraph.outputs:
            state_value(graph.output.add(), name, types.get(name))
        stored = subgraph.constants.items()
        apart = {n for n, one in stored if weights == "outside" and may_leave(one.type)}
        # One that was replaced is written as it is now, not as its node states it. Libraries read
        # some forms of Constant at some operator sets only.
        restated = {name for name, one in stored if one.version or weights == "outside"}
        nodes = [i for i in subgraph.nodes if restated.isdisjoint(outputs[i])]
        members = [Node(subgraph.graph, i) for i in nodes]
        graph.node.extend([self_contained(self.node_proto(node), node) for node in members])
        if not notes:
            drop_notes(graph.node)
        made = {name for i in nodes for name in outputs[i] if name}
        graph.initializer.extend(
            [
                reference_to(constant, location=OUTSIDE, offset=0, length=constant.type.nbytes)
                if name in apart
                else tensor_of(constant)
                for name, constant in stored
                if name not in made
            ]
        )
        for name in sorted(made.difference(subgraph.outputs)):
            type_ = types.get(name)
            is_open = isinstance(type_, TensorType) and type_.dtype is DataType.UNDEFINED
            if type_ is not None and not is_open:
                state_value(graph.value_info.add(), name, type_)
        return model


def outside_weights(model: onnx.ModelProto, subgraph: Subgraph) -> dict[str, npt.NDArray[Any]]:
    """Return the data of the weights that ``to_model(weights="outside")`` left out.

    Args:
        model: What ``to_model`` returned.
        subgraph: The subgraph it was written from.

    Returns:
        By name and in the order of ``model.graph.initializer``, contiguous read-only arrays of the
        dtype and shape that the initializer states. They share memory with the model's weights
        where these are contiguous; hold them for as long as a library reads from them.

    Raises:
        InvalidModelError: The data cannot be read (SGK208, SGK211).
    """
    return {
        tensor.name: _contiguous(subgraph.constants[tensor.name].array())
        for tensor in model.graph.initializer
        if _is_in_a_file(tensor)
    }


def _contiguous(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    copy = np.ascontiguousarray(array)  # which is the same one if it is so already
    copy.setflags(write=False)
    return copy


def may_leave(type_: TensorType) -> bool:
    """Say whether a constant is worth leaving out and its array is laid out as ONNX stores it."""
    bits = type_.dtype.bits
    return bits > 0 and bits % 8 == 0 and (type_.nbytes or 0) > _SMALL


def self_contained(proto: onnx.NodeProto, node: Node) -> onnx.NodeProto:
    """Return a node whose tensors, those of its bodies included, are not in files.

    Inputs that are left out at its end are gone as well: some nodes crash ONNX Runtime (1.32) then.
    """
    if not _needs_changes(proto):
        return proto
    copy = copy_of(proto)
    _take_in(copy, node)
    return copy


def _needs_changes(proto: onnx.NodeProto) -> bool:
    read = proto.input
    if read and not read[-1]:
        return True
    for attribute in proto.attribute:
        kind = attribute.type
        if kind in _HELD and (
            _is_in_a_file(attribute.t)
            or any(
                any(map(_is_in_a_file, body.initializer)) or any(map(_needs_changes, body.node))
                for body in (attribute.g, *attribute.graphs)
            )
        ):
            return True
    return False


def _take_in(proto: onnx.NodeProto, node: Node) -> None:
    while proto.input and not proto.input[-1]:
        del proto.input[-1]
    for attribute in proto.attribute:
        if _is_in_a_file(attribute.t):
            name = attribute.t.name
            attribute.t.CopyFrom(numpy_helper.from_array(node.attributes[attribute.name], name))
    for key, body in body_protos(proto).items():
        graph = node.bodies[key]
        for tensor in filter(_is_in_a_file, body.initializer):
            tensor.CopyFrom(tensor_of(graph.initializers[tensor.name]))
        for index, inner in enumerate(body.node):
            _take_in(inner, Node(graph, index))


def _is_in_a_file(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def reference_to(constant: Initializer, **place: object) -> onnx.TensorProto:
    """Return a constant as a tensor whose data is elsewhere, at a place for ``external_data``."""
    reference = onnx.TensorProto(
        name=constant.name,
        dims=[dim for dim in constant.type.shape or () if isinstance(dim, int)],
        data_type=int(constant.type.dtype),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for key, value in place.items():
        reference.external_data.add(key=key, value=str(value))
    return reference


def tensor_of(constant: Initializer) -> onnx.TensorProto:
    """Return a constant as a tensor with its data inside."""
    return numpy_helper.from_array(constant.array(), constant.name)


def node_key(
    node: Node,
    types: Callable[[str], object],
    is_inside: Callable[[Initializer], bool] = lambda constant: not may_leave(constant.type),
    *,
    with_output_types: bool = True,
) -> str:
    """Write all that an answer about a single node can depend on, without names.

    Those are the operator, its version and attributes, its inputs and outputs with their types, and
    the data of small constants. For a node with bodies, they include all operator sets and the
    outside values that the bodies read, by name.

    Args:
        node: The node.
        types: Returns the type of a value by name, as far as it counts.
        is_inside: Says whether a constant's data counts beside its type. By default, it counts if
            ``Subgraph.to_model(weights="outside")`` leaves it inside.
        with_output_types: Whether types of outputs count, or only which there are.

    Raises:
        InvalidModelError: The data of a constant cannot be read (SGK208, SGK211).
    """
    graph = node.graph

    def trait(name: str) -> tuple[str, ...] | tuple[str, Any]:
        constant = graph.constants.get(name)
        if constant is None or not is_inside(constant):
            return (str(types(name)),) if name else ()
        array = constant.array()
        return str(constant.type), array.tolist() if array.dtype.hasobject else array.tobytes()

    attributes = graph.writer.node_proto(node).attribute if graph.writer is not None else ()
    key: list[Any] = [
        (node.domain, node.op_type, node.opset),
        [one.SerializeToString(deterministic=True) for one in attributes],
        [trait(name) for name in node.inputs],
        [trait(name) if with_output_types else bool(name) for name in node.outputs],
    ]
    if node.bodies:
        key += [sorted(graph.opset_imports.items()), [(n, trait(n)) for n in node.captures]]
    return repr(key)
