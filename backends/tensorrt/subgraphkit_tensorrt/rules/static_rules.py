"""The first filter stage: refusals that follow from looking at a node.

It knows what the documentation says of each operator, what the library is known to compute wrongly,
and which element types exist. What the documentation leaves open it leaves to the parser.
"""

from collections.abc import Iterable
from typing import Final

from subgraphkit.backend import Refusal
from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.rules import judged_node
from subgraphkit_tensorrt.rules.operators import FIRST_OPSET, RANDOM, Operator, operator_table

_ABOUT_TYPES: Final = frozenset({"dtype", "rank", "shape", "dynamic_shape"})
_BODIES: Final = frozenset({"If", "Loop", "Scan"})


class Rules:
    """Judges nodes by the operator table of a library's release.

    What is newer than the table is for its parser to say, if it can be asked.

    Thread-safety: used by one thread at a time.
    """

    def __init__(self, library: Library) -> None:
        self.table = operator_table(library.capabilities.generation, library.flavour.name)
        self._library = library

    def refusal(self, node: Node, around: tuple[str, ...] = ()) -> Refusal | None:
        """Say why a node cannot be taken; None if nothing speaks against it."""
        if node.graph.is_constant_node(node.id) and not around:
            return None
        is_open = bool(around) and not _is_typed(node)
        answer = None if is_open else self._of_types(node)
        if answer is None and not node.domain:
            objections = self._of_operator(node, around)
            answer = next((one for one in objections if one is not None), None)
            if answer is not None and is_open and answer.code in _ABOUT_TYPES:
                # A body does not state the types of what it reads from outside; the parser knows.
                answer = None
        if answer is None and node.bodies:
            answer = self._of_bodies(node, around)
        return answer

    def inside(self, node: Node) -> tuple[int, ...]:
        """Return the inputs of a node that must not come from outside a network."""
        operator = None if node.domain else self.table.operators.get(node.op_type)
        return operator.inside if operator else ()

    def _of_types(self, node: Node) -> Refusal | None:
        types = node.graph.types
        made = [name for name in node.outputs if name]
        if len(made) > 1:
            # Of an output that nobody reads not even the type need be known.
            made = [name for name in made if judged_node.is_read(node, name)]
        for value in filter(None, (*node.inputs, *node.captures, *made)):
            type_ = types.get(value)
            if not isinstance(type_, TensorType):
                shown = "of unknown type" if type_ is None else f"a {type_}"
                return Refusal("dtype", f"{value!r} is {shown}, TensorRT has tensors only")
            if type_.dtype not in judged_node.KNOWN:
                return Refusal("dtype", f"{value!r} is {type_}, which TensorRT does not have")
            if type_.shape is not None and len(type_.shape) > judged_node.MAX_RANK:
                return Refusal("rank", f"{value!r} has {len(type_.shape)} axes, TensorRT has 8")
        return None

    def _of_operator(self, node: Node, around: tuple[str, ...]) -> judged_node.Objections:
        operator = self.table.operators.get(node.op_type)
        yield self._of_name(node)
        since = FIRST_OPSET if operator is None else operator.opset
        if node.opset < since:
            have = f"{node.op_type} of operator set {node.opset}"
            yield Refusal("opset", f"{have}, TensorRT takes {since} and later")
        if operator is not None:
            yield self._of_element_types(node, operator)
            yield from operator.rules(judged_node.JudgedNode(node, around))

    def _of_name(self, node: Node) -> Refusal | None:
        name, table = node.op_type, self.table
        if name in RANDOM or (name == "Dropout" and _trains(node)):
            return Refusal("op_unsupported", f"{name} is random, and TensorRT ignores its seed")
        if name in table.newer:
            since, have = table.newer[name], self._library.capabilities.version
            return Refusal("op_unsupported", f"{name} came with TensorRT {since}, here is {have}")
        if name in table.missing or (name not in table.operators and self._library.trt is None):
            return Refusal("op_unsupported", f"{self._library.flavour.title} has no {name}")
        return None

    def _of_element_types(self, node: Node, operator: Operator) -> Refusal | None:
        allowed = judged_node.types_of(operator.types)
        for value in _values_of(node, operator.of):
            dtype = node.graph.dtype(value)
            if dtype not in allowed:
                expected = ", ".join(one.label for one in allowed)
                text = f"{node.op_type} of {dtype}, TensorRT takes {expected}"
                return Refusal("dtype", text)
        return None

    def _of_bodies(self, node: Node, around: tuple[str, ...]) -> Refusal | None:
        if node.domain or node.op_type not in _BODIES:
            return Refusal("op_unsupported", f"{node.qualified_op_type} has a body")
        for key, body in node.bodies.items():
            for inner in body.nodes:
                answer = self.refusal(inner, (*around, node.op_type))
                if answer is not None:
                    return Refusal(answer.code, f"in {key}, {inner.label}: {answer.text}")
        return None


def _values_of(node: Node, what: str) -> Iterable[str]:
    """Return the values of a node whose element types a row of the table is about."""
    kind, _, index = what.partition(" ")
    values = node.outputs if kind.startswith("output") else node.inputs
    if not index:
        return filter(None, values)
    place = int(index)
    return filter(None, values[place : place + 1])


def _is_typed(node: Node) -> bool:
    types = (node.graph.types.get(name) for name in (*node.inputs, *node.outputs) if name)
    return all(
        isinstance(type_, TensorType)
        and type_.dtype is not DataType.UNDEFINED
        and type_.shape is not None
        for type_ in types
    )


def _trains(node: Node) -> bool:
    mode = node.constant(2)
    return mode is not None and bool(mode.any())
