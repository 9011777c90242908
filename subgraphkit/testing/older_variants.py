"""Lines of the tables as operator sets before had them, wherever an operator was another then.

What changed is read from ``onnx.defs``: attributes that came, went or got another default, and
inputs that were attributes. A line is written anew for the last operator set before each change.
What that set has no word for is left out, which makes it another line with results of its own.

Operators in combination are derived too, as libraries fuse them: all combinations of a producer
with an operator and with a second operand, and of those two; not every one of the three.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import defs, helper, printer, shape_inference

from subgraphkit.testing.operator_variants import USUAL_OPSET, Argument, OperatorVariant, tables_of
from subgraphkit.testing.sweeps import Sweep

_OLDEST: Final = 7
_NEGATIVE_FROM: Final = 11
"""The operator set from which on axes and indices may be negative."""
_AXES: Final = frozenset({"axis", "axes"})
_INDEXING: Final = frozenset({"Gather", "OneHot", "ScatterElements", "GatherElements"})
_RENAMED: Final = {"constant_value": "value"}
"""Attributes by the inputs that replaced them, where the names differ."""
_DECIDING: Final = frozenset({"reduction"})
"""Attributes without which a line means nothing: which of two that meet in one place counts."""
_NOT_DERIVED: Final = frozenset({"GroupNormalization", "Hardmax", "Resize"})
"""Operators of which a change cannot be read from ``onnx.defs``; the tables have their lines."""
_FRACTIONS: Final = frozenset({defs.OpSchema.AttrType.FLOAT, defs.OpSchema.AttrType.FLOATS})
_SINGLE: Final = frozenset({defs.OpSchema.AttrType.FLOAT, defs.OpSchema.AttrType.INT})


def had_others(operators: Iterable[str]) -> bool:
    """Say whether one of some operators was another in an earlier operator set."""
    return any(_OLDEST <= opset < USUAL_OPSET for name in operators for opset in _last_before(name))


def older_variants(variants: Sequence[OperatorVariant], size: int) -> Iterator[OperatorVariant]:
    """Yield lines as earlier operator sets had them, each once; ``size`` is that of ``N``."""
    known = set()
    for variant in variants:
        for opset in sorted({at for name in variant.operators for at in _last_before(name)}):
            older = _rewritten(variant, opset) if _OLDEST <= opset < variant.opset else None
            if older is not None and older not in known and _is_valid(older, size):
                known.add(older)
                yield older


@lru_cache
def _last_before(operator: str) -> tuple[int, ...]:
    """Return the last operator set before each change of what an operator is."""
    if operator in _NOT_DERIVED:
        return ()
    history = [one for one in _history() if one.name == operator]
    return tuple(
        new.since_version - 1
        for old, new in itertools.pairwise(history)
        if _signature(old) != _signature(new)
    )


@lru_cache(maxsize=1)
def _history() -> Sequence[Any]:
    schemas = [one for one in defs.get_all_schemas_with_history() if not one.domain]
    return sorted(schemas, key=lambda one: one.since_version)


def _signature(schema: Any) -> object:
    attributes = {
        name: (one.required, one.default_value.SerializeToString())
        for name, one in schema.attributes.items()
    }
    return attributes, [(one.name.lower(), str(one.option)) for one in schema.inputs]


def _rewritten(variant: OperatorVariant, opset: int) -> OperatorVariant | None:
    """Write a line for an earlier operator set; None if that has no such thing."""
    arguments = {one.name: one for one in variant.arguments}
    nodes: list[onnx.NodeProto] = []
    for node in variant.nodes:
        older = _older_node(node, arguments, variant.opset, opset)
        if older is None or (opset < _NEGATIVE_FROM and _has_negative_places(older, arguments)):
            return None
        nodes.append(older)
    return replace(variant, text="; ".join(_texts(nodes, arguments)), opset=opset)


def _older_node(
    node: onnx.NodeProto, arguments: Mapping[str, Argument], opset: int, older: int
) -> onnx.NodeProto | None:
    schema = defs.get_schema(node.op_type, opset)
    try:
        target = defs.get_schema(node.op_type, older)
    except defs.SchemaError:
        return None
    attributes = {one.name: one for one in node.attribute if one.name in target.attributes}
    if any(one.name in _DECIDING and one.name not in attributes for one in node.attribute):
        return None
    known = [one.name.lower() for one in target.inputs]
    read: list[str] = []
    for place, name in enumerate(node.input):
        role = schema.inputs[min(place, len(schema.inputs) - 1)].name.lower()
        attribute = _RENAMED.get(role, role)
        if attribute in target.attributes:
            if name not in arguments or not arguments[name].values:
                return None
            attributes[attribute] = _attribute(attribute, arguments[name], target)
        elif role in known or len(known) == len(schema.inputs):
            read.append(name)
        elif name:
            return None
    made = helper.make_node(node.op_type, read, node.output)
    made.attribute.extend(attributes.values())
    return made


def _attribute(name: str, argument: Argument, schema: Any) -> onnx.AttributeProto:
    kind = schema.attributes[name].type
    numbers = [float(one) if kind in _FRACTIONS else int(one) for one in argument.values.split(",")]
    return helper.make_attribute(name, numbers[0] if kind in _SINGLE else numbers)


def _has_negative_places(node: onnx.NodeProto, arguments: Mapping[str, Argument]) -> bool:
    axes = [one for one in node.attribute if one.name in _AXES]
    if any(number < 0 for one in axes for number in (one.i, *one.ints)):
        return True
    stored = [arguments[name] for name in node.input if name in arguments]
    return node.op_type in _INDEXING and any("-" in one.values for one in stored)


def _texts(nodes: Iterable[onnx.NodeProto], arguments: Mapping[str, Argument]) -> Iterator[str]:
    """Write nodes as the tables do: what an argument is stands where it is read first."""
    unwritten = dict(arguments)
    for node in nodes:
        head = printer.to_text(node).strip()
        read = []
        for name in node.input:
            argument = unwritten.pop(name, None)
            read.append(argument.text if argument else name or '""')
        yield f"{head[: head.rindex('(')]}({', '.join(read)})"


def _is_valid(variant: OperatorVariant, size: int) -> bool:
    """Say whether an operator set has such a line, for its element type as well."""
    try:
        model = Sweep([(variant, size)])
        shape_inference.infer_shapes(model.proto, check_type=True, strict_mode=True)
        model.expected(model.feeds())
    except Exception:  # noqa: BLE001 (onnx's implementations raise anything)
        return False
    return True


_Dims = tuple[int, ...]

_FILE: Final = Path(__file__).with_name("producers.txt")
PRODUCERS: Final = {
    kind: tuple(lines.split("\n")) for kind, lines in tables_of(_FILE.read_text(encoding="utf-8"))
}
"""Producers by the kind of them."""

_OF_TWO: Final = tuple(
    f"{operator}({operands})"
    for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min")
    for operands in ("p, C", "C, p")
    if operator != "Div" or operands == "p, C"
)
_OF_ONE: Final = (
    "Relu(@)", "Sigmoid(@)", "Tanh(@)", "Neg(@)", "Abs(@)", "Mul(@, @)", "Add(@, e![]={1.5})",
    "Mul(@, e![1]={-0.5})", "Clip(@, e![]={-1}, f![]={1})", "HardSwish(@)", "LeakyRelu(@)",
)  # fmt: skip


def _operands(dims: _Dims) -> Iterator[str]:
    """Yield the operands in which a second operand is broadcast to a shape, or the shape to it."""
    ones = (1,) * len(dims)
    yield _argument((), stored=True)
    yield _argument(dims[-1:], stored=True)
    yield _argument((*dims[:1], *ones[1:]), stored=True)
    yield _argument(dims, stored=True)
    yield _argument((*ones[:1], *dims[1:2], *ones[2:]), stored=True)
    yield _argument((1,), stored=True)
    yield _argument(ones, stored=True)
    yield _argument((2, *dims), stored=True)
    yield _argument(tuple(3 if size == 1 else size for size in dims), stored=True)
    yield _argument(dims, stored=False)
    yield _argument((*ones[:1], *dims[1:2], *ones[2:]), stored=False)


def _argument(dims: _Dims, *, stored: bool) -> str:
    return f"c+{'!' if stored else ''}[{','.join(map(str, dims))}]"


@cache
def _dims(producer: str) -> _Dims:
    """Return the shape of what a producer makes."""
    (made,) = Sweep([(OperatorVariant("", "near", "float", producer), 1)]).proto.graph.output[:1]
    return tuple(dim.dim_value for dim in made.type.tensor_type.shape.dim)


def combinations(kind: str) -> Iterator[OperatorVariant]:
    """Yield combinations behind producers of a kind, as operations of one size."""
    for place, producer in enumerate(PRODUCERS[kind]):
        operands = list(_operands(_dims(producer)))
        for step in range(max(len(_OF_TWO), len(operands))):
            operand = operands[step % len(operands)]
            second = _OF_TWO[(step + place) % len(_OF_TWO)].replace("C", operand)
            last = _OF_ONE[(step + 3 * place) % len(_OF_ONE)]
            texts = [f"p = {producer}", f"q = {second}", f"y = {last.replace('@', 'q')}"]
            texts = texts if step % 2 else [texts[0], f"y = {second}"]
            yield OperatorVariant(kind, "near", "float", "; ".join(texts))
        for step, last in enumerate(_OF_ONE):
            if step % 2 == place % 2:
                text = f"p = {producer}; y = {last.replace('@', 'p')}"
                yield OperatorVariant(kind, "near", "float", text)
