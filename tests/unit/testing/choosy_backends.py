"""Sound backends that take little, each in its own way; the fallback computes for them."""

from collections.abc import Sequence
from typing import Any, ClassVar

from subgraphkit.backend import Answer, Conformance, SubgraphSelector
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType
from tests.faulty import FlushesDenormals, LosesSignOfZero, WritesInputs
from tests.faulty.wrapping import EveryNode, Fault, WrappingBackend

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


def _taking(takes: str, name: str, **wrong: Any) -> type[WrappingBackend]:
    return Fault("Takes one operator.", takes, "", **wrong).made(name, __name__)


GemmOnly = _taking("Gemm", "GemmOnly")
QuantizedOnly = _taking("QLinearConv", "QuantizedOnly")
AttentionOnly = _taking("Attention", "AttentionOnly")  # of new operator sets
SortingOnly = _taking("TopK", "SortingOnly")  # with two results
GridOnly = _taking("GridSample", "GridOnly")  # in no table of the kit
DeterminantOnly = _taking("Det", "DeterminantOnly")  # nor this, whose result has fewer axes
QuantizedThatWrites = _taking("QLinearConv", "QuantizedThatWrites", base=WritesInputs)

# Can be profiled, and records nothing.
_SILENT = {
    "profiled": lambda self, record: type(self)(self.inner, self.subgraph),
    "close": lambda self: None,  # the other one goes on
}
SilentGemm = _taking("Gemm", "SilentGemm", operator=_SILENT)
SilentIdentity = _taking("Identity", "SilentIdentity", operator=_SILENT)


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
