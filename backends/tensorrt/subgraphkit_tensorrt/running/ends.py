"""Both ends of a run: sources of inputs, places of outputs, and their element types."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import InputError
from subgraphkit_tensorrt.running.arrays import DeviceArray, Foreign
from subgraphkit_tensorrt.running.engine import IOTensor
from subgraphkit_tensorrt.running.memory import Block

__all__ = ["EngineInput", "EngineOutput", "check_target", "from_engine", "overlap", "to_engine"]


@dataclass(slots=True)
class EngineInput:
    """An input on its way: an array of the host, or one on the device."""

    tensor: IOTensor
    array: npt.NDArray[Any] | DeviceArray | Foreign

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.array.shape

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.array.nbytes

    @property
    def host(self) -> npt.NDArray[Any] | None:
        """The array, if it is on the host."""
        return self.array if isinstance(self.array, np.ndarray) else None


@dataclass(slots=True)
class EngineOutput:
    """An output: where it is and is to be, and its shape when that is known."""

    tensor: IOTensor
    wanted: Any
    shape: tuple[int, ...] = ()
    host: npt.NDArray[Any] | None = None
    block: Block | None = None
    allocator: Any = None
    target: Foreign | None = None
    is_direct: bool = False

    @property
    def goes(self) -> bool:
        """Whether it goes to the host."""
        return self.wanted is None and self.host is None

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.tensor.dtype.itemsize

    @property
    def address(self) -> int:
        """Where the engine writes it on the device."""
        if self.is_direct and self.target is not None:
            return self.target.address
        block = self.block if self.allocator is None else self.allocator.memory.block
        return block.address if block is not None else 0


def check_target(name: str, target: Foreign, result: EngineOutput) -> None:
    """Hold the caller's memory against an output, as far as its shape is known.

    Raises:
        InputError: It is of another element type (SGK141) or shape (SGK140).
    """
    if target.dtype != result.tensor.dtype:
        raise InputError(
            "SGK141",
            f"the buffer for output {name!r} is {target.dtype}; the engine writes "
            f"{result.tensor.dtype}",
        )
    if -1 not in result.shape and target.shape != result.shape:
        raise InputError(
            "SGK140",
            f"the buffer for output {name!r} has shape {target.shape}; the result has "
            f"{result.shape}",
        )


def overlap(one: Foreign, other: DeviceArray | Foreign) -> bool:
    """Say whether two arrays share memory."""
    return one.address < other.address + other.nbytes and other.address < one.address + one.nbytes


def to_engine(array: npt.NDArray[Any], tensor: IOTensor) -> npt.NDArray[Any]:
    """Return an array of the engine's element type in row-major order, the same one if it is.

    Numbers of float64 become float32, where the option ``truncate_double`` says so.

    Raises:
        InputError: It is of another kind, as only arrays on a device can be that do not say what
            they are (SGK141).
    """
    if array.dtype != tensor.dtype:
        is_narrowed = array.itemsize > tensor.dtype.itemsize
        if {array.dtype.kind, tensor.dtype.kind} != {"f"} or not is_narrowed:
            raise InputError(
                "SGK141",
                f"input {tensor.name!r} is {array.dtype}; the engine reads {tensor.dtype}",
            )
        array = array.astype(tensor.dtype)
    # Not ascontiguousarray, which gives 0-d arrays an axis.
    return array if array.flags.c_contiguous else array.copy(order="C")


def from_engine(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array of the model's element type, the same one if it is."""
    return array if array.dtype == dtype else array.astype(dtype)
