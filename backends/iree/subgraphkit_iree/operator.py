"""A compiled region on a device, with its weights."""

import atexit
import gc
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import fill_buffers
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_iree.compiler import the_compiler
from subgraphkit_iree.devices import IreeDevice

_alive: Final["weakref.WeakSet[IreeOperator]"] = weakref.WeakSet()
atexit.unregister(gc.freeze)  # as a command ends with; the runtime complains of what is left then


class IreeOperator(sk.SubgraphOperator):
    """A module of IREE's virtual machine.

    Thread-safety: one thread at a time is inside ``run``, since a context of the virtual machine
    has a state.
    """

    def __init__(
        self, engine: bytes, subgraph: sk.Subgraph, weights: Mapping[str, Any], device: IreeDevice
    ) -> None:
        self._engine = engine
        self._outputs = subgraph.outputs
        self._input_dtypes = [_dtype(one) for one in subgraph.input_types]
        self._output_dtypes = [_dtype(one) for one in subgraph.output_types]
        self._weights = dict(weights)
        self._device: IreeDevice | None = device
        self._program: _Program | None = _Program(engine, self._weights.values(), device)
        self._info = {
            "device": device.driver,
            "threads": device.threads or "all",
            "engine_bytes": len(engine),
            "weight_bytes": sum(array.nbytes for array in self._weights.values()),
        }
        _alive.add(self)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs on the device, from copies of the inputs."""
        if self._program is None:
            raise RuntimeError("the operator is closed")
        results = self._program(inputs, self._input_dtypes, self._output_dtypes)
        return fill_buffers(self._outputs, outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Load the module again with new parameters; what is in it cannot be changed."""
        if self._device is None or not changed.keys() <= self._weights.keys():
            return False
        weights = self._weights | dict(changed)
        self._program = _Program(self._engine, weights.values(), self._device)
        self._weights = weights
        return True

    def serialize(self) -> bytes:
        """Return the compiled module."""
        return self._engine

    def bare_engine(self) -> bytes:
        """Return the compiled module, which ``iree-run-module`` takes with its parameters."""
        return self._engine

    def info(self) -> Mapping[str, Any]:
        """Return where it runs and how large it is."""
        return self._info

    def close(self) -> None:
        """Let the module, its weights and the device go, and the compiler if it is idle."""
        self._program = self._device = None
        self._weights = {}
        the_compiler.rest()


class _Program:
    """A module that is loaded."""

    def __init__(self, engine: bytes, weights: Any, device: IreeDevice) -> None:
        from iree import runtime  # noqa: PLC0415 (may be missing, which the probe says)

        self._runtime: Any = runtime
        self._device = device
        index = runtime.ParameterIndex()
        for place, array in enumerate(weights):
            index.add_buffer(str(place), _plain(array))
        modules = [runtime.create_hal_module(device.instance, device.hal)]
        if weights:
            provider = index.create_provider("weights")
            modules.append(runtime.create_io_parameters_module(device.instance, provider))
        modules.append(runtime.VmModule.copy_buffer(device.instance, engine))
        self._context = runtime.VmContext(device.instance, modules)
        self._function = modules[-1].lookup_function("main")

    def __call__(
        self,
        inputs: Sequence[Any],
        input_dtypes: Sequence[DataType],
        output_dtypes: Sequence[DataType],
    ) -> list[Any]:
        """Compute; the results are new arrays."""
        runtime, hal = self._runtime, self._device.hal
        arguments = runtime.VmVariantList(len(inputs))
        for array, dtype in zip(inputs, input_dtypes, strict=True):
            fed = hal.allocator.allocate_buffer_copy(
                memory_type=runtime.MemoryType.DEVICE_LOCAL,
                allowed_usage=runtime.BufferUsage.DEFAULT,
                device=hal,
                buffer=_plain(array),
                element_type=_element(runtime.HalElementType, dtype),
            )
            arguments.push_ref(fed)
        returned = runtime.VmVariantList(len(output_dtypes))
        self._context.invoke(self._function, arguments, returned)
        results = []
        for place, dtype in enumerate(output_dtypes):
            view = returned.get_as_object(place, runtime.HalBufferView)
            there = runtime.DeviceArray(hal, view, override_dtype=dtype.numpy)
            # copied, since a module may return what it was given, a constant, or one thing twice
            results.append(np.array(there.to_host()))
        return results


def _dtype(type_: ValueType | None) -> DataType:
    if not isinstance(type_, TensorType):
        raise TypeError(f"{type_} is no tensor")
    return type_.dtype


def _element(kinds: Any, dtype: DataType) -> Any:
    """Return the element type as the runtime has it: ``FLOAT_32``, ``UINT_8``, ``BOOL_8``."""
    name = dtype.name.rstrip("0123456789")
    return getattr(kinds, f"{'FLOAT' if name == 'DOUBLE' else name}_{dtype.bits}")


def _plain(array: Any) -> Any:
    """Return an array that speaks the buffer protocol and has no gaps."""
    plain = np.asarray(array, order="C")
    return plain.view(np.uint16) if plain.dtype.name == "bfloat16" else plain


@atexit.register
def _close_all() -> None:
    """Let everything of the runtime go before it is unloaded; it complains of what is left."""
    for operator in list(_alive):
        operator.close()
