"""The double's execution contexts: they keep what they are told, and touch memory on streams."""

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from backends.tensorrt.tests.tensorrt_double.listeners import started
from subgraphkit_tensorrt.building.network import TYPES

_SCRATCH = 512
"""Bytes of scratch memory for each row of the largest input, and for one more."""
_STATE = 256
_ALIGNMENT = 256
_POISON = 0xAB


def scratch_for(shapes: Iterable[tuple[int, ...]]) -> int:
    """Return the bytes of scratch memory that a run needs."""
    return _SCRATCH * (1 + max((shape[0] for shape in shapes if shape), default=0))


class IExecutionContext:
    def _begin(self, engine: Any, *, managed: bool) -> None:
        self._of = engine
        self._managed = managed
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._profile = 0
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._scratch: tuple[int, int | None] | None = None
        self._profiler: Any = None
        self._user = threading.Lock()
        self._has_failed = False
        self._state: dict[str, tuple[int, ...]] = {}
        self._kept = self._double.cuda.reserve(_STATE)
        """What it keeps on the device: every run writes it, and so does a change of profile."""
        self._double.live["contexts"] += 1

    def __del__(self) -> None:
        if hasattr(self, "_kept"):
            self._double.live["contexts"] -= 1
            self._double.cuda.is_on(getattr(self._of, "_device", 0), "a context")
            self._double.cuda.change_at_once(self._kept, ends=True)

    @property
    def profiler(self) -> Any:
        return self._profiler

    @profiler.setter
    def profiler(self, value: Any) -> None:
        self._profiler = started(value)

    def set_device_memory(self, memory: int, size: int) -> None:
        self._scratch = (memory, size)

    def update_device_memory_size_for_shapes(self) -> int:
        missing = [one for one in self._of._computation.inputs if one not in self._shapes]
        if missing:
            self._double.violations.append(
                f"scratch memory is asked for before the shape of {missing[0]} is set"
            )
            return 0
        return scratch_for(self._shapes.values())

    def set_input_shape(self, name: str, shape: Any) -> bool:
        shape = tuple(shape)
        given = self._of._described["shapes"][self._profile].get(name)
        fixed = self._of.get_tensor_shape(name)
        low, high = (given[0], given[2]) if given else (fixed, fixed)
        fits = len(shape) == len(low) and all(
            a <= s <= b for a, s, b in zip(low, shape, high, strict=True)
        )
        if not fits:
            return self._say(f"shape {shape} of {name} is outside the profile {low} to {high}")
        self._shapes[name] = shape
        return True

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        kept = (self._kept.start, self._kept.size)
        self._double.cuda.put(stream_handle, lambda: None, (), [kept])
        if not 0 <= profile_index < self._of.num_optimization_profiles:
            return self._say(f"there is no profile {profile_index}")
        self._profile = profile_index
        self._shapes.clear()
        self._addresses.clear()
        return True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if not memory:
            return self._say(f"the address of {name} is null")
        self._addresses[name] = memory
        return True

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        if name in self._allocators:
            self._double.violations.append(f"an allocator of {name} was set twice, which leaks")
        self._allocators[name] = started(output_allocator)
        return True

    def infer_shapes(self) -> list[str]:
        return [name for name in self._of._computation.inputs if name not in self._shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self._of._computation.inputs:
            return self._shapes[name]
        return self._of._computation.shapes(self._shapes, self._host_values())[name]

    def execute_async_v3(self, stream_handle: int) -> bool:
        if not self._user.acquire(blocking=False):
            self._double.violations.append("two threads are in one context")
            return False
        try:
            if self._has_failed:
                self._double.violations.append("a context is used in which a run has failed")
            if not stream_handle:
                self._double.violations.append("a run is on the default stream and waits")
            self._has_failed = not self._execute(stream_handle)
            return not self._has_failed
        finally:
            self._user.release()

    # -- inside ------------------------------------------------------------------------------

    def _execute(self, stream: int) -> bool:
        cuda, said = self._double.cuda, self._hindrance()
        if said:
            return self._say(said)
        cuda.is_on(self._of._device, "an engine")
        shapes = {name: self.get_tensor_shape(name) for name in self._of._computation.outputs}
        dynamic = [name for name, one in shapes.items() if -1 in one or name in self._allocators]
        wrong = self._wrong_address([name for name in shapes if name not in dynamic])
        if wrong:
            return self._say(wrong)
        compute = self._computing(stream)
        targets = {name: self._addresses[name] for name in shapes if name not in dynamic}
        if not dynamic:
            look, (reads, writes) = self._state_seen(stream), self._touched(shapes, targets)
            if self._double.fails_halfway:
                cuda.put(stream, compute, reads, writes)
                return self._say("Error Code 1: Cuda Runtime (launch of the second kernel failed)")
            cuda.put(stream, lambda: (look(), self._write(compute(), targets)), reads, writes)
        elif not self._execute_at_once(stream, compute, dynamic, targets):
            return False
        self._state.clear()
        self._state.update(self._shapes)
        self._report(stream)
        return True

    def _hindrance(self) -> str:
        """Return what keeps a run from being begun; nothing if nothing does."""
        double = self._double
        if double.cuda.last_error:
            double.violations.append("TensorRT reports an error that a call before it left")
        if double.refuses_runs:
            return "Error Code 1: Cuda Runtime (an illegal memory access)"
        if double.cuda.free_bytes < double.run_needs_bytes:
            return "Error Code 1: Cuda Runtime (out of memory)"
        needed, given = scratch_for(self._shapes.values()), self._scratch or (0, 0)
        if self._managed and given[1] is not None and given[1] < needed:
            return f"the context has {given[1]} bytes of device memory, not {needed}"
        return ""

    def _state_seen(self, stream: int) -> Any:
        """Return what sees that a context is as it was when a graph was recorded from it.

        A graph reads what the context keeps on the device, which a run of other shapes overwrites.
        """
        shapes, now, violations = dict(self._shapes), self._state, self._double.violations
        is_recorded = self._double.cuda.is_recording(stream)

        def look() -> None:
            if is_recorded and now != shapes:
                violations.append(
                    f"a graph of shapes {shapes} is launched, and its context has {now}"
                )

        return look

    def _touched(self, shapes: Any, targets: dict[str, int]) -> Any:
        """Return what a run reads and writes on the device."""
        host = [
            name
            for name in self._of._computation.inputs
            if self._of.get_tensor_location(name) == self._trt.TensorLocation.HOST
        ]
        reads = [
            (self._addresses[name], self._bytes(name, shape))
            for name, shape in self._shapes.items()
            if name not in host
        ]
        weights = self._of._weights
        reads.append((weights.start, weights.size))
        writes = [(address, self._bytes(name, shapes[name])) for name, address in targets.items()]
        writes.append((self._kept.start, self._kept.size))
        if self._managed and self._scratch is not None:
            writes.append((self._scratch[0], scratch_for(self._shapes.values())))
        return reads, writes

    def _bytes(self, name: str, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape, dtype=np.int64)) * int(self._dtype(name).itemsize)

    def _execute_at_once(
        self, stream: int, compute: Any, dynamic: list[str], targets: dict[str, int]
    ) -> bool:
        """Wait for the inputs, since the shapes depend on them; write the outputs later."""
        cuda = self._double.cuda
        if cuda.is_recording(stream):
            return self._say("a stream that is recorded cannot be waited for")
        cuda.finish(stream)
        results = compute()
        for name in dynamic:
            targets[name] = self._allocated(name, results[name], stream)
            if not targets[name]:
                return self._say(f"no memory for {name}")
        shapes = {name: result.shape for name, result in results.items()}
        cuda.put(stream, lambda: self._write(results, targets), *self._touched(shapes, targets))
        return True

    def _computing(self, stream: int) -> Any:
        """Return what computes the outputs, with everything that is read when a run is enqueued."""
        cuda, engine = self._double.cuda, self._of
        host, addresses, inputs = self._host_values(), dict(self._addresses), dict(self._shapes)
        scratch = self._scratch if self._managed else None
        needed = scratch_for(inputs.values())
        recorded_of = engine._computation.proto if cuda.is_recording(stream) else None

        def compute() -> dict[str, Any]:
            if recorded_of is not None and recorded_of is not engine._computation.proto:
                self._double.violations.append("a recorded graph has the weights of before a refit")
            feeds = {
                name: host[name] if name in host else self._read(name, addresses[name], shape)
                for name, shape in inputs.items()
            }
            if scratch is not None:
                cuda.view(scratch[0], needed)[:] = bytes([_POISON]) * needed
            return dict(engine._computation.run(feeds))

        return compute

    def _write(self, results: dict[str, Any], targets: dict[str, int]) -> None:
        for name, address in targets.items():
            if data := results[name].astype(self._dtype(name)).tobytes():
                self._double.cuda.view(address, len(data))[:] = data

    def _wrong_address(self, outputs: list[str]) -> str:
        for name in (*self._of._computation.inputs, *outputs):
            address = self._addresses.get(name, 0)
            if not address:
                return f"{name} has no address"
            is_host = self._of.get_tensor_location(name) == self._trt.TensorLocation.HOST
            if address % _ALIGNMENT and not is_host:
                return f"the address of {name} is not aligned"
        return ""

    def _allocated(self, name: str, result: Any, stream: int) -> int:
        if (allocator := self._allocators.get(name)) is None:
            return 0
        size = max(result.nbytes * 2, 1)  # an upper bound
        try:
            address = allocator.reallocate_output_async(name, 0, size, _ALIGNMENT, stream)
            allocator.notify_shape(name, result.shape)
        except Exception:  # noqa: BLE001 (exceptions end in the bindings)
            return 0
        return int(address)

    def _report(self, stream: int) -> None:
        if self._profiler is not None:
            self._double.cuda.finish(stream)
            for node in self._of._computation.proto.graph.node:
                self._profiler.report_layer_time(node.name, 0.5)

    def _host_values(self) -> dict[str, Any]:
        values = {}
        for name in self._of._computation.inputs:
            if self._of._computation.is_shape(name) and name in self._addresses:
                values[name] = self._double.host_array(
                    self._addresses[name], self._shapes[name], self._dtype(name)
                )
        return values

    def _dtype(self, name: str) -> Any:
        return TYPES[self._of.get_tensor_dtype(name).name].numpy

    def _read(self, name: str, address: int, shape: tuple[int, ...]) -> Any:
        dtype = self._dtype(name)
        count = int(np.prod(shape, dtype=np.int64))
        view = self._double.cuda.view(address, count * dtype.itemsize)
        return np.frombuffer(bytes(view), dtype, count).reshape(shape)

    def _say(self, text: str) -> bool:
        logger = self._double.library.logger
        logger.log(logger.Severity.ERROR, text)
        return False
