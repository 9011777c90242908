"""Runs of an engine, in the order that is right for every TensorRT, prepared once for equal shapes.

The order: set shapes, set the addresses of arrays on the host, infer the other shapes, set the
addresses on the device, run. All arrays from the host are copied in one piece, and so are all that
go there. Only results for the host are waited for. A prepared run stays with its context. It is
used again until other shapes come or the memory of the slot moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subgraphkit.backend import ON_DEVICE
from subgraphkit_tensorrt.library.logger import check_run, listening
from subgraphkit_tensorrt.running.arrays import DeviceArray, read_foreign
from subgraphkit_tensorrt.running.context import Context
from subgraphkit_tensorrt.running.dlpack import Foreign
from subgraphkit_tensorrt.running.engine import LoadedEngine
from subgraphkit_tensorrt.running.io_tensors import (
    EngineOutput,
    IOTensor,
    check_target,
    is_usable,
    overlap,
)
from subgraphkit_tensorrt.running.memory import Block, StreamSlot, align_up

Array = npt.NDArray[Any] | DeviceArray | Foreign
Deliver = Callable[[int, npt.NDArray[Any]], Any]
"""Makes the result of an output by its place and what the device copied."""

SHORT: Final = ("out of memory", "could not be allocated")
"""What TensorRT says where it finds no memory on the device."""
_HINT: Final = (
    "Where TensorRT finds no memory on the GPU: run smaller batches, or set max_contexts or "
    "max_engines lower."
)


@dataclass(slots=True)
class Request:
    """What a run is asked for.

    Attributes:
        key: What requests agree in that are served alike: the shapes, and what is wanted.
        wanted: By output, None for the host, ``ON_DEVICE``, or an array of another library to write
            into.
        records: Whether runs of equal shapes may be recorded.
    """

    inputs: Sequence[Any]
    key: tuple[Any, ...]
    wanted: Sequence[Any]
    deliver: Deliver
    records: bool


class PreparedCall:
    """What runs of equal shapes in one slot have in common: places, addresses, and their order.

    Attributes:
        key: What runs agree in that it serves.
        generation: That of the slot's memory, to whose addresses it holds.

    Raises:
        ExecutionError: TensorRT does not take the shapes (SGK163), or memory is short.

    Thread-safety: none; goes with its context.
    """

    def __init__(
        self,
        loaded: LoadedEngine,
        context: Context,
        slot: StreamSlot,
        arrays: Sequence[Array],
        wanted: Sequence[Any],
        key: tuple[Any, ...],
    ) -> None:
        self.key = key
        self._device = loaded.device
        self._cuda, self._memory = loaded.device.cuda, loaded.device.memory
        self._context, self._slot = context, slot
        self._tensors = [tensor for _, tensor in loaded.read]
        self._lines: Sequence[str] = ()
        context.call = None
        with listening() as lines:
            context.move_to(slot)
            shapes = context.set_shapes(self._tensors, arrays, loaded.outputs, lines)
            asked = zip(loaded.outputs, wanted, shapes, strict=True)
            self._outputs = [self._output(*one, lines) for one in asked]
            self._depends = any(one.allocator is not None for one in self._outputs)
            if self._depends:  # what waits for data inside a run cannot be recorded
                loaded.contexts.records = False
            self._is_recorded = context.recorded_as is not None and not self._depends
            context.take_scratch(slot)
            self._lay_out(arrays, lines)
        self.generation = slot.generation
        if not self._depends and loaded.leaves_host_alone:
            context.call = self

    def _output(
        self, tensor: IOTensor, place: Any, shape: tuple[int, ...], lines: Sequence[str]
    ) -> EngineOutput:
        output, context = EngineOutput(tensor, place is None, shape), self._context
        if tensor.on_host:
            output.host = np.empty(shape, tensor.dtype)
            context.set_address(tensor.name, output.host.ctypes.data, lines)
        else:
            output.allocator = context.allocator(tensor.name, shape)
        return output

    def _lay_out(self, arrays: Sequence[Array], lines: Sequence[str]) -> None:
        """Give what is copied its place in the memory of the slot.

        Inputs of the host come first, then outputs for the host, then what else has to be copied.
        """
        hosts, copied, direct = self._by_way(arrays)
        written = [one for one in self._outputs if one.host is None and one.allocator is None]
        going = [one for one in written if one.goes]
        self._staying = [one for one in written if not one.goes]
        places: dict[int, int] = {}
        self._up_bytes = _lay_out_inputs(places, hosts, arrays, 0)
        end = _lay_out_outputs(going, self._up_bytes)
        self._down_bytes = end - self._up_bytes
        end = _lay_out_inputs(places, copied, arrays, end)
        placed = [*going, *(self._staying if self._is_recorded else ())]
        end = _lay_out_outputs(placed[len(going) :], end)
        slot = self._slot
        self._base = base = slot.block("io", end).address if end else 0
        slot.reserve_download(self._down_bytes)
        if self._up_bytes:
            slot.reserve_upload(self._up_bytes)
        for at, place in places.items():
            self._context.set_address(self._tensors[at].name, base + place, lines)
        for output in placed:
            output.address = base + output.offset
            self._context.set_address(output.tensor.name, output.address, lines)
        up, down, tensors = slot.up.array, slot.down.array, self._tensors
        self._hosts = [(at, up(places[at], arrays[at].shape, tensors[at].dtype)) for at in hosts]
        self._copied = [(at, base + places[at], arrays[at].nbytes) for at in copied]
        self._direct = [(at, self._tensors[at].name) for at in direct]
        start = self._up_bytes
        self._views = [down(one.offset - start, one.shape, one.tensor.dtype) for one in going]
        self._all_go = len(going) == len(self._outputs)

    def _by_way(self, arrays: Sequence[Array]) -> tuple[list[int], list[int], list[int]]:
        """Return the inputs of the host, those to be copied, and those that are read in place."""
        hosts: list[int] = []
        copied: list[int] = []
        direct: list[int] = []
        for at, (tensor, array) in enumerate(zip(self._tensors, arrays, strict=True)):
            if not isinstance(array, np.ndarray):
                is_direct = is_usable(array.address) and not self._is_recorded
                (direct if is_direct else copied).append(at)
            elif not tensor.on_host:
                hosts.append(at)
        return hosts, copied, direct

    # -- running -----------------------------------------------------------------------------

    def run(self, arrays: Sequence[Array], request: Request, foreign: list[Foreign]) -> list[Any]:
        """Run; what of other libraries is written is added to ``foreign``."""
        slot, context = self._slot, self._context
        try:
            if self._copied or self._direct or not self._all_go:
                with listening() as self._lines:
                    self._place(arrays, request.wanted, foreign)
            if self._hosts:
                self._stage(arrays)
            context.is_enqueued = True
            if self._is_recorded:
                context.recording.run(self, slot, self._enqueue)
            else:
                self._enqueue(slot.stream)
            if self._all_go:
                slot.wait()
                results = [request.deliver(at, view) for at, view in enumerate(self._views)]
            else:
                results = self._results(request)
            context.is_enqueued = False
            return results
        finally:
            for output in self._staying:
                block, output.block, output.target = output.block, None, None
                if block is not None:
                    self._memory.give_back(block)

    def _stage(self, arrays: Sequence[Array]) -> None:
        """Copy arrays of the host to where the device can read them by itself."""
        slot = self._slot
        if slot.is_uploading:  # from there, for a run that nobody waited for
            slot.wait()
        slot.is_uploading = True
        for at, staged in self._hosts:
            staged[...] = arrays[at]

    def _place(
        self, arrays: Sequence[Array], wanted: Sequence[Any], foreign: list[Foreign]
    ) -> None:
        """Say where inputs and outputs are that have another address in every run."""
        stream = self._slot.stream
        for at, name in self._direct:
            self._context.set_address(name, self._address(arrays[at]), self._lines)
        for at, place, nbytes in self._copied:
            if nbytes:
                self._cuda.copy(place, self._address(arrays[at]), nbytes, stream)
        for output, place in zip(self._outputs, wanted, strict=True):
            self._begin_output(output, place, foreign)
        if not self._is_recorded:
            for output in self._staying:
                self._place_output(output, arrays)

    def _place_output(self, output: EngineOutput, arrays: Sequence[Array]) -> None:
        """Let the engine write an output where it is wanted, if it can, else into a new block."""
        target = output.target
        if target is not None and is_usable(target.address) and not _is_read(target, arrays):
            output.address = target.address
        else:
            output.block = self._memory.take(output.nbytes, self._slot.stream)
            output.address = output.block.address
        self._context.set_address(output.tensor.name, output.address, self._lines)

    @staticmethod
    def _address(array: Array) -> int:
        return 0 if isinstance(array, np.ndarray) else array.address

    def _begin_output(self, output: EngineOutput, place: Any, foreign: list[Foreign]) -> None:
        """Forget the shape of the last run; look at memory of the caller that is to be written."""
        if output.allocator is not None:
            output.allocator.memory.start()
        if place is None or place is ON_DEVICE:
            return
        name, stream = output.tensor.name, self._slot.stream
        output.target = target = read_foreign(place, name, self._device, stream, "output")
        foreign.append(target)
        check_target(name, target, output)
        if isinstance(place, DeviceArray):
            place.note_writer(stream)

    def _enqueue(self, stream: int) -> None:
        slot, start = self._slot, self._base + self._up_bytes
        if self._up_bytes:
            self._cuda.upload(self._base, slot.up.address(0), self._up_bytes, stream)
        with listening() as self._lines:
            done = self._context.execute(stream)
        if self._depends:
            for output in self._outputs:
                if output.allocator is not None and output.allocator.memory.failure is not None:
                    raise output.allocator.memory.failure
        if not done:
            hint = _HINT if any(s in one for s in SHORT for one in self._lines) else ""
            check_run(None, "run an engine", self._lines, hint=hint)
        if self._down_bytes and not self._depends:
            self._cuda.download(slot.down.address(0), start, self._down_bytes, stream)

    # -- results -----------------------------------------------------------------------------

    def _results(self, request: Request) -> list[Any]:
        for output in self._outputs:
            if output.allocator is not None:
                what = f"say what shape output {output.tensor.name!r} has"
                output.shape = check_run(output.allocator.memory.shape, what, self._lines)
            if output.target is not None:
                self._write(output, output.target)
        start = self._up_bytes
        if self._depends:
            self._download([output for output in self._outputs if output.goes])
            start = 0
        # For memory of the caller, whoever lets go of it waits.
        if any(one.goes or one.host is not None for one in self._outputs):
            self._slot.wait()
        return [self._result(at, output, start, request) for at, output in enumerate(self._outputs)]

    def _download(self, outputs: Sequence[EngineOutput]) -> None:
        """Copy outputs to the host whose sizes are known only now."""
        self._slot.reserve_download(_lay_out_outputs(outputs, 0))
        for output in outputs:
            if output.nbytes:
                host = self._slot.down.address(output.offset)
                self._cuda.download(host, output.place, output.nbytes, self._slot.stream)

    def _write(self, output: EngineOutput, target: Foreign) -> None:
        """Bring an output to where the caller wants it, unless the engine wrote it there."""
        check_target(output.tensor.name, target, output)
        if output.address == target.address or not output.nbytes:
            return
        if output.host is None:
            self._cuda.copy(target.address, output.place, output.nbytes, self._slot.stream)
            return
        self._slot.wait()  # then what is on the host is there
        self._cuda.upload(target.address, output.host.ctypes.data, output.nbytes, self._slot.stream)

    def _result(self, at: int, output: EngineOutput, start: int, request: Request) -> Any:
        tensor, stream = output.tensor, self._slot.stream
        if output.target is not None:
            lent = Block(output.target.address, output.nbytes, {stream})
            return DeviceArray(
                self._device, lent, output.shape, tensor.dtype, stream, owner=request.wanted[at]
            )
        if output.host is not None:
            return request.deliver(at, output.host)
        if output.goes:
            view = self._slot.down.array(output.offset - start, output.shape, tensor.dtype)
            return request.deliver(at, view)
        block = self._memory_of(output)
        return DeviceArray(self._device, block, output.shape, tensor.dtype, stream)

    def _memory_of(self, output: EngineOutput) -> Block:
        """Return the memory of an output that leaves with it."""
        if output.allocator is not None:
            leaving: Block = output.allocator.memory.give_up()
            return leaving
        block, output.block = output.block, None
        if block is None:
            block = self._memory.take(output.nbytes, self._slot.stream)
            if output.nbytes:
                self._cuda.copy(block.address, output.address, output.nbytes, self._slot.stream)
        return block


def _is_read(target: Foreign, arrays: Sequence[Array]) -> bool:
    """Say whether memory is read by the run that is to write it."""
    return any(overlap(target, one) for one in arrays if not isinstance(one, np.ndarray))


def _lay_out_inputs(
    places: dict[int, int], which: Sequence[int], arrays: Sequence[Array], start: int
) -> int:
    """Give inputs a place one behind the other; return where they end."""
    for at in which:
        places[at], start = start, start + align_up(arrays[at].nbytes)
    return start


def _lay_out_outputs(outputs: Sequence[EngineOutput], start: int) -> int:
    """Likewise outputs."""
    for output in outputs:
        output.offset, start = start, start + align_up(output.nbytes)
    return start
