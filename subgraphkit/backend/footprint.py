"""Footprints: the memory that an operator takes, said before it is made.

Bytes are resident memory of this process. A footprint includes the results of a subgraph. It
includes neither its inputs nor the constants that the model itself holds.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from subgraphkit.ir import Graph, Initializer, Node, Subgraph
from subgraphkit.types import TensorType

SAME_MEMORY: Final = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose result has the bytes of their input, and may be that memory."""

_PRODUCTS: Final = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_ELEMENTWISE: Final = frozenset(
    ("Add", "Clip", "Div", "Erf", "Mul", "Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Tanh")
)
_PASSED_ON: Final = frozenset({"Add", "Div", "Mul", "Where"})
"""Operators of attention between the product of scores and their softmax."""


@dataclass(frozen=True, slots=True)
class ValuesPeak:
    """The moment of a run when the values of a subgraph take most.

    Attributes:
        bytes: The bytes of all values that live then.
        node: The node that runs then; None if there is no value of a known size.
        living: Bytes by name of the value that has the memory, the largest first.
        unsized: How many values have no known size, and count for nothing.
    """

    bytes: int = 0
    node: int | None = None
    living: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unsized: int = 0


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of one operator, in bytes.

    Attributes:
        held: What it holds from its making to its closing: copies of constants in layouts of its
            own, an engine, threads.
        opening: The most that making it takes beyond ``held``.
        values: When the values of a run take most.
        work: The most that a run takes, those values included.
        keeps_work: Whether the operator keeps the memory of a run for the next one, as in an arena.
            Otherwise other steps use it in turn.
        library: What the library takes once in a process, however many operators there are.
    """

    held: int
    opening: int
    values: ValuesPeak
    work: int
    keeps_work: bool = False
    library: int = 0

    @classmethod
    def copying(cls, subgraph: Subgraph) -> "Footprint":
        """Suppose that a library copies all constants once, as most do, and works in no place."""
        held, values = constant_bytes(subgraph), peak_of_values(subgraph)
        return cls(held, held, values, values.bytes)


def constant_bytes(subgraph: Subgraph, wanted: Callable[[Node, int], bool] | None = None) -> int:
    """Return the bytes of constants that a subgraph reads, each counted once.

    Args:
        subgraph: The subgraph.
        wanted: Says whether the input of a node at a place counts; None for all.
    """
    found: Mapping[str, Initializer] = subgraph.constants
    if wanted is not None:
        found = {
            name: found[name]
            for node in subgraph.members
            for place, name in enumerate(node.inputs)
            if name in found and wanted(node, place)
        }
    return sum(stored.type.nbytes or 0 for stored in found.values())


def peak_of_values(
    subgraph: Subgraph,
    *,
    views: Callable[[Node], bool] | None = None,
    overwrites: Callable[[Node], bool] | None = None,
    hidden: Collection[str] = (),
) -> ValuesPeak:
    """Find when the values of a subgraph take most, if its nodes run in order, one at a time.

    A value lives from the node that makes it to the last that reads it, and outputs to the end.
    Values of a body live while its node runs, once. Inputs and constants are not counted.

    Args:
        subgraph: The subgraph.
        views: Says whether a result has the memory of the first input; None for nodes that only
            change the shape by ONNX's rules.
        overwrites: Says whether a node may write its output over an input of the same size that
            nobody reads any more; None if none may.
        hidden: Values that are never whole in memory, because one kernel makes and reads them.
    """
    graph, nodes = subgraph.graph, subgraph.members
    views = views or (lambda node: node.op_type in SAME_MEMORY)
    lives = _Lives(graph, nodes, subgraph.inputs, subgraph.outputs, views, hidden)
    return lives.peak(overwrites)


def is_elementwise(node: Node) -> bool:
    """Say whether most libraries write a node's output over its input, as ``overwrites``."""
    return node.op_type in _ELEMENTWISE


def attention_scores(subgraph: Subgraph) -> frozenset[str]:
    """Return the values between the two products of attention, which a fused kernel never makes."""
    graph, found = subgraph.graph, set[str]()
    readers: dict[str, list[Node]] = {}
    for node in subgraph.members:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    for node in subgraph.members:
        kinds = [reader.op_type for reader in readers.get(node.outputs[0], ())]
        if node.op_type != "Softmax" or kinds != ["MatMul"]:
            continue
        chain, name = {node.outputs[0]}, node.inputs[0]
        while name in graph.producers and len(readers[name]) == 1:
            maker = Node(graph, graph.producers[name])
            chain.add(name)
            if maker.op_type == "MatMul":
                found |= chain
            if maker.op_type not in _PASSED_ON:
                break
            # a mask or a factor is smaller than the scores, or known
            name = max(maker.inputs, key=lambda it: (it in graph.producers, _size(graph, it) or 0))
    return frozenset(found)


def scaled_weights(subgraph: Subgraph) -> frozenset[str]:
    """Return the filters and factors into which a library folds a scale that comes after them.

    That is a batch normalization, or a multiplication by a constant, maybe after a bias. The folded
    constants are data beside the model's.
    """
    known, found = subgraph.constants, set[str]()
    makers = {name: node for node in subgraph.members for name in node.outputs}
    for node in subgraph.members:
        scales = node.op_type == "BatchNormalization"
        scales |= node.op_type == "Mul" and not known.keys().isdisjoint(node.inputs)
        maker = node if scales else None
        while maker is not None and maker.op_type not in _PRODUCTS:
            before = [makers[name] for name in maker.inputs if name in makers]
            is_bias = maker is node or maker.op_type == "Add"
            maker = before[0] if is_bias and len(before) == 1 else None
        if maker is not None:
            found.update(name for name in maker.inputs[1:2] if name in known)
    return frozenset(found)


class _Lives:
    """The lives of the values of a subgraph, by the value that has the memory."""

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        inputs: Collection[str],
        outputs: Sequence[str],
        views: Callable[[Node], bool],
        hidden: Collection[str],
    ) -> None:
        self._nodes, self._views, self._hidden = nodes, views, hidden
        self._owner: dict[str, str] = {}
        self._last: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        unsized = set[str]()
        for place, node in enumerate(nodes):
            for name in graph.read_by(node.id):
                if name in self._owner:
                    self._last[self._owner[name]] = place
            first = node.inputs[0] if node.inputs else ""
            is_view = views(node) and (first in self._owner or first in inputs)
            for name in filter(None, node.outputs):
                self._owner[name] = self._owner.get(first, "") if is_view else name
                size = 0 if is_view or name in hidden else _size(graph, name)
                unsized |= {name} if size is None else set()
                self._sizes[name] = size or 0
        ends = (self._owner[name] for name in outputs if name in self._owner)
        self._last.update(dict.fromkeys(ends, len(self._nodes)))
        self._unsized = len(unsized & self._last.keys())  # what nobody reads is seldom made

    def peak(self, overwrites: Callable[[Node], bool] | None) -> ValuesPeak:
        living: dict[str, int] = {}
        most, now, at, seen = 0, 0, None, dict[str, int]()
        for place, node in enumerate(self._nodes):
            dying = dict.fromkeys(
                owner
                for name in (*node.inputs, *node.outputs)
                if (owner := self._owner.get(name)) and self._last.get(owner, -1) <= place
            )
            made = [name for name in node.outputs if name and self._owner[name] == name]
            if overwrites is not None and len(made) == 1 and overwrites(node):
                size = self._sizes[made[0]]
                over = next((one for one in dying if size and living.get(one) == size), None)
                now -= living.pop(over) if over is not None else 0
            living.update((name, self._sizes[name]) for name in made)
            now += sum(self._sizes[name] for name in made)
            inside = max(
                (self._peak_inside(body, overwrites) for body in node.bodies.values()), default=0
            )
            if now + inside > most:
                most, at, seen = now + inside, node.id, dict(living)
            now -= sum(living.pop(name, 0) for name in dying)
        ranked = sorted(filter(lambda one: one[1], seen.items()), key=lambda one: -one[1])
        return ValuesPeak(most, at, MappingProxyType(dict(ranked)), self._unsized)

    def _peak_inside(self, body: Graph, overwrites: Callable[[Node], bool] | None) -> int:
        nodes = [Node(body, index) for index in body.order]
        lives = _Lives(body, nodes, body.inputs, body.outputs, self._views, self._hidden)
        return lives.peak(overwrites).bytes


def _size(graph: Graph, name: str) -> int | None:
    type_ = graph.types.get(name)
    return type_.nbytes if isinstance(type_, TensorType) else None
