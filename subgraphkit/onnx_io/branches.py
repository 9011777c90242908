"""Replaced nodes: Ifs by the branch that is taken, and those that extensions replace."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from subgraphkit.errors import InvalidModelError
from subgraphkit.ir import Graph, Initializer
from subgraphkit.ir.graph import with_bodies
from subgraphkit.limits import LoadLimits
from subgraphkit.onnx_io.attribute_rules import body_protos
from subgraphkit.onnx_io.model import Model
from subgraphkit.onnx_io.operator_types import LARGEST_READ
from subgraphkit.onnx_io.protos import copy_fields, normal_domain, state_value
from subgraphkit.onnx_io.reading import read_graph
from subgraphkit.onnx_io.validation import check_graph, opsets_of
from subgraphkit.types import DataType, TensorType, ValueType


def branch_name(*, condition: bool) -> str:
    """Return the attribute of an If that holds the branch taken."""
    return "then_branch" if condition else "else_branch"


def replaceable(
    graph: Graph, types: Mapping[str, ValueType], condition_of: Callable[[int], bool | None]
) -> dict[int, bool]:
    """Return the Ifs that a branch can replace: it hands out as many tensors."""
    found = {}
    for node, bodies in graph.table.bodies.items():
        if (condition := condition_of(node)) is None:
            continue
        body = bodies.get(branch_name(condition=condition))
        names = graph.table.outputs[node]
        made = [types.get(name) for name in names if name]
        if body is None or body.inputs or len(body.outputs) != len(names) or not made:
            continue
        if all(isinstance(one, TensorType) and bool(one.dtype) for one in made):
            found[node] = condition
    return found


def forget(
    graph: Graph, node: int, bodies: Mapping[int, Mapping[str, Graph]], types: dict[str, ValueType]
) -> bool:
    """Forget the shapes that onnx has from one branch alone; say whether there were any.

    It also forgets sizes that may come from windows that are rounded up: onnx counts too many of
    these.
    """
    found, inside = False, bodies.get(node, {}).values()
    if any(one.attribute("ceil_mode", 0) for body in inside for one in body.nodes):
        sized = {name: types.get(name) for name in graph.table.outputs[node]}
        for name, type_ in sized.items():
            if isinstance(type_, TensorType) and type_.shape:
                types[name], found = TensorType(type_.dtype, (None,) * len(type_.shape)), True
    for body in inside if graph.table.op_types[node] == "If" else ():
        for inner, name in zip(body.outputs, graph.table.outputs[node], strict=True):
            made, type_ = body.types.get(inner), types.get(name)
            if not isinstance(type_, TensorType) or type_.shape is None:
                continue
            if made is None or (isinstance(made, TensorType) and made.shape is None):
                types[name], found = TensorType(type_.dtype), True
    return found


def require_conditions(model: Model, truth_of: Callable[[str], bool | None]) -> None:
    """Refuse conditions of Ifs that differ from before (InvalidModelError, SGK222)."""
    for node, (name, condition) in model.conditions.items():
        if truth_of(name) != condition:
            raise InvalidModelError(
                "SGK222",
                f"If #{node} of model {model.name!r} was replaced at bind by the branch for a "
                f"condition that is {condition}; {name!r} is that no more, or not known",
                hint="Bind for these shapes and values, or with fold=False.",
                node=node,
            )


def with_branches(model: Model, conditions: Mapping[int, bool]) -> Model:
    """Return a model in which Ifs are replaced by the nodes of the branches that are taken.

    Nodes keep their numbers. A ``Constant`` without readers replaces an If, and the nodes of the
    branch follow after the last. An output of a branch has the name that the If gave it. Other
    names of the branch stay, unless they are taken elsewhere in the model. Data of initializers and
    of large constants is shared with the given model.
    """
    work = _Work(model, conditions, conditions)
    for node, condition in conditions.items():
        work.take(node, branch_name(condition=condition))
    became = "the {} branch is taken, known at bind"
    return work.model(
        {node: became.format("then" if one else "else") for node, one in conditions.items()}
    )


def with_nodes(
    model: Model,
    reasons: Mapping[int, str],
    added: Iterable[onnx.NodeProto],
    constants: Mapping[str, npt.NDArray[Any]],
    types: Mapping[str, ValueType],
) -> Model:
    """Return a model in which the given nodes replace others, as ``with_branches``.

    InvalidModelError: a node does not fit its operator, or the result is no graph.

    ``reasons``: The reason for each node that goes, by number.
    ``types``: Types of the nodes' outputs.
    """
    work = _Work(model, reasons, {})
    work.add(list(added), constants, types)
    return work.model(reasons)


class _Work:
    """A model that is written anew, with empty slots in the place of some nodes."""

    def __init__(self, model: Model, slots: Container[int], conditions: Mapping[int, bool]) -> None:
        self._model = model
        self._graph = graph = model.graph
        self._conditions = conditions
        self._held: dict[str, Initializer] = {**graph.initializers, **graph.defaults}
        self._taken_out = set(model.taken_out)
        self._names = self._names_elsewhere()
        self._proto = onnx.ModelProto()
        copy_fields(model.proto, self._proto, without=("graph",))
        source, self._target = model.proto.graph, self._proto.graph
        copy_fields(source, self._target, without=("node", "initializer"))
        for tensor in source.initializer:
            self._state(tensor.name, tensor)
        for index, node in enumerate(source.node):
            self._target.node.append(self._slot(node) if index in slots else node)

    def model(self, reasons: Mapping[int, str]) -> Model:
        """Return the model as far as it is written, with the reasons for the nodes replaced."""
        model, table = self._model, self._graph.table
        known = {node: (table.inputs[node][0], one) for node, one in self._conditions.items()}
        return replace(
            model,
            graph=read_graph(
                self._proto, self._target, opsets_of(self._proto), model.folders, held=self._held
            ),
            proto=self._proto,
            taken_out=frozenset(self._taken_out),
            conditions={**model.conditions, **known},
            replaced={
                **model.replaced,
                **{node: (table.op_types[node], reason) for node, reason in reasons.items()},
            },
        )

    def add(
        self,
        nodes: Sequence[onnx.NodeProto],
        constants: Mapping[str, npt.NDArray[Any]],
        types: Mapping[str, ValueType],
    ) -> None:
        """Append nodes and initializers, and state the types of values that nothing states."""
        imported = opsets_of(self._proto)
        for domain in dict.fromkeys(normal_domain(node.domain) for node in nodes):
            if domain not in imported:
                self._proto.opset_import.add(domain=domain, version=1)
        given = {*self._held, *self._graph.inputs}
        if taken := [name for name in constants if name in given]:
            raise InvalidModelError(
                "SGK204",
                f"there is an input or initializer {taken[0]!r} already",
                hint="Rename the new one.",
            )
        tensors = [numpy_helper.from_array(one, name) for name, one in constants.items()]
        check_graph(
            helper.make_graph(nodes, self._graph.name, [], [], tensors),
            opsets_of(self._proto),
            None,
            LoadLimits.unlimited().require_all,
        )
        self._target.node.extend(nodes)
        self._target.initializer.extend(tensors)
        stated = {one.name for one in chain(self._target.value_info, self._target.output)}
        for name in chain.from_iterable(node.output for node in nodes):
            if name in types and name not in stated:
                state_value(self._target.value_info.add(), name, types[name])

    def take(self, index: int, branch: str) -> None:
        """Append the nodes of a branch."""
        node = self._model.proto.graph.node[index]
        body, view = body_protos(node)[branch], self._graph.table.bodies[index][branch]
        names: dict[str, str] = {}
        copies: list[tuple[str, str]] = []
        for inner, made in zip(view.outputs, node.output, strict=True):
            if made and inner in view.producers and inner not in names:
                names[inner] = made
            elif made:
                copies.append((inner, made))
        handed_out = set(names)
        scope = next(filter(None, node.output), "")
        names |= {name: self._fresh(name, scope) for name in _own(view) if name not in names}
        self._tell_constants(body, view, names)
        for one in body.node:
            constant = view.constants.get(one.output[0]) if one.output else None
            if constant is None or one.output[0] in handed_out or not _is_large(constant):
                self._target.node.append(one)
                _rename(self._target.node[-1], names)
            else:
                self._hold(constant, names[constant.name])
                self._state(names[constant.name])
        for inner, made in copies:
            self._target.node.append(
                helper.make_node("Identity", [names.get(inner, inner)], [made], name=node.name)
            )
        stated = {value.name: value for value in chain(body.output, body.value_info)}
        for name in stated.keys() & (names.keys() - handed_out):
            self._target.value_info.add().CopyFrom(stated[name])
            self._target.value_info[-1].name = names[name]

    def _tell_constants(self, body: onnx.GraphProto, view: Graph, names: Mapping[str, str]) -> None:
        for tensor in body.initializer:
            self._hold(view.initializers[tensor.name], names[tensor.name])
            self._state(names[tensor.name], tensor)
        for sparse in body.sparse_initializer:
            name = names[sparse.values.name]
            self._hold(view.initializers[sparse.values.name], name)
            self._target.sparse_initializer.add().CopyFrom(sparse)
            self._target.sparse_initializer[-1].values.name = name

    def _hold(self, constant: Initializer, name: str) -> None:
        self._held[name] = Initializer(name, constant.type, constant.array)

    def _state(self, name: str, tensor: onnx.TensorProto | None = None) -> None:
        """State an initializer, its data left where it is if there is much of it."""
        type_, target = self._held[name].type, self._target.initializer.add()
        if tensor is not None and (tensor.external_data or not _is_large(self._held[name])):
            target.CopyFrom(tensor)
        else:
            target.dims.extend(dim for dim in type_.shape or () if isinstance(dim, int))
            target.data_type = type_.dtype
            self._taken_out.add(name)
        target.name = name

    def _slot(self, node: onnx.NodeProto) -> onnx.NodeProto:
        name = self._fresh("taken", next(filter(None, node.output)))
        value = onnx.TensorProto(data_type=onnx.TensorProto.BOOL, int32_data=[1])
        return helper.make_node("Constant", [], [name], name=node.name, value=value)

    def _fresh(self, name: str, scope: str) -> str:
        candidates = chain([name, f"{scope}/{name}"], (f"{scope}/{name}_{i}" for i in count(2)))
        found = next(one for one in candidates if one not in self._names)
        self._names.add(found)
        return found

    def _names_elsewhere(self) -> set[str]:
        """Return all names of the model but those that only branches of the Ifs themselves have."""
        graph = self._graph
        names = {*graph.inputs, *_own(graph), *graph.defaults}
        for node, bodies in graph.table.bodies.items():
            if (condition := self._conditions.get(node)) is None:
                names.update(*map(_all_names, bodies.values()))
            else:
                inner = bodies[branch_name(condition=condition)].table.bodies.values()
                names.update(*(_all_names(body) for one in inner for body in one.values()))
        return names


def _own(graph: Graph) -> Iterable[str]:
    """Return the names of values that a graph makes or states, without repetition."""
    return dict.fromkeys([*graph.producers, *graph.initializers])


def _all_names(body: Graph) -> Iterator[str]:
    for graph in with_bodies(body):
        yield from (*graph.inputs, *_own(graph))


def _is_large(constant: Initializer) -> bool:
    """Say whether inference never looks into the data, and a tensor need not hold it."""
    type_ = constant.type
    return type_.dtype is not DataType.STRING and (type_.nbytes or 0) > LARGEST_READ


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Exchange names of values in a node and in the bodies in it, in place."""
    for listed in (node.input, node.output):
        for place, name in enumerate(listed):
            if name in names:
                listed[place] = names[name]
    for body in body_protos(node).values():
        # A body's own values hide those outside.
        own = {value.name for value in (*body.input, *body.initializer)}
        own.update(sparse.values.name for sparse in body.sparse_initializer)
        own.update(name for inner in body.node for name in inner.output)
        hidden = names.keys() & own
        seen = {k: v for k, v in names.items() if k not in hidden} if hidden else names
        for value in body.output:
            value.name = seen.get(value.name, value.name)
        for inner in body.node:
            _rename(inner, seen)
