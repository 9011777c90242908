"""The tensors of an engine: their element types, and the places of outputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import InputError
from subgraphkit_tensorrt.running.arrays import DeviceArray
from subgraphkit_tensorrt.running.dlpack import Foreign
from subgraphkit_tensorrt.running.memory import ALIGNMENT, Block


@dataclass(frozen=True, slots=True)
class IOTensor:
    """An input or output of an engine.

    Attributes:
        dtype: Element type that the engine reads or writes; not always that of the model.
        shape: One entry per axis; -1 where it differs from run to run.
        on_host: Whether it is in the memory of the host, as shapes are.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    on_host: bool


@dataclass(slots=True)
class EngineOutput:
    """An output: where it is and is to be, and its shape when that is known.

    Attributes:
        goes: Whether it goes to the host.
        host: The array, if TensorRT writes it on the host.
        address: Where the engine writes it on the device, unless an allocator says.
        offset: Where it is copied to in memory that is copied through.
    """

    tensor: IOTensor
    goes: bool
    shape: tuple[int, ...] = ()
    host: npt.NDArray[Any] | None = None
    block: Block | None = None
    address: int = 0
    offset: int = 0
    allocator: Any = None
    target: Foreign | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.tensor.dtype.itemsize

    @property
    def place(self) -> int:
        """Where it is on the device when the engine has run."""
        if self.allocator is None:
            return self.address
        block = self.allocator.memory.block
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

    Numbers of float32 become float16, where the option ``io_precision`` says so.

    Raises:
        InputError: It has another type (SGK141). Only an array on a device can get here with one,
            if it did not say its type.
    """
    if array.dtype != tensor.dtype:
        is_narrowed = array.itemsize > tensor.dtype.itemsize
        if {array.dtype.kind, tensor.dtype.kind} != {"f"} or not is_narrowed:
            raise InputError(
                "SGK141", f"input {tensor.name!r} is {array.dtype}; the engine reads {tensor.dtype}"
            )
        array = array.astype(tensor.dtype)
    # Not ascontiguousarray, which gives 0-d arrays an axis.
    return array if array.flags.c_contiguous else array.copy(order="C")


def is_usable(address: int) -> bool:
    """Say whether TensorRT takes an address."""
    return bool(address) and address % ALIGNMENT == 0
