"""Shapes stated by the elements of an input, and bounds on the number of dimensions.

onnx knows the target shape of Reshape, Expand or ConstantOfShape only if all elements are known. If
some are open, the others still are known, and their number is the rank.

A ``Gather`` by its own result doubles the rank. A shape of a million elements has a million
dimensions, and onnx's inference writes down each. So nodes that raise the rank are counted, and the
rank is checked before it can have grown far.
"""

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import Any, Final

import numpy.typing as npt

from subgraphkit.ir import Graph, Node
from subgraphkit.limits import LoadLimits
from subgraphkit.types import DataType, Dim, Shape, TensorType, ValueType

TARGETED: Final = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""The operators, and which of their inputs states the shape."""


def vague_lists(
    graph: Graph, node: int, types: Mapping[str, ValueType]
) -> Mapping[str, TensorType]:
    """Return axes and steps of a Slice without a known shape: onnx takes them for left out."""
    read = graph.table.inputs[node] if graph.table.op_types[node] == "Slice" else ()
    vague = {name for name in read[3:] if getattr(types.get(name), "shape", None) is None}
    dtype = getattr(types.get(read[1]), "dtype", DataType.INT64) if vague else DataType.INT64
    return {name: TensorType(dtype, (None,)) for name in vague - {""}}


def target_shape(
    node: Node,
    data: Shape | None,
    target: Shape | None,
    value: npt.NDArray[Any] | None,
    unsure: Collection[str],
) -> Shape | None:
    """Return the shape of a node's output; None if not even the rank is known.

    ``value``: Its elements, of which some may be open; None if they are not known.
    """
    if value is not None and value.ndim == 1:
        stated: list[Dim] = value.tolist()
    elif target is not None and len(target) == 1 and isinstance(target[0], int):
        stated = [None] * target[0]
    else:
        return None
    if node.op_type == "Reshape":
        dims = _copy_sizes(stated, data) if not node.attribute("allowzero", 0) else stated
        rest = _rest([dim for dim in dims if dim != -1], data, unsure)
        return tuple(rest if dim == -1 else dim for dim in dims)
    if node.op_type == "Expand":
        return _expand_shape(stated, data)
    return tuple(stated)


def _copy_sizes(stated: list[Dim], data: Shape | None) -> list[Dim]:
    """Put the input's sizes in place of 0; beside -1, a name may be 0 as well."""
    pairs = list(zip(stated, (*(data or ()), *[None] * len(stated)), strict=False))
    if -1 in stated:
        pairs = [(d if s in {d, None} or isinstance(d, int) else None, s) for d, s in pairs]
    return [size if dim == 0 else dim for dim, size in pairs]


def _rest(others: list[Dim], data: Shape | None, unsure: Collection[str]) -> Dim:
    """Return the size that remains for -1; names that both sides have cancel out."""
    if data is None:
        return None
    left = list(data)
    for name in [dim for dim in others if isinstance(dim, str) and dim not in unsure]:
        if name in left:
            left.remove(name)
            others.remove(name)
    names = [dim for dim in left if not isinstance(dim, int)]
    known = prod(dim for dim in others if isinstance(dim, int))
    total = prod(dim for dim in left if isinstance(dim, int))
    if not all(isinstance(dim, int) for dim in others) or len(names) > 1:
        return None
    if names:
        return names[0] if known == total else None
    return total // known if known else None


def _expand_shape(stated: list[Dim], data: Shape | None) -> Shape | None:
    if data is None:
        return None
    rank = max(len(stated), len(data))
    pairs = zip([1] * (rank - len(stated)) + stated, (1,) * (rank - len(data)) + data, strict=True)
    return tuple(_broadcast(one, other) for one, other in pairs)


def _broadcast(one: Dim, other: Dim) -> Dim:
    if other in {1, one}:
        return one
    if one == 1 or isinstance(other, int):
        return other
    return one if isinstance(one, int) else None


_DOUBLING: Final = frozenset({"Gather", "GatherND"})
_ADDING: Final = frozenset({"ConcatFromSequence", "Einsum", "Loop", "OneHot", "STFT", "Scan"})
# Operators with an input that has an element for each dimension, and its place.
_STATING: Final = {**TARGETED, "Col2Im": 1, "MaxUnpool": 2, "Unsqueeze": 1}

RAISING: Final = _DOUBLING | _ADDING | _STATING.keys()
"""Operators whose outputs may have more dimensions than any of the inputs."""

# The most dimensions that one term of an equation adds.
_LETTERS: Final = 52

_UNKNOWN: Final = 8
# How many times more dimensions than allowed a value may have before somebody looks.
_LEEWAY: Final = 4


class RankWatch:
    """Follows the number of dimensions through nodes that are typed later, many at a time."""

    def __init__(self, graph: Graph, types: Mapping[str, ValueType], limits: LoadLimits) -> None:
        self._graph = graph
        self._types = types
        self._limits = limits
        # Nodes that wait to be typed, and the dimensions that their outputs may have.
        self._waiting: list[int] = []
        self._rank = limits.max_rank
        self._most = _LEEWAY * limits.max_rank

    def note(self, node: int, flush: Callable[[], None]) -> None:
        """Take note of a node to be typed later, with others; ``flush`` types those that wait now.

        It is called where the rank of this node hangs on them. UnsupportedModelError (SGK216) for
        too many axes.
        """
        if not self._limits.max_rank:
            return
        stated = self._shape_input(node)
        if (stated and stated not in self._types) or self._rank > self._most:
            flush()
        graph, table = self._graph, self._graph.table
        shape = getattr(self._types.get(stated), "shape", None)
        if shape and isinstance(shape[0], int):
            self._require(node, shape[0])
        if node in table.bodies:
            outside = {name: _rank_of(self._types.get(name)) for name in graph.read_by(node)}
            for body in table.bodies[node].values():
                bound = _bound_ranks(body, outside)
                self._require(node, bound if bound > _LEEWAY * self._most else 0)
        self._rank = self._next_rank(table.op_types[node], table.inputs[node])
        self._waiting.append(node)

    def settle(self) -> None:
        """Look at the types of nodes that waited; UnsupportedModelError (SGK216) as ``note``."""
        for node in self._waiting:
            for name in self._graph.table.outputs[node]:
                type_ = self._types.get(name)
                if isinstance(type_, TensorType) and type_.shape is not None:
                    self._require(node, len(type_.shape))
        self._waiting.clear()
        self._rank = self._limits.max_rank

    def _shape_input(self, node: int) -> str:
        """Return the input that has an element for each dimension, or an empty text."""
        table = self._graph.table
        inputs = table.inputs[node]
        place = _STATING.get(table.op_types[node], len(inputs))
        return inputs[place] if place < len(inputs) else ""

    def _next_rank(self, op_type: str, inputs: tuple[str, ...]) -> int:
        if op_type in _DOUBLING:
            constants = self._graph.constants
            known = [_rank_of(constants[name].type) for name in inputs[:2] if name in constants]
            return self._rank + max(known[0] - 1, 0) if known else 2 * self._rank
        return self._rank + (_LETTERS if op_type == "Einsum" else 1)

    def _require(self, node: int, found: int) -> None:
        if found > self._limits.max_rank:
            what = f"what node {Node(self._graph, node).label} makes"
            self._limits.require("max_rank", found, what)


def _bound_ranks(body: Graph, outside: Mapping[str, int]) -> int:
    """Return a bound on the dimensions of the values of a body, given those of others."""
    found = dict.fromkeys(body.inputs, max([_UNKNOWN, *outside.values()]))
    found.update(outside)
    found.update((name, _rank_of(one.type)) for name, one in body.constants.items())
    table, most = body.table, 0
    for node in body.order:
        read = [found.get(name, _UNKNOWN) for name in table.inputs[node] if name]
        rank, op_type = max(read, default=0), table.op_types[node]
        if op_type in _DOUBLING:
            rank = max(rank, sum(read[:2]) - 1)
        elif op_type in {"Shape", "Size"}:
            rank = 1
        elif op_type in RAISING:
            rank += _LETTERS if op_type == "Einsum" else 1
        inner = [_bound_ranks(one, found) for one in table.bodies.get(node, {}).values()]
        rank = max(rank, *inner, 0)
        found |= dict.fromkeys(table.outputs[node], rank)
        most = max(most, rank)
    return most


def _rank_of(type_: ValueType | None) -> int:
    """Return the dimensions of a value; where they are not known, more than most values have."""
    if isinstance(type_, TensorType) and type_.shape is not None:
        return len(type_.shape)
    return _UNKNOWN
