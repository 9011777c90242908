"""A node that is judged, and the checks that several operators share."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType

TYPES: Final = MappingProxyType({
    "f32": DataType.FLOAT, "f16": DataType.FLOAT16, "bf16": DataType.BFLOAT16,
    "i32": DataType.INT32, "i64": DataType.INT64, "i8": DataType.INT8, "u8": DataType.UINT8,
    "bool": DataType.BOOL, "f8": DataType.FLOAT8E4M3FN, "i4": DataType.INT4,
    "f4": DataType.FLOAT4E2M1,
})  # fmt: skip
"""The words of the operator table."""

KNOWN: Final = frozenset(TYPES.values())
"""What a TensorRT tensor can hold; a node with any other type is out of the question."""

CROSSING: Final = KNOWN - {DataType.FLOAT8E4M3FN, DataType.INT4, DataType.FLOAT4E2M1}
"""What may be an input or an output of a network; the rest lives between Q and DQ."""

MAX_RANK: Final = 8
"""Most axes of a TensorRT tensor (``Dims.MAX_DIMS``)."""


@lru_cache(maxsize=256)
def types_of(words: str) -> tuple[DataType, ...]:
    """Return the types that words of the operator table mean."""
    return tuple(TYPES[word] for word in words.split())


Objections = Iterable[Refusal | None]
"""What the rules of an operator have to say, one after the other; None is no objection."""


@dataclass(frozen=True, slots=True)
class JudgedNode:
    """A node with what its rules may look at besides; checks return None if nothing is wrong.

    Attributes:
        around: Operators whose bodies the node is in, the outermost first.
    """

    node: Node
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

    def attribute(self, attribute: str, default: Any, more: str = "") -> Refusal | None:
        """Hold an attribute to its default; ``more`` ends what is said."""
        given = self.value(attribute, default)
        if given == default:
            return None
        text = f"{self.name} with {attribute}={given!r}, TensorRT takes {default!r}{more}"
        return Refusal("attribute", text)

    def rank(self, place: int, *allowed: int) -> Refusal | None:
        """Hold an input to some numbers of axes."""
        shape, label = self.node.shape(place), self.label(place)
        if shape is None:
            return Refusal("rank", f"{label} has a number of axes that is not known")
        if len(shape) in allowed:
            return None
        expected = " or ".join(map(str, allowed))
        return Refusal("rank", f"{label} has {len(shape)} axes, TensorRT takes {expected}")

    def makes(self, dtype: DataType, words: str) -> Refusal | None:
        """Hold the element type of the output to some."""
        allowed = types_of(words)
        if dtype in allowed:
            return None
        expected = ", ".join(one.label for one in allowed)
        return Refusal("dtype", f"{self.name} makes {dtype}, TensorRT makes {expected}")

    def static(self, place: int) -> Refusal | None:
        """Hold an input to a shape that is known."""
        shape = self.node.shape(place)
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            return None
        text = f"the shape of {self.label(place)} is not known before running"
        return Refusal("dynamic_shape", text)

    def constant(self, place: int, name: str) -> Refusal | None:
        """Hold an input, if it is given, to what is known before anything runs."""
        if not self.has(place) or self.node.is_constant(place):
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


_SPATIAL: Final = 2
"""Axes before those that windows run along: batch and channels."""


def rounded_up(node: Node) -> Refusal | None:
    """Refuse a pooling that may round up, along an axis of unknown size, to more than ONNX keeps.

    ONNX drops a last window that would start in the padding behind the input; TensorRT does not.
    Where sizes are known, the shape that the parser makes tells.

    Source: ONNX operator MaxPool, version 22, output shape with ``ceil_mode``.
    """
    # Without padding behind the input no window can start there.
    if not node.attribute("ceil_mode", 0) or all(
        isinstance(size, int) or (end == 0 and stride <= window)
        for size, _, end, stride, window in _axes(node)
    ):
        return None
    return Refusal(
        "dynamic_shape",
        f"{node.qualified_op_type} with ceil_mode=1 of a shape that is not known: TensorRT may "
        "round up to one window more than ONNX",
    )


def too_wide(node: Node) -> Refusal | None:
    """Refuse a pooling with a window that is wider than what it runs over."""
    if not any(
        isinstance(size, int) and 0 < size + begin + end < window
        for size, begin, end, _, window in _axes(node)
    ):
        return None
    window = " x ".join(map(str, node.attribute("kernel_shape")))
    over = " x ".join(map(str, (node.shape(0) or ())[_SPATIAL:]))
    text = f"{node.qualified_op_type} with a window of {window} over {over}, which is smaller"
    return Refusal("attribute", text)


def _axes(node: Node) -> Iterable[tuple[Any, int, int, int, int]]:
    """Return size, padding at both ends, stride and window of each axis that windows run along.

    None where padding is chosen by name, as the number of windows follows from that.
    """
    if plain(node.attribute("auto_pad", "NOTSET")) not in {"NOTSET", "VALID", ""}:
        return ()
    kernel, shape = node.attribute("kernel_shape", ()), node.shape(0)
    count = len(kernel)
    sizes = shape[_SPATIAL:] if shape is not None else (None,) * count
    pads, strides = node.attribute("pads", [0] * 2 * count), node.attribute("strides", [1] * count)
    return zip(sizes, pads, pads[count:], strides, kernel, strict=False)
