"""One run of an engine, in the order that is right for every TensorRT.

Shapes, then addresses of what is on the host, then what follows from them, then addresses on the
device, then the run. What comes from the host, and what goes there, is copied in one piece each;
results are waited for only if the host wants them.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import ON_DEVICE
from subgraphkit.errors import ExecutionError
from subgraphkit_tensorrt.library.logger import check_run, listening
from subgraphkit_tensorrt.running.arrays import (
    DeviceArray,
    Foreign,
    fetch_to_host,
    is_on_device,
    read_foreign,
)
from subgraphkit_tensorrt.running.context import Context
from subgraphkit_tensorrt.running.engine import LoadedEngine
from subgraphkit_tensorrt.running.io_tensors import (
    EngineInput,
    EngineOutput,
    IOTensor,
    check_target,
    is_usable,
    lay_out,
    overlap,
    to_engine,
    unknown_shape_error,
)
from subgraphkit_tensorrt.running.memory import Block, StreamSlot, align_up


class Execution:
    """One run of one engine.

    ``slot``: Held for the run; its device is the thread's current one.
    ``deliver``: Makes the result of an output by its place and what the device copied.

    Thread-safety: none; made for one run.
    """

    def __init__(
        self,
        loaded: LoadedEngine,
        profile: int,
        slot: StreamSlot,
        deliver: Callable[[int, npt.NDArray[Any]], Any],
        *,
        records: bool,
    ) -> None:
        self._loaded = loaded
        self._profile = profile
        self._slot = slot
        self._deliver = deliver
        self._device = loaded.device
        self._cuda = loaded.device.cuda
        self._memory = loaded.device.memory
        self._records = records
        self._is_recorded = False
        self._base = self._up_bytes = self._down_bytes = 0
        self._own: list[Block] = []
        self._foreign: list[Foreign] = []

    def run(self, inputs: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
        """Run.

        ``wanted``: By output, None for the host, ``ON_DEVICE``, or an array of another library to
        write into.

        Raises:
            ExecutionError: It failed (SGK163, SGK174), or memory is short (SGK154, SGK176).
            InputError: An input cannot be read, or an output not be written (SGK177), or the latter
                has another shape or element type (SGK140, SGK141).
        """
        try:
            sources = self._sources(inputs)
            kind = None
            if self._records and self._loaded.contexts.records:
                ends = ((source.shape, source.host is None) for source in sources)
                kind = (self._slot.stream, *ends, *(place is None for place in wanted))
            with self._loaded.contexts.lease(self._profile, kind) as (context, is_recorded):
                self._is_recorded = is_recorded
                context.move_to(self._slot)
                return self._run_in(context, sources, wanted)
        except BaseException:
            with suppress(ExecutionError):  # what was begun may be reading and writing arrays
                self._slot.wait()
            raise
        finally:
            for block in self._own:
                self._memory.give_back(block)
            self._end_foreign()

    def _run_in(
        self, context: Context, sources: Sequence[EngineInput], wanted: Sequence[Any]
    ) -> list[Any]:
        with listening() as lines:
            shapes = context.set_shapes(sources, self._loaded.outputs, lines)
            results = self._results(context, shapes, wanted, lines)
            if any(result.allocator is not None for result in results):
                # What waits for data inside a run cannot be recorded.
                self._is_recorded = self._loaded.contexts.records = False
            self._take_targets(sources, results)
            scratch = context.take_scratch(self._slot)
            self._place(sources, results)
            for source in sources:
                if not source.tensor.on_host:
                    context.set_address(source.tensor.name, source.address, lines)
            for result in results:
                if result.host is None and result.allocator is None:
                    context.set_address(result.tensor.name, result.address, lines)
        context.is_enqueued = True
        self._enqueue(context, results, scratch)
        delivered = self._deliver_results(results)
        context.is_enqueued = False
        return delivered

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
            value = fetch_to_host(value, tensor.name, self._device)
        return EngineInput(tensor, to_engine(np.asarray(value), tensor))

    def _remote(self, tensor: IOTensor, value: Any) -> DeviceArray | Foreign:
        if isinstance(value, DeviceArray) and value.__dlpack_device__()[1] == (self._device.index):
            value.use_on(self._slot.stream)
            return value
        found = read_foreign(value, tensor.name, self._device, self._slot.stream)
        self._foreign.append(found)
        return found

    # -- outputs -----------------------------------------------------------------------------

    def _results(
        self,
        context: Context,
        shapes: Sequence[tuple[int, ...]],
        wanted: Sequence[Any],
        lines: Sequence[str],
    ) -> list[EngineOutput]:
        results = []
        for tensor, place, shape in zip(self._loaded.outputs, wanted, shapes, strict=True):
            result = EngineOutput(tensor, place, shape)
            if tensor.on_host:
                result.host = np.empty(shape, tensor.dtype)
                context.set_address(tensor.name, result.host.ctypes.data, lines)
            elif -1 in shape or context.has_allocator(tensor.name):
                result.allocator = context.allocator(tensor.name)
                result.allocator.memory.start()
            results.append(result)
        return results

    def _take_targets(
        self, sources: Sequence[EngineInput], results: Sequence[EngineOutput]
    ) -> None:
        """Look at what outputs are to be written into, and take it where the engine can write."""
        stream = self._slot.stream
        read = [source.array for source in sources if not isinstance(source.array, np.ndarray)]
        for result in results:
            if result.wanted is ON_DEVICE or result.wanted is None:
                continue
            name = result.tensor.name
            result.target = target = read_foreign(
                result.wanted, name, self._device, stream, "output"
            )
            self._foreign.append(target)
            check_target(name, target, result)
            if isinstance(result.wanted, DeviceArray):
                result.wanted.written_on(stream)
            is_free = result.host is None and result.allocator is None and not self._is_recorded
            apart = not any(overlap(target, array) for array in read)
            if is_free and apart and is_usable(target.address):
                result.address = target.address

    # -- on the device -----------------------------------------------------------------------

    def _place(self, sources: Sequence[EngineInput], results: Sequence[EngineOutput]) -> None:
        """Give what is copied its place in the memory of the slot, and bring inputs there.

        Inputs of the host come first, then outputs for the host, then what else has to be copied.
        """
        hosts, others = self._inputs_to_copy(sources)
        written = [one for one in results if one.host is None and one.allocator is None]
        going = [one for one in written if one.goes]
        staying = [one for one in written if not one.goes]
        self._up_bytes = lay_out(hosts, 0)
        self._down_bytes = lay_out(going, self._up_bytes) - self._up_bytes
        end = lay_out(others, self._up_bytes + self._down_bytes)
        end = lay_out(staying, end) if self._is_recorded else end
        self._base = self._slot.io_memory(end).address if end else 0
        self._slot.down.reserve(self._down_bytes)
        for one in (*hosts, *going, *(staying if self._is_recorded else ())):
            one.address = self._base + one.offset
        for result in staying:
            if not result.address:
                result.block = self._block(result.nbytes, self._slot.stream)
                result.address = result.block.address
        self._stage(hosts)
        for other in others:
            place = self._base + other.offset
            if other.nbytes:
                self._cuda.copy(place, other.address, other.nbytes, self._slot.stream)
            other.address = place

    def _inputs_to_copy(
        self, sources: Sequence[EngineInput]
    ) -> tuple[list[EngineInput], list[EngineInput]]:
        """Return inputs of the host, and others that the engine cannot read where they are."""
        hosts = [one for one in sources if one.host is not None and not one.tensor.on_host]
        others = []
        for one in sources:
            if not isinstance(one.array, np.ndarray):
                one.address = one.array.address
                if self._is_recorded or not is_usable(one.address):
                    others.append(one)
        return hosts, others

    def _stage(self, sources: Sequence[EngineInput]) -> None:
        """Copy arrays of the host to where the device can read them by itself."""
        if not sources:
            return
        last = sources[-1]
        self._slot.ready_to_upload(last.offset + align_up(last.nbytes))
        for source in sources:
            staged = self._slot.up.array(source.offset, source.shape, source.tensor.dtype)
            np.copyto(staged, np.asarray(source.array))

    def _block(self, nbytes: int, stream: int) -> Block:
        """Return memory that goes afterwards, unless it leaves with an output."""
        block = self._memory.take(nbytes, stream)
        self._own.append(block)
        return block

    def _enqueue(self, context: Context, results: Sequence[EngineOutput], scratch: int) -> None:
        up, down = self._slot.up.address(0), self._slot.down.address(0)
        depends = any(result.allocator is not None for result in results)

        def work(stream: int) -> None:
            if self._up_bytes:
                self._cuda.upload(self._base, up, self._up_bytes, stream)
            self._execute(context, results, stream)
            if self._down_bytes and not depends:
                start = self._base + self._up_bytes
                self._cuda.download(down, start, self._down_bytes, stream)

        if self._is_recorded:
            context.recording.run(self._slot, (scratch, self._base, up, down), work)
        else:
            work(self._slot.stream)

    def _execute(self, context: Context, results: Sequence[EngineOutput], stream: int) -> None:
        with listening() as lines:
            done = context.execute(stream)
            for result in results:
                if result.allocator is not None and result.allocator.memory.failure is not None:
                    raise result.allocator.memory.failure
            check_run(done, "run an engine", lines)

    # -- results -----------------------------------------------------------------------------

    def _deliver_results(self, results: Sequence[EngineOutput]) -> list[Any]:
        for result in results:
            if result.allocator is not None:
                if result.allocator.memory.shape is None:
                    raise unknown_shape_error(result.tensor.name)
                result.shape = result.allocator.memory.shape
            if result.target is not None:
                self._write(result, result.target)
        start = self._up_bytes
        if any(result.allocator is not None for result in results):
            start = self._download([result for result in results if result.goes])
        if any(map(self._is_waited_for, results)):
            self._slot.wait()
        return [self._hand_over(at, result, start) for at, result in enumerate(results)]

    def _download(self, results: Sequence[EngineOutput]) -> int:
        """Copy outputs to the host whose sizes are known only now; return where they begin."""
        self._slot.down.reserve(lay_out(results, 0))
        for result in results:
            if result.nbytes:
                host = self._slot.down.address(result.offset)
                self._cuda.download(host, result.place, result.nbytes, self._slot.stream)
        return 0

    def _is_waited_for(self, result: EngineOutput) -> bool:
        """Say whether an output is read outside the order of streams, so that the host waits."""
        # Memory of the caller is read on streams we do not know, unless this one is theirs.
        unordered = result.target is not None and not self._slot.is_users
        return result.goes or result.host is not None or unordered

    def _write(self, result: EngineOutput, target: Foreign) -> None:
        """Bring an output to where the caller wants it, unless the engine wrote it there."""
        check_target(result.tensor.name, target, result)
        if result.address == target.address or not result.nbytes:
            return
        if result.host is None:
            self._cuda.copy(target.address, result.place, result.nbytes, self._slot.stream)
            return
        self._slot.wait()  # then what is on the host is there
        data = result.host.ctypes.data
        self._cuda.upload(target.address, data, result.nbytes, self._slot.stream)

    def _hand_over(self, at: int, result: EngineOutput, start: int) -> Any:
        tensor, stream = result.tensor, self._slot.stream
        if result.target is not None:
            lent = Block(result.target.address, result.nbytes, {stream})
            owner = result.wanted
            return DeviceArray(self._device, lent, result.shape, tensor.dtype, stream, owner=owner)
        if result.host is not None:
            return self._deliver(at, result.host)
        if result.goes:
            place = result.offset - start
            return self._deliver(at, self._slot.down.array(place, result.shape, tensor.dtype))
        return DeviceArray(
            self._device, self._memory_of(result), result.shape, tensor.dtype, stream
        )

    def _memory_of(self, result: EngineOutput) -> Block:
        """Return the memory of an output that leaves with it."""
        if result.allocator is not None:
            return cast("Block", result.allocator.memory.give_up())
        if result.block is not None:
            self._own.remove(result.block)
            return result.block
        block = self._memory.take(result.nbytes, self._slot.stream)
        if result.nbytes:
            self._cuda.copy(block.address, result.address, result.nbytes, self._slot.stream)
        return block

    def _end_foreign(self) -> None:
        # On a stream of the user, whoever reuses the memory is in the same order.
        if self._foreign and not self._slot.is_users:
            with suppress(ExecutionError):  # whoever waits next is told
                self._slot.wait()
        for array in self._foreign:
            array.release()
