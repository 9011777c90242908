"""Shape inference: every value typed, for the shapes that were given."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy.typing as npt
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph
from subgraphkit.onnx_io.model import Model
from subgraphkit.onnx_io.protos import normal_domain, substitute_symbols, write_value_info
from subgraphkit.onnx_io.reading import read_bodies, read_types
from subgraphkit.types import DataType, Shape, TensorType, ValueType

__all__ = ["LARGEST_READ", "Inferred", "infer"]

# Reshape targets, axes and sizes are small; inference never looks into anything larger.
LARGEST_READ: Final = 4096

# onnx copies a model four times on the way through inference; a slice at a time bounds that. The
# contents of shape computations are not known across slices, so only huge graphs are sliced.
_SLICE: Final = 200_000


@dataclass(frozen=True, slots=True)
class Inferred:
    """The result of shape inference.

    Attributes:
        types: A type for every value of the main graph.
        bodies: Bodies of nodes with their values typed, by node and attribute name.
    """

    types: dict[str, ValueType]
    bodies: dict[int, Mapping[str, Graph]]


def infer(
    model: Model,
    symbols: Mapping[str, int],
    input_shapes: Mapping[str, Shape],
    *,
    replaced: Mapping[str, npt.NDArray[Any]] = MappingProxyType({}),
    slice_size: int = _SLICE,
) -> Inferred:
    """Type every value of a model.

    What the model itself says of its inner values and outputs counts only where inference finds
    nothing: exporters leave sizes behind that are no longer true once a dimension is symbolic.

    Args:
        model: The model.
        symbols: Values of named dimensions.
        input_shapes: Shapes of inputs that replace those of the model.
        replaced: Constants that have other values than in the model.
        slice_size: How many nodes are looked at together.

    Raises:
        InvalidModelError: The types or shapes of the model contradict each other (SGK222).

    Source:
        ONNX operator schemas, through ``onnx.shape_inference`` with data propagation.
    """
    graph = model.graph
    stated = _Stated(model, symbols, input_shapes, replaced)
    inferred = Inferred(stated.given_types(), {})
    order = graph.order
    for start in range(0, len(order), slice_size):
        nodes = order[start : start + slice_size]
        result = _run_inference(stated.skeleton(nodes, inferred.types), model)
        inferred.types.update(read_types(result.graph))
        for place, node in enumerate(nodes if graph.table.bodies else ()):
            if node in graph.table.bodies:
                proto = result.graph.node[place]
                inferred.bodies[node] = read_bodies(
                    result, proto, graph.opset_imports, model.folders
                )
    inferred.types.update((name, stored.type) for name, stored in graph.constants.items())
    _fill_gaps(inferred.types, stated.declared_types(), graph)
    return inferred


def _fill_gaps(
    types: dict[str, ValueType], declared: Mapping[str, ValueType], graph: Graph
) -> None:
    """Give a type to every value of which inference found none."""
    for value, type_ in declared.items():
        if _says_nothing(types.get(value)):
            types[value] = type_
    unknown = TensorType(DataType.UNDEFINED)
    for outputs in graph.table.outputs:
        for value in outputs:
            if value:
                types.setdefault(value, unknown)


def _says_nothing(type_: ValueType | None) -> bool:
    return type_ is None or (isinstance(type_, TensorType) and type_.shape is None)


class _Stated:
    """What the model says of its values, with the given shapes put in."""

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
        self._replaced = {
            name: numpy_helper.from_array(array, name) for name, array in replaced.items()
        }
        fed = {*self._graph.inputs, *self._graph.defaults}
        self._inputs = {
            value.name: _fed(value, input_shapes, symbols)
            for value in graph.input
            if value.name in fed
        }
        self._values = {value.name: _substituted(value, symbols) for value in graph.value_info}
        self._outputs = {value.name: _substituted(value, symbols) for value in graph.output}
        self._foreign = self._made_by_foreign_operators()

    def given_types(self) -> dict[str, ValueType]:
        """Return the types of inputs and initializers."""
        types = read_types(onnx.GraphProto(input=self._inputs.values()))
        stored = {**self._graph.initializers, **self._graph.defaults}
        return types | {name: s.type for name, s in stored.items() if name not in types}

    def declared_types(self) -> dict[str, ValueType]:
        """Return the types that the model states of inner values and outputs."""
        return read_types(
            onnx.GraphProto(value_info=self._values.values(), output=self._outputs.values())
        )

    def skeleton(self, nodes: Sequence[int], types: Mapping[str, ValueType]) -> onnx.ModelProto:
        """Make a model of some of the nodes, without the large weights."""
        proto = self._model.proto
        # From IR version 4 on, initializers need not be listed as inputs.
        ir_version = max(proto.ir_version, 4)
        skeleton = onnx.ModelProto(ir_version=ir_version, opset_import=proto.opset_import)
        target = skeleton.graph
        target.name = proto.graph.name or "graph"
        target.node.extend(self._node(node) for node in nodes)
        made = {value for node in nodes for value in self._graph.table.outputs[node] if value}
        for value in self._read_from_outside(nodes, made):
            if value in self._small and value in self._graph.initializers:
                target.initializer.append(self._replaced.get(value, self._small[value]))
            elif value in self._inputs:
                target.input.append(self._inputs[value])
            elif value in types:
                target.input.append(write_value_info(value, types[value]))
        self._declare(target, made)
        return skeleton

    def _declare(self, target: onnx.GraphProto, made: set[str]) -> None:
        kept = made & self._foreign
        target.value_info.extend(info for value, info in self._values.items() if value in kept)
        for value, info in self._outputs.items():
            if value in made:
                target.output.append(info if value in self._foreign else _without_shape(info))

    def _node(self, node: int) -> onnx.NodeProto:
        outputs = self._graph.table.outputs[node]
        if self._graph.is_constant_node(node) and outputs[0] in self._replaced:
            return helper.make_node("Constant", [], outputs, value=self._replaced[outputs[0]])
        proto: onnx.NodeProto = self._model.proto.graph.node[node]
        return _with_onesided(proto) if proto.op_type == "STFT" else proto

    def _made_by_foreign_operators(self) -> set[str]:
        """Return the values of which nobody but the model itself can say anything."""
        known, table = defs.C.schema_version_map(), self._graph.table
        if set(table.domains) <= known.keys():
            return set()
        return {
            value
            for domain, outputs in zip(table.domains, table.outputs, strict=True)
            if domain not in known
            for value in outputs
        }

    def _read_from_outside(self, nodes: Sequence[int], made: set[str]) -> Iterator[str]:
        seen = set(made)
        for node in nodes:
            for value in self._graph.read_by(node):
                if value and value not in seen:
                    seen.add(value)
                    yield value


def _with_onesided(node: onnx.NodeProto) -> onnx.NodeProto:
    """Write out the default of an attribute of STFT, which onnx's inference takes to be 0."""
    if node.domain or any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    stated = onnx.NodeProto()
    stated.CopyFrom(node)
    stated.attribute.append(helper.make_attribute("onesided", 1))
    return stated


def _without_shape(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    if value.type.WhichOneof("value") != "tensor_type":
        return value
    return write_value_info(value.name, TensorType(DataType(value.type.tensor_type.elem_type)))


def _fed(
    value: onnx.ValueInfoProto, shapes: Mapping[str, Shape], symbols: Mapping[str, int]
) -> onnx.ValueInfoProto:
    if value.name in shapes:
        dtype = DataType(value.type.tensor_type.elem_type)
        return write_value_info(value.name, TensorType(dtype, shapes[value.name]))
    return _substituted(value, symbols)


def _substituted(value: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> onnx.ValueInfoProto:
    if not symbols:
        return value
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    substitute_symbols(copy.type, symbols)
    return copy


def _run_inference(skeleton: onnx.ModelProto, model: Model) -> onnx.ModelProto:
    """Infer strictly, unless operators that onnx does not know stand in the way."""
    known = defs.C.schema_version_map()
    strict = all(normal_domain(domain) in known for domain in set(model.graph.table.domains))
    try:
        return shape_inference.infer_shapes(skeleton, strict_mode=strict, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        if _blames_function_bodies(str(error), model.graph.opset_imports):
            return shape_inference.infer_shapes(skeleton, strict_mode=False, data_prop=True)
        raise InvalidModelError(
            "SGK222",
            f"types or shapes of model {model.name!r} contradict each other: {str(error).strip()}",
            hint="Compare the shapes you gave with those the model was exported for.",
        ) from error


def _blames_function_bodies(message: str, opsets: Mapping[str, int]) -> bool:
    """Say whether all complaints are about operators that onnx defines by a body of nodes.

    onnx infers those through their bodies, some of which (MeanVarianceNormalization 9, for one) do
    not pass its own strict check.
    """
    # A complaint of its own starts a line; what follows it is about the nodes of such a body.
    complaint = r"^(?:\[\w+\] Inference error\(s\): )?\(op_type:(\w+)"
    blamed = set(re.findall(complaint, message, re.MULTILINE))
    return bool(blamed) and all(
        any(
            defs.has(name, opset, domain) and _has_body(defs.get_schema(name, opset, domain))
            for domain, opset in opsets.items()
        )
        for name in blamed
    )


def _has_body(schema: defs.OpSchema) -> bool:
    return bool(getattr(schema, "has_function", False))
