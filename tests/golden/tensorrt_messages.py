"""Messages of the TensorRT backend: GPUs, and the memory of a session."""

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from subgraphkit_tensorrt.backend import device_problem
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.network import make_builder
from subgraphkit_tensorrt.library.capabilities import Capabilities
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.library.flavours import FLAVOURS, Library
from subgraphkit_tensorrt.library.gpus import Gpu
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
    nothing: Any = SimpleNamespace()  # is asked for
    memory = DeviceMemory(Cuda(nothing), 0, nothing, limit=1 << 20)
    memory.take(1 << 21, 0)


def _on(gpu: Gpu, **given: Any) -> None:
    members = {"__members__": {"SM75": 75, "SM89": 89, "SM120": 120}}
    trt = SimpleNamespace(__version__="1.7.1", ComputeCapability=SimpleNamespace(**members))
    capabilities = Capabilities.of(trt, "tensorrt_rtx")
    library = Library(FLAVOURS["tensorrt_rtx"], trt, capabilities, object())
    problem = device_problem(library, gpu, Options(**given))
    if problem is not None:
        raise problem


MESSAGES: Final[Mapping[str, Any]] = {
    "SGK153_one_device_a_process": _two_devices,
    "SGK154_memory_limit": _too_much,
    "SGK156_no_kernels": partial(_on, Gpu(0, "NVIDIA H100", (9, 0), 132)),
    "SGK157_no_float8": partial(_on, Gpu(1, "NVIDIA T4", (7, 5), 40), precision="fp8"),
}
