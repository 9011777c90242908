"""A model taken apart, so that it can be changed: nodes in order, constants, types, names."""

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import numpy.typing as npt
import onnx
from onnx import helper

from subgraphkit.errors import CallerError
from subgraphkit.ir import Initializer
from subgraphkit.onnx_io.attribute_rules import body_protos
from subgraphkit.onnx_io.inference import infer
from subgraphkit.onnx_io.model import Model, load
from subgraphkit.onnx_io.protos import normal_domain, write_value_info
from subgraphkit.onnx_io.writing import OUTSIDE, reference_to, tensor_of
from subgraphkit.types import DataType, Shape, TensorType, ValueType

# Constants of this many bytes and fewer stay in the message: inference looks into shapes.
_SMALL: Final = 1024

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """Constants taken out of a model; ``outside``: those whose data the caller holds beside it."""

    large: Mapping[str, Initializer]
    outside: frozenset[str]


@dataclass(eq=False)
class Draft:
    """A model taken apart; changed in place.

    Attributes:
        frame: The model without nodes and constants: inputs, outputs, operator sets, metadata.
        nodes: The nodes, in an order in which they can run.
        pinned: Values whose name and type must stay: outputs, and inputs of bodies.
        folded: Names of the nodes folded into a node, by the node's first output.
    """

    frame: onnx.ModelProto
    nodes: list[onnx.NodeProto]
    constants: dict[str, Initializer]
    types: dict[str, ValueType]
    pinned: frozenset[str]
    outside: set[str]
    changed: set[str] = field(default_factory=set)
    folded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _read: Counter[str] | None = None

    def __post_init__(self) -> None:
        self._names |= self.constants.keys() | self.types.keys()
        for node in self.nodes:
            self._names.update(_names_in(node))

    def opset(self, domain: str = "") -> int:
        """Return the version of an operator set; 0 if it is not imported."""
        imported = self.frame.opset_import
        versions = {normal_domain(entry.domain): int(entry.version) for entry in imported}
        return versions.get(normal_domain(domain), 0)

    def fresh(self, wanted: str) -> str:
        """Return a name that nothing has."""
        name, count = wanted, 1
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def names_of(self, node: onnx.NodeProto) -> tuple[str, ...]:
        """Return all names of a node: its own, its outputs', and those folded into it."""
        return (node.name, *node.output, *self.folded.get(node.output[0], ()))

    def is_float(self, value: str) -> bool:
        """Say whether a value is a float32 tensor."""
        return self.is_of(value, DataType.FLOAT)

    def is_of(self, value: str, dtype: DataType) -> bool:
        """Say whether a value is a tensor of a type."""
        type_ = self.types.get(value)
        return isinstance(type_, TensorType) and type_.dtype is dtype

    def is_tensor(self, value: str) -> bool:
        """Say whether a value is a tensor of a known type."""
        type_ = self.types.get(value)
        return isinstance(type_, TensorType) and type_.dtype is not DataType.UNDEFINED

    def is_idle(self, value: str) -> bool:
        """Say whether nobody reads a value."""
        if self._read is None:
            self._read = self.readers()
        return not self._read[value]

    def shape(self, value: str) -> Shape | None:
        """Return the shape of a value, if it is known."""
        type_ = self.types.get(value)
        return type_.shape if isinstance(type_, TensorType) else None

    def array(self, value: str) -> _Array:
        """Return the data of a constant."""
        return self.constants[value].array()

    def store(self, wanted: str, array: _Array, like: str) -> str:
        """Add a constant; it stays outside the model if the one it is made from does."""
        name = self.fresh(wanted)
        type_ = TensorType(DataType.of(array.dtype), array.shape)
        self.constants[name] = Initializer(name, type_, lambda: array)
        self.types[name] = type_
        self.changed.add(name)
        if like in self.outside and type_.dtype.bits % 8 == 0:
            self.outside.add(name)
        return name

    def retype(self, value: str, dtype: DataType, like: str) -> None:
        """Give a value the shape of another and a type."""
        self.types[value] = TensorType(dtype, self.shape(like))

    def readers(self) -> Counter[str]:
        """Count how often each value is read, by nodes, bodies and as an output."""
        return Counter([*(v for node in self.nodes for v in node.input if v), *self.pinned])

    def producers(self) -> dict[str, onnx.NodeProto]:
        """Return the node that makes each value."""
        return {value: node for node in self.nodes for value in node.output if value}

    def finish(self) -> tuple[onnx.ModelProto, dict[str, _Array]]:
        """Put the model together again; return it and the data that stays outside."""
        model, read = deepcopy(self.frame), self.readers()
        nodes = [
            node
            for node in self.nodes
            if node.op_type != "Constant" or any(read[value] for value in node.output)
        ]
        model.graph.node.extend(nodes)
        computed = {value for node in nodes for value in node.output}
        listed = {value.name for value in model.graph.input}
        data: dict[str, _Array] = {}
        # in the order of first use, so that a second writing changes nothing
        used = dict.fromkeys(value for node in nodes for value in node.input)
        used.update(dict.fromkeys(self.constants))
        for name in (value for value in used if value in self.constants):
            if name in computed or not (read[name] or name in listed):
                continue
            constant = self.constants[name]
            if name not in self.outside:
                model.graph.initializer.append(tensor_of(constant))
                continue
            data[name] = constant.array()
            place = {"location": OUTSIDE, "offset": 0, "length": constant.type.nbytes}
            model.graph.initializer.append(reference_to(constant, **place))
        known = [info.name for info in self.frame.graph.value_info]
        del model.graph.value_info[:]
        model.graph.value_info.extend(
            write_value_info(name, self.types[name])
            for name in known
            if name in computed and self.is_tensor(name)
        )
        return model, data


def skeleton_of(
    source: onnx.ModelProto | Model, weights: Mapping[str, _Array] | None
) -> tuple[onnx.ModelProto, Stored]:
    """Separate a model from its large constants, which become inputs in their place.

    Raises InvalidModelError (SGK202 to SGK215) for the model, CallerError (SGK231) for a weight.
    """
    outside: dict[str, Initializer] = {}
    if isinstance(source, onnx.ModelProto) and weights is not None:
        source, outside = _detach_weights(source, weights)
    model = source if isinstance(source, Model) else load(source)
    initializers = model.graph.initializers.items()
    large = {name: one for name, one in initializers if (one.type.nbytes or 0) > _SMALL}
    proto = model.proto
    skeleton = onnx.ModelProto()
    for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        setattr(skeleton, name, getattr(proto, name))
    skeleton.opset_import.extend(proto.opset_import)
    skeleton.metadata_props.extend(proto.metadata_props)
    # from IR version 4 on a weight need not be listed among the inputs
    skeleton.ir_version = max(proto.ir_version, 4)
    graph = skeleton.graph
    graph.name, graph.doc_string = proto.graph.name, proto.graph.doc_string
    graph.node.extend(proto.graph.node[i] for i in model.graph.order)
    fed = {*model.graph.inputs, *model.graph.defaults}
    graph.input.extend(value for value in proto.graph.input if value.name in fed)
    graph.input.extend(write_value_info(name, one.type) for name, one in large.items())
    graph.output.extend(proto.graph.output)
    graph.value_info.extend(proto.graph.value_info)
    kept = {**model.graph.initializers, **model.graph.defaults}
    graph.initializer.extend(tensor_of(one) for name, one in kept.items() if name not in large)
    return skeleton, Stored({**large, **outside}, frozenset(outside))


def draft_of(skeleton: onnx.ModelProto, stored: Stored) -> Draft:
    """Take a typed skeleton apart; InvalidModelError (SGK222) if types contradict each other."""
    model = load(skeleton)
    types = infer(model, {}, {}).types
    graph = model.graph
    constants = {**graph.constants, **stored.large}
    frame = deepcopy(model.proto)
    del frame.graph.node[:], frame.graph.initializer[:], frame.graph.input[:]
    fed = (value for value in model.proto.graph.input if value.name not in stored.large)
    frame.graph.input.extend(fed)
    captured = {name for node in graph.table.bodies for name in graph.captures_of(node)}
    draft = Draft(
        frame=frame,
        nodes=[deepcopy(model.proto.graph.node[i]) for i in graph.order],
        constants={**constants, **graph.defaults},
        types=dict(types),
        pinned=frozenset({*graph.outputs, *captured, *graph.defaults}),
        outside=set(stored.outside),
    )
    for one in frame.graph.sparse_initializer:
        draft.constants.pop(one.values.name, None)
    return draft


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute of a node, or a default."""
    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def label_of(node: onnx.NodeProto) -> str:
    """Return the name of a node in reports."""
    return node.name or next((value for value in node.output if value), "")


def _names_in(node: onnx.NodeProto) -> Iterator[str]:
    """Return all names in a node; those in its bodies may not be given to others either."""
    yield from (*node.input, *node.output, node.name)
    for body in body_protos(node).values():
        yield from (value.name for value in (*body.input, *body.initializer))
        for inner in body.node:
            yield from _names_in(inner)


def _detach_weights(
    model: onnx.ModelProto, weights: Mapping[str, _Array]
) -> tuple[onnx.ModelProto, dict[str, Initializer]]:
    """Make inputs of the initializers whose data is outside."""
    away = [t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    found = {t.name: _given_weight(t, weights) for t in away}
    rest = deepcopy(model)
    del rest.graph.initializer[:]
    rest.graph.initializer.extend(t for t in model.graph.initializer if t.name not in found)
    listed = {value.name for value in model.graph.input}
    rest.graph.input.extend(
        write_value_info(name, one.type) for name, one in found.items() if name not in listed
    )
    return rest, found


def _given_weight(tensor: onnx.TensorProto, weights: Mapping[str, _Array]) -> Initializer:
    type_ = TensorType(DataType(tensor.data_type), tuple(tensor.dims))
    if (array := weights.get(tensor.name)) is None:
        problem = f"the data of weight {tensor.name!r} is neither in the model nor given"
        raise CallerError("SGK231", problem, hint="Pass what onnx_io.outside_weights returned.")
    if TensorType(DataType.of(array.dtype), array.shape) != type_:
        given = f"weight {tensor.name!r} was given as {array.dtype}{list(array.shape)}"
        raise CallerError("SGK231", f"{given}; the model says {type_}")
    return Initializer(tensor.name, type_, lambda: array)
