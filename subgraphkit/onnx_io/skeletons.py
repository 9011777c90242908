"""Models without large weights: some nodes of a model, with what is known of what they read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from subgraphkit.ir import Graph
from subgraphkit.onnx_io.evaluation import is_open
from subgraphkit.onnx_io.model import Model
from subgraphkit.onnx_io.protos import substitute_symbols, write_value_info
from subgraphkit.onnx_io.reading import read_types
from subgraphkit.types import DataType, Shape, TensorType, ValueType

__all__ = ["LARGEST_READ", "Skeleton", "Skeletons"]

# Reshape targets, axes and sizes are small; inference never looks into anything larger.
LARGEST_READ: Final = 4096

_OLDEST_IR: Final = 4


@dataclass(frozen=True, slots=True)
class Skeleton:
    """Some nodes of a model.

    Attributes:
        proto: The model of them.
        first: Place of the first of the nodes in it; before it are nodes that state constants.
        has_open_values: Whether a value is stated of which only some elements are known.
    """

    proto: onnx.ModelProto
    first: int
    has_open_values: bool


class Skeletons:
    """What a model says of its values, with the given shapes put in.

    Args:
        model: The model.
        symbols: Values of named dimensions.
        input_shapes: Shapes of inputs that replace those of the model.
        replaced: Constants that have other values than in the model.
    """

    def __init__(
        self,
        model: Model,
        symbols: Mapping[str, int],
        input_shapes: Mapping[str, Shape],
        replaced: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        self._model = model
        self._graph = model.graph
        graph = model.proto.graph
        self._small = {
            tensor.name: tensor
            for tensor in graph.initializer
            if tensor.ByteSize() <= LARGEST_READ
            and not tensor.external_data
            and tensor.name not in model.taken_out
        }
        self._replaced = replaced
        fed = {*self._graph.inputs, *self._graph.defaults}
        self._inputs = {
            value.name: _fed(value, input_shapes, symbols)
            for value in graph.input
            if value.name in fed
        }
        self._values = [_substituted(value, symbols) for value in graph.value_info]
        self._outputs = [_substituted(value, symbols) for value in graph.output]

    def given_types(self) -> dict[str, ValueType]:
        """Return the types of inputs and constants."""
        types = read_types(onnx.GraphProto(input=self._inputs.values()))
        stored = {**self._graph.constants, **self._graph.defaults}
        return types | {name: s.type for name, s in stored.items() if name not in types}

    def declared_types(self) -> dict[str, ValueType]:
        """Return the types that the model states of inner values and outputs."""
        return read_types(onnx.GraphProto(value_info=self._values, output=self._outputs))

    def known_value(self, name: str) -> npt.NDArray[Any] | None:
        """Return the data of a small constant; None of anything else."""
        if name in self._replaced:
            return self._replaced[name]
        stored = self._graph.constants.get(name)
        if stored is None or not 0 <= (stored.type.nbytes or 0) <= LARGEST_READ:
            return None
        is_stated = name in self._small or name in self._graph.producers
        return stored.array() if is_stated else None

    def make(
        self,
        nodes: Sequence[int],
        types: Mapping[str, ValueType],
        values: Mapping[str, npt.NDArray[Any]],
    ) -> Skeleton:
        """Make a model of some of the nodes.

        Args:
            nodes: The nodes.
            types: Types of the values made before them.
            values: Of some of those, the data, elements of which may be open.
        """
        proto = self._model.proto
        # From IR version 4 on, initializers need not be listed as inputs.
        ir_version = max(proto.ir_version, _OLDEST_IR)
        skeleton = onnx.ModelProto(ir_version=ir_version, opset_import=proto.opset_import)
        target = skeleton.graph
        target.name = proto.graph.name or "graph"
        has_open_values = False
        for value in self._read_from_outside(nodes):
            if value in values and not is_open(values[value]):
                target.initializer.append(numpy_helper.from_array(values[value], value))
            elif value in values and values[value].ndim == 1:
                _state_open(target, value, values[value])
                has_open_values = True
            elif value in self._inputs:
                target.input.append(self._inputs[value])
            elif not self._state_constant(target, value) and value in types:
                target.input.append(write_value_info(value, types[value]))
        first = len(target.node)
        target.node.extend(self._node(node) for node in nodes)
        return Skeleton(skeleton, first, has_open_values)

    def _state_constant(self, target: onnx.GraphProto, value: str) -> bool:
        """State a small constant as the model does; say whether that was done."""
        stored = self._graph.constants.get(value)
        if stored is None or (stored.type.nbytes or 0) > LARGEST_READ:
            return False
        if value in self._replaced:
            target.initializer.append(numpy_helper.from_array(self._replaced[value], value))
        elif value in self._small:
            target.initializer.append(self._small[value])
        elif value in self._graph.producers:
            target.node.append(self._model.proto.graph.node[self._graph.producers[value]])
        else:
            return False
        return True

    def _node(self, node: int) -> onnx.NodeProto:
        proto: onnx.NodeProto = self._model.proto.graph.node[node]
        return _with_onesided(proto) if proto.op_type == "STFT" else proto

    def _read_from_outside(self, nodes: Sequence[int]) -> Iterator[str]:
        graph: Graph = self._graph
        seen = {value for node in nodes for value in graph.table.outputs[node]} | {""}
        for node in nodes:
            for value in graph.read_by(node):
                if value not in seen:
                    seen.add(value)
                    yield value


def _state_open(target: onnx.GraphProto, name: str, value: npt.NDArray[Any]) -> None:
    """State a list of which some elements are open: as shapes of inputs, joined with numbers."""
    parts: list[str] = []
    for is_stated, run in groupby(value, lambda one: isinstance(one, int) and one < 0):
        part = f"{name}, part {len(parts)}"
        parts.append(part)
        if is_stated:
            target.initializer.append(numpy_helper.from_array(np.array([*run], np.int64), part))
        else:
            holder = write_value_info(f"{part}, holder", TensorType(DataType.FLOAT, tuple(run)))
            target.input.append(holder)
            target.node.append(helper.make_node("Shape", [holder.name], [part]))
    target.node.append(helper.make_node("Concat", parts, [name], axis=0))


def _with_onesided(node: onnx.NodeProto) -> onnx.NodeProto:
    """Write out the default of an attribute of STFT, which onnx's inference takes to be 0."""
    if node.domain or any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    stated = onnx.NodeProto()
    stated.CopyFrom(node)
    stated.attribute.append(helper.make_attribute("onesided", 1))
    return stated


def _fed(
    value: onnx.ValueInfoProto, shapes: Mapping[str, Shape], symbols: Mapping[str, int]
) -> onnx.ValueInfoProto:
    if value.name in shapes:
        dtype = DataType(value.type.tensor_type.elem_type)
        return write_value_info(value.name, TensorType(dtype, shapes[value.name]))
    return _with_sizes(value, symbols)


def _substituted(value: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> onnx.ValueInfoProto:
    return _with_sizes(value, symbols) if symbols else value


def _with_sizes(value: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    substitute_symbols(copy.type, symbols)
    return copy
