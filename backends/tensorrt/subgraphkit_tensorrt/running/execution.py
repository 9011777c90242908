"""One run of an engine, in the order that is right for every TensorRT.

Shapes, then addresses of what is on the host, then what follows from them, then addresses on the
device, then the run; results are waited for only if the host wants them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.checks import check_run
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.arrays import DeviceArray, Foreign, foreign, is_on_device
from subgraphkit_tensorrt.running.contexts import Context
from subgraphkit_tensorrt.running.conversion import to_engine
from subgraphkit_tensorrt.running.cuda_graphs import Recording
from subgraphkit_tensorrt.running.device import Lane
from subgraphkit_tensorrt.running.engine import Engine, Tensor
from subgraphkit_tensorrt.running.memory import ALIGNMENT, Block, aligned

__all__ = ["Execution"]


@dataclass(slots=True)
class _Source:
    """An input on its way: an array of the host, or one on the device."""

    tensor: Tensor
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
class _Result:
    """An output: where it is, and its shape when that is known."""

    tensor: Tensor
    shape: tuple[int, ...] = ()
    host: npt.NDArray[Any] | None = None
    block: Block | None = None
    allocator: Any = None

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.tensor.dtype.itemsize

    @property
    def address(self) -> int:
        """Where it is on the device."""
        block = self.block if self.allocator is None else self.allocator.memory.block
        return block.address if block is not None else 0


class Execution:
    """One run of one engine.

    Args:
        loaded: The engine.
        context: Held for the run.
        lane: Held for the run; its device is the thread's current one.
        records: Whether runs may be recorded as CUDA graphs.

    Thread-safety: none; made for one run.
    """

    def __init__(self, loaded: Engine, context: Context, lane: Lane, *, records: bool) -> None:
        self._loaded = loaded
        self._context = context
        self._execution_context = context.execution_context
        self._lane = lane
        self._cuda = loaded.device.cuda
        self._memory = loaded.device.memory
        self._records = records
        self._own: list[Block] = []
        self._foreign: list[Foreign] = []
        self._recording: Recording | None = None

    def run(self, inputs: Sequence[Any], stays: Sequence[bool]) -> list[Any]:
        """Run.

        Args:
            inputs: One array per input of the engine, on the host or on its device.
            stays: By output, whether it is to stay on the device.

        Returns:
            By output, an array on the host or a ``DeviceArray``; of the engine's element types.

        Raises:
            ExecutionError: It failed (SGK163, SGK174, SGK176).
            InputError: An input cannot be read (SGK177).
        """
        self._context.move_to(self._lane)
        try:
            sources = self._sources(inputs)
            with listening() as lines:
                self._set_shapes(sources, lines)
                results = self._results(lines)
            scratch = self._loaded.contexts.give_scratch(self._context, self._lane)
            if self._records and all(result.allocator is None for result in results):
                self._recording = self._context.recordings.of(self._key(sources, scratch))
            self._place(sources, results)
            self._enqueue(results)
            return self._delivered(results, stays)
        finally:
            for block in self._own:
                self._memory.give_back(block)
            self._end_foreign()

    # -- inputs ------------------------------------------------------------------------------

    def _sources(self, inputs: Sequence[Any]) -> list[_Source]:
        return [
            self._source(tensor, value)
            for tensor, value in zip(self._loaded.inputs, inputs, strict=True)
            if tensor is not None
        ]

    def _source(self, tensor: Tensor, value: Any) -> _Source:
        if is_on_device(value):
            remote = self._remote(tensor, value)
            if remote.dtype == tensor.dtype and not tensor.on_host:
                return _Source(tensor, remote)
            value = self._downloaded(remote)
        return _Source(tensor, to_engine(np.asarray(value), tensor))

    def _remote(self, tensor: Tensor, value: Any) -> DeviceArray | Foreign:
        if isinstance(value, DeviceArray) and value.__dlpack_device__()[1] == (
            self._loaded.device.index
        ):
            value.use_on(self._lane.stream)
            return value
        found = foreign(value, tensor.name, self._loaded.device, self._lane.stream)
        self._foreign.append(found)
        return found

    def _downloaded(self, remote: DeviceArray | Foreign) -> npt.NDArray[Any]:
        array = np.empty(remote.shape, remote.dtype)
        if array.nbytes:
            stream = self._lane.stream
            self._cuda.download(array.ctypes.data, remote.address, array.nbytes, stream)
            self._lane.wait()
        return array

    def _set_shapes(self, sources: Sequence[_Source], lines: Sequence[str]) -> None:
        known = self._context.shapes
        for source in sources:
            name, shape = source.tensor.name, source.shape
            if known.get(name) != shape:
                done = self._execution_context.set_input_shape(name, shape)
                check_run(done, f"take shape {shape} of input {name!r}", lines, hint=_SHAPES)
                known[name] = shape
            if source.tensor.on_host and source.host is not None:
                # 0-d and empty arrays have an address as well; TensorRT takes no null.
                self._set_address(name, source.host.ctypes.data, lines)
        try:
            missing = self._execution_context.infer_shapes()
        except RuntimeError as error:  # what the binding makes of contradicting shapes
            said = (*lines, f"error: {error}")
            check_run(None, "infer the shapes of the outputs", said, hint=_SHAPES)
        else:
            what = f"infer shapes; it lacks {', '.join(missing)}"
            check_run(not missing, what, lines, hint=_SHAPES)

    # -- outputs -----------------------------------------------------------------------------

    def _results(self, lines: Sequence[str]) -> list[_Result]:
        results = []
        for tensor in self._loaded.outputs:
            shape = tuple(self._execution_context.get_tensor_shape(tensor.name))
            result = _Result(tensor, shape)
            if tensor.on_host:
                result.host = np.empty(shape, tensor.dtype)
                self._set_address(tensor.name, result.host.ctypes.data, lines)
            elif -1 in shape:
                result.allocator = self._context.allocator(tensor.name)
                result.allocator.memory.start()
            results.append(result)
        return results

    # -- on the device -----------------------------------------------------------------------

    def _key(self, sources: Sequence[_Source], scratch: int) -> tuple[Any, ...]:
        return (self._lane.stream, scratch, *(source.shape for source in sources))

    def _place(self, sources: Sequence[_Source], results: Sequence[_Result]) -> None:
        """Put inputs and outputs where the engine finds them, and tell it where that is."""
        remote = [source for source in sources if not source.tensor.on_host]
        uploads = [source for source in remote if source.host is not None]
        offsets = self._stage(uploads)
        with listening() as lines:
            for source in remote:
                name = source.tensor.name
                address = self._address_of(source)
                if source.host is not None and source.nbytes:
                    staged = self._lane.up.address(offsets[name])
                    self._cuda.upload(address, staged, source.nbytes, self._lane.stream)
                self._set_address(name, address, lines)
            for result in results:
                if result.host is None and result.allocator is None:
                    result.block = self._block(result.tensor.name, result.nbytes)
                    self._set_address(result.tensor.name, result.block.address, lines)

    def _stage(self, uploads: Sequence[_Source]) -> dict[str, int]:
        """Copy arrays of the host to where the device can read them by itself."""
        offsets, end = {}, 0
        for source in uploads:
            offsets[source.tensor.name] = end
            end += aligned(source.nbytes)
        if uploads:
            self._lane.ready_to_upload(end)
        for source in uploads:
            place = offsets[source.tensor.name]
            staged = self._lane.up.array(place, source.shape, source.tensor.dtype)
            np.copyto(staged, np.asarray(source.array))
        return offsets

    def _address_of(self, source: _Source) -> int:
        """Return where the engine reads an input, having copied it there if it is elsewhere."""
        remote = None if isinstance(source.array, np.ndarray) else source.array
        if remote is not None and self._recording is None and _is_usable(remote.address):
            return remote.address
        block = self._block(source.tensor.name, source.nbytes)
        if remote is not None and source.nbytes:
            self._cuda.copy(block.address, remote.address, source.nbytes, self._lane.stream)
        return block.address

    def _block(self, name: str, nbytes: int) -> Block:
        """Return memory for a tensor: that of the recording, or new one that goes afterwards."""
        if self._recording is None:
            block = self._memory.take(nbytes, self._lane.stream)
            self._own.append(block)
            return block
        blocks = self._recording.blocks
        if name not in blocks:
            blocks[name] = self._memory.take(nbytes, self._lane.stream)
        return blocks[name]

    def _set_address(self, name: str, address: int, lines: Sequence[str]) -> None:
        done = self._execution_context.set_tensor_address(name, address)
        check_run(done, f"take the address of tensor {name!r}", lines)

    def _enqueue(self, results: Sequence[_Result]) -> None:
        if self._recording is None:
            self._execute(results)
        else:
            self._context.recordings.run(
                self._recording, self._lane, lambda: self._execute(results)
            )

    def _execute(self, results: Sequence[_Result]) -> None:
        with listening() as lines:
            done = self._execution_context.execute_async_v3(self._lane.stream)
            for result in results:
                if result.allocator is not None and result.allocator.memory.failure is not None:
                    raise result.allocator.memory.failure
            check_run(done, "run an engine", lines)

    # -- results -----------------------------------------------------------------------------

    def _delivered(self, results: Sequence[_Result], stays: Sequence[bool]) -> list[Any]:
        for result in results:
            if result.allocator is not None:
                if result.allocator.memory.shape is None:
                    raise _unshaped(result.tensor.name)
                result.shape = result.allocator.memory.shape
        going = [r for r, stay in zip(results, stays, strict=True) if r.host is None and not stay]
        with self._downloading(going) as offsets:
            # What stays is not waited for.
            if going or any(result.host is not None for result in results):
                self._lane.wait()
            return [
                self._handed_over(result)
                if stay and result.host is None
                else self._copied_out(result, offsets)
                for result, stay in zip(results, stays, strict=True)
            ]

    @contextmanager
    def _downloading(self, results: Sequence[_Result]) -> Iterator[dict[str, int]]:
        offsets, end = {}, 0
        for result in results:
            offsets[result.tensor.name] = end
            end += aligned(result.nbytes)
        if results:
            self._lane.down.reserve(end)
        for result in results:
            if result.nbytes:
                host = self._lane.down.address(offsets[result.tensor.name])
                self._cuda.download(host, result.address, result.nbytes, self._lane.stream)
        yield offsets

    def _copied_out(self, result: _Result, offsets: dict[str, int]) -> npt.NDArray[Any]:
        if result.host is not None:
            return result.host
        place = offsets[result.tensor.name]
        return self._lane.down.array(place, result.shape, result.tensor.dtype).copy()

    def _handed_over(self, result: _Result) -> DeviceArray:
        if result.allocator is not None:
            block = result.allocator.memory.give_up()
        elif self._recording is not None or result.block is None:
            block = self._memory.take(result.nbytes, self._lane.stream)
            if result.nbytes:
                self._cuda.copy(block.address, result.address, result.nbytes, self._lane.stream)
        else:
            block = result.block
            self._own.remove(block)
        tensor, device = result.tensor, self._loaded.device
        return DeviceArray(device, block, result.shape, tensor.dtype, self._lane.stream)

    def _end_foreign(self) -> None:
        if self._foreign:
            with suppress(ExecutionError):  # whoever waits next is told
                self._lane.wait()
        for array in self._foreign:
            with array:
                pass


_SHAPES = (
    "The engine was built for a range of shapes; options dims, min_shapes and max_shapes set it."
)


def _is_usable(address: int) -> bool:
    return bool(address) and address % ALIGNMENT == 0


def _unshaped(name: str) -> ExecutionError:
    return ExecutionError(
        "SGK163",
        f"TensorRT did not say what shape output {name!r} has",
        backend="tensorrt",
        hint="The run may have failed before; the log of subgraphkit.tensorrt tells.",
    )
