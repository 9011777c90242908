"""The watch over what enters a region, and the backend that runs what OpenVINO gets wrong."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from subgraphkit.backend import RegionFallback, SubgraphOperator
from subgraphkit.ir import Node, Subgraph
from subgraphkit.types import TensorType

Fallback = Callable[[Subgraph], SubgraphOperator]
"""Compiles a region on another backend."""


MADE_UP: Final = frozenset(
    {"Flatten", "GRU", "GlobalAveragePool", "GlobalMaxPool", "GridSample", "LSTM", "RNN"}
    | {"MaxRoiPool", "ReduceMean", "RoiAlign"}
)
"""Operators of which OpenVINO makes anything, or ends the process, where there is nothing."""
_OF_SOMETHING: Final = MADE_UP | {"ArgMax", "ArgMin", "AveragePool", "Conv", "LpPool", "MaxPool"}
"""The same where the nothing is fed."""


class Guard:
    """Sends a run elsewhere if it is fed what OpenVINO would compute wrong.

    That is whole numbers out of ``limits`` (an input, least, most), indices beyond the size of an
    axis (``sized``: an input, another one, its axis), and nothing where it ends the process or
    makes anything of it.

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
        copies = any(map(_may_copy, subgraph.members))
        needs_some = copies or self.fallback.has_open(_OF_SOMETHING)
        self._filled = [
            place
            for place, type_ in enumerate(subgraph.input_types)
            if needs_some and isinstance(type_, TensorType) and type_.element_count is None
        ]
        self.watches = bool(self._limits or self._sized or self._filled)

    def admits(self, inputs: Sequence[Any]) -> bool:
        """Say whether OpenVINO gets a run right."""
        if not all(inputs[place].size for place in self._filled):
            return False
        sizes = ((place, inputs[other].shape[axis]) for place, other, axis in self._sized)
        for place, low, high in (*self._limits, *((at, -size, size - 1) for at, size in sizes)):
            array = inputs[place]
            if array.size and not (low <= array.min() and array.max() <= high):
                return False
        return True


def _may_copy(node: Node) -> bool:
    """Say whether a computed size of a Reshape may be 0, so that another is copied, beside -1.

    OpenVINO (2026.4) lets sizes cancel out for what -1 stands for, as if none were 0.
    """
    if node.op_type != "Reshape" or node.is_constant(1):
        return False
    read, made = node.shape(0) or (None,), node.graph.shape(node.outputs[0]) or ()
    unknown = [size for size in made if not isinstance(size, int) and size not in read]
    return None not in read and len(unknown) > 1
