"""A draft of a oneDNN graph, and the table of functions that write it.

A region becomes a draft before any of it is given to the library.

Tensors of rank 0 do not exist in oneDNN, so a scalar has one axis of length one here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import Refusal
from subgraphkit.ir import Graph, Node
from subgraphkit.types import DataType, TensorType
from subgraphkit_onednn.symbols import MAX_RANK

Array = npt.NDArray[Any]
Dims = tuple[int, ...]


class RefusedError(Exception):
    """A node cannot be lowered."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.refusal = Refusal(code, text)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a constant's data.

    Attributes:
        names: Names of the constants of the region it is made from; none if made up.
    """

    names: tuple[str, ...]
    make: Callable[..., Array]


@dataclass(frozen=True, slots=True)
class DraftTensor:
    """A tensor of the graph.

    Attributes:
        dims: Lengths of its axes; at least one axis, no axis empty.
        base: Number of the tensor whose memory it shows in another way, if it has none itself.
        strides: Steps in elements along its axes; None if it is dense, the last axis fastest.
    """

    number: int
    dims: Dims
    dtype: DataType
    source: Source | None = None
    base: int | None = None
    strides: Dims | None = None

    @property
    def root(self) -> int:
        """Number of the tensor that has the memory."""
        return self.number if self.base is None else self.base


@dataclass(frozen=True, slots=True)
class DraftOperation:
    """An operation of the graph."""

    kind: str
    inputs: tuple[DraftTensor, ...]
    outputs: tuple[DraftTensor, ...]
    attributes: Mapping[str, Any]
    node: int


@dataclass(slots=True)
class GraphDraft:
    """A graph being written; one node at a time.

    Attributes:
        node: To which node the operations from now on belong.
        operations: What was written so far, in an order in which it can run.
        values: The tensors that stand for values of the model, by name.
    """

    graph: Graph
    dtypes: frozenset[DataType]
    node: int = 0
    operations: list[DraftOperation] = field(default_factory=list)
    values: dict[str, DraftTensor] = field(default_factory=dict)
    _views: dict[tuple[str, Dims], DraftTensor] = field(default_factory=dict)
    _count: int = 0

    def value(self, name: str) -> DraftTensor:
        """Return the tensor of a value; RefusedError for a type or shape oneDNN lacks."""
        if name not in self.values:
            dims, dtype = self._type(name, self.dtypes)
            source = None
            if name in self.graph.constants:
                source = Source((name,), lambda array: _dense(array, dims))
            self.values[name] = self.tensor(dims, dtype, source)
        return self.values[name]

    def result(self, node: Node) -> DraftTensor:
        """Return the tensor of a node's only output; RefusedError if it has more."""
        return self.value(single_output(node))

    def view(self, name: str, dims: Dims) -> DraftTensor:
        """Return a tensor of a value in another shape of as many elements.

        A constant is given that shape, any other value is looked at in that shape.
        """
        tensor = self.value(name)
        if tensor.dims == dims:
            return tensor
        key = name, dims
        if key not in self._views:
            self._views[key] = self.reshape(tensor, dims)
        return self._views[key]

    def full(self, value: float, dims: Dims, dtype: DataType) -> DraftTensor:
        """Return a new constant with the same number everywhere."""
        return self.tensor(dims, dtype, Source((), lambda: np.full(dims, value, dtype.numpy)))

    def like(self, tensor: DraftTensor, dims: Sequence[int] | None = None) -> DraftTensor:
        """Return a new tensor for a value that the model has no name for."""
        return self.tensor(tensor.dims if dims is None else tuple(dims), tensor.dtype)

    def reshape(self, tensor: DraftTensor, dims: Dims) -> DraftTensor:
        """Return the same elements in another shape, in the same memory."""
        if (source := tensor.source) is not None:
            again = Source(source.names, lambda *arrays: _dense(source.make(*arrays), dims))
            return self.tensor(dims, tensor.dtype, again)
        return replace(self.tensor(dims, tensor.dtype), base=tensor.root)

    def permute(self, tensor: DraftTensor, order: Sequence[int]) -> DraftTensor:
        """Return the same elements with the axes in another order, in the same memory."""
        steps = [math.prod(tensor.dims[axis + 1 :]) for axis in range(len(tensor.dims))]
        return replace(
            self.tensor(tuple(tensor.dims[axis] for axis in order), tensor.dtype, tensor.source),
            base=tensor.root if tensor.source is None else None,
            strides=tuple(steps[axis] for axis in order),
        )

    def stand_for(self, name: str, tensor: DraftTensor) -> None:
        """Let a value be the elements of a tensor in the value's own shape, unless it is that."""
        if tensor is not self.value(name):
            self.values[name] = self.reshape(tensor, self.value(name).dims)

    def add(
        self, kind: str, inputs: Sequence[DraftTensor], output: DraftTensor, **attributes: Any
    ) -> DraftTensor:
        """Write an operation; returns its output."""
        made = DraftOperation(kind, tuple(inputs), (output,), attributes, self.node)
        self.operations.append(made)
        return output

    def read(self, node: Node, place: int) -> Array | None:
        """Return an input that chooses attributes, if any; RefusedError if not constant."""
        if place >= len(node.inputs) or not node.inputs[place]:
            return None
        if (found := node.constant(place)) is None:
            name = node.inputs[place]
            raise RefusedError("not_constant", f"input {name!r} must be constant for oneDNN")
        return found

    def tensor(self, dims: Dims, dtype: DataType, source: Source | None = None) -> DraftTensor:
        """Return a new tensor; a constant if there is a source of its data."""
        self._count += 1
        return DraftTensor(self._count - 1, dims, dtype, source)

    def _type(self, name: str, dtypes: frozenset[DataType]) -> tuple[Dims, DataType]:
        type_ = self.graph.types.get(name)
        if not isinstance(type_, TensorType):
            raise RefusedError("dtype", f"value {name!r} is no tensor of a known type")
        if type_.dtype not in dtypes:
            usable = ", ".join(sorted(dtype.label for dtype in dtypes))
            text = f"value {name!r} is {type_.dtype}; oneDNN takes {usable} here"
            raise RefusedError("dtype", text)
        return dims_of(name, type_), type_.dtype


def dims_of(name: str, type_: TensorType) -> Dims:
    """Return a value's lengths, one for a scalar; RefusedError if unknown, zero or many."""
    shape = type_.shape
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        raise RefusedError("dynamic_shape", f"the shape of value {name!r} is known only at a run")
    dims = tuple(int(dim) for dim in shape if isinstance(dim, int))
    if math.prod(dims) == 0:
        raise RefusedError("shape", f"value {name!r} is empty; oneDNN takes no empty tensors here")
    if len(dims) > MAX_RANK:
        raise RefusedError("rank", f"value {name!r} has {len(dims)} axes, oneDNN takes {MAX_RANK}")
    return dims or (1,)


def _dense(array: Array, dims: Dims) -> Array:
    return np.ascontiguousarray(array).reshape(dims)


Lowering = Callable[[GraphDraft, Node], None]
"""Writes the operations of a node into a draft, or raises ``RefusedError``."""

LOWERINGS: Final[dict[str, Lowering]] = {}
"""By operator of the default domain."""


def lowers(*op_types: str) -> Callable[[Lowering], Lowering]:
    """Register a function for operators."""

    def register(function: Lowering) -> Lowering:
        for op_type in op_types:
            LOWERINGS[op_type] = function
        return function

    return register


def require(condition: bool, code: str, text: str) -> None:  # noqa: FBT001 (reads as an assertion)
    """Refuse the node unless a condition holds (RefusedError)."""
    if not condition:
        raise RefusedError(code, text)


def single_output(node: Node) -> str:
    """Return the name of a node's only output; RefusedError if it has more."""
    is_alone = bool(node.outputs[0]) and not any(node.outputs[1:])
    require(is_alone, "attribute", f"{node.op_type} makes outputs that oneDNN does not make")
    return node.outputs[0]


def has_input(node: Node, place: int) -> bool:
    """Say whether an optional input is given."""
    return place < len(node.inputs) and bool(node.inputs[place])
