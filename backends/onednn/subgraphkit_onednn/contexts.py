"""Run contexts, one for each caller: a stream, scratch memory and bound tensors."""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

from subgraphkit.backend import InnerTime
from subgraphkit_onednn.buffers import Lifetime, aligned_block, plan_places
from subgraphkit_onednn.compiling import CompiledRegion, CompiledStep
from subgraphkit_onednn.edge import Ports
from subgraphkit_onednn.handles import DnnlEngine, Stream, Tensor, size_of
from subgraphkit_onednn.library import DnnlError

ScratchPlan = tuple[dict[int, int], int]
"""Offsets by tensor number, and the size of the block in bytes."""


class StepError(RuntimeError):
    """A partition failed while running."""

    def __init__(self, step: int, error: DnnlError) -> None:
        super().__init__(str(error))
        self.step = step


def scratch_plan(engine: DnnlEngine, region: CompiledRegion, edge: frozenset[int]) -> ScratchPlan:
    """Plan the memory of values that stay inside the region.

    A step writes over an input where it may and nobody reads that again. Otherwise a tensor that
    oneDNN adds in a convolution would be copied first.

    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, step in enumerate(region.steps):
        first.update(dict.fromkeys(step.outputs, place))
        roots = (region.roots[number] for number in (*step.outputs, *step.inputs))
        last.update(dict.fromkeys(roots, place))
    inner = [number for number in first if number not in edge]
    sizes = {number: size_of(engine.library, region.layouts[number]) for number in inner}
    holders: dict[int, int] = {}
    for place, step in enumerate(region.steps):
        for given, made in step.partition.inplace_pairs():
            fits = given in sizes and made in sizes and sizes[given] == sizes[made]
            if fits and last[given] == place and step.inputs.count(given) == 1:
                holder = holders.get(given, given)
                holders[made] = holder
                last[holder] = max(last[holder], last[made])
    owners = [number for number in inner if number not in holders]
    places, total = plan_places([Lifetime(n, sizes[n], first[n], last[n]) for n in owners])
    places.update({number: places[holder] for number, holder in holders.items()})
    return places, total


class RunContext:
    """Everything a run writes to, except what it hands out; for one caller at a time."""

    def __init__(
        self, engine: DnnlEngine, region: CompiledRegion, ports: Ports, plan: ScratchPlan
    ) -> None:
        self._region = region
        self._stream = Stream(engine)
        places, size = plan
        self._block = aligned_block(size)
        start = self._block.ctypes.data
        self._tensors: dict[int, Tensor] = {}
        for number, logical in region.layouts.items():
            root = region.roots[number]
            address = start + places[root] if root in places else 0
            if number in region.constants:
                address = region.constants[number].ctypes.data
            self._tensors[number] = Tensor(engine, logical, address)
        self._inputs = self._edge_tensors(ports.entering)
        self._outputs = self._edge_tensors(ports.leaving)
        self._steps = [
            (step.partition, *self._arguments(step.inputs), *self._arguments(step.outputs))
            for step in region.steps
        ]
        self._bind = engine.library.function("dnnl_graph_tensor_set_data_handle")
        self._execute = engine.library.function("dnnl_graph_compiled_partition_execute")

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Run all steps and wait for the last; StepError if one failed."""
        bind = self._bind
        for tensor, place in self._inputs:
            bind(tensor, inputs[place])
        for tensor, place in self._outputs:
            bind(tensor, outputs[place])
        stream, execute = self._stream.pointer, self._execute
        for place, (partition, *arguments) in enumerate(self._steps):
            status: int = execute(partition.pointer, stream, *arguments)
            if status:
                self._stream.wait()
                error = DnnlError("dnnl_graph_compiled_partition_execute", status)
                raise StepError(place, error)
        self._stream.wait()

    def clock(self, steps: Sequence[CompiledStep], record: Callable[[InnerTime], object]) -> None:
        """Record the time of every step from now on, each waited for."""
        execute, wait = self._execute, self._stream.wait
        by_address = {step.partition.pointer.value: step for step in steps}

        def run_timed(pointer: ctypes.c_void_p, *arguments: Any) -> int:
            started = time.perf_counter()
            status: int = execute(pointer, *arguments)
            wait()
            seconds = time.perf_counter() - started
            step = by_address[pointer.value]
            record(InnerTime(" + ".join(step.operations), seconds, step.nodes, started))
            return status

        self._execute = run_timed

    def _edge_tensors(self, numbers: Sequence[int | None]) -> list[tuple[ctypes.c_void_p, int]]:
        """Return the tensors that take an address at every run, with the place it comes from."""
        roots = self._region.roots
        return [
            (tensor.pointer, place)
            for place, wanted in enumerate(numbers)
            for number, tensor in self._tensors.items()
            if wanted is not None and roots[number] == wanted
        ]

    def _arguments(self, numbers: Sequence[int]) -> tuple[int, Any]:
        pointers = [self._tensors[number].pointer for number in numbers]
        return len(numbers), (ctypes.c_void_p * len(numbers))(*pointers)
