"""Values that may cross the edge of a TensorRT subgraph.

Source: measured on the parser of TensorRT for RTX 1.7.

* One input of a type it lacks, or of too many axes, makes it refuse the whole model. It names no
  node then.
* A float shape tensor cannot be an input.
* Float8 and 4-bit types cannot be inputs or outputs; the builder notices this late.
"""

from collections.abc import Iterator

from subgraphkit.backend import Answer, Refusal
from subgraphkit.ir import Graph, Node
from subgraphkit.types import DataType, TensorType
from subgraphkit_tensorrt.rules.judged_node import CROSSING, MAX_RANK
from subgraphkit_tensorrt.rules.shape_values import INTEGERS, shape_values
from subgraphkit_tensorrt.rules.static_rules import Rules

_FROM_DATA = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose outputs are as long as their data makes them."""


class BoundaryRules:
    """Judges the values at edges.

    ``is_ahead``: Whether engines are built before anything runs, so that sizes have to be known.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, graph: Graph, rules: Rules, *, is_ahead: bool = False) -> None:
        self._graph = graph
        self._rules = rules
        self._shapes = shape_values(graph)
        self._sized_by_data = frozenset(sized_by_data(graph)) if is_ahead else frozenset()

    def may_enter(self, node: Node, value: str) -> Answer:
        """Say whether a value may enter at a node."""
        if (answer := self._crossing(node, value, "enter")) is not None:
            return answer
        if value in self._sized_by_data:
            text = (
                f"the sizes of {value!r} depend on data, so that no engine can be built ahead that "
                "takes it"
            )
            return Refusal("dynamic_shape", text)
        if any(node.inputs[at : at + 1] == (value,) for at in self._rules.inside(node)):
            text = f"{value!r} is a float that a shape depends on; it can be computed inside only"
            return Refusal("border", text)
        # The caller's own inputs can be had before the engine runs.
        is_had = self._graph.dtype(value) in INTEGERS and value not in self._graph.producers
        if value in self._shapes and not is_had:
            text = f"a shape depends on {value!r}, which is computed by another backend"
            return Refusal("border", text)
        return True

    def may_leave(self, node: Node, value: str) -> Answer:
        """Say whether a value that a node makes may leave."""
        answer = self._crossing(node, value, "leave")
        return True if answer is None else answer

    def _crossing(self, node: Node, value: str, verb: str) -> Refusal | None:
        type_ = self._graph.types.get(value)
        if not isinstance(type_, TensorType):
            return Refusal("border", f"{value!r} is no tensor and cannot {verb} TensorRT")
        if type_.dtype not in CROSSING:
            return Refusal("border", f"{value!r} is {type_}, which cannot {verb} TensorRT")
        if type_.shape is None:
            text = f"{value!r} has a number of axes that is not known and cannot {verb} TensorRT"
            return Refusal("border", text)
        if len(type_.shape) > MAX_RANK:
            return Refusal("border", f"{value!r} has {len(type_.shape)} axes, TensorRT has 8")
        if type_.dtype is DataType.UINT8 and node.op_type != "Cast":
            text = f"{value!r} is uint8, which can {verb} TensorRT at a Cast only"
            return Refusal("border", text)
        return None


def sized_by_data(graph: Graph) -> Iterator[str]:
    """Yield the values behind operators that make as much as their data says, with open sizes.

    No size that a user could state makes these known.
    """
    stated = {dim for name in graph.inputs for dim in graph.shape(name) or ()}
    behind: set[str] = set()
    for node in (Node(graph, at) for at in graph.order):
        if node.op_type not in _FROM_DATA and behind.isdisjoint((*node.inputs, *node.captures)):
            continue
        behind.update(node.outputs)
        for name in filter(None, node.outputs):
            shape = graph.shape(name)
            if shape is None or any(not isinstance(it, int) and it not in stated for it in shape):
                yield name
