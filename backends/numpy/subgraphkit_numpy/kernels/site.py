"""The site of a kernel: all that a factory knows of the node it makes one for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.ir import Node
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_numpy.kernels.scope import BodyFunction, Scope


class Site:
    """One node at compile time: attributes, types and constants.

    Attributes:
        absorbed: Inputs that the kernel holds itself and does not want to be passed.
        captured: Values from outside its bodies that the kernel wants passed after the inputs.
    """

    def __init__(self, node: Node, scope: Scope) -> None:
        self.node = node
        self.absorbed: set[int] = set()
        self.captured: tuple[str, ...] = ()
        self.scope = scope
        self._inputs = node.inputs

    # -- the node ------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        """Version of the operator set."""
        return self.node.opset

    @property
    def input_count(self) -> int:
        """Number of inputs, trailing ones that are left out not counted."""
        count = len(self._inputs)
        while count and not self._inputs[count - 1]:
            count -= 1
        return count

    @property
    def output_count(self) -> int:
        """Number of outputs, including those left out."""
        return len(self.node.outputs)

    def has(self, index: int) -> bool:
        """Say whether an input is given."""
        return index < len(self._inputs) and bool(self._inputs[index])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or ``default`` if the node does not have it.

        Floats are float32, as ONNX stores them: a default is rounded as what is stated.
        """
        found = self.node.attribute(name, default)
        return float(np.float32(found)) if isinstance(found, float) else found

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers, or None."""
        value: Sequence[int] | None = self.node.attribute(name)
        return None if value is None else tuple(int(v) for v in value)

    def body(self, name: str) -> tuple[BodyFunction, tuple[int, ...]]:
        """Compile the body held by an attribute."""
        function, captures = self.scope.compile_body(self.node.bodies[name])
        self.captured = tuple(dict.fromkeys((*self.captured, *captures)))
        return function, tuple(self.captured.index(value) for value in captures)

    # -- types ---------------------------------------------------------------------------------

    def dtype(self, index: int = 0) -> np.dtype[Any] | None:
        """Return the element type of an input, or None if it is not known."""
        return _numpy_dtype(self.node.input_type(index))

    def output_dtype(self, index: int = 0) -> np.dtype[Any] | None:
        """Return the element type of an output, or None if it is not known."""
        return _numpy_dtype(self.node.output_type(index))

    def rank(self, index: int = 0) -> int | None:
        """Return the number of axes of an input, or None if it is not known."""
        return self._static_rank(self.node.input_type(index))

    def output_rank(self) -> int | None:
        """Return the number of axes of the first output, or None if it is not known."""
        return self._static_rank(self.node.output_type())

    def shape(self, index: int = 0) -> tuple[int, ...] | None:
        """Return the shape of an input, or None if a dimension is not known."""
        return self._static_shape(self.node.input_type(index))

    def output_shape(self, index: int = 0) -> tuple[int, ...] | None:
        """Return the shape of an output, or None if a dimension is not known."""
        return self._static_shape(self.node.output_type(index))

    def _static_rank(self, type_: ValueType | None) -> int | None:
        trusts = self.scope.trusts_shapes and isinstance(type_, TensorType)
        return type_.rank if trusts and isinstance(type_, TensorType) else None

    def _static_shape(self, type_: ValueType | None) -> tuple[int, ...] | None:
        if not self.scope.trusts_shapes or not isinstance(type_, TensorType):
            return None
        # this is asked several times of every node, so no generator
        dims = [dim for dim in type_.shape or () if isinstance(dim, int)]
        return tuple(dims) if type_.shape is not None and len(dims) == len(type_.shape) else None

    # -- constants -----------------------------------------------------------------------------

    def is_constant(self, index: int) -> bool:
        """Say whether an input is given and known before anything runs."""
        return self.has(index) and self.scope.knows(self._inputs[index])

    def constant(self, index: int) -> npt.NDArray[Any] | None:
        """Return the data of a constant input, or None if it is left out or not constant."""
        if not self.is_constant(index):
            return None
        value: npt.NDArray[Any] = self.scope.value(self._inputs[index])
        return value

    def settled(self, *indices: int) -> bool:
        """Say whether each of the inputs is either left out or constant."""
        return all(not self.has(index) or self.is_constant(index) for index in indices)

    def absorb(self, *indices: int) -> list[npt.NDArray[Any] | None]:
        """Return constant inputs (None where left out), which then are not passed to the kernel.

        All must be ``settled``.
        """
        self.absorbed.update(index for index in indices if index < len(self._inputs))
        return [self.constant(index) for index in indices]

    def absorb_ints(self, index: int) -> tuple[int, ...] | None:
        """Absorb a constant input that is a list of integers; None where left out."""
        (value,) = self.absorb(index)
        return None if value is None else tuple(int(v) for v in value.reshape(-1))


def _numpy_dtype(type_: ValueType | None) -> np.dtype[Any] | None:
    if not isinstance(type_, TensorType) or type_.dtype is DataType.UNDEFINED:
        return None
    return type_.dtype.numpy
