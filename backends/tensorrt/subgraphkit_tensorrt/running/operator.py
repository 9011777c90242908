"""The operator: a region as engines of TensorRT, and how a session calls it."""

import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from subgraphkit.backend import ON_DEVICE, BindContext, InnerTime, SubgraphOperator, Traits
from subgraphkit.errors import CompileError, ExecutionError, InputError
from subgraphkit.ir import Initializer, Subgraph
from subgraphkit.types import TensorType, ValueType, fits
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.model import half_border
from subgraphkit_tensorrt.building.plan import EnginePlan, write_plans
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import LOGGER
from subgraphkit_tensorrt.running.arrays import is_on_device
from subgraphkit_tensorrt.running.call import Request
from subgraphkit_tensorrt.running.device import Device
from subgraphkit_tensorrt.running.engine import LoadedEngine, refit
from subgraphkit_tensorrt.running.engines import Engines, Shapes
from subgraphkit_tensorrt.running.layers import nodes_of_layers
from subgraphkit_tensorrt.running.runs import run_engine
from subgraphkit_tensorrt.running.streams import stream_for


class TensorRTOperator(SubgraphOperator):
    """Runs a region by engines, each for a range of shapes.

    Takes arrays on its device as well as those of the host, and leaves outputs there if asked to.

    ``times``: Whether contexts take the times of layers; runs are slower meanwhile.

    Raises:
        CompileError: TensorRT does not take a plan (SGK162), or it is of another subgraph (SGK179).
        BackendUnavailableError: CUDA's runtime library cannot be used (SGK175).

    Thread-safety: any number of threads may be inside ``run``. The option ``max_contexts`` says how
    many run at once on one engine.
    """

    traits = Traits(thread_safe=True, minds_memory=True)

    def __init__(
        self,
        plans: Sequence[EnginePlan],
        subgraph: Subgraph,
        library: Library,
        context: BindContext[Options],
        *,
        times: bool = False,
    ) -> None:
        options = context.options
        self._context = context
        self._engines = Engines(subgraph, library, context, times=times)
        self._library = library
        self._options = options
        self._device = self._engines.loader.device
        self.device = self._device.name
        self._dtypes = [_dtype(type_) for type_ in subgraph.output_types]
        self._on_host: tuple[bool | None, ...] = (None,) * len(self._dtypes)
        self._halves = half_border(subgraph, options)
        self._records = options.cuda_graphs == "auto" and not times
        self._closed = self._has_run = False
        self._device.retain()
        self._stand_ins: list[SubgraphOperator] = []
        self._stood_in = 0
        self._standing_in = threading.Lock()
        self._end = weakref.finalize(self, _end, self._engines, self._device, self._stand_ins)
        self._end.atexit = False
        try:
            for plan in plans:
                self._engines.add(plan)
        except Exception:
            self.close()
            raise

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs.

        Raises:
            ExecutionError: The run failed (SGK163, SGK174), memory is short (SGK176), or no engine
                covers the shapes (SGK178).
            CompileError: An engine for new shapes cannot be built.
            InputError: An array on a device, or a buffer there, does not fit (SGK140, SGK141,
                SGK177).
            ValueError: A buffer does not fit the result.
        """
        if self._closed:
            raise RuntimeError("the operator is closed")
        if not self._has_run:
            self._has_run = True
            self._engines.drop_plan_bytes()  # whoever stores engines has done so
        for place, value in enumerate(inputs):
            if type(value) is not np.ndarray and is_on_device(value):
                subgraph = self._engines.subgraph
                _check_fits(subgraph, place, value, self._halves)
        shapes = tuple([value.shape for value in inputs])
        cuda = self._device.cuda
        before = cuda.enter(self._device.index)
        try:
            if (held := self._engines.find(inputs, shapes)) is None:
                if (stand_in := self._stand_in_for(inputs, outputs)) is not None:
                    return stand_in.run(inputs, outputs)
                held = self._engines.build(inputs, shapes)
            entry, profile = held
            try:
                return self._run_on(entry.engine, profile, inputs, shapes, outputs)
            finally:
                self._engines.release(entry)
        finally:
            cuda.leave(self._device.index, before)

    def _run_on(
        self,
        loaded: LoadedEngine,
        profile: int,
        inputs: Sequence[Any],
        shapes: Shapes,
        outputs: Sequence[Any] | None,
    ) -> Sequence[Any]:
        kinds = self._on_host
        wanted: Sequence[Any] = kinds
        if outputs is not None:
            wanted = [one if one is ON_DEVICE or is_on_device(one) else None for one in outputs]
            kinds = tuple([None if one is None else one is ON_DEVICE for one in wanted])
        deliver = partial(self._copy_to_caller, outputs)
        loaded.contexts.turns.get()
        try:
            slot = self._device.take_slot(stream_for(self._options))
            try:
                records = self._records and loaded.is_recordable
                request = Request(inputs, (shapes, kinds), wanted, deliver, records)
                return run_engine(loaded, profile, slot, request)
            finally:
                self._device.put_slot(slot)
        finally:
            loaded.contexts.turns.put(None)

    def _stand_in_for(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None
    ) -> SubgraphOperator | None:
        """Return what runs shapes that no engine covers while a wider one is built.

        None if the run has to wait: nothing can stand in, or an array is on the device.
        """
        if not self._options.build_behind or any(
            type(one) is not np.ndarray for one in (*inputs, *(outputs or ())) if one is not None
        ):
            return None
        with self._standing_in:
            if not self._stand_ins and self._engines.current():
                try:
                    self._stand_ins.append(self._context.compile(self._engines.subgraph))
                except Exception as error:  # noqa: BLE001 (an engine is waited for in its place)
                    LOGGER.info("nothing stands in for an engine: %s", str(error))
            if not self._stand_ins or not self._engines.build_behind(inputs):
                return None
            if not self._stood_in:
                LOGGER.warning(
                    "%s runs on the fallback backend where no engine covers its shapes, while a "
                    "wider engine is built; build_behind=false waits in its place",
                    self._engines.subgraph.id,
                )
            self._stood_in += 1
            return self._stand_ins[0]

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Put new weights into the engines, if they are refittable."""
        current = self._engines.current()
        if not all(loaded.refittable for _, loaded in current):
            return False
        if not current and not self._engines.can_build:
            return False
        before = self._engines.subgraph
        constants = dict(before.constants)
        for name in changed.keys() & constants.keys():
            constants[name] = _with(constants[name], changed[name])
        after = replace(before, constants=constants)
        try:
            for _, loaded in current:
                refit(loaded, after, self._options, self._library)
        except CompileError as error:
            LOGGER.warning("the engines of %s do not take new weights: %s", before.id, str(error))
            for _, loaded in current:
                with suppress(CompileError):
                    refit(loaded, before, self._options, self._library)
            return False
        self._engines.subgraph = after
        with self._standing_in:
            self._stand_ins.clear()
        self._engines.drop_plan_bytes(are_stale=True)
        return True

    def serialize(self) -> bytes | None:
        """Return the plans, None if there is none yet; CompileError (SGK162) if it cannot."""
        plans = self._engines.plans()
        return write_plans(plans) if plans else None

    def bare_engine(self) -> bytes | None:
        """Return the plan as TensorRT's own tools load it; None unless there is just one."""
        plans = self._engines.plans()
        return plans[0].data if len(plans) == 1 else None

    def info(self) -> Mapping[str, Any]:
        """Return engines, memory and, if measured, times of layers; JSON-able."""
        engines = [
            {
                "ranges": [[one.to_json() for one in ranges] for ranges in plan.profiles],
                "memory": loaded.memory(),
                **loaded.contexts.count(),
                "refittable": loaded.refittable,
                "report": plan.report,
            }
            for plan, loaded in self._engines.current()
        ]
        return {
            "library": f"{self._library.flavour.title} {self._library.capabilities.version}",
            "engines": engines,
            "builds_at_run_time": self._engines.builds,
            "runs_on_the_fallback": self._stood_in,
            "memory": self._device.info(),
        }

    def profiled(self, record: Callable[[InnerTime], object]) -> "TensorRTOperator":
        """Load the plans again, for contexts that take the times of layers."""
        plans, subgraph = self._engines.plans(), self._engines.subgraph
        return _Profiled(record, plans, subgraph, self._library, self._context)

    def close(self) -> None:
        """Release engines, contexts and memory."""
        self._closed = True
        self._end()

    def _copy_to_caller(self, buffers: Sequence[Any] | None, place: int, result: Any) -> Any:
        """Copy what the device wrote, once: into the caller's buffer or a new array."""
        dtype, buffer = self._dtypes[place], buffers[place] if buffers is not None else None
        if buffer is None or buffer is ON_DEVICE:
            return result.astype(dtype)
        name = self._engines.subgraph.outputs[place]
        given = f"{getattr(buffer, 'dtype', type(buffer))}{getattr(buffer, 'shape', ())}"
        if given != f"{dtype}{result.shape}":
            raise ValueError(
                f"the buffer for output {name!r} is {given}, expected {dtype}{result.shape}"
            )
        np.copyto(buffer, result, casting="unsafe")
        return buffer


class _Profiled(TensorRTOperator):
    """A region whose contexts say how long each layer took, and not when it began."""

    def __init__(self, record: Callable[[InnerTime], object], *made: Any) -> None:
        super().__init__(*made, times=True)
        self._record = record
        self._told: dict[tuple[LoadedEngine, str], float] = {}
        self._nodes: dict[tuple[LoadedEngine, str], tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        results = super().run(inputs, outputs)
        with self._lock:
            for _, loaded in self._engines.current():
                self._record_of(loaded)
        return results

    def _record_of(self, loaded: LoadedEngine) -> None:
        """Record by how much the times of an engine's layers have grown."""
        sums = loaded.contexts.times()
        if any((loaded, name) not in self._nodes for name in sums):
            nodes = nodes_of_layers(loaded, self._engines.subgraph, self._library, sums)
            self._nodes |= {(loaded, name): of for name, of in nodes.items()}
        for name, whole in sums.items():
            spent = whole - self._told.get((loaded, name), 0.0)
            self._told[loaded, name] = whole
            if spent > 0:
                self._record(InnerTime(name, spent / 1e3, self._nodes[loaded, name]))


def _end(engines: Engines, device: Device, stand_ins: list[SubgraphOperator]) -> None:
    while stand_ins:
        stand_ins.pop().close()
    with suppress(ExecutionError):  # a device that failed says so of every call
        engines.close()
        device.release()


def _dtype(type_: ValueType | None) -> np.dtype[Any]:
    if not isinstance(type_, TensorType):
        raise CompileError("SGK179", f"TensorRT hands out tensors, not {type_}", backend="tensorrt")
    return type_.dtype.numpy


def _check_fits(subgraph: Subgraph, place: int, value: Any, halves: Collection[str]) -> None:
    """Hold an array on a device against the model.

    ``halves``: The inputs of float32 that may be given in float16.

    Raises:
        InputError: Its shape (SGK140) or its element type (SGK141) is another.
    """
    name, type_ = subgraph.inputs[place], subgraph.input_types[place]
    if not isinstance(type_, TensorType):
        return
    shape = tuple(value.shape)
    if type_.shape is not None and not fits(shape, type_.shape):
        raise InputError("SGK140", f"input {name!r} has shape {shape}; the model needs {type_}")
    # Libraries spell their own element types; NumPy's word for one is its last.
    dtype = str(getattr(value, "dtype", type_.dtype.label)).rpartition(".")[2]
    if dtype != type_.dtype.label and not (name in halves and dtype == "float16"):
        raise InputError("SGK141", f"input {name!r} is {dtype}; the model needs {type_}")


def _with(stored: Initializer, value: Any) -> Initializer:
    return Initializer(stored.name, stored.type, lambda: np.asarray(value), stored.version + 1)
