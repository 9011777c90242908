"""Predicates about attributes."""

import re

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType
from subgraphkit_tensorrt.rules.element_types import types_of
from subgraphkit_tensorrt.rules.predicates.asking import (
    Rule,
    Surroundings,
    consequence,
    is_there,
    plain,
    wrong_attribute,
)
from subgraphkit_tensorrt.rules.window_rules import ceil_mode_drops_no_window, wide_axes

__all__ = [
    "attr_absent",
    "attr_absent_or_default",
    "attr_all_eq",
    "attr_dtype_in",
    "attr_eq",
    "attr_in",
    "attr_regex",
    "attrs_differ",
    "bidirectional_same_activations",
    "ceil_mode_last_window_not_in_padding",
    "exactly_one_of",
    "pads_non_negative",
    "pads_symmetric",
    "window_within_input",
]


def attr_eq(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The attribute has one value."""
    del surroundings
    if plain(node.attribute(rule["attr"], rule.get("default"))) == rule["value"]:
        return None
    return wrong_attribute(node, rule, f"{rule['value']!r}")


def attr_absent_or_default(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The attribute has its default."""
    return attr_eq(node, {**rule, "value": rule["default"]}, surroundings)


def attr_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The attribute has one of some values."""
    value = plain(node.attribute(rule["attr"], rule.get("default")))
    allowed = list(rule["values"])
    if surroundings.parser:
        allowed += rule.get("soft_values", ())
    return (
        None if value in allowed else wrong_attribute(node, rule, " or ".join(map(repr, allowed)))
    )


def attr_dtype_in(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The attribute names one of some element types."""
    del surroundings
    value = node.attribute(rule["attr"])
    if value is None or value in types_of(rule["values"]):
        return None
    given = DataType(value).label
    expected = ", ".join(one.label for one in types_of(rule["values"]))
    text = f"{node.qualified_op_type} makes {given}, TensorRT makes {expected}"
    return Refusal("dtype", text)


def attr_all_eq(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """All entries of the attribute have one value."""
    del surroundings
    given = node.attribute(rule["attr"], ())
    if all(one == rule["value"] for one in given):
        return None
    return wrong_attribute(node, rule, f"{rule['value']} everywhere")


def attr_absent(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The attribute is left out."""
    del surroundings
    return wrong_attribute(node, rule, "none") if rule["attr"] in node.attributes else None


def attr_regex(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """The attribute matches a pattern."""
    del surroundings
    given = str(plain(node.attribute(rule["attr"], "")))
    return (
        None if re.fullmatch(rule["regex"], given) else wrong_attribute(node, rule, "simple ones")
    )


def attrs_differ(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """Two attributes are different."""
    del surroundings
    first, second = (node.attribute(name) for name in rule["attrs"])
    if first is None or first != second:
        return None
    names = " and ".join(rule["attrs"])
    return Refusal("attribute", f"{names} of {node.qualified_op_type} are both {first}")


def exactly_one_of(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """One of an input and an attribute is given."""
    del surroundings
    if node.opset < rule["min_opset"]:
        return None
    present = 0
    for choice in rule["choices"]:
        kind, _, which = choice.partition(":")
        given = which in node.attributes if kind == "attr" else is_there(node, int(which[0]))
        present += given
    if present == 1:
        return None
    return Refusal(
        "attribute",
        f"{node.qualified_op_type} with {present} of {' and '.join(rule['choices'])}, "
        "TensorRT wants one of them",
    )


def bidirectional_same_activations(
    node: Node, rule: Rule, surroundings: Surroundings
) -> Refusal | None:
    """Both directions have the same activations."""
    del rule, surroundings
    names = [str(plain(one)).lower() for one in node.attribute("activations", ())]
    direction = plain(node.attribute("direction", "forward"))
    if direction != "bidirectional" or names[: len(names) // 2] == names[len(names) // 2 :]:
        return None
    return Refusal("attribute", "activations differ between the directions, TensorRT has one set")


def pads_symmetric(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """Padding is the same at both ends of every axis."""
    del rule, surroundings
    pads = list(node.attribute("pads", ()))
    half = len(pads) // 2
    if pads[:half] == pads[half:]:
        return None
    return Refusal("attribute", f"pads {pads}, TensorRT takes the same at both ends of an axis")


def pads_non_negative(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """No padding at the beginning of an axis is negative."""
    del rule, surroundings
    pads = list(node.attribute("pads", ()))
    if all(pad >= 0 for pad in pads[: len(pads) // 2]):
        return None
    return Refusal("attribute", f"pads {pads}, TensorRT takes no negative ones")


def ceil_mode_last_window_not_in_padding(
    node: Node, rule: Rule, surroundings: Surroundings
) -> Refusal | None:
    """Rounding up makes no window that ONNX would drop."""
    del surroundings
    drops_none = ceil_mode_drops_no_window(node)
    if drops_none:
        return None
    if drops_none is None:
        return Refusal(
            "dynamic_shape",
            f"{node.qualified_op_type} with ceil_mode=1 of a shape "
            "that is not known: TensorRT may round up to one window more than ONNX",
        )
    return Refusal(
        "attribute",
        f"{node.qualified_op_type} with ceil_mode=1 whose last window would start in the padding, "
        f"which ONNX drops{consequence(rule)}",
    )


def window_within_input(node: Node, rule: Rule, surroundings: Surroundings) -> Refusal | None:
    """No window is wider than what it runs over."""
    del rule, surroundings
    if not wide_axes(node):
        return None
    window = " x ".join(map(str, node.attribute("kernel_shape")))
    over = " x ".join(map(str, (node.shape(0) or ())[2:]))
    text = f"{node.qualified_op_type} with a window of {window} over {over}, which is smaller"
    return Refusal("attribute", text)
