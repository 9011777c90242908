"""A node that is judged, and the checks that several operators share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType
from subgraphkit_tensorrt.rules.element_types import types_of
from subgraphkit_tensorrt.rules.folding import Folding

__all__ = ["JudgedNode", "Objections", "is_read", "plain"]

Objections = Iterable[Refusal | None]
"""What the rules of an operator have to say, one after the other; None is no objection."""

_NOT_HONOURED: Final = "; TensorRT takes it and computes something else"


@dataclass(frozen=True, slots=True)
class JudgedNode:
    """A node with what its rules may look at besides; checks return None if nothing is wrong.

    Attributes:
        node: The node.
        folding: Knows what is computed from constants and static shapes alone.
        flavour: Name of the flavour of the library.
        around: Operators whose bodies the node is in, the outermost first.
    """

    node: Node
    folding: Folding
    flavour: str
    around: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The operator, for messages."""
        return self.node.qualified_op_type

    def label(self, place: int, name: str = "") -> str:
        """Name an input, for messages."""
        return f"{name or f'input {place}'} of {self.name}"

    def has(self, place: int) -> bool:
        """Say whether an input is given."""
        return place < len(self.node.inputs) and bool(self.node.inputs[place])

    def value(self, attribute: str, default: Any = None) -> Any:
        """Return the value of an attribute, strings as text."""
        return plain(self.node.attribute(attribute, default))

    def attribute(
        self, attribute: str, *allowed: Any, default: Any = None, silent: bool = False
    ) -> Refusal | None:
        """Hold an attribute to one of some values.

        Args:
            attribute: Its name.
            allowed: The values.
            default: Its value where it is left out, if that is not the first one.
            silent: Whether the parser takes others and makes something else of them.
        """
        default = allowed[0] if default is None else default
        if self.value(attribute, default) in allowed:
            return None
        refusal = self.wrong(attribute, " or ".join(map(repr, allowed)), default)
        return Refusal(refusal.code, refusal.text + _NOT_HONOURED) if silent else refusal

    def wrong(self, attribute: str, expected: str, default: Any = None) -> Refusal:
        """Refuse the node for the value of an attribute."""
        given = self.value(attribute, default)
        text = f"{self.name} with {attribute}={given!r}, TensorRT takes {expected}"
        return Refusal("attribute", text)

    def rank(self, place: int, *allowed: int, expected: str = "") -> Refusal | None:
        """Hold an input to some numbers of axes, which ``expected`` says in words."""
        shape, label = self.node.shape(place), self.label(place)
        if shape is None:
            return Refusal("rank", f"{label} has a number of axes that is not known")
        if len(shape) in allowed:
            return None
        expected = expected or " or ".join(map(str, allowed))
        return Refusal("rank", f"{label} has {len(shape)} axes, TensorRT takes {expected}")

    def typed(self, place: int, words: str, name: str = "") -> Refusal | None:
        """Hold an input, if it is given, to some element types."""
        dtype, allowed = self.node.dtype(place), types_of(words)
        if not self.has(place) or dtype in allowed:
            return None
        expected = " or ".join(one.label for one in allowed)
        text = f"{self.label(place, name)} is {dtype.label}, TensorRT takes {expected}"
        return Refusal("dtype", text)

    def makes(self, dtype: DataType, words: str) -> Refusal | None:
        """Hold the element type of the output to some."""
        allowed = types_of(words)
        if dtype in allowed:
            return None
        expected = ", ".join(one.label for one in allowed)
        return Refusal("dtype", f"{self.name} makes {dtype.label}, TensorRT makes {expected}")

    def static(self, place: int) -> Refusal | None:
        """Hold an input to a shape that is known."""
        shape = self.node.shape(place)
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            return None
        text = f"the shape of {self.label(place)} is not known before running"
        return Refusal("dynamic_shape", text)

    def constant(self, place: int, name: str) -> Refusal | None:
        """Hold an input, if it is given, to what is known before anything runs."""
        node = self.node
        if not self.has(place) or node.is_constant(place):
            return None
        # The parser folds what is computed from constants, the documentation does not promise it.
        if self.folding.is_foldable(node.inputs[place]):
            return None
        text = f"{self.label(place, name)} is not constant, TensorRT wants it to be"
        return Refusal("not_constant", text)

    def unused(self, place: int, name: str) -> Refusal | None:
        """Hold an output to being left out, or read by nobody."""
        node = self.node
        value = node.outputs[place] if place < len(node.outputs) else ""
        if not value or not is_read(node, value):
            return None
        return Refusal("attribute", f"{name} of {self.name} is used, TensorRT makes none")


def plain(value: Any) -> Any:
    """Return an attribute's value with text in the place of bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def is_read(node: Node, value: str) -> bool:
    """Say whether a value that a node makes is read."""
    if node.graph.is_output(value):
        return True
    return any(value in (*one.inputs, *one.captures) for one in node.consumers())
