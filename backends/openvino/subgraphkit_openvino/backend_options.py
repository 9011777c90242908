"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'openvino'; `subgraphkit list openvino --options` says more."""

    device: str = "CPU"
    """Name of the device, such as CPU, GPU, GPU.1 or NPU."""
    precision: Literal["f32", "f16", "bf16", "auto"] = "f32"
    """Type in which float32 is computed; auto leaves it to the device."""
    hint: Literal["latency", "throughput", "cumulative_throughput"] = "latency"
    """What the device is tuned for."""
    threads: int | None = None
    """Threads of the processor; unless given, as many as the setting threads."""
    streams: int | None = None
    """Runs that are worked on at the same time; unless given, the hint decides."""
    narrow: bool = False
    """Whether to take nodes whose 64-bit or whole numbers OpenVINO computes in 32 bits or in
    float32."""
