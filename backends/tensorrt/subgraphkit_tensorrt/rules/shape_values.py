"""Values that shapes depend on: shapes of others, and sums of them.

TensorRT computes shapes on the host. A value that a shape depends on is a *shape tensor*. As an
input of a network it needs ranges of values and lives in host memory; a float cannot be such an
input. What follows from constants and static shapes is folded at bind.
"""

from typing import Final

from subgraphkit.ir import Graph, Node
from subgraphkit.types import DataType, TensorType

SHAPE_INPUTS: Final = {
    "ConstantOfShape": (0,), "CumSum": (1,), "Expand": (1,), "OneHot": (1,), "Pad": (1, 3),
    "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,),
    "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip
"""By operator, the inputs from which the shape of the output follows."""

_ARITHMETIC: Final = frozenset(
    {"Abs", "Add", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Flatten",
     "Floor", "Gather", "GatherElements", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul",
     "Neg", "Not", "Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape",
     "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose",
     "Unsqueeze", "Where"}
)  # fmt: skip
_MAX_ELEMENTS: Final = 64
_FLOATS: Final = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})
INTEGERS: Final = frozenset({DataType.INT32, DataType.INT64, DataType.BOOL})


def _computes_shapes(node: Node) -> bool:
    """Say whether a node is a cheap piece of a shape computation, but for the shape it starts."""
    if node.domain or node.bodies or node.op_type not in _ARITHMETIC:
        return False
    return all(_is_small(node.graph, name) for name in (*node.inputs, *node.outputs) if name)


def _is_small(graph: Graph, value: str) -> bool:
    """Say whether a value is like a shape: a short list of whole numbers, or of scales."""
    type_ = graph.types.get(value)
    if not isinstance(type_, TensorType) or type_.dtype not in INTEGERS | _FLOATS:
        return False
    if (count := type_.element_count) is not None:
        return count <= _MAX_ELEMENTS
    # The length of a list of dimensions is known; of floats too little is.
    return type_.rank in {0, 1} and type_.dtype in INTEGERS


def shape_values(graph: Graph) -> frozenset[str]:
    """Return the values that shapes depend on, through any number of small computations."""
    found, known = set[str](), {"", *graph.constants}
    for node in graph.nodes:
        if node.domain:
            continue
        for index in SHAPE_INPUTS.get(node.op_type, ()):
            found.update(node.inputs[index : index + 1])
    found -= known
    pending = list(found)
    while pending:
        if (made_by := graph.producers.get(pending.pop())) is None:
            continue
        maker = Node(graph, made_by)
        if not _computes_shapes(maker):
            continue
        behind = {*maker.inputs} - known - found
        found |= behind
        pending += behind
    return frozenset(found)
