"""One run of an engine, in the order that is right for every TensorRT.

Shapes, then addresses of what is on the host, then what follows from them, then addresses on the
device, then the run; results are waited for only if the host wants them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.checks import check_run
from subgraphkit_tensorrt.library.logger import listening
from subgraphkit_tensorrt.running.arrays import DeviceArray, Foreign, foreign, is_on_device
from subgraphkit_tensorrt.running.contexts import Context
from subgraphkit_tensorrt.running.cuda_graphs import Recording
from subgraphkit_tensorrt.running.device import Lane
from subgraphkit_tensorrt.running.ends import (
    EngineInput,
    EngineOutput,
    check_target,
    overlap,
    to_engine,
)
from subgraphkit_tensorrt.running.engine import IOTensor, LoadedEngine
from subgraphkit_tensorrt.running.memory import ALIGNMENT, Block, aligned

__all__ = ["Execution"]


class Execution:
    """One run of one engine.

    Args:
        loaded: The engine.
        context: Held for the run.
        lane: Held for the run; its device is the thread's current one.
        records: Whether runs may be recorded as CUDA graphs.

    Thread-safety: none; made for one run.
    """

    def __init__(
        self, loaded: LoadedEngine, context: Context, lane: Lane, *, records: bool
    ) -> None:
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

    def run(self, inputs: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
        """Run.

        Args:
            inputs: One array per input of the engine, on the host or on its device.
            wanted: By output, None for the host, ``ON_DEVICE``, or an array of another library to
                write into.

        Returns:
            By output, an array on the host or a ``DeviceArray``; of the engine's element types.

        Raises:
            ExecutionError: It failed (SGK163, SGK174, SGK176).
            InputError: An input cannot be read, or an output not be written (SGK177), or the latter
                has another shape or element type (SGK140, SGK141).
        """
        self._context.move_to(self._lane)
        try:
            sources = self._sources(inputs)
            with listening() as lines:
                self._set_shapes(sources, lines)
                results = self._results(wanted, lines)
            self._take_targets(sources, results)
            scratch = self._loaded.contexts.give_scratch(self._context, self._lane)
            if self._records and all(result.allocator is None for result in results):
                self._recording = self._context.recordings.of(self._key(sources, scratch))
            self._place(sources, results)
            self._enqueue(results)
            return self._delivered(results)
        finally:
            for block in self._own:
                self._memory.give_back(block)
            self._end_foreign()

    # -- inputs ------------------------------------------------------------------------------

    def _sources(self, inputs: Sequence[Any]) -> list[EngineInput]:
        return [
            self._source(tensor, value)
            for tensor, value in zip(self._loaded.inputs, inputs, strict=True)
            if tensor is not None
        ]

    def _source(self, tensor: IOTensor, value: Any) -> EngineInput:
        if is_on_device(value):
            remote = self._remote(tensor, value)
            if remote.dtype == tensor.dtype and not tensor.on_host:
                return EngineInput(tensor, remote)
            value = self._downloaded(remote)
        return EngineInput(tensor, to_engine(np.asarray(value), tensor))

    def _remote(self, tensor: IOTensor, value: Any) -> DeviceArray | Foreign:
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

    def _set_shapes(self, sources: Sequence[EngineInput], lines: Sequence[str]) -> None:
        known = self._context.shapes
        for source in sources:
            name, shape = source.tensor.name, source.shape
            if known.get(name) != shape:
                done = self._execution_context.set_input_shape(name, shape)
                check_run(done, f"take shape {shape} of input {name!r}", lines, hint=_SHAPES)
                known[name] = shape
                self._context.met_new = True
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

    def _results(self, wanted: Sequence[Any], lines: Sequence[str]) -> list[EngineOutput]:
        results = []
        for tensor, place in zip(self._loaded.outputs, wanted, strict=True):
            shape = tuple(self._execution_context.get_tensor_shape(tensor.name))
            result = EngineOutput(tensor, place, shape)
            if tensor.on_host:
                result.host = np.empty(shape, tensor.dtype)
                self._set_address(tensor.name, result.host.ctypes.data, lines)
            elif -1 in shape or self._context.has_allocator(tensor.name):
                result.allocator = self._context.allocator(tensor.name)
                result.allocator.memory.start()
            results.append(result)
        return results

    def _take_targets(
        self, sources: Sequence[EngineInput], results: Sequence[EngineOutput]
    ) -> None:
        """Look at what outputs are to be written into, and take it where the engine can write."""
        device, stream = self._loaded.device, self._lane.stream
        read = [source.array for source in sources if not isinstance(source.array, np.ndarray)]
        for result in results:
            if result.wanted is None or result.wanted is ON_DEVICE:
                continue
            name = result.tensor.name
            result.target = target = foreign(result.wanted, name, device, stream, "output")
            self._foreign.append(target)
            check_target(name, target, result)
            if isinstance(result.wanted, DeviceArray):
                result.wanted.written_on(stream)
            result.is_direct = (
                result.host is None
                and result.allocator is None
                and not self._records
                and _is_usable(target.address)
                and not any(overlap(target, array) for array in read)
            )

    # -- on the device -----------------------------------------------------------------------

    def _key(self, sources: Sequence[EngineInput], scratch: int) -> tuple[Any, ...]:
        return (self._lane.stream, scratch, *(source.shape for source in sources))

    def _place(self, sources: Sequence[EngineInput], results: Sequence[EngineOutput]) -> None:
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
                    if not result.is_direct:
                        result.block = self._block(result.tensor.name, result.nbytes)
                    self._set_address(result.tensor.name, result.address, lines)

    def _stage(self, uploads: Sequence[EngineInput]) -> dict[str, int]:
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

    def _address_of(self, source: EngineInput) -> int:
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

    def _enqueue(self, results: Sequence[EngineOutput]) -> None:
        if self._recording is None:
            self._execute(results, self._lane.stream)
        else:
            self._context.recordings.run(
                self._recording, self._lane, lambda stream: self._execute(results, stream)
            )

    def _execute(self, results: Sequence[EngineOutput], stream: int) -> None:
        with listening() as lines:
            done = self._execution_context.execute_async_v3(stream)
            for result in results:
                if result.allocator is not None and result.allocator.memory.failure is not None:
                    raise result.allocator.memory.failure
            check_run(done, "run an engine", lines)

    # -- results -----------------------------------------------------------------------------

    def _delivered(self, results: Sequence[EngineOutput]) -> list[Any]:
        for result in results:
            if result.allocator is not None:
                if result.allocator.memory.shape is None:
                    raise _unshaped(result.tensor.name)
                result.shape = result.allocator.memory.shape
            if result.target is not None:
                self._write(result, result.target)
        with self._downloading([result for result in results if result.goes]) as offsets:
            if any(map(self._is_waited_for, results)):
                self._lane.wait()
            return [self._handed_over(result, offsets) for result in results]

    def _is_waited_for(self, result: EngineOutput) -> bool:
        """Say whether an output is read outside the order of streams, so that the host waits."""
        # Memory of the caller is read on streams we do not know, unless this one is theirs.
        unordered = result.target is not None and not self._lane.is_users
        return result.goes or result.host is not None or unordered

    def _write(self, result: EngineOutput, target: Foreign) -> None:
        """Bring an output to where the caller wants it, unless the engine wrote it there."""
        check_target(result.tensor.name, target, result)
        if result.is_direct or not result.nbytes:
            return
        if result.host is None:
            self._cuda.copy(target.address, result.address, result.nbytes, self._lane.stream)
            return
        self._lane.wait()  # then what is on the host is there
        data = result.host.ctypes.data
        self._cuda.upload(target.address, data, result.nbytes, self._lane.stream)

    @contextmanager
    def _downloading(self, results: Sequence[EngineOutput]) -> Iterator[dict[str, int]]:
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

    def _copied_out(self, result: EngineOutput, offsets: dict[str, int]) -> npt.NDArray[Any]:
        if result.host is not None:
            return result.host
        place = offsets[result.tensor.name]
        return self._lane.down.array(place, result.shape, result.tensor.dtype).copy()

    def _handed_over(self, result: EngineOutput, offsets: dict[str, int]) -> Any:
        tensor, device = result.tensor, self._loaded.device
        stream = self._lane.stream
        if result.target is not None:
            lent = Block(result.target.address, result.nbytes, {stream})
            owner = result.wanted
            return DeviceArray(device, lent, result.shape, tensor.dtype, stream, owner=owner)
        if result.goes or result.host is not None:
            return self._copied_out(result, offsets)
        return DeviceArray(device, self._kept(result), result.shape, tensor.dtype, stream)

    def _kept(self, result: EngineOutput) -> Block:
        """Return the memory of an output that leaves with it."""
        if result.allocator is not None:
            block: Block = result.allocator.memory.give_up()
            return block
        if self._recording is None and result.block is not None:
            self._own.remove(result.block)
            return result.block
        block = self._memory.take(result.nbytes, self._lane.stream)
        if result.nbytes:
            self._cuda.copy(block.address, result.address, result.nbytes, self._lane.stream)
        return block

    def _end_foreign(self) -> None:
        # On a stream of the user, whoever reuses the memory is in the same order.
        if self._foreign and not self._lane.is_users:
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
