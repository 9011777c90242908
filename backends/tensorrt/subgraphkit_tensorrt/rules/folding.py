"""Values that are known before anything runs, beyond constants: shapes and sums of them.

TensorRT computes shapes on the host. A value that a shape depends on is a *shape tensor*: as an
input of a network it needs ranges of values and lives in host memory, and if it is a float it
cannot be an input at all. So the cheap nodes that compute such values belong beside their readers.
"""

from typing import Final

from subgraphkit.ir import Graph, Node
from subgraphkit.types import DataType, TensorType

SHAPE_INPUTS: Final = {
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""By operator, the inputs from which the shape of the output follows."""

_FROM_SHAPE_ALONE: Final = frozenset({"Shape", "Size"})
_ARITHMETIC: Final = frozenset(
    {"Abs", "Add", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten",
     "Floor", "Gather", "GatherElements", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul",
     "Neg", "Not", "Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape",
     "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose",
     "Unsqueeze", "Where"}
)  # fmt: skip
_NOT_FOLDED: Final = frozenset({"Range"})
"""Pieces of shape computations that the parser leaves to the run all the same."""
_MAX_ELEMENTS: Final = 64
_FLOATS: Final = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})
_INTEGERS: Final = frozenset({DataType.INT32, DataType.INT64, DataType.BOOL})


class Folding:
    """Knows which values of a graph follow from constants and static shapes alone.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[str, bool] = {}

    def is_foldable(self, value: str) -> bool:
        """Say whether a value can be computed before anything runs."""
        pending = [value]
        while pending:
            current = pending[-1]
            answer = self._answer(current, pending)
            if answer is not None:
                self._known[current] = answer
                pending.pop()
        return self._known[value]

    def _answer(self, value: str, pending: list[str]) -> bool | None:
        """Return the answer, or None after adding what has to be answered first."""
        if value in self._known or value in self._graph.constants:
            return self._known.get(value, True)
        made_by = self._graph.producers.get(value)
        if made_by is None:
            return False
        node = Node(self._graph, made_by)
        if node.op_type in _FROM_SHAPE_ALONE:
            type_ = node.input_type(0)
            return isinstance(type_, TensorType) and type_.element_count is not None
        if node.domain or node.op_type not in _ARITHMETIC - _NOT_FOLDED:
            return False
        unknown = [name for name in node.inputs if name and self._is_open(name)]
        pending.extend(unknown)
        if unknown:
            return None
        return all(self._known.get(name, True) for name in node.inputs if name)

    def _is_open(self, value: str) -> bool:
        return value not in self._known and value not in self._graph.constants


def computes_shapes(node: Node) -> bool:
    """Say whether a node is a cheap piece of a shape computation, worth running twice."""
    if node.domain or node.bodies:
        return False
    if node.op_type in _FROM_SHAPE_ALONE:
        return True
    return node.op_type in _ARITHMETIC and all(
        _is_small(node.graph, name) for name in (*node.inputs, *node.outputs) if name
    )


def _is_small(graph: Graph, value: str) -> bool:
    """Say whether a value is like a shape: a short list of whole numbers, or of scales."""
    type_ = graph.types.get(value)
    if not isinstance(type_, TensorType) or type_.dtype not in _INTEGERS | _FLOATS:
        return False
    count = type_.element_count
    if count is not None:
        return count <= _MAX_ELEMENTS
    # The length of a list of dimensions is known; of floats too little is.
    return type_.rank in {0, 1} and type_.dtype in _INTEGERS


def shape_values(graph: Graph) -> frozenset[str]:
    """Return the values that shapes depend on, through any number of small computations."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.domain:
            continue
        read = node.inputs
        for index in SHAPE_INPUTS.get(node.op_type, ()):
            if index < len(read) and read[index] and read[index] not in graph.constants:
                found.add(read[index])
    pending = list(found)
    while pending:
        made_by = graph.producers.get(pending.pop())
        if made_by is None:
            continue
        maker = Node(graph, made_by)
        if maker.op_type in _FROM_SHAPE_ALONE or not computes_shapes(maker):
            continue
        behind = [
            name
            for name in maker.inputs
            if name and name not in graph.constants and name not in found
        ]
        found.update(behind)
        pending += behind
    return frozenset(found)
