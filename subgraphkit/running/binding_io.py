"""Inputs and outputs bound in advance, as with ONNX Runtime's ``IOBinding``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import CallerError, InputError
from subgraphkit.ir import BoundGraph
from subgraphkit.types import DataType, Shape, TensorType

__all__ = ["IOBinding"]

_Array = npt.NDArray[Any]


class IOBinding:
    """Arrays to read from and buffers to write into, kept from run to run.

    Thread-safety: none; use one binding per thread.
    """

    def __init__(self, graph: BoundGraph) -> None:
        self._graph = graph
        self._inputs: dict[str, Any] = {}
        self._buffers: dict[str, _Array | None] = {}
        self._results: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, array: Any) -> None:
        """Read the input from this array at every run; it is not copied now.

        Raises:
            InputError: The model has no such input (SGK142).
        """
        if name not in self._graph.inputs and name not in self._graph.defaults:
            raise InputError("SGK142", f"the model has no input {name!r}")
        self._inputs[name] = array

    def bind_output(self, name: str, buffer: Any = None) -> None:
        """Write the output into this buffer at every run, or allocate it anew if None.

        Raises:
            InputError: The model has no such output (SGK143), or the buffer cannot be written
                to, or the output is no tensor (SGK145).
        """
        if name not in self._graph.outputs:
            raise InputError("SGK143", f"the model has no output {name!r}")
        if buffer is not None and not (isinstance(buffer, np.ndarray) and buffer.flags.writeable):
            raise InputError(
                "SGK145",
                f"the buffer for output {name!r} is not a NumPy array that can be written to",
            )
        type_ = self._graph.types.get(name)
        if buffer is not None and not isinstance(type_, TensorType):
            raise InputError(
                "SGK145", f"output {name!r} is {type_}, which is not written into a buffer"
            )
        self._buffers[name] = buffer

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the output buffers and results."""
        self._buffers.clear()
        self._results.clear()

    def get_outputs(self) -> list[Any]:
        """Return the bound outputs of the last run, in the order they were bound.

        Raises:
            CallerError: An output was bound after the last run (SGK143).
        """
        missing = [name for name in self._buffers if name not in self._results]
        if missing:
            raise CallerError(
                "SGK143",
                f"output {missing[0]!r} has not been computed since it was bound",
                hint="Call run_with_iobinding() first.",
            )
        return [self._results[name] for name in self._buffers]

    copy_outputs_to_cpu = get_outputs

    def feeds(self) -> dict[str, Any]:
        """Return the bound inputs by name."""
        return dict(self._inputs)

    def buffers(self) -> list[_Array | None]:
        """Return one buffer or None per output of the model, for operators to write into.

        A buffer whose right shape is known only after the run is left out, and so is one that
        shares memory with an input, which later operators may have to read: results are copied
        into those at the end.

        Raises:
            InputError: A buffer has another dtype or shape than the output (SGK140, SGK141).
        """
        return [self._writable_early(name) for name in self._graph.outputs]

    def _writable_early(self, name: str) -> _Array | None:
        buffer, type_ = self._buffers.get(name), self._graph.types.get(name)
        if buffer is None or not isinstance(type_, TensorType) or type_.element_count is None:
            return None
        if type_.dtype is DataType.UNDEFINED:
            return None
        _check_fits(name, buffer, type_.dtype.numpy, type_.shape)
        fed = (array for array in self._inputs.values() if isinstance(array, np.ndarray))
        return None if any(np.may_share_memory(buffer, array) for array in fed) else buffer

    def accept(self, results: Sequence[Any]) -> None:
        """Take the results of a run; what an operator did not write in place is copied.

        Raises:
            InputError: A buffer has another dtype or shape than the result (SGK140, SGK141).
        """
        if not self._buffers:
            self._buffers = dict.fromkeys(self._graph.outputs)
        by_name = dict(zip(self._graph.outputs, results, strict=True))
        for name, buffer in self._buffers.items():
            self._results[name] = _delivered(name, by_name[name], buffer)


def _delivered(name: str, result: Any, buffer: _Array | None) -> Any:
    if buffer is None or result is buffer:
        return result
    _check_fits(name, buffer, result.dtype, result.shape)
    np.copyto(buffer, result)
    return buffer


def _check_fits(name: str, buffer: _Array, dtype: np.dtype[Any], shape: Shape | None) -> None:
    for code, what, have, want in (
        ("SGK141", "dtype", buffer.dtype, dtype),
        ("SGK140", "shape", buffer.shape, shape),
    ):
        if have != want:
            raise InputError(
                code, f"the buffer for output {name!r} has {what} {have}; the result has {want}"
            )
