"""Types of the outputs of one node: from onnx where it infers them, else from rules of our own.

At some operators onnx's inference ends the process: it looks into what they read without asking
whether anything is known of it. In a graph such nodes are not asked about; in bodies, where onnx
itself goes from node to node, they are written as nodes of an operator that it does not know, until
it finds a type of what they read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy.typing as npt
import onnx
from onnx import checker, defs, helper, shape_inference

from subgraphkit.onnx_io.attribute_rules import LazyAttributes, body_protos
from subgraphkit.onnx_io.microsoft_rules import MICROSOFT
from subgraphkit.onnx_io.operator_rules import STANDARD, WITHOUT_SHAPE, Call, Types
from subgraphkit.onnx_io.protos import normal_domain, read_type, write_value_info
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
"""Operators whose inference ends the process where the type of what they read is not known."""

_HIDDEN: Final = "subgraphkit.hidden"
_MOST_ROUNDS: Final = 4
"""How many of them may read each other's results; of more no type is found."""


def inferred(
    model: onnx.ModelProto, places: Sequence[int], *, strict: bool, propagates: bool
) -> onnx.ModelProto:
    """Return a model with the types that onnx infers.

    Raises:
        InferenceError: The types of what a node reads contradict it.
    """
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
    """Yield such nodes in bodies, each with whether the type of what it reads is known."""
    return _inside([graph.node[place] for place in places], _typed(graph) if places else set())


def _inside(
    holders: Iterable[onnx.NodeProto], known: set[str]
) -> Iterator[tuple[onnx.NodeProto, bool]]:
    for holder in holders:
        for body in body_protos(holder).values():
            typed = known | _typed(body)
            for node in body.node:
                if node.op_type in BLIND:
                    yield node, typed.issuperset(node.input[:1])
            yield from _inside(body.node, typed)


def _typed(graph: onnx.GraphProto) -> set[str]:
    values = (*graph.input, *graph.value_info, *graph.output)
    stored = {tensor.name for tensor in graph.initializer}
    return stored.union(value.name for value in values if value.HasField("type"))


Array = npt.NDArray[Any]

_RULES: Final = {**STANDARD, **MICROSOFT}

LARGEST_READ: Final = 4096
"""Reshape targets, axes and sizes are small; inference looks into nothing of more bytes."""

_READS_ANY_NUMBER: Final = frozenset({"MelWeightMatrix", "OneHot", "Range", "Resize", "Upsample"})
"""Operators whose output types depend on the contents of inputs that are not integers."""

_INTEGERS: Final = frozenset({"int32", "int64"})


def node_types(
    node: onnx.NodeProto,
    types: Mapping[str, ValueType],
    values: Mapping[str, Array],
    opsets: Mapping[str, int],
    ir_version: int,
) -> dict[str, ValueType]:
    """Return the types of the outputs of a node, as far as anybody can say.

    A type that is not known is left out, which includes all outputs of an operator of somebody's
    own. An input of unknown type contradicts nothing.

    Raises:
        shape_inference.InferenceError: The types and contents of the inputs contradict the
            operator, or each other.

    Source:
        ONNX operator schemas, through ``onnx``; the rules name theirs.
    """
    domain = normal_domain(node.domain)
    schema = _schema(node.op_type, opsets.get(domain, 0), domain)
    if _has_own_rule(node.op_type, domain, opsets.get(domain, 0)):
        made = _RULES[domain, node.op_type](
            Call(
                [types.get(name) for name in node.input],
                {p: values[name] for p, name in enumerate(node.input) if name in values},
                LazyAttributes(node, None),
                len(node.output),
                partial(_standard, len(node.output)),
            )
        )
        return _named(node.output, made)
    if schema is None or (node.op_type in BLIND and _is_unknown(types.get(node.input[0]))):
        return {}
    setting = _Setting(tuple(opsets.items()), ir_version)
    contents = {
        place: _tensor(values[name])
        for place, name in enumerate(node.input)
        if name in values and _is_read(node.op_type, values[name])
    }
    if body_protos(node):
        named = {node.input[place]: data for place, data in contents.items()}
        scope = {name: types[name] for name in _names_read(node) if name in types}
        return _asked(schema, node, scope, named, setting)
    use = _Use(
        node.op_type,
        domain,
        tuple([attribute.SerializeToString() for attribute in corrected(node).attribute]),
        tuple([types.get(name) for name in node.input]),
        tuple([bool(name) for name in node.input]),
        tuple([bool(name) for name in node.output]),
        tuple(contents.items()),
        setting,
    )
    return _named(node.output, _inferred(use))


def is_foreign(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Say whether neither onnx nor a rule here knows the operator of a node."""
    domain = normal_domain(node.domain)
    version = opsets.get(domain, 0)
    known = _has_own_rule(node.op_type, domain, version)
    return bool(domain) and not known and not defs.has(node.op_type, max(version, 1), domain)


def _has_own_rule(op_type: str, domain: str, version: int) -> bool:
    """Say whether an operator has its types from a rule of ours, for want of one of onnx.

    Of an operator that it has deprecated onnx refuses to say anything.
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
    """Return what onnx types an operator by: ``"rule"`` or ``"function"``; if it cannot, ``""``."""
    return _inferred_by(name, domain, opset) if defs.has(name, opset, domain) else ""


@lru_cache(maxsize=4096)
def _inferred_by(name: str, domain: str, opset: int) -> str:
    if _has_own_rule(name, domain, opset):
        return ""
    schema = defs.get_schema(name, opset, domain)
    if schema.has_type_and_shape_inference_function:
        return "rule"
    return "function" if getattr(schema, "has_function", False) else ""


class _Setting(NamedTuple):
    """The versions under which a node is read."""

    opsets: tuple[tuple[str, int], ...]
    ir_version: int


class _Use(NamedTuple):
    """All that the output types of a node without bodies depend on."""

    op_type: str
    domain: str
    attributes: tuple[bytes, ...]
    types: tuple[ValueType | None, ...]
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    contents: tuple[tuple[int, bytes], ...]
    setting: _Setting


@lru_cache(maxsize=4096)
def _inferred(use: _Use) -> Types:
    """Ask onnx about a node; layers repeat, and so do questions."""
    node = onnx.NodeProto(
        op_type=use.op_type,
        domain=use.domain,
        input=[f"i{place}" if there else "" for place, there in enumerate(use.inputs)],
        output=[f"o{place}" if there else "" for place, there in enumerate(use.outputs)],
        attribute=[onnx.AttributeProto.FromString(data) for data in use.attributes],
    )
    types = {f"i{place}": type_ for place, type_ in enumerate(use.types) if type_ is not None}
    contents = {f"i{place}": data for place, data in use.contents}
    schema = _schema(use.op_type, dict(use.setting.opsets).get(use.domain, 0), use.domain)
    assert schema is not None  # noqa: S101 (whoever asks has found it)
    made = _asked(schema, node, types, contents, use.setting)
    return [made.get(name) for name in node.output]


def _asked(
    schema: defs.OpSchema,
    node: onnx.NodeProto,
    types: Mapping[str, ValueType],
    contents: dict[str, bytes],
    setting: _Setting,
) -> dict[str, ValueType]:
    written = {name: _written(type_) for name, type_ in types.items()}
    try:
        # The public function around this one writes every type anew, which takes twice the time.
        made: dict[str, bytes] = schema._infer_node_outputs(  # type: ignore[call-arg]  # noqa: SLF001
            node.SerializeToString(),
            written,
            contents,
            {},
            dict(setting.opsets),
            setting.ir_version,
        )
    except checker.ValidationError:
        return _asked_as_model(node, types, contents, setting)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        if any(name and _is_unknown(types.get(name)) for name in node.input):
            return {}
        raise shape_inference.InferenceError(str(error).strip()) from error
    return _known((name, _read(data)) for name, data in made.items())


def _asked_as_model(
    node: onnx.NodeProto,
    types: Mapping[str, ValueType],
    contents: Mapping[str, bytes],
    setting: _Setting,
) -> dict[str, ValueType]:
    """Ask about a node that onnx's own check of single nodes does not let pass."""
    model = onnx.ModelProto(
        ir_version=max(setting.ir_version, 4),  # from here on initializers need not be inputs
        opset_import=[helper.make_opsetid(*opset) for opset in setting.opsets],
        graph=onnx.GraphProto(
            name="node",
            node=[node],
            input=[write_value_info(n, t) for n, t in types.items() if n not in contents],
            output=[onnx.ValueInfoProto(name=name) for name in node.output if name],
        ),
    )
    for name, data in contents.items():
        tensor = model.graph.initializer.add()
        tensor.ParseFromString(data)
        tensor.name = name
    inferred = shape_inference.infer_shapes(model)
    return _known((value.name, read_type(value.type)) for value in inferred.graph.output)


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
    use = _Use(
        op_type,
        "",
        tuple([attribute.SerializeToString() for attribute in stated]),
        tuple(types),
        tuple([type_ is not None for type_ in types]),
        (True,) * min(outputs, schema.max_output),
        tuple(
            [(place, _tensor(array)) for place, array in values.items() if _is_read(op_type, array)]
        ),
        _Setting((("", version),), onnx.IR_VERSION),
    )
    return _inferred(use)


def corrected(node: onnx.NodeProto) -> onnx.NodeProto:
    """Write out the default of an attribute of STFT, which onnx's inference takes to be 0."""
    if node.op_type != "STFT" or node.domain or any(a.name == "onesided" for a in node.attribute):
        return node
    stated = onnx.NodeProto()
    stated.CopyFrom(node)
    stated.attribute.append(helper.make_attribute("onesided", 1))
    return stated


def _named(names: Sequence[str], types: Types) -> dict[str, ValueType]:
    return _known((n, type_) for n, type_ in zip(names, types, strict=False) if n)


def _known(pairs: Iterable[tuple[str, ValueType | None]]) -> dict[str, ValueType]:
    return {name: type_ for name, type_ in pairs if type_ is not None and not _is_unknown(type_)}


def _is_unknown(type_: ValueType | None) -> bool:
    if isinstance(type_, TensorType | SparseTensorType):
        return type_.dtype is DataType.UNDEFINED
    if isinstance(type_, SequenceType | OptionalType):
        return _is_unknown(type_.element)
    return type_ is None


def _is_read(op_type: str, array: Array) -> bool:
    return array.nbytes <= LARGEST_READ and (
        array.dtype.name in _INTEGERS or op_type in _READS_ANY_NUMBER
    )


def _tensor(array: Array) -> bytes:
    dtype = int(DataType.of(array.dtype))
    proto = onnx.TensorProto(dims=array.shape, data_type=dtype, raw_data=array.tobytes())
    return bytes(proto.SerializeToString())


def _names_read(node: onnx.NodeProto) -> set[str]:
    """Return the values that a node and the bodies in it read, and more that they make."""
    names, stack = set(node.input), [*body_protos(node).values()]
    while stack:
        body = stack.pop()
        names.update(value.name for value in body.output)
        for inner in body.node:
            names.update(inner.input)
            stack += body_protos(inner).values()
    return names


def _schema(op_type: str, version: int, domain: str) -> defs.OpSchema | None:
    return _known_schema(op_type, version, domain) if defs.has(op_type, version, domain) else None


@lru_cache(maxsize=4096)
def _known_schema(op_type: str, version: int, domain: str) -> defs.OpSchema:
    return defs.get_schema(op_type, version, domain)


@lru_cache(maxsize=4096)
def _written(type_: ValueType) -> bytes:
    return bytes(write_value_info("", type_).type.SerializeToString())


@lru_cache(maxsize=4096)
def _read(data: bytes) -> ValueType | None:
    return read_type(onnx.TypeProto.FromString(data), inferred=True)
