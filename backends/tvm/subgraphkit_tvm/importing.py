"""From a region to Relax: the choice of its parameters, and its import."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from subgraphkit.ir import Initializer, Node, Subgraph
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_tvm.library import quiet, tvm

_FRONTEND: Final = "relax.frontend.onnx.onnx_frontend"
_SMALL: Final = 1024
"""Bytes up to which ``Subgraph.to_model(weights="outside")`` leaves a constant inside."""

_FLOATS: Final = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16})

_IN_BYTES: Final = {"And": "Mul", "Or": "Add", "Xor": "Sub", "Not": "Sub", "Equal": "Equal"}
"""What computes the same in 0 and 1: of bools TVM makes wrong code, and code that LLVM refuses."""
_ONE: Final = "one, of Not"

_LOOKED_INTO: Final = frozenset({"Clip", "Pad", "Range", "Resize", "Upsample"})
"""Operators of which the importer wants to see constants of floating type."""


class ImportRefusedError(Exception):
    """The importer made something other than the bound graph says; the text says what."""


@dataclass(frozen=True, slots=True)
class RelaxRegion:
    """A region in Relax.

    Attributes:
        module: An ``IRModule`` whose function ``main`` takes the inputs, then the weights.
        weights: Names of the constants that are parameters, in order.
    """

    module: Any
    weights: tuple[str, ...]


def has_converter(op_type: str) -> bool:
    """Say whether the importer knows an operator at all."""
    return op_type in tvm(_FRONTEND)._get_convert_map()  # noqa: SLF001 (no public way)


def weight_names(subgraph: Subgraph) -> tuple[str, ...]:
    """Name the constants that are parameters of the compiled code, in the subgraph's order.

    All others are part of the code: shapes, axes and the like, by which code is made.
    """
    readers = [node for node in subgraph.members if node.op_type in _LOOKED_INTO]
    seen = {name for node in readers for name in node.inputs}
    return tuple(name for name, one in subgraph.constants.items() if _is_weight(one, name in seen))


def import_region(subgraph: Subgraph) -> RelaxRegion:
    """Import a region, weights as parameters; ImportRefusedError if a type is not the graph's."""
    weights = weight_names(subgraph)
    model = write_region(subgraph, weights)
    outputs = dict(zip(subgraph.outputs, subgraph.output_types, strict=True))
    return import_model(model, len(subgraph.inputs), weights, outputs)


def write_region(subgraph: Subgraph, weights: Sequence[str]) -> onnx.ModelProto:
    """Write a region as ONNX, its weights as inputs after its own."""
    model: onnx.ModelProto = subgraph.to_model(weights="outside")
    graph = model.graph
    inside = [name for name in subgraph.constants if name not in frozenset(weights)]
    nodes = [*graph.node]
    bools = {node.outputs[0] for node in subgraph.members if _is_of_bools(node)}
    del graph.node[:], graph.initializer[:]
    for node in nodes:
        graph.node.extend(_write_in_bytes(node) if node.output[0] in bools else [node])
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.int8), _ONE))
    graph.initializer.extend(
        numpy_helper.from_array(subgraph.constants[name].array(), name) for name in inside
    )
    graph.input.extend(
        helper.make_tensor_value_info(name, stored.type.dtype, stored.type.shape)
        for name, stored in ((name, subgraph.constants[name]) for name in weights)
    )
    return model


def _is_of_bools(node: Node) -> bool:
    return node.op_type in _IN_BYTES and not node.domain and node.dtype() is DataType.BOOL


def _write_in_bytes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Write an operator of bools as one of whole numbers."""
    output, op_type = node.output[0], node.op_type
    read = [f"{output}, operand {place}" for place in range(len(node.input))]
    for name, byte in zip(node.input, read, strict=True):
        yield helper.make_node("Cast", [name], [byte], to=onnx.TensorProto.INT8)
    if op_type == "Equal":
        yield helper.make_node("Equal", read, [output])
        return
    made = f"{output}, in bytes"
    given = [_ONE, *read] if op_type == "Not" else read
    yield helper.make_node(_IN_BYTES[op_type], given, [made])
    yield helper.make_node("Cast", [made], [output], to=onnx.TensorProto.BOOL)


def import_model(
    model: onnx.ModelProto,
    input_count: int,
    weights: tuple[str, ...],
    outputs: Mapping[str, ValueType | None],
) -> RelaxRegion:
    """Import a model whose weights are inputs; ImportRefusedError if a type is other than said."""
    with quiet():
        module = tvm(_FRONTEND).from_onnx(model)
    main = module["main"].with_attr("num_input", input_count)
    module["main"] = main
    made = main.ret_ty
    relax = tvm("relax")
    found = tuple(made.fields) if isinstance(made, relax.TupleType) else (made,)
    if len(found) != len(outputs):
        raise ImportRefusedError(f"{len(found)} outputs are made of {len(outputs)}")
    for (name, expected), actual in zip(outputs.items(), found, strict=True):
        _require_type(name, expected, actual)
    return RelaxRegion(module, weights)


def _is_weight(stored: Initializer, looked_into: bool) -> bool:  # noqa: FBT001 (a fact of it)
    if (stored.type.nbytes or 0) > _SMALL:
        return True
    is_array = bool(stored.type.rank and stored.type.nbytes)  # nothing has no aligned address
    return stored.type.dtype in _FLOATS and is_array and not looked_into


def _require_type(name: str, expected: ValueType | None, actual: Any) -> None:
    """Compare types: where the importer and ONNX disagree, the values are wrong as well."""
    if not isinstance(expected, TensorType):
        raise ImportRefusedError(f"output {name!r} is no tensor")
    dims = getattr(getattr(actual, "shape", None), "values", None)
    if dims is None or not all(hasattr(dim, "value") for dim in dims):
        raise ImportRefusedError(f"{name!r} is {expected} and has no known shape in Relax")
    shape, dtype = tuple(int(dim) for dim in dims), str(actual.dtype)
    if shape != expected.shape or dtype != expected.dtype.label:
        made = f"{dtype}[{','.join(map(str, shape))}]"
        raise ImportRefusedError(f"{name!r} is {expected} and would be {made} in Relax")
