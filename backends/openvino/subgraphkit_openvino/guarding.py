"""The watch over what enters a region, and the backend that runs what OpenVINO gets wrong."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from itertools import zip_longest
from typing import Any, Final

from subgraphkit.backend import RegionFallback, SubgraphOperator
from subgraphkit.ir import Node, Subgraph, body_graphs

Fallback = Callable[[Subgraph], SubgraphOperator]
"""Compiles a region on another backend."""

MADE_UP: Final = frozenset(
    {"Flatten", "GRU", "GlobalAveragePool", "GlobalMaxPool", "GridSample", "LSTM", "RNN"}
    | {"MaxRoiPool", "ReduceMax", "ReduceMean", "ReduceMin", "RoiAlign"}
)
"""Operators of which OpenVINO makes anything, or ends the process, where there is nothing."""
_OF_SOMETHING: Final = MADE_UP | {"ArgMax", "ArgMin", "AveragePool", "Conv", "LpPool", "MaxPool"}
"""The same where the nothing is fed."""
_STEPS: Final = {"Range": 2, "Slice": 4}
_PASSING: Final = {"Cast", "Gather", "Squeeze", "Unsqueeze"}
_RESIZING: Final = {
    "AffineGrid", "BlackmanWindow", "CenterCropPad", "Col2Im", "Compress", "ConstantOfShape", "DFT",
    "Expand", "HammingWindow", "HannWindow", "If", "MaxUnpool", "NonMaxSuppression", "NonZero",
    "OneHot", "Pad", "Range", "Resize", "STFT", "Slice", "Split", "Tile", "TopK", "Unique",
    "Upsample",
}  # fmt: skip
"""Operators of which numbers that are read, behind the data, say how large something becomes."""


class Guard:
    """Sends a run elsewhere if it is fed what OpenVINO would compute wrong.

    There are three kinds of such inputs:

    * whole numbers out of ``limits`` (an input, least, most);
    * indices beyond the size of an axis (``sized``: an input, another one, its axis);
    * arrays without elements, where OpenVINO would end the process or make up a result.

    Thread-safety: any number of threads may call.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        limits: Sequence[tuple[int, int, int]],
        sized: Sequence[tuple[int, int, int]],
        fallback: Fallback,
    ) -> None:
        self._limits, self._sized = tuple(limits), tuple(sized)
        places = dict.fromkeys(place for place, *_ in (*self._limits, *self._sized))
        names = ", ".join(repr(subgraph.inputs[place]) for place in places)
        reason = f"what is fed to subgraph {subgraph.id!r} has no elements, or fewer than a window"
        if names:
            reason += (
                f", or whole numbers ({names}) are indices out of range, are counted up and are "
                "neither 0 nor 1, or need more than the 24 bits in which OpenVINO is exact"
            )
        self.fallback = RegionFallback(subgraph, fallback, reason)
        found = _OF_SOMETHING.intersection(one.op_type for one in subgraph.members)
        fragile = {op_type for op_type in found if self.fallback.has_open((op_type,))}
        nodes = {one.id for one in subgraph.members if one.op_type in fragile or _may_copy(one)}
        self._reaches = cache(partial(_reaches, subgraph, nodes))
        counts = [getattr(one, "element_count", 0) for one in subgraph.input_types]
        self._filled = [place for place, count in enumerate(counts) if nodes and count is None]
        self.watches = bool(self._limits or self._sized or self._filled)

    def admits(self, inputs: Sequence[Any]) -> bool:
        """Say whether OpenVINO gets a run right."""
        bare = tuple([place for place in self._filled if not inputs[place].size])
        if bare and self._reaches(bare):
            return False
        sizes = ((place, inputs[other].shape[axis]) for place, other, axis in self._sized)
        for place, low, high in (*self._limits, *((at, -size, size - 1) for at, size in sizes)):
            array = inputs[place]
            if array.size and not (low <= array.min() and array.max() <= high):
                return False
        return True


def _reaches(subgraph: Subgraph, fragile: Collection[int], bare: Iterable[int]) -> bool:
    """Follow what may be empty, and numbers that come of its sizes, to what must not be.

    What is put together has elements if one part has. A sum of sizes is 0 if both are. A Reshape
    makes as many as it reads.
    """
    empty, zero, sizes = {subgraph.inputs[place] for place in bare}, set[str](), set[str]()
    for node in subgraph.members:
        op_type, read = node.op_type, node.graph.read_by(node.id)
        is_sum, counts = op_type == "Add" and sizes.issuperset(read), op_type == "Shape"
        is_joined = op_type == "Concat" and len(node.shape(0) or ()) > 1
        filled, made = read[: 1 if op_type == "Reshape" else None], {*node.outputs} - {""}
        is_empty = (all if is_joined else any)(name in empty for name in filled)
        if is_empty and node.id in fragile:
            return True
        is_zero = not counts and (all if is_sum else any)(name in zero for name in read)
        first = int(op_type != "Range" and not node.bodies and len(read) > 1)
        steps = node.constant(_STEPS[op_type]) if op_type in _STEPS else None
        # to begin at 0 leaves no less
        begins = steps is not None and bool((steps > 0).all()) and read[first] in sizes
        resizes = op_type in _RESIZING and not zero.isdisjoint(read[first + begins :])
        sizes |= made if counts or is_sum or (op_type in _PASSING and read[0] in sizes) else set()
        empty |= made if resizes or (is_empty and not counts) else set()
        zero |= made if is_empty or is_zero else set()
    return False


def _may_copy(node: Node) -> bool:
    """Say whether a computed size of a Reshape may be 0, so that another is copied.

    OpenVINO (2026.4) lets sizes cancel out for another size, as if none were 0. Of an If, say
    whether a branch holds such a Reshape, or an operator that must be fed something.
    """
    if node.bodies:
        inner = (one for body in body_graphs(node) for one in body.nodes)
        return any(one.op_type in _OF_SOMETHING or _may_copy(one) for one in inner)
    if node.op_type != "Reshape" or node.is_constant(1):
        return False
    pairs = zip_longest(node.graph.shape(node.outputs[0]) or (), node.shape(0) or (), fillvalue=0)
    return any(made is None or (made != read and not isinstance(made, int)) for made, read in pairs)
