"""The edge of a region: arrays in and out, checked before any address reaches the library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Subgraph
from subgraphkit.types import TensorType, ValueType
from subgraphkit_onednn.buffers import empty
from subgraphkit_onednn.lowering import DraftTensor, GraphDraft

Array = npt.NDArray[Any]
_Signature = tuple[str, np.dtype[Any], tuple[int, ...]]


class Edge:
    """The values that cross the edge of a region."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._inputs = _signatures(subgraph.inputs, subgraph.input_types)
        self._outputs = _signatures(subgraph.outputs, subgraph.output_types)

    def dense_arrays(self, inputs: Sequence[Any]) -> list[Array]:
        """Return inputs as dense arrays, copied if need be; ValueError if not as compiled for."""
        return [_dense(one, signature) for one, signature in zip(inputs, self._inputs, strict=True)]

    def destinations(self, read: Sequence[Array], outputs: Sequence[Any] | None) -> list[Array]:
        """Return the arrays to write to: given buffers where that is safe, new ones elsewhere."""
        found: list[Array] = []
        for place, (_, dtype, shape) in enumerate(self._outputs):
            buffer: Any = None if outputs is None else outputs[place]
            is_array = isinstance(buffer, np.ndarray) and buffer.dtype == dtype
            fits = is_array and buffer.shape == shape and buffer.flags.carray
            may_be_written = fits and not any(
                np.may_share_memory(buffer, other) for other in (*read, *found)
            )
            found.append(buffer if may_be_written else empty(shape, dtype))
        return found


def _signatures(names: Sequence[str], types: Sequence[ValueType | None]) -> list[_Signature]:
    found = []
    for name, type_ in zip(names, types, strict=True):
        if not isinstance(type_, TensorType) or type_.shape is None:
            raise ValueError(f"the shape of {name!r} is not known")
        shape = tuple(int(dim) for dim in type_.shape if isinstance(dim, int))
        found.append((name, type_.dtype.numpy, shape))
    return found


def _dense(value: Any, signature: _Signature) -> Array:
    name, dtype, shape = signature
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.shape != shape or array.dtype.newbyteorder("=") != dtype:
        raise ValueError(
            f"input {name!r} is {array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
        )
    if array.flags.c_contiguous and array.flags.aligned and array.dtype == dtype:
        return array
    return np.array(array, dtype, order="C")


@dataclass(frozen=True, slots=True)
class Copy:
    """An output that shows the elements of something else, which must not share its memory.

    Attributes:
        source: Place of the input or output with the elements; unused for a constant.
    """

    output: int
    source: int
    tensor: DraftTensor | None
    is_input: bool

    def elements(
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
