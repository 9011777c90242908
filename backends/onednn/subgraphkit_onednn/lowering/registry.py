"""The table of lowerings: a function for every operator that is taken."""

from collections.abc import Callable
from typing import Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import GraphDraft, RefusedError

__all__ = [
    "LOWERINGS",
    "Lowering",
    "float_attribute",
    "has_input",
    "lowers",
    "require",
    "single_output",
]

Lowering = Callable[[GraphDraft, Node], None]
"""Writes the operations of a node into a draft, or raises ``RefusedError``."""

LOWERINGS: Final[dict[str, Lowering]] = {}
"""By operator of the default domain."""


def lowers(*op_types: str) -> Callable[[Lowering], Lowering]:
    """Register a function for operators."""

    def register(function: Lowering) -> Lowering:
        for op_type in op_types:
            LOWERINGS[op_type] = function
        return function

    return register


def require(condition: bool, code: str, text: str) -> None:  # noqa: FBT001 (reads as an assertion)
    """Refuse the node unless a condition holds.

    Raises:
        RefusedError: It does not.
    """
    if not condition:
        raise RefusedError(code, text)


def single_output(node: Node) -> str:
    """Return the name of the only output of a node.

    Raises:
        RefusedError: Further outputs are asked for.
    """
    require(
        bool(node.outputs[0]) and not any(node.outputs[1:]),
        "attribute",
        f"{node.op_type} makes outputs that oneDNN does not make",
    )
    return node.outputs[0]


def has_input(node: Node, place: int) -> bool:
    """Say whether an optional input is given."""
    return place < len(node.inputs) and bool(node.inputs[place])


def float_attribute(node: Node, name: str, default: float) -> float:
    """Return an attribute as a number."""
    return float(node.attribute(name, default))
