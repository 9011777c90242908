"""Type inference: every value typed, for the shapes that were given.

One pass forward. onnx infers many nodes at a time. The pass stops at two kinds of nodes: those that
onnx cannot type, and arithmetic on sizes. Such arithmetic is computed as soon as the sizes are
known, so that later nodes know its results. onnx's own propagation of data does the same without a
bound on what it computes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy.typing as npt
from onnx import shape_inference

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph, Node
from subgraphkit.ir.values import EVALUATED, evaluate, is_open, size_of
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io.branches import branch_name, forget, replaceable, require_conditions
from subgraphkit.onnx_io.model import Model
from subgraphkit.onnx_io.node_checks import require_fitting
from subgraphkit.onnx_io.operator_rules import is_covered
from subgraphkit.onnx_io.operator_types import BLIND, inferred_by, is_foreign, node_types
from subgraphkit.onnx_io.ranks import RAISING, TARGETED, RankWatch, target_shape, vague_lists
from subgraphkit.onnx_io.skeletons import FreshNames, Skeletons, made_up_names, output_types
from subgraphkit.types import DataType, Shape, TensorType, ValueType, repeated_names

# onnx copies a model four times on the way through inference; a slice at a time bounds that.
_SLICE: Final = 200_000

_LIMITS: Final = LoadLimits()
_UNKNOWN: Final = TensorType(DataType.UNDEFINED)
_SIZES: Final = frozenset({"Shape", "Size"})
_WHOLE: Final = frozenset({DataType.BOOL, DataType.INT32, DataType.INT64})
# onnx's words for an unknown type, which is no contradiction.
_MISSING: Final = re.compile(r"but instead is null|(?:inferred|declared)=0\b")

# The words that onnx puts before a message.
_PREFIXES: Final = r"^(?:\[\w+\] |Inference error\(s\): |\(op_type:\w+[^)]*\): )+"


_Types = Sequence[ValueType | None]
TypesOf = Callable[[Node, _Types, _Types], _Types | None]
"""Takes a node, the types of its inputs, and the model's own types of its outputs; types these."""


class Inferred(NamedTuple):
    """The result of type inference.

    Attributes:
        types: A type for every value of the main graph.
        bodies: Bodies of nodes with their values typed, by node and attribute name.
        values: Small values that are computed from constants and sizes alone, by name.
        conditions: Ifs, by number, whose condition is known and whose outputs are typed.
    """

    types: dict[str, ValueType]
    bodies: dict[int, Mapping[str, Graph]]
    values: dict[str, npt.NDArray[Any]]
    conditions: dict[int, bool]


def infer(
    model: Model,
    symbols: Mapping[str, int],
    input_shapes: Mapping[str, Shape],
    *,
    replaced: Mapping[str, npt.NDArray[Any]] = MappingProxyType({}),
    limits: LoadLimits = _LIMITS,
    types_of: TypesOf | None = None,
) -> Inferred:
    """Type every value of a model.

    The model's own types of inner values and outputs count only where inference finds nothing.
    Exporters leave sizes behind that are no longer true once a dimension is symbolic. No size is
    computed from such types. ``types_of`` types operators that onnx does not know.

    Raises:
        InvalidModelError: The types or shapes of the model contradict each other (SGK222).
        UnsupportedModelError: A value has more dimensions than the limits allow (SGK216).

    Source:
        ONNX operator schemas, through ``onnx.shape_inference``.
    """
    inference = _Inference(model, Skeletons(model, symbols, input_shapes, replaced), limits)
    inference.are_shapes_given = bool(symbols or input_shapes)
    inference.types_of = types_of
    return inference.result()


class _Inference:
    # Sizes that the user gave may be to blame.
    are_shapes_given = False
    types_of: TypesOf | None = None

    def __init__(self, model: Model, skeletons: Skeletons, limits: LoadLimits) -> None:
        self._model, self._graph, self._skeletons = model, model.graph, skeletons
        self._limits = limits
        self._declared, self._types = skeletons.declared_types(), skeletons.given_types()
        self._bodies: dict[int, Mapping[str, Graph]] = {}
        # Data of small values, and which of them have elements that are open.
        self._values: dict[str, npt.NDArray[Any]] = {}
        self._open: set[str] = set()
        # Values whose types are the model's own.
        self._unsure: set[str] = set()
        table, protos = self._graph.table, model.proto.graph.node
        # Weights that ConstantOfShape makes of stored shapes. No size is computed from them, as
        # they are no whole numbers.
        self._fillings = {
            table.outputs[node][0]
            for node, op_type in enumerate(table.op_types)
            if op_type == "ConstantOfShape"
            and table.inputs[node][0] in self._graph.constants
            and not any(one.t.data_type in _WHOLE for one in protos[node].attribute)
        }
        # Values of which the data may be known; an input that is left out is no obstacle.
        self._knowable = {"", *skeletons.known}
        self._pending: list[int] = []
        self._ranks: RankWatch | None = None
        given = (getattr(self._types.get(name), "shape", None) for name in model.graph.inputs)
        self._shared = repeated_names(given)
        self._fresh = FreshNames(self._types.values())
        opsets, kinds = self._graph.opset_imports, zip(table.op_types, table.domains, strict=True)
        # Operators, with their domains, that onnx has no inference for.
        self._silent = {one for one in set(kinds) if not inferred_by(*one, opsets.get(one[1], 1))}

    def result(self) -> Inferred:
        """Look at every node in order."""
        graph, table = self._graph, self._graph.table
        op_types, inputs, outputs = table.op_types, table.inputs, table.outputs
        special = {"If", "Resize", "Slice", *BLIND, *TARGETED, *(name for name, _ in self._silent)}
        for node in graph.order:
            op_type = op_types[node]
            if op_type in EVALUATED:
                may_be = op_type in _SIZES or self._knowable.issuperset(inputs[node])
                is_weight = outputs[node][0] in self._fillings
                if may_be and not is_weight and self._compute_node(node):
                    continue
            if op_type in RAISING or node in table.bodies:
                self._ranks = self._ranks or RankWatch(self._graph, self._types, self._limits)
                self._ranks.note(node, self._flush)
            reads_open = self._open and not self._open.isdisjoint(inputs[node])
            if reads_open or (op_type in special and self._stands_alone(node)):
                self._flush()
                self._pending.append(node)
                self._flush()
            elif op_type != "Constant" or table.outputs[node][0] not in graph.constants:
                self._pending.append(node)
                if len(self._pending) >= _SLICE:
                    self._flush()
        self._flush()
        require_fitting(graph, self._sure_types(), self._bodies, graph.order, are_typed=True)
        self._fill_gaps()
        known = {name: one for name, one in self._values.items() if name not in self._open}
        return Inferred(self._types, self._bodies, known, self._conditions())

    def _conditions(self) -> dict[int, bool]:
        if self._model.conditions:
            require_conditions(self._model, self._truth)
        graph = self._graph
        return replaceable(graph, self._types, self._condition) if graph.table.bodies else {}

    def _stands_alone(self, node: int) -> bool:
        is_decided = self._condition(node) is not None
        is_plain = self._is_inferred(node) and not self._is_targeted(node)
        if is_decided or not is_plain or self._graph.table.op_types[node] == "Resize":
            return True
        return bool(vague_lists(self._graph, node, self._types))

    def _condition(self, node: int) -> bool | None:
        """Return the condition of an If, if that is known."""
        table = self._graph.table
        if node not in table.bodies or table.op_types[node] != "If" or table.domains[node]:
            return None
        return self._truth(table.inputs[node][0])

    def _truth(self, name: str) -> bool | None:
        value = self._value(name)
        if value is None or value.size != 1 or is_open(value):
            return None
        return bool(value.reshape(-1)[0])

    def _is_targeted(self, node: int) -> bool:
        """Say whether the elements of a value that is no constant are the shape of another."""
        table = self._graph.table
        place = TARGETED.get(table.op_types[node])
        if place is None or place >= len(table.inputs[node]) or table.domains[node]:
            return False
        name = table.inputs[node][place]
        is_known = name in self._values and name not in self._open
        return not is_known and name not in self._graph.constants

    def _is_inferred(self, node: int) -> bool:
        table = self._graph.table
        kind = table.op_types[node], table.domains[node]
        types = [self._types.get(name, _UNKNOWN) for name in table.inputs[node][:1]]
        if kind in self._silent:
            return is_covered(Node(self._graph, node), self._types)
        return not (kind[0] in BLIND and _UNKNOWN in types)

    # -- arithmetic on sizes -------------------------------------------------------------------

    def _compute_node(self, index: int) -> bool:
        """Compute the outputs of a node, if its inputs are known."""
        table, dtype = self._graph.table, DataType.INT64
        if table.domains[index]:
            return False
        if table.op_types[index] in _SIZES:
            results = self._size(Node(self._graph, index))
        else:
            names = table.inputs[index]
            operands = []
            for name in names:
                value = self._value(name) if name else None
                is_text = value is not None and is_open(value) and name not in self._open
                if (value is None and name) or is_text:
                    return False
                operands.append(value)
            dtype = next((self._dtype(name) for name in names if name in self._open), dtype)
            node = Node(self._graph, index)
            if node.op_type == "Cast" and isinstance(to := node.attributes["to"], int):
                dtype = DataType(to)  # a name before operator set 6
            results = evaluate(node, operands, dtype)
        for name, value in zip(table.outputs[index], results or (), strict=False):
            made = dtype if is_open(value) else DataType.of(value.dtype)
            self._types[name] = TensorType(made, value.shape)
            self._values[name] = value
            self._knowable.add(name)
            self._open.update([name] if is_open(value) else [])
            value.setflags(write=False)
        return results is not None

    def _dtype(self, name: str) -> DataType:
        return getattr(self._types[name], "dtype", DataType.UNDEFINED)

    def _value(self, name: str) -> npt.NDArray[Any] | None:
        value = self._values.get(name)
        return self._skeletons.known_value(name) if value is None else value

    def _size(self, node: Node) -> tuple[npt.NDArray[Any], ...] | None:
        """Compute a size from the inferred type of a value, not from the model's own."""
        (name,) = node.inputs
        if name not in self._types:
            self._flush()
        if name in self._unsure:
            return None
        type_ = self._types.get(name)
        return size_of(node, type_.shape if isinstance(type_, TensorType) else None)

    def _flush(self) -> None:
        """Type the nodes that were put off."""
        nodes: Sequence[int] = self._pending
        self._pending = []
        while nodes:
            nodes = self._type_nodes(nodes)
        if self._ranks is not None:
            self._ranks.settle()

    def _type_nodes(self, nodes: Sequence[int]) -> Sequence[int]:
        """Type nodes, and return those that have to be looked at again with more known."""
        graph, table = self._graph, self._graph.table
        types, bodies = self._infer_types(nodes) if self._is_inferred(nodes[0]) else ({}, {})
        for place, node in enumerate(nodes):
            missing = []
            for value in table.outputs[node]:
                if value in types:
                    self._types[value] = types[value]
                elif value:
                    missing.append(value)
            if self._unsure and not self._unsure.isdisjoint(graph.read_by(node)):
                self._unsure.update(table.outputs[node])
            is_vague = node in bodies and self._condition(node) is None
            if node in bodies:
                self._bodies[node] = bodies[node]
                is_vague = is_vague and forget(graph, node, bodies, self._types)
            if is_vague or (missing and self._type_rest(Node(graph, node), missing)):
                return nodes[place + 1 :]
        return ()

    def _fill_sizes(self, node: Node, types: Mapping[str, ValueType]) -> Mapping[str, ValueType]:
        """Put sizes in that onnx does not find, from the known parts of the shape asked for."""
        made = node.outputs[0]
        found = types.get(made)
        if not isinstance(found, TensorType):
            return {}
        read = node.inputs[0], node.inputs[TARGETED[node.op_type]]
        data, stated = (getattr(self._types.get(name), "shape", None) for name in read)
        shape = target_shape(node, data, stated, self._value(read[1]), self._shared) or found.shape
        pairs = zip(shape or (), found.shape or shape or (), strict=True)
        own = data or ()  # onnx takes no name for a size that may be 0
        dims = tuple(b if type(b) is int or (a is None and b not in own) else a for a, b in pairs)
        return {made: TensorType(found.dtype, None if shape is None else dims)}

    def _infer_types(
        self, nodes: Sequence[int], *, strict: bool = False
    ) -> tuple[Mapping[str, ValueType], Mapping[int, Mapping[str, Graph]]]:
        answer = self._skeletons.ask(nodes, self._types, self._values, strict=strict)
        types = self._fresh.rename_dims(answer.types, answer.made_up)
        if self._is_targeted(nodes[0]):
            types = {**types, **self._fill_sizes(Node(self._graph, nodes[0]), types)}
        if (condition := self._condition(nodes[0])) is not None:
            made = self._graph.table.outputs[nodes[0]]
            body = answer.bodies[nodes[0]][branch_name(condition=condition)]
            types = {**types, **output_types(body, made)}
        return types, answer.bodies

    def _type_rest(self, node: Node, missing: Sequence[str]) -> bool:
        """Type values left open by inference; InvalidModelError (SGK222) if in conflict."""
        found: dict[str, ValueType] = {}
        if not self._is_inferred(node.id):
            proto = self._model.proto.graph.node[node.id]
            known = ((n, self._types.get(n, _UNKNOWN)) for n in self._graph.read_by(node.id))
            read = {name: type_ for name, type_ in known if type_ != _UNKNOWN}
            held = ((name, self._value(name)) for name in node.inputs if name)
            values = {name: it for name, it in held if it is not None and not is_open(it)}
            opsets = self._graph.opset_imports
            try:
                made = node_types(proto, read, values, opsets)
            except shape_inference.InferenceError as error:
                if not _MISSING.search(str(error)):
                    raise self._contradiction(node, str(error)) from error
                made = {}
            made = dict(self._fresh.rename_dims(made, made_up_names(made.values(), read.values)))
            if self.types_of is not None and is_foreign(proto, opsets):
                inputs = [read.get(name) for name in node.inputs]
                declared = [self._declared.get(name) for name in node.outputs]
                types = self.types_of(node, inputs, declared) or [None] * len(declared)
                made = {n: it for n, it in zip(node.outputs, types, strict=True) if it}
            found = {name: made[name] for name in missing if name in made}
        elif all(self._types.get(name, _UNKNOWN) != _UNKNOWN for name in node.inputs if name):
            self._require_sound(node)
        for name in missing:
            if name not in found and name in self._declared:
                found[name] = self._declared[name]
                self._unsure.add(name)
        self._types.update(found)
        return bool(found)

    def _require_sound(self, node: Node) -> None:
        try:
            self._infer_types([node.id], strict=True)
        except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
            by = inferred_by(node.op_type, node.domain, node.opset)
            # Some bodies by which onnx defines operators do not pass its own strict check.
            if by != "function" and not _MISSING.search(str(error)):
                raise self._contradiction(node, str(error)) from error

    def _sure_types(self) -> Mapping[str, ValueType]:
        """Return the inferred types; a model's own may be old."""
        return {**self._types, **dict.fromkeys(self._unsure, _UNKNOWN)}

    def _contradiction(self, node: Node, complaint: str) -> InvalidModelError:
        require_fitting(self._graph, self._sure_types(), self._bodies, [node.id])
        read = ", ".join(f"{one!r} {self._types.get(one, _UNKNOWN)}" for one in node.inputs if one)
        rule = re.sub(_PREFIXES, "", complaint)
        return InvalidModelError(
            "SGK222",
            f"types or shapes of model {self._model.name!r} contradict each other: node "
            f"{node.label} reads {read}, but it demands otherwise: {rule.strip()}",
            hint="Compare the shapes you gave with those the model was exported for."
            if self.are_shapes_given
            else "The model contradicts itself; export it again.",
            node=node.id,
        )

    def _fill_gaps(self) -> None:
        """Give a type to every value of which inference found none or no shape."""
        for value, declared in self._declared.items():
            found = self._types.get(value, _UNKNOWN)
            if found == _UNKNOWN:
                self._types[value] = declared
            elif isinstance(found, TensorType) and isinstance(declared, TensorType):
                self._fill_gap(value, found, declared)
        for value in filter(None, chain.from_iterable(self._graph.table.outputs)):
            self._types.setdefault(value, _UNKNOWN)

    def _fill_gap(self, value: str, found: TensorType, declared: TensorType) -> None:
        if DataType.UNDEFINED in (found.dtype, declared.dtype) or found.dtype == declared.dtype:
            if found.shape is None and declared.shape is not None:
                self._types[value] = declared
        elif self._graph.is_output(value):
            made_by = self._graph.producers.get(value)
            who = "it is" if made_by is None else f"{Node(self._graph, made_by).label} makes it"
            raise InvalidModelError(
                "SGK222",
                f"types or shapes of model {self._model.name!r} contradict each other: output "
                f"{value!r} is declared {declared.dtype}, but {who} {found.dtype}",
                hint="The model contradicts itself; export it again.",
                node=made_by,
            )
