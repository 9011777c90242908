"""Ports of a draft: tensors that cross the edge of the region, and outputs that are only copies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from subgraphkit.ir import Subgraph
from subgraphkit_onednn.lowering import DraftTensor, GraphDraft

__all__ = ["Copy", "Ports", "find_ports"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """An output that shows the elements of something else, which must not share its memory.

    Attributes:
        output: Place of the output.
        source: Place of the input or output with the elements; unused for a constant.
        tensor: The constant with the elements, or None.
        is_input: Whether ``source`` is the place of an input.
    """

    output: int
    source: int
    tensor: DraftTensor | None
    is_input: bool

    def found(
        self, inputs: Sequence[Array], outputs: Sequence[Array], data_of: Callable[[str], Array]
    ) -> Array:
        """Return the elements in the shape of the output."""
        if self.tensor is not None and self.tensor.source is not None:
            array = self.tensor.source.make(*map(data_of, self.tensor.source.names))
        else:
            array = inputs[self.source] if self.is_input else outputs[self.source]
        return array.reshape(outputs[self.output].shape)


@dataclass(frozen=True, slots=True)
class Ports:
    """The tensors that cross the edge of a region.

    Attributes:
        entering: By place of an input, the number of its tensor; None if nothing computes with it.
        leaving: By place of an output, the number of the tensor that has its memory; None if it
            is a copy.
        made: The tensors that are handed out.
        copies: The outputs that are copies.
    """

    entering: tuple[int | None, ...]
    leaving: tuple[int | None, ...]
    made: tuple[DraftTensor, ...]
    copies: tuple[Copy, ...]

    @property
    def numbers(self) -> frozenset[int]:
        """The tensors whose memory belongs to the caller."""
        return frozenset(n for n in (*self.entering, *self.leaving) if n is not None)


def find_ports(subgraph: Subgraph, draft: GraphDraft) -> Ports:
    """Find what crosses the edge of a region that was drafted."""
    values = draft.values
    entering = tuple(values[name].number if name in values else None for name in subgraph.inputs)
    places = {number: place for place, number in enumerate(entering) if number is not None}
    leaving: list[int | None] = []
    made: list[DraftTensor] = []
    copies: list[Copy] = []
    for place, name in enumerate(subgraph.outputs):
        tensor = values[name]
        leaves = tensor.source is None and tensor.root not in (*places, *leaving)
        leaving.append(tensor.root if leaves else None)
        if leaves:
            made.append(tensor)
        elif tensor.source is not None:
            copies.append(Copy(place, 0, tensor, is_input=False))
        elif tensor.root in places:
            copies.append(Copy(place, places[tensor.root], None, is_input=True))
        else:
            copies.append(Copy(place, leaving.index(tensor.root), None, is_input=False))
    return Ports(entering, tuple(leaving), tuple(made), tuple(copies))
