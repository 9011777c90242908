"""What predicates share: rules, what surrounds a node, and how a refusal is worded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit_tensorrt.rules.folding import Folding

__all__ = [
    "Predicate",
    "Rule",
    "Surroundings",
    "consequence",
    "is_there",
    "label_of",
    "plain",
    "wrong_attribute",
]

Rule = Mapping[str, Any]
"""One rule of an operator."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a rule may look at besides the node.

    Attributes:
        parser: Whether a parser will be asked as well.
        folding: Knows what is computed from constants and static shapes alone.
        around: Operators whose bodies the node is in, the outermost first.
    """

    parser: bool
    folding: Folding
    around: tuple[str, ...] = ()


Predicate = Callable[[Node, Rule, Surroundings], Refusal | None]
"""Says what is wrong with a node."""

_NOT_HONOURED: Final = "TensorRT takes it and computes something else"


def wrong_attribute(node: Node, rule: Rule, expected: str) -> Refusal:
    """Refuse a node for the value of an attribute."""
    name = rule["attr"]
    given = plain(node.attribute(name, rule.get("default")))
    text = f"{node.qualified_op_type} with {name}={given!r}, TensorRT takes {expected}"
    return Refusal("attribute", text + consequence(rule))


def consequence(rule: Rule) -> str:
    """Return what follows from breaking a rule, for the end of a sentence."""
    return f"; {_NOT_HONOURED}" if rule.get("severity") == "silent_wrong" else ""


def plain(value: Any) -> Any:
    """Return an attribute's value as the table writes it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def label_of(node: Node, rule: Rule) -> str:
    """Name the input a rule is about."""
    name = rule.get("input_name") or f"input {rule['input']}"
    return f"{name} of {node.qualified_op_type}"


def is_there(node: Node, index: int) -> bool:
    """Say whether an input is given."""
    return index < len(node.inputs) and bool(node.inputs[index])
