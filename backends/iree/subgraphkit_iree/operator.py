"""A compiled region on a device, with its weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import subgraphkit as sk
from subgraphkit.backend import fill_buffers
from subgraphkit.types import DataType, TensorType, ValueType
from subgraphkit_iree.compiler import the_compiler
from subgraphkit_iree.devices import Device

__all__ = ["IreeOperator"]


class IreeOperator(sk.SubgraphOperator):
    """A module of IREE's virtual machine.

    Args:
        engine: The compiled module.
        subgraph: What it computes.
        weights: What the module reads as parameters, by name and in their order.
        device: Where it runs.

    Thread-safety: one thread at a time is inside ``run``, since a context of the virtual machine
    has a state.
    """

    def __init__(
        self,
        engine: bytes,
        subgraph: sk.Subgraph,
        weights: Mapping[str, Any],
        device: Device,
    ) -> None:
        from iree import runtime  # noqa: PLC0415 (the manifest says whether it is there)

        self._runtime: Any = runtime
        self._engine = engine
        self._outputs = subgraph.outputs
        self._inputs = [_element(runtime, one) for one in map(_dtype, subgraph.input_types)]
        self._dtypes = [_dtype(one).numpy for one in subgraph.output_types]
        self._device: Device | None = device
        self._weights = dict(weights)
        self._info = {
            "device": device.driver,
            "threads": device.threads or "all",
            "engine_bytes": len(engine),
            "weight_bytes": sum(array.nbytes for array in weights.values()),
        }
        self._load(device)

    def _load(self, device: Device) -> None:
        runtime = self._runtime
        modules = [runtime.create_hal_module(device.instance, device.hal)]
        if self._weights:
            index = runtime.ParameterIndex()
            for place, array in enumerate(self._weights.values()):
                index.add_buffer(str(place), _plain(array))
            provider = index.create_provider("weights")
            modules.append(runtime.create_io_parameters_module(device.instance, provider))
        module = runtime.VmModule.copy_buffer(device.instance, self._engine)
        self._context = runtime.VmContext(device.instance, [*modules, module])
        self._function = module.lookup_function("main")

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Compute the outputs on the device, from copies of the inputs."""
        runtime, hal = self._runtime, self._opened().hal
        arguments = runtime.VmVariantList(len(inputs))
        allocate = hal.allocator.allocate_buffer_copy
        for array, element in zip(inputs, self._inputs, strict=True):
            arguments.push_ref(
                allocate(
                    memory_type=runtime.MemoryType.DEVICE_LOCAL,
                    allowed_usage=runtime.BufferUsage.DEFAULT,
                    device=hal,
                    buffer=_plain(array),
                    element_type=element,
                )
            )
        returned = runtime.VmVariantList(len(self._outputs))
        self._context.invoke(self._function, arguments, returned)
        results = []
        for place, dtype in enumerate(self._dtypes):
            view = returned.get_as_object(place, runtime.HalBufferView)
            on_device = runtime.DeviceArray(hal, view, override_dtype=dtype)
            # what the module returns may be an input, a constant or returned twice
            results.append(np.array(on_device.to_host()))
        return fill_buffers(self._outputs, outputs, results)

    def update_weights(self, changed: Mapping[str, Any]) -> bool:
        """Load the module again with new parameters; those inside of it cannot be changed."""
        if not changed.keys() <= self._weights.keys():
            return False
        before = self._weights
        self._weights = before | dict(changed)
        try:
            self._load(self._opened())
        except BaseException:
            self._weights = before
            raise
        return True

    def serialize(self) -> bytes:
        """Return the compiled module."""
        return self._engine

    def bare_engine(self) -> bytes:
        """Return the compiled module, which ``iree-run-module`` takes."""
        return self._engine

    def info(self) -> Mapping[str, Any]:
        """Return where it runs and how large it is."""
        return self._info

    def _opened(self) -> Device:
        if self._device is None:
            raise RuntimeError("the operator is closed")
        return self._device

    def close(self) -> None:
        """Let the module, its weights and the device go."""
        self._context = self._function = self._device = None
        self._weights = {}
        the_compiler.rest()


def _dtype(type_: ValueType | None) -> DataType:
    if not isinstance(type_, TensorType):
        raise TypeError(f"{type_} is no tensor")
    return type_.dtype


def _element(runtime: Any, dtype: DataType) -> Any:
    """Return the element type as the runtime has it: ``FLOAT_32``, ``UINT_8``, ``BOOL_8``."""
    kind = {"DOUBLE": "FLOAT", "BFLOAT16": "BFLOAT"}.get(
        dtype.name, dtype.name.rstrip("0123456789")
    )
    return getattr(runtime.HalElementType, f"{kind}_{dtype.bits}")


def _plain(array: Any) -> Any:
    """Return an array that speaks the buffer protocol and has no gaps."""
    plain = np.asarray(array, order="C")
    return plain.view(np.uint16) if plain.dtype.name == "bfloat16" else plain
