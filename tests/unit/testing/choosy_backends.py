"""Sound backends that take little, each in its own way; the fallback computes for them."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from subgraphkit.backend import (
    Answer,
    Conformance,
    InnerTime,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType
from tests.faulty import FlushesDenormals, LosesSignOfZero, WritesInputs
from tests.faulty.wrapping import (
    EveryNode,
    WrappedOperator,
    WrappingBackend,
    WrappingProperty,
)

_FOLLOWERS = {"Conv": "BatchNormalization", "BatchNormalization": "Relu"}


class _Fused(SubgraphSelector):
    """Starts at a Conv and takes what may be fused behind it."""

    def __init__(self) -> None:
        self.last = ""

    def select(self, node: Node) -> Answer:
        self.last = node.op_type
        return node.op_type == "Conv"

    def select_input(self, node: Node, producer: Node) -> Answer:
        del node, producer
        return False

    def select_output(self, node: Node, consumer: Node) -> Answer:
        if node.op_type == self.last and _FOLLOWERS.get(self.last) == consumer.op_type:
            self.last = consumer.op_type
            return True
        return False

    def reset(self) -> None:
        self.last = ""


class ConvRuns(WrappingBackend):
    """A stateful selector that starts at Conv."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Fused


class WholeRun(_Fused):
    """Keeps nothing but whole runs."""

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        return candidates if len(candidates) == len(_FOLLOWERS) + 1 else []


class WholeRuns(WrappingBackend):
    """Takes Conv, BatchNormalization and Relu together or not at all."""

    selector_class: ClassVar[type[SubgraphSelector]] = WholeRun


class Named(EveryNode):
    operators: ClassVar[frozenset[str]] = frozenset()

    def select(self, node: Node) -> Answer:
        return node.op_type in self.operators


class _Gemm(Named):
    operators = frozenset({"Gemm"})


class GemmOnly(WrappingBackend):
    """Takes one operator."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Gemm


class _Silent(WrappedOperator):
    """Can be profiled, and records nothing."""

    def profiled(self, record: Callable[[InnerTime], object]) -> SubgraphOperator | None:
        del record
        return _Silent(self.inner, self.subgraph)

    def close(self) -> None:
        pass  # the other one goes on


class SilentGemm(GemmOnly):
    """Records no time of what it computes."""

    operator_class: ClassVar[type[WrappedOperator]] = _Silent


class _Identity(Named):
    operators = frozenset({"Identity"})


class SilentIdentity(SilentGemm):
    """Computes nothing that could take time."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Identity


class _Quantized(Named):
    operators = frozenset({"QLinearConv"})


class QuantizedOnly(WrappingBackend):
    """Takes a convolution of 8 bits."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Quantized


class _Attention(Named):
    operators = frozenset({"Attention"})


class AttentionOnly(WrappingBackend):
    """Takes what only new operator sets have."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Attention


class _Sorting(Named):
    operators = frozenset({"TopK"})


class SortingOnly(WrappingBackend):
    """Takes an operator with two results that no small model of old has."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Sorting


class _Grid(Named):
    operators = frozenset({"GridSample"})


class GridOnly(WrappingBackend):
    """Takes an operator that is in no table of the kit."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Grid


class _Determinant(Named):
    operators = frozenset({"Det"})


class DeterminantOnly(WrappingBackend):
    """Takes another, whose result has fewer axes than what it reads."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Determinant


class SaysThatItFlushes(FlushesDenormals):
    """Takes denormal numbers for zero, which it declares."""

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        suite.lacks("denormals", "the processor is told to flush them")


class SaysThatItLosesSigns(LosesSignOfZero):
    """Makes 0 of -0, which it declares of open sizes."""

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        suite.lacks("open_zeros", "they are added to 0")


def _types(node: Node) -> list[Any]:
    graph = node.graph
    return [graph.types[name] for name in (*node.inputs, *node.outputs) if name in graph.types]


class _Half(EveryNode):
    def select(self, node: Node) -> Answer:
        types = _types(node)
        return all(isinstance(t, TensorType) and t.dtype is DataType.FLOAT16 for t in types)


class HalfOnly(WrappingBackend):
    """Takes float16."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Half


class _Fixed(EveryNode):
    def select(self, node: Node) -> Answer:
        shapes = [getattr(type_, "shape", None) or (None,) for type_ in _types(node)]
        return all(isinstance(size, int) for shape in shapes for size in shape)


class FixedOnly(WrappingBackend):
    """Takes shapes that are all known."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Fixed


class _LargeProperty(WrappingProperty):
    min_nodes = 3


class LargeOnly(WrappingBackend):
    """Takes regions of three nodes and more."""

    def properties(self) -> Sequence[SubgraphProperty]:
        return (_LargeProperty(self),)


class QuantizedThatWrites(WritesInputs):
    """Takes a convolution of 8 bits, and writes to its inputs."""

    selector_class: ClassVar[type[SubgraphSelector]] = _Quantized
