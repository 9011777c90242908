"""Values that a run may leave without elements, though whatever is fed has some.

ONNX says what operators make of nothing. Many libraries make something else of it.
"""

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from subgraphkit.ir.bounds import FEW, Bounds, BoundsPass
from subgraphkit.ir.costs import PASSING_ON, elements
from subgraphkit.ir.graph import Graph, Node
from subgraphkit.types import Dim

EMPTYING: Final = frozenset((
    "CenterCropPad", "Compress", "ConstantOfShape", "Expand", "NonMaxSuppression", "NonZero",
    "Range", "SequenceAt", "Slice", "TopK",
))  # fmt: skip
"""Operators that may leave nothing of something. Bodies, parts and paddings hardly do so: to count
them would cut many models."""

_COUNTED: Final = {"CenterCropPad": 1, "ConstantOfShape": 0, "Expand": 1, "TopK": 1}
"""Operators that leave something if no number of this input is 0."""
_KEEPING: Final = frozenset({*PASSING_ON, "Cast", "Concat", "Mul", "Where"})
_DATA: Final = {"GRU": 1, "LSTM": 1, "RNN": 1}  # states follow the data
_FAR: Final = 2**31 - 1

_found: Final[WeakKeyDictionary[Graph, dict[bool, Mapping[str, int]]]] = WeakKeyDictionary()


def emptied_values(graph: Graph, *, of_less: bool = False) -> Mapping[str, int]:
    """Return the values that may have no elements, with the node that may leave them none.

    A value is not among them if a feed would show it. The nodes of a graph are walked once.

    ``of_less``: Count values that may have fewer elements than a window as well.
    """
    found = _found.setdefault(graph, {})
    if of_less not in found:
        found[of_less] = _EmptinessPass(graph, of_less=of_less).makers
    return found[of_less]


def emptying_node(node: Node, *, of_less: bool = False) -> Node | None:
    """Return a node that may leave this one nothing to read; None if a feed would show it."""
    makers = emptied_values(node.graph, of_less=of_less)
    found = [makers[name] for name in node.inputs[: _DATA.get(node.op_type)] if name in makers]
    return node.graph.nodes[found[0]] if found else None


class _EmptinessPass(BoundsPass):
    """Bounds of whole numbers, where a size is 1 or more unless a node may have left nothing."""

    def __init__(self, graph: Graph, *, of_less: bool) -> None:
        self.makers: dict[str, int] = {}
        self._of_less = of_less
        self._filled: set[str] = set()  # whole numbers without a 0 among them
        self._fed = {size for name in graph.inputs for size in graph.shape(name) or () if size}
        super().__init__(graph, {}, _FAR)

    def sizes(self, name: str) -> Bounds:
        low, high = super().sizes(name)
        return low + (name not in self.makers), high

    def enter(self, node: Node) -> None:
        super().enter(node)
        first, last = int(node.op_type == "Where"), 1 if node.op_type in PASSING_ON else None
        if node.op_type in _KEEPING and all(map(self._has_no_zero, node.inputs[first:last])):
            self._filled.update(node.outputs)
        read = node.inputs[: _DATA.get(node.op_type)]
        before = (self.makers[name] for name in read if name in self.makers)
        if (maker := node.id if self._may_empty(node) else next(before, None)) is None:
            return
        for name in filter(None, node.outputs):
            shape = self.graph.shape(name)
            sizes = {None} if shape is None else {*shape} - self._fed
            if not all(isinstance(size, int) for size in sizes):
                self.makers[name] = maker

    def _may_empty(self, node: Node) -> bool:
        if node.op_type == "Slice":
            return not self._leaves_some(node)
        if node.op_type in _COUNTED and not self._of_less:
            # an older TopK states its count
            return not all(map(self._has_no_zero, node.inputs[_COUNTED[node.op_type] :][:1]))
        if node.op_type == "Range" and not self._of_less:
            start, limit, step = (self.input(node, place) or (0, 0) for place in range(3))
            return not (start[1] < limit[0] and step[0] > 0)
        return node.op_type in EMPTYING

    def _has_no_zero(self, name: str) -> bool:
        limits, stored = self.of(name), self.graph.constants.get(name)
        if limits is None or name in self._filled or limits[0] > 0 or limits[1] < 0:
            return limits is not None
        is_few = stored is not None and elements(stored.type.shape) <= FEW
        array = stored.array() if stored is not None and is_few else np.zeros(1)
        return array.dtype.kind in "iu" and bool(array.all())  # half of a size may be cast to 0

    def _leaves_some(self, node: Node) -> bool:
        """Say whether a slice of something is not empty along any axis of a size not known."""
        made, sizes = self.graph.shape(node.outputs[0]), node.shape(0)
        names = enumerate(("starts", "ends", "axes", "steps"), 1)
        starts, ends, axes, steps = (node.attribute(one, node.constant(at)) for at, one in names)
        limits = self.input(node, 2) if ends is None else None
        told = zip((axes, steps), node.inputs[3:], strict=False)
        is_vague = starts is None or any(one is None and name for one, name in told)
        if not made or not sizes or is_vague or (ends is None and (not limits or limits[0] < 1)):
            return False
        firsts = np.ravel(starts).tolist()
        lasts = [limits[0]] * len(firsts) if limits is not None else np.ravel(ends).tolist()
        along = range(len(firsts)) if axes is None else np.ravel(axes)
        proves = not self._of_less and (steps is None or bool((np.ravel(steps) > 0).all()))
        return all(
            _some(made[axis], 0) > 0 or (proves and _reaches(_some(sizes[axis]), first, last))
            for axis, first, last in zip(along, firsts, lasts, strict=False)
        )


def _some(size: Dim, otherwise: int = 1) -> int:
    return size if isinstance(size, int) else otherwise


def _reaches(least: int, start: int, end: int) -> bool:
    """Say whether a part of so many elements, or of more, has an element."""
    return end >= _FAR if start < 0 else start < min(least, end + least * (end < 0))
