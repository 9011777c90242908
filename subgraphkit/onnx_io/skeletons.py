"""Models of some nodes of a model, without large weights, and onnx's inference on them.

Names that onnx makes up for open dimensions are kept apart from one run of it to the next.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from subgraphkit.ir import Graph, Initializer
from subgraphkit.ir.values import is_open
from subgraphkit.onnx_io.model import Model
from subgraphkit.onnx_io.operator_types import LARGEST_READ, infer_model, plain_node
from subgraphkit.onnx_io.protos import copy_of, drop_notes, substitute_symbols, write_value_info
from subgraphkit.onnx_io.ranks import vague_lists
from subgraphkit.onnx_io.reading import read_bodies, read_types
from subgraphkit.types import DataType, Shape, TensorType, ValueType

# How the names begin.
_MADE_UP: Final = "unk__"


class FreshNames:
    """Names of dimensions that onnx makes up: the same in no two of its runs over one model."""

    def __init__(self, types: Iterable[ValueType]) -> None:
        self._taken = {dim for type_ in types for dim in _symbols(type_)}
        self._number = 0

    def rename_dims(
        self, types: Mapping[str, ValueType], made_up: Collection[str]
    ) -> Mapping[str, ValueType]:
        """Return the types found by one run with names changed that an earlier one made up."""
        names = {dim: self._fresh(made_up) for dim in sorted(made_up) if dim in self._taken}
        self._taken.update(dim for dim in made_up if dim not in names)
        self._taken.update(names.values())
        if not names:
            return types
        return {value: _with_names(type_, names) for value, type_ in types.items()}

    def _fresh(self, avoided: Collection[str]) -> str:
        while True:
            name = f"{_MADE_UP}{self._number}"
            self._number += 1
            if name not in self._taken and name not in avoided:
                return name


def made_up_names(
    types: Iterable[ValueType], read: Callable[[], Iterable[ValueType]]
) -> Collection[str]:
    """Return the names in onnx's types that onnx made up, as its inputs do not have them."""
    # Many values have one type.
    distinct = {id(type_): type_ for type_ in types}.values()
    made_up = {dim for one in distinct for dim in _symbols(one) if dim.startswith(_MADE_UP)}
    if made_up:
        for type_ in read():
            made_up.difference_update(_symbols(type_))
    return made_up


def output_types(body: Graph, names: Sequence[str]) -> dict[str, ValueType]:
    """Return the types of the outputs of a body, if no name of a dimension in them was made up."""
    return {
        name: body.types[inner]
        for name, inner in zip(names, body.outputs, strict=True)
        if inner in body.types
        and not any(dim.startswith(_MADE_UP) for dim in _symbols(body.types[inner]))
    }


def _symbols(type_: ValueType) -> Iterator[str]:
    if isinstance(type_, TensorType) and type_.shape:
        for dim in type_.shape:
            if isinstance(dim, str):
                yield dim


def _with_names(type_: ValueType, names: Mapping[str, str]) -> ValueType:
    if names.keys().isdisjoint(_symbols(type_)) or not isinstance(type_, TensorType):
        return type_
    dims = (names.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape or ())
    return TensorType(type_.dtype, tuple(dims))


_OLDEST_IR: Final = 4


class Answer(NamedTuple):
    """onnx's inference on some nodes.

    Attributes:
        made_up: Names of dimensions in the types that onnx made up.
        bodies: Bodies of nodes with their values typed, by node and attribute name.
    """

    types: Mapping[str, ValueType]
    made_up: Collection[str]
    bodies: Mapping[int, Mapping[str, Graph]]


class Skeletons:
    """The model's own types of values, with the given shapes put in."""

    def __init__(
        self,
        model: Model,
        symbols: Mapping[str, int],
        input_shapes: Mapping[str, Shape],
        replaced: Mapping[str, npt.NDArray[Any]],
    ) -> None:
        self._model = model
        self._graph = model.graph
        graph, constants = model.proto.graph, model.graph.constants
        small = (
            tensor
            for tensor in graph.initializer
            if tensor.ByteSize() <= LARGEST_READ
            and not tensor.external_data
            and tensor.name not in model.taken_out
        )
        # Small constants as the model states them: initializers, and nodes.
        self._tensors = {one.name: one for one in small if _is_small(constants.get(one.name))}
        self._nodes = {
            name: made_by
            for name, stored in constants.items()
            if (made_by := model.graph.producers.get(name)) is not None and _is_small(stored)
            if not any(one.t.external_data for one in graph.node[made_by].attribute)
        }
        self._replaced = replaced
        # Their data that was read already: many nodes read one constant.
        self._data: dict[str, npt.NDArray[Any]] = {}
        fed = {*self._graph.inputs, *self._graph.defaults}
        self._inputs = {
            value.name: _write_input(value, input_shapes, symbols)
            for value in graph.input
            if value.name in fed
        }
        stated = chain(graph.value_info, graph.output)
        self._stated = [_with_sizes(one, symbols) if symbols else one for one in stated]

    @property
    def known(self) -> Iterable[str]:
        """Names of all constants that ``known_value`` returns the data of."""
        return chain(self._replaced, self._tensors, self._nodes)

    def given_types(self) -> dict[str, ValueType]:
        """Return the types of inputs and constants."""
        types = read_types(self._inputs.values())
        stored = {**self._graph.constants, **self._graph.defaults}
        return types | {name: s.type for name, s in stored.items() if name not in types}

    def declared_types(self) -> dict[str, ValueType]:
        """Return the types that the model states of inner values and outputs."""
        return read_types(self._stated)

    def known_value(self, name: str) -> npt.NDArray[Any] | None:
        """Return the data of a small constant; None of anything else."""
        if name in self._replaced:
            return self._replaced[name]
        data = self._data.get(name)
        if data is None and (name in self._tensors or name in self._nodes):
            data = self._data[name] = self._graph.constants[name].array()
        return data

    def ask(
        self,
        nodes: Sequence[int],
        types: Mapping[str, ValueType],
        values: Mapping[str, npt.NDArray[Any]],
        *,
        strict: bool = False,
    ) -> Answer:
        """Let onnx infer the types that nodes make; InferenceError if they contradict."""
        graph = self._graph
        skeleton, first, has_open_values = self._make(nodes, types, values)
        # For a single node, onnx computes only one value from small ones. In a body, nothing bounds
        # its computing.
        held = graph.table.bodies
        at = {node: place for place, node in enumerate(nodes, first) if node in held}
        propagates = has_open_values and not at
        result = infer_model(skeleton, [*at.values()], strict=strict, propagates=propagates)
        found = read_types(result.graph.value_info, inferred=True)
        bodies = {
            node: read_bodies(
                result, result.graph.node[place], graph.opset_imports, self._model.folders
            )
            for node, place in at.items()
        }

        def read() -> Iterable[ValueType]:  # seldom asked
            return read_types(skeleton.graph.input, inferred=True).values()

        return Answer(found, made_up_names(found.values(), read), bodies)

    def _make(
        self,
        nodes: Sequence[int],
        types: Mapping[str, ValueType],
        values: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[onnx.ModelProto, int, bool]:
        """Make a model of some of the nodes.

        This returns the model, the place of the first node behind those that state constants, and
        whether it states a value known only in part.
        """
        proto = self._model.proto
        # From IR version 4 on, initializers need not be listed as inputs.
        ir_version = max(proto.ir_version, _OLDEST_IR)
        skeleton = onnx.ModelProto(ir_version=ir_version, opset_import=proto.opset_import)
        target = skeleton.graph
        target.name = proto.graph.name or "graph"
        has_open_values = False
        lists = vague_lists(self._graph, nodes[0], types)
        for value in self._read_from_outside(nodes):
            if value in values and not is_open(values[value]):
                target.initializer.append(numpy_helper.from_array(values[value], value))
            elif value in values and values[value].ndim == 1:
                _state_open(target, value, values[value], types[value])
                has_open_values = True
            elif value in self._inputs and value not in lists:
                target.input.append(self._inputs[value])
            elif not self._state_constant(target, value) and (value in types or value in lists):
                target.input.append(write_value_info(value, lists.get(value) or types[value]))
        if self._graph.table.op_types[nodes[0]] == "Resize":
            self._count_sizes(target, nodes[0], types)
        first = len(target.node)
        made, op_types = proto.graph.node, self._graph.table.op_types
        target.node.extend(
            [plain_node(made[n]) if op_types[n] in {"STFT", "Squeeze"} else made[n] for n in nodes]
        )
        drop_notes(target.node)
        return skeleton, first, has_open_values

    def _count_sizes(
        self, target: onnx.GraphProto, node: int, types: Mapping[str, ValueType]
    ) -> None:
        """State how many sizes a resize is fed where that is open: onnx takes it for none."""
        table = self._graph.table
        data, *others = table.inputs[node]
        axes = table.attributes[node].get("axes") or getattr(types.get(data), "shape", None)
        for one in target.input:
            dims = one.type.tensor_type.shape.dim
            if axes and one.name in others[2:] and len(dims) and not dims[0].HasField("dim_value"):
                dims[0].dim_value = len(axes)

    def _state_constant(self, target: onnx.GraphProto, value: str) -> bool:
        """State a small constant as the model does; say whether that was done."""
        if value in self._replaced and _is_small(self._graph.constants.get(value)):
            target.initializer.append(numpy_helper.from_array(self._replaced[value], value))
        elif value in self._tensors:
            target.initializer.append(self._tensors[value])
        elif value in self._nodes:
            target.node.append(self._model.proto.graph.node[self._nodes[value]])
        else:
            return False
        return True

    def _read_from_outside(self, nodes: Sequence[int]) -> Iterator[str]:
        graph: Graph = self._graph
        inputs, outputs, bodies = graph.table.inputs, graph.table.outputs, graph.table.bodies
        seen = {""}.union(*[outputs[node] for node in nodes])
        for node in nodes:
            for value in graph.read_by(node) if node in bodies else inputs[node]:
                if value not in seen:
                    seen.add(value)
                    yield value


def _is_small(stored: Initializer | None) -> bool:
    return stored is not None and (stored.type.nbytes or 0) <= LARGEST_READ


def _state_open(
    target: onnx.GraphProto, name: str, value: npt.NDArray[Any], type_: ValueType
) -> None:
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
    to = getattr(type_, "dtype", DataType.INT64)
    joined = name if to is DataType.INT64 else f"{name}, joined"
    target.node.append(helper.make_node("Concat", parts, [joined], axis=0))
    if joined != name:
        target.node.append(helper.make_node("Cast", [joined], [name], to=to))


def _write_input(
    value: onnx.ValueInfoProto, shapes: Mapping[str, Shape], symbols: Mapping[str, int]
) -> onnx.ValueInfoProto:
    if value.name in shapes:
        dtype = DataType(value.type.tensor_type.elem_type)
        return write_value_info(value.name, TensorType(dtype, shapes[value.name]))
    return _with_sizes(value, symbols)


def _with_sizes(value: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> onnx.ValueInfoProto:
    copy = copy_of(value)
    substitute_symbols(copy.type, symbols)
    return copy
