"""The fusion rule: a convolution and the elementwise nodes that follow it are computed together.

Each part of the output is finished while it is still in a core's cache. That changes no result:
what follows does to every element what it would do alone.
"""

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import ClassVar, Final

from subgraphkit.backend import Answer, Refusal, SubgraphProperty, SubgraphSelector
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.types import DataType, Shape
from subgraphkit_numpy.kernels.windows import known_shape

ROOT: Final = "Conv"
"""The operator that a chain starts with."""

BINARY: Final = frozenset({"Add", "Div", "Mul", "Sub"})

_UNARY: Final = frozenset(
    {"Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "Selu"}
    | {"Sigmoid", "Softplus", "Softsign", "Swish", "Tanh"}
)
_FLOATS: Final = frozenset({DataType.FLOAT, DataType.DOUBLE})
_NUMPY_BROADCASTS: Final = 7
"""The operator set from which on binary operators spread their inputs as NumPy does."""

_OTHER: Final = Refusal("operator", "neither a convolution nor what may follow one at once")


class EpilogueSelector(SubgraphSelector):
    """Grows from a convolution along the nodes that alone read what was computed last."""

    splittable = False

    def __init__(self) -> None:
        self._end = -1
        self._next: tuple[int, ...] = ()

    def select(self, node: Node) -> Answer:
        """Start at convolutions with constant weights and a known shape."""
        if not _is_root(node):
            return _OTHER
        self._go_on_from(node)
        return True

    def select_input(self, node: Node, producer: Node) -> Answer:
        """Take nothing upstream."""
        del node, producer
        return _OTHER

    def select_output(self, node: Node, consumer: Node) -> Answer:
        """Take the elementwise node that follows, or the two of a gate."""
        del node
        if consumer.id not in self._next:
            return _OTHER
        if consumer.id == self._next[-1]:
            self._go_on_from(consumer)
        return True

    def _go_on_from(self, node: Node) -> None:
        self._next = tuple(one.id for one in _followers(node))


class ChainProperty(SubgraphProperty):
    """A convolution and its epilogue; a gate is computed whole or not at all."""

    name: ClassVar[str] = "chains"
    min_nodes = 2

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Make a selector for one convolution."""
        del graph
        return EpilogueSelector()

    def groups(self, graph: BoundGraph) -> Iterable[Collection[int]]:
        """Name the two nodes of every gate."""
        for node in graph.nodes:
            if gate := _gate_after(node):
                yield [one.id for one in gate]


def _gate_after(node: Node) -> tuple[Node, ...]:
    """Return the two nodes that multiply a value by a function of itself; else nothing."""
    readers = sorted(node.consumers(), key=lambda reader: reader.id)
    if len(readers) != 2:  # noqa: PLR2004 (the function, and the product)
        return ()
    function, product = readers
    is_gate = (
        product.op_type == "Mul"
        and not product.domain
        and sorted(product.inputs) == sorted((node.outputs[0], *function.outputs))
        and function.op_type in _UNARY
        and function.consumers() == (product,)
    )
    return (function, product) if is_gate else ()


def _followers(node: Node) -> Sequence[Node]:
    """Return the node that goes on with an output alone, or the two of a gate."""
    graph, value, shape = node.graph, node.outputs[0], known_shape(node.output_type())
    readers = node.consumers()
    found = readers if len(readers) == 1 else _gate_after(node)
    if any(graph.is_output(one) for one in [value, *(one.outputs[0] for one in found[:-1])]):
        return ()
    fits = shape is not None and all(_is_elementwise(one, value, shape) for one in found)
    return found if fits else ()


def _is_root(node: Node) -> bool:
    if node.op_type != ROOT or node.domain or node.dtype() not in _FLOATS:
        return False
    weights = [index for index in (1, 2) if index < len(node.inputs) and node.inputs[index]]
    known = known_shape(node.input_type(0)) and known_shape(node.output_type())
    return bool(known) and all(node.is_constant(index) for index in weights)


def _is_elementwise(node: Node, value: str, shape: tuple[int, ...]) -> bool:
    """Say whether a node computes each element of a value, and returns an array just like it."""
    if node.domain or known_shape(node.output_type()) != shape:
        return False
    if node.op_type in _UNARY:
        limits = [index for index in range(1, len(node.inputs)) if node.inputs[index]]
        return node.inputs[0] == value and all(map(node.is_constant, limits))
    if node.op_type not in BINARY or node.opset < _NUMPY_BROADCASTS:
        return False
    others = [index for index in (0, 1) if node.inputs[index] != value]
    return len(others) < 2 and all(  # noqa: PLR2004 (both)
        flat_view(node.shape(index), shape) is not None for index in others
    )


def flat_view(shape: Shape | None, whole: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the shape, as (images, channels, pixels), of an array that is spread over another.

    None where it cannot be spread, or has some of the pixels only.
    """
    padded = (*(1,) * (len(whole) - len(shape or ())), *(shape or ()))
    fits = len(padded) == len(whole) and all(
        dim in {1, full} for dim, full in zip(padded, whole, strict=True)
    )
    known = [dim for dim in padded if isinstance(dim, int)]
    pixels = prod(known[2:])
    if shape is None or not fits or pixels not in {1, prod(whole[2:])}:
        return None
    return known[0], known[1], pixels
