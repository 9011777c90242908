"""Predicates about inputs and outputs: given or not, constant, of which element type."""

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType
from subgraphkit_tensorrt.rules.element_types import types_of
from subgraphkit_tensorrt.rules.predicates.asking import (
    Rule,
    Surroundings,
    is_there,
    label_of,
    plain,
)
from subgraphkit_tensorrt.rules.predicates.attributes import attr_eq

__all__ = [
    "const_all_positive",
    "const_all_zero",
    "const_lt",
    "implies",
    "input_absent",
    "input_const",
    "input_const_value",
    "input_dtype_in",
    "input_dtype_not_in",
    "input_dtypes_equal",
    "not_both",
    "output_dtype_in",
    "output_unused",
]


def input_absent(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input is left out."""
    del surroundings
    if node.opset > rule.get("only_opset", node.opset) or not is_there(node, rule["input"]):
        return None
    return Refusal("attribute", f"{label_of(node, rule)} is given, TensorRT takes none")


def output_unused(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An output is left out, or nobody reads it."""
    del surroundings
    index = rule["output"]
    name = node.outputs[index] if index < len(node.outputs) else ""
    if not name:
        return None
    read = any(name in (*one.inputs, *one.captures) for one in node.consumers())
    if not read and not node.graph.is_output(name):
        return None
    wanted = rule.get("output_name") or f"output {index}"
    return Refusal(
        "attribute", f"{wanted} of {node.qualified_op_type} is used, TensorRT makes none"
    )


def input_const(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input is known before anything runs."""
    index = rule["input"]
    if not is_there(node, index) or node.is_constant(index):
        return None
    # The parser folds what is computed from constants, the documentation does not promise it.
    if surroundings.parser and surroundings.folding.is_foldable(node.inputs[index]):
        return None
    return Refusal(
        "not_constant", f"{label_of(node, rule)} is not constant, TensorRT wants it to be"
    )


def input_const_value(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input is a constant of one value."""
    refusal = input_const(node, rule, surroundings)
    data = node.constant(rule["input"])
    if refusal is not None or data is None or (data == rule["value"]).all():
        return refusal
    return Refusal("attribute", f"{label_of(node, rule)} is not {rule['value']}")


def const_all_zero(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """A constant has no element but 0."""
    del surroundings
    if not is_there(node, rule["input"]):
        return None
    data = node.constant(rule["input"])
    if data is None:
        return Refusal("not_constant", f"{label_of(node, rule)} is not constant")
    if not data.astype("float32").any():
        return None
    return Refusal(
        "attribute", f"{label_of(node, rule)} is not 0, TensorRT quantizes symmetrically"
    )


def const_all_positive(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """A constant has positive elements only."""
    del surroundings
    data = node.constant(rule["input"])
    if data is None:
        return Refusal("not_constant", f"{label_of(node, rule)} is not constant")
    if (data.astype("float32") > 0).all():
        return None
    return Refusal("attribute", f"{label_of(node, rule)} is not positive everywhere")


def const_lt(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """A constant is not above a limit."""
    data = node.constant(rule["input"])
    if data is None:
        known = surroundings.parser or rule.get("unknown") == "warn"
        return None if known else Refusal("not_constant", f"{label_of(node, rule)} is not constant")
    if (data <= rule["value"]).all():
        return None
    largest = data.max()
    return Refusal("shape", f"{label_of(node, rule)} is {largest}, TensorRT takes {rule['value']}")


def input_dtype_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input has one of some element types."""
    del surroundings
    allowed = types_of(rule["dtypes"])
    if not is_there(node, rule["input"]) or node.dtype(rule["input"]) in allowed:
        return None
    return _wrong_type(node, rule, " or ".join(one.label for one in allowed))


def input_dtype_not_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An input has none of some element types."""
    del surroundings
    barred = types_of(rule["dtypes"])
    if node.dtype(rule["input"]) not in barred:
        return None
    return _wrong_type(node, rule, "others than " + ", ".join(one.label for one in barred))


def input_dtypes_equal(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """Some inputs have the same element type."""
    del surroundings
    found = {node.dtype(index) for index in rule["inputs"] if is_there(node, index)}
    if len(found) == 1 and found <= set(types_of(rule["allowed"])):
        return None
    labels = ", ".join(sorted(one.label for one in found))
    return Refusal("dtype", f"inputs of {node.qualified_op_type} are {labels}")


def output_dtype_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The output has one of some element types."""
    del surroundings
    type_ = node.output_type()
    dtype = type_.dtype if isinstance(type_, TensorType) else DataType.UNDEFINED
    allowed = types_of(rule["dtypes"])
    if dtype in allowed:
        return None
    expected = ", ".join(one.label for one in allowed)
    text = f"{node.qualified_op_type} makes {dtype.label}, TensorRT makes {expected}"
    return Refusal("dtype", text)


def _wrong_type(node: Node, rule: Rule, expected: str) -> Refusal:
    given = node.dtype(rule["input"]).label
    return Refusal("dtype", f"{label_of(node, rule)} is {given}, TensorRT takes {expected}")


def implies(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """If an attribute has one value, something else holds."""
    when, then = rule["when"], rule["then"]
    if plain(node.attribute(when["attr"], when["eq"])) != when["eq"]:
        return None
    if "dtype_in" in then:
        inner = {"input": then["input"], "dtypes": then["dtype_in"]}
        return input_dtype_in(node, inner, surroundings)
    if when["attr"] not in node.attributes:
        return None
    return attr_eq(node, {**then, "value": then["eq"]}, surroundings)


def not_both(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """An attribute does not have one value while an input is given."""
    del surroundings
    name, value, index = rule["a"]["attr"], rule["a"]["eq"], rule["b"]["input_present"]
    if node.attribute(name, 0) != value or not is_there(node, index):
        return None
    what = f"{name}={value} and input {index}"
    return Refusal("attribute", f"{node.qualified_op_type} with {what}, TensorRT takes one of them")
