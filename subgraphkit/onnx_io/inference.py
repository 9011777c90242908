"""Shape inference: every value typed, for the shapes that were given."""

import re
from collections.abc import Mapping
from typing import Final

import onnx
from onnx import defs, shape_inference

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph
from subgraphkit.onnx_io.model import Model
from subgraphkit.onnx_io.protos import normal_domain, substitute_symbols, write_value_info
from subgraphkit.onnx_io.reading import read_bodies, read_types
from subgraphkit.types import DataType, Shape, TensorType, ValueType

__all__ = ["Inferred", "infer"]

# Reshape targets, axes and sizes are small; inference never looks into anything larger.
_LARGEST_READ: Final = 4096


class Inferred:
    """What inference found.

    Attributes:
        types: A type for every value of the main graph.
        bodies: Bodies of nodes with their values typed, by node and attribute name.
    """

    def __init__(
        self, types: dict[str, ValueType], bodies: Mapping[int, Mapping[str, Graph]]
    ) -> None:
        self.types = types
        self.bodies = bodies


def infer(model: Model, symbols: Mapping[str, int], input_shapes: Mapping[str, Shape]) -> Inferred:
    """Type every value of a model.

    Args:
        model: The model.
        symbols: Values of named dimensions.
        input_shapes: Shapes of inputs that replace those of the model.

    Raises:
        InvalidModelError: The types or shapes of the model contradict each other (SGK222).

    Source:
        ONNX operator schemas, through ``onnx.shape_inference`` with data propagation.
    """
    skeleton = _skeleton(model, symbols, input_shapes)
    inferred = _run_inference(skeleton, model)
    types = read_types(inferred.graph)
    graph = model.graph
    for initializers in (graph.initializers, graph.defaults, graph.constants):
        types |= {name: initializer.type for name, initializer in initializers.items()}
    unknown = TensorType(DataType.UNDEFINED)
    for outputs in graph.table.outputs:
        for value in outputs:
            if value and value not in types:
                types[value] = unknown
    place = {node: index for index, node in enumerate(graph.order)} if graph.table.bodies else {}
    bodies = {
        node: read_bodies(
            inferred, inferred.graph.node[place[node]], graph.opset_imports, model.base_dir
        )
        for node in graph.table.bodies
    }
    return Inferred(types, bodies)


def _skeleton(
    model: Model, symbols: Mapping[str, int], input_shapes: Mapping[str, Shape]
) -> onnx.ModelProto:
    """Copy the model without its large weights, which inference would copy four times over."""
    proto, graph = model.proto, model.graph
    # From IR version 4 on, initializers need not be listed as inputs.
    ir_version = max(proto.ir_version, 4)
    skeleton = onnx.ModelProto(ir_version=ir_version, opset_import=proto.opset_import)
    target = skeleton.graph
    target.name = proto.graph.name or "graph"
    target.node.extend(proto.graph.node[index] for index in graph.order)
    for initializer in proto.graph.initializer:
        if initializer.ByteSize() <= _LARGEST_READ and not initializer.external_data:
            target.initializer.append(initializer)
    small = {initializer.name for initializer in target.initializer}
    for value in proto.graph.input:
        if value.name in graph.inputs or value.name in graph.defaults:
            target.input.append(_input(value, input_shapes, symbols))
    for name, stored in graph.initializers.items():
        if name not in small:
            target.input.append(write_value_info(name, stored.type))
    target.output.extend(_substituted(value, symbols) for value in proto.graph.output)
    target.value_info.extend(_substituted(value, symbols) for value in proto.graph.value_info)
    return skeleton


def _input(
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
    # Indented complaints are about the nodes of such bodies, a complaint of its own starts a line.
    blamed = set(
        re.findall(r"^(?:\[\w+\] Inference error\(s\): )?\(op_type:(\w+)", message, re.MULTILINE)
    )
    return bool(blamed) and all(
        any(
            defs.has(name, opset, domain) and _has_body(defs.get_schema(name, opset, domain))
            for domain, opset in opsets.items()
        )
        for name in blamed
    )


def _has_body(schema: defs.OpSchema) -> bool:
    return bool(getattr(schema, "has_function", False))
