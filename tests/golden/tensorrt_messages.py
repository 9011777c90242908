"""Messages of the TensorRT backend about GPUs."""

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from subgraphkit_tensorrt.backend import device_problem
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.capabilities import Capabilities
from subgraphkit_tensorrt.library.flavours import FLAVOURS, Library
from subgraphkit_tensorrt.library.gpus import Gpu


def _on(gpu: Gpu, **given: Any) -> None:
    members = {"__members__": {"SM75": 75, "SM89": 89, "SM120": 120}}
    trt = SimpleNamespace(__version__="1.7.1", ComputeCapability=SimpleNamespace(**members))
    capabilities = Capabilities.of(trt, "tensorrt_rtx")
    library = Library(FLAVOURS["tensorrt_rtx"], trt, capabilities, object())
    if (problem := device_problem(library, gpu, Options(**given))) is not None:
        raise problem


MESSAGES: Final[Mapping[str, Any]] = {
    "SGK156_no_kernels": partial(_on, Gpu(0, "NVIDIA H100", (9, 0), 132)),
    "SGK157_no_float8": partial(_on, Gpu(1, "NVIDIA T4", (7, 5), 40), precision="fp8"),
}
