"""Types of the outputs of one node: from onnx where it infers them, else from rules of our own.

At some operators onnx's inference ends the process: it looks into inputs of which nothing is known.
Such nodes of a graph are not given to onnx. In bodies, onnx itself goes from node to node. There
they are written with an operator that it does not know, until it has a type for their inputs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import numpy.typing as npt
import onnx
from onnx import defs, helper, shape_inference

from subgraphkit.onnx_io.attribute_rules import LazyAttributes, body_protos
from subgraphkit.onnx_io.microsoft_rules import MICROSOFT
from subgraphkit.onnx_io.operator_rules import STANDARD, WITHOUT_SHAPE, Call, Types
from subgraphkit.onnx_io.protos import copy_of, normal_domain, read_type, write_value_info
from subgraphkit.types import (
    DataType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)

BLIND: Final = frozenset(
    {"DictVectorizer", "EyeLike", "LabelEncoder", "RegexFullMatch", "TreeEnsemble"}
)
"""Operators whose inference ends the process if the type of an input is unknown."""

_HIDDEN: Final = "subgraphkit.hidden"
# How many blind operators may read each other's results; of more no type is found.
_MOST_ROUNDS: Final = 4


def infer_model(
    model: onnx.ModelProto, places: Sequence[int], *, strict: bool, propagates: bool
) -> onnx.ModelProto:
    """Return a model with the types that onnx infers; InferenceError if they contradict."""
    blind = [node for node, _ in _blind_nodes(model.graph, places)]
    domains = [node.domain for node in blind]
    for node in blind:
        node.domain = _HIDDEN
    if blind:
        model.opset_import.add(domain=_HIDDEN, version=1)
    ask = partial(shape_inference.infer_shapes, model, strict_mode=strict, data_prop=propagates)
    result = ask()
    for _ in range(_MOST_ROUNDS if blind else 0):
        found = enumerate(_blind_nodes(result.graph, places))
        seen = [at for at, (node, typed) in found if typed and node.domain == _HIDDEN]
        if not seen:
            break
        for at in seen:
            blind[at].domain = domains[at]
        result = ask()
    for (node, _), domain in zip(_blind_nodes(result.graph, places), domains, strict=True):
        node.domain = domain
    return result


def _blind_nodes(
    graph: onnx.GraphProto, places: Sequence[int]
) -> Iterator[tuple[onnx.NodeProto, bool]]:
    """Yield such nodes in bodies, each with whether the types of its inputs are known."""
    return _inside(
        [graph.node[place] for place in places], _names_with_type(graph) if places else set()
    )


def _inside(
    holders: Iterable[onnx.NodeProto], known: set[str]
) -> Iterator[tuple[onnx.NodeProto, bool]]:
    for holder in holders:
        for body in body_protos(holder).values():
            typed = known | _names_with_type(body)
            for node in body.node:
                if node.op_type in BLIND:
                    yield node, typed.issuperset(node.input[:1])
            yield from _inside(body.node, typed)


def _names_with_type(graph: onnx.GraphProto) -> set[str]:
    values = (*graph.input, *graph.value_info, *graph.output)
    stored = {tensor.name for tensor in graph.initializer}
    return stored.union(value.name for value in values if value.HasField("type"))


Array = npt.NDArray[Any]

_RULES: Final = {**STANDARD, **MICROSOFT}

LARGEST_READ: Final = 4096
"""Reshape targets, axes and sizes are small; inference looks into nothing of more bytes."""


def node_types(
    node: onnx.NodeProto,
    types: Mapping[str, ValueType],
    values: Mapping[str, Array],
    opsets: Mapping[str, int],
) -> dict[str, ValueType]:
    """Return the types of the outputs of a node by a rule of ours; none where there is no rule.

    A type that is not known is left out. An input of unknown type contradicts nothing; those that
    contradict the operator, or each other, are an ``InferenceError``.

    Source: ONNX operator schemas, through ``onnx``; the rules name theirs.
    """
    domain = normal_domain(node.domain)
    if not _has_own_rule(node.op_type, domain, opsets.get(domain, 0)):
        return {}
    made = _RULES[domain, node.op_type](
        Call(
            [types.get(name) for name in node.input],
            {p: values[name] for p, name in enumerate(node.input) if name in values},
            LazyAttributes(node, None),
            len(node.output),
            partial(_standard, len(node.output)),
        )
    )
    pairs = zip(node.output, made, strict=False)
    return {name: type_ for name, type_ in pairs if type_ is not None and not _is_unknown(type_)}


def is_foreign(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Say whether neither onnx nor a rule here knows the operator of a node."""
    domain = normal_domain(node.domain)
    version = opsets.get(domain, 0)
    known = _has_own_rule(node.op_type, domain, version)
    return bool(domain) and not known and not defs.has(node.op_type, max(version, 1), domain)


def _has_own_rule(op_type: str, domain: str, version: int) -> bool:
    """Say whether an operator has its types from a rule of ours, for want of one of onnx.

    onnx refuses to type operators that it has deprecated.
    """
    if not defs.has(op_type, version, domain):  # not remembered: it may be registered later
        return (domain, op_type) in _RULES
    return _is_behind_rule(op_type, domain, version)


@lru_cache(maxsize=4096)
def _is_behind_rule(op_type: str, domain: str, version: int) -> bool:
    schema = defs.get_schema(op_type, version, domain)
    if schema.deprecated or not schema.has_type_and_shape_inference_function:
        return (domain, op_type) in _RULES
    return schema.since_version <= WITHOUT_SHAPE.get((domain, op_type), 0)


def inferred_by(name: str, domain: str, opset: int) -> str:
    """Return onnx's way to type an operator: ``"rule"`` or ``"function"``; if it cannot, ``""``."""
    return _inferred_by(name, domain, opset) if defs.has(name, opset, domain) else ""


@lru_cache(maxsize=4096)
def _inferred_by(name: str, domain: str, opset: int) -> str:
    if _has_own_rule(name, domain, opset):
        return ""
    schema = defs.get_schema(name, opset, domain)
    if schema.has_type_and_shape_inference_function:
        return "rule"
    return "function" if getattr(schema, "has_function", False) else ""


def _standard(
    outputs: int,
    op_type: str,
    version: int,
    attributes: Mapping[str, Any],
    types: Types,
    values: Mapping[int, Array],
) -> Types:
    """Ask for the output types of a standard operator with the attributes that it has."""
    schema = defs.get_schema(op_type, version, "")
    known: Mapping[str, Any] = schema.attributes
    stated = [
        helper.make_attribute(name, value, attr_type=known[name].type.value)
        for name, value in attributes.items()
        if name in known
    ]
    return _ask_onnx(
        op_type,
        version,
        tuple([attribute.SerializeToString() for attribute in stated]),
        tuple(types),
        min(outputs, schema.max_output),
        tuple([(p, _tensor(one)) for p, one in values.items() if _is_read(op_type, one)]),
    )


@lru_cache(maxsize=4096)
def _ask_onnx(
    op_type: str,
    version: int,
    attributes: tuple[bytes, ...],
    types: tuple[ValueType | None, ...],
    outputs: int,
    contents: tuple[tuple[int, bytes], ...],
) -> Types:
    """Ask onnx about a node by itself; layers repeat, and so do questions."""
    names = [f"i{place}" if type_ is not None else "" for place, type_ in enumerate(types)]
    made = [f"o{place}" for place in range(outputs)]
    stated = [onnx.AttributeProto.FromString(data) for data in attributes]
    node = onnx.NodeProto(op_type=op_type, input=names, output=made, attribute=stated)
    held = dict(contents)
    graph = onnx.GraphProto(
        name="node",
        node=[node],
        input=[
            write_value_info(names[place], type_)
            for place, type_ in enumerate(types)
            if type_ is not None and place not in held
        ],
        output=[onnx.ValueInfoProto(name=name) for name in made],
    )
    for place, data in held.items():
        tensor = graph.initializer.add()
        tensor.ParseFromString(data)
        tensor.name = names[place]
    opset = helper.make_opsetid("", version)
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph, opset_import=[opset])
    found = shape_inference.infer_shapes(model, strict_mode=True).graph.output
    return [read_type(value.type, inferred=True) for value in found]


def plain_node(node: onnx.NodeProto) -> onnx.NodeProto:
    """Write STFT and Squeeze as onnx's inference reads them.

    It takes a default of STFT to be 0, and axes of Squeeze, before opset 11, to be in order.
    """
    stated = copy_of(node)
    if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
        stated.attribute.append(helper.make_attribute("onesided", 1))
    for attribute in stated.attribute if node.op_type == "Squeeze" else ():
        attribute.ints[:] = sorted(attribute.ints)
    return stated


def _is_unknown(type_: ValueType | None) -> bool:
    if isinstance(type_, TensorType | SparseTensorType):
        return type_.dtype is DataType.UNDEFINED
    if isinstance(type_, SequenceType | OptionalType):
        return _is_unknown(type_.element)
    return type_ is None


def _is_read(op_type: str, array: Array) -> bool:
    """Say whether types depend on the contents: integers, and the scales of Upsample."""
    is_whole = array.dtype.name in {"int32", "int64"}
    return array.nbytes <= LARGEST_READ and (is_whole or op_type == "Upsample")


def _tensor(array: Array) -> bytes:
    dtype = int(DataType.of(array.dtype))
    proto = onnx.TensorProto(dims=array.shape, data_type=dtype, raw_data=array.tobytes())
    return bytes(proto.SerializeToString())
