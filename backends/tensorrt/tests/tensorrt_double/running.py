"""The double's run side: engines that compute by NumPy, on memory that only streams may touch."""

from typing import Any

from backends.tensorrt.tests.tensorrt_double.building import IHostMemory, read_plan, with_model
from backends.tensorrt.tests.tensorrt_double.computing import Computation
from backends.tensorrt.tests.tensorrt_double.contexts import IExecutionContext, scratch_for
from backends.tensorrt.tests.tensorrt_double.keeping import EngineInspector, IRuntimeConfig

_WEIGHTS = 512


class Runtime:
    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def deserialize_cuda_engine(self, serialized_engine: Any) -> Any:
        found = read_plan(
            bytes(serialized_engine),
            self._trt,
            host_code=bool(self.engine_host_code_allowed),  # type: ignore[attr-defined]
        )
        if isinstance(found, str):
            self._logger.log(self._logger.Severity.ERROR, found)
            return None
        engine = self._trt.ICudaEngine._of(found[0], found[1])
        engine._plan = bytes(serialized_engine)
        engine._device = self._double.cuda.current
        engine._weights = self._double.cuda.reserve(_WEIGHTS)
        self._double.live["engines"] += 1
        self._double.cuda.is_on(found[0]["device"], "a plan")
        if self._double.cuda.free_bytes < _WEIGHTS:
            self._logger.log(self._logger.Severity.ERROR, "Requested amount of GPU memory failed")
            return None
        return engine


class ICudaEngine:
    @classmethod
    def _of(cls, described: Any, model: bytes) -> Any:
        engine = cls()
        engine._described = described
        engine._computation = Computation(model)
        engine._computation.open()
        engine._budget = 0
        engine._contexts = 0
        return engine

    def __del__(self) -> None:
        if hasattr(self, "_weights"):
            self._double.live["engines"] -= 1
            self._double.cuda.is_on(self._device, "an engine")
            self._double.cuda.change_at_once(self._weights, ends=True)

    @property
    def num_io_tensors(self) -> int:
        return len(self._computation.inputs) + len(self._computation.outputs)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._described["shapes"])

    @property
    def refittable(self) -> bool:
        return "REFIT" in self._described["flags"]

    @property
    def device_memory_size_v2(self) -> int:
        return self._scratch()

    def _scratch(self) -> int:
        largest = [limits[2] for one in self._described["shapes"] for limits in one.values()]
        return scratch_for([*map(self.get_tensor_shape, self._computation.inputs), *largest])

    @property
    def streamable_weights_size(self) -> int:
        return sum(len(one.raw_data) for one in self._computation.proto.graph.initializer)

    @property
    def weight_streaming_budget_v2(self) -> int:
        return self._budget

    @weight_streaming_budget_v2.setter
    def weight_streaming_budget_v2(self, budget: int) -> None:
        if not self._contexts:  # refused while a context lives
            self._budget = budget

    def get_engine_stat(self, stat: Any) -> int:
        del stat
        return sum(len(one.raw_data) for one in self._computation.proto.graph.initializer)

    def get_tensor_name(self, index: int) -> str:
        return [*self._computation.inputs, *self._computation.outputs][index]

    def get_tensor_mode(self, name: str) -> Any:
        mode = self._trt.TensorIOMode
        return mode.INPUT if name in self._computation.inputs else mode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return self._computation.dtype_of(name, self._trt)

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        shape = self._computation.type_of(name).shape or ()
        return tuple(d if isinstance(d, int) else -1 for d in shape)

    def get_tensor_location(self, name: str) -> Any:
        host = name in self._computation.inputs and self._computation.is_shape(name)
        return self._trt.TensorLocation.HOST if host else self._trt.TensorLocation.DEVICE

    def create_execution_context(self, strategy: Any = None) -> Any:
        self._double.cuda.is_on(self._device, "an engine")
        given = strategy.strategy if hasattr(strategy, "strategy") else strategy
        context = self._trt.IExecutionContext()
        managed = getattr(given, "name", "STATIC") == "USER_MANAGED"
        context._begin(self, managed=managed)
        if self._double.refuses_contexts:
            return None
        self._contexts += 1
        return context

    def create_runtime_config(self) -> Any:
        return self._trt.IRuntimeConfig()

    def create_engine_inspector(self) -> Any:
        return self._trt.EngineInspector._of(self)

    def serialize(self) -> IHostMemory:
        self._double.cuda.is_on(self._device, "an engine")
        return IHostMemory(with_model(self._plan, self._computation.proto.SerializeToString()))


RUNNING = (Runtime, ICudaEngine, IRuntimeConfig, EngineInspector, IExecutionContext)
"""The classes."""
