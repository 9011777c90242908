"""Messages of the TensorRT backend: GPUs of one process, and the memory of a session."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from subgraphkit_tensorrt.building.network import make_builder
from subgraphkit_tensorrt.library.capabilities import Capabilities
from subgraphkit_tensorrt.library.flavours import FLAVOURS, Library
from subgraphkit_tensorrt.running.cudart import Cuda
from subgraphkit_tensorrt.running.memory import DeviceMemory

__all__ = ["MESSAGES"]


def _two_devices() -> None:
    trt = SimpleNamespace(__version__="10.15.1", Builder=lambda logger: logger)
    capabilities = Capabilities.of(trt, "tensorrt")
    flavour = next(one for one in FLAVOURS.values() if one.name == "tensorrt")
    library = Library(flavour, trt, capabilities, object())
    for device in (0, 1):
        make_builder(library, device)


def _too_much() -> None:
    memory = DeviceMemory(Cuda(SimpleNamespace()), 0, lambda *_: None, limit=1 << 20)
    memory.take(1 << 21, 0)


MESSAGES: Final[Mapping[str, Any]] = {
    "SGK153_one_device_a_process": _two_devices,
    "SGK154_memory_limit": _too_much,
}
