"""Options of the run side: memory, streams, contexts, CUDA graphs and trust."""

from types import MappingProxyType
from typing import Final

from subgraphkit.backend import Option
from subgraphkit_tensorrt.options.entry import Entry

__all__ = ["RUNNING"]

RUNNING: Final[tuple[Entry, ...]] = (
    Entry(
        Option(
            "stream",
            int,
            minimum=0,
            help="Address of the CUDA stream to work on, a cudaStream_t that outlives all sessions "
            "on its GPU; without, the backend makes its own. For single runs, there is "
            "on_stream().",
            scope="run",
        ),
        onnxruntime="user_compute_stream",
        trtexec="--streams",
    ),
    Entry(
        Option(
            "max_contexts",
            int,
            default=1,
            minimum=1,
            help="How many runs of one engine may be under way at once.",
            scope="run",
        ),
        trtexec="--infStreams",
    ),
    Entry(
        Option(
            "context_memory",
            "enum",
            default="shared",
            choices=("shared", "static", "profile"),
            help="Scratch memory: one block for engines that do not run at the same time, or one "
            "for each context, of the size of the engine or of its profile.",
            scope="run",
        ),
        needs_of=MappingProxyType({"profile": "allocation_strategy"}),
        onnxruntime="trt_context_memory_sharing_enable",
        torch_tensorrt="dynamically_allocate_resources",
        trtexec="--allocationStrategy",
    ),
    Entry(
        Option(
            "allocator",
            str,
            default="",
            help="Allocator of device memory as module:name, an object with allocate(size, "
            "alignment, flags) and deallocate(address), such as TensorRT's IGpuAllocator.",
            scope="run",
        ),
    ),
    Entry(
        Option(
            "persistent_l2_limit",
            "bytes",
            help="Most of the L2 cache that a context may keep for itself.",
            scope="run",
        ),
        needs=("persistent_cache_limit",),
        trtexec="--persistentCacheRatio",
    ),
    Entry(
        Option(
            "weight_streaming_budget",
            "bytes",
            help="With weight_streaming, device memory for weights; without, nine tenths of what "
            "is free.",
            scope="run",
        ),
        needs=("weight_streaming",),
        trtexec="--weightStreamingBudget",
    ),
    Entry(
        Option(
            "cuda_graphs",
            "enum",
            default="off",
            choices=("off", "auto"),
            help="Whether runs of equal shapes are recorded and replayed, where an engine allows.",
            scope="run",
        ),
        onnxruntime="trt_cuda_graph_enable",
        torch_tensorrt="cuda_graph_strategy",
        trtexec="--useCudaGraph",
    ),
    Entry(
        Option(
            "kernel_specialization",
            "enum",
            default="lazy",
            choices=("lazy", "eager", "none"),
            help="With TensorRT for RTX, when kernels for the shapes at hand are compiled.",
            scope="run",
        ),
        needs=("kernel_specialization_strategy",),
        torch_tensorrt="dynamic_shapes_kernel_specialization_strategy",
    ),
    Entry(
        Option(
            "profiling",
            bool,
            default=False,
            help="Whether the time of every layer is measured; runs are slower meanwhile.",
            scope="run",
        ),
        torch_tensorrt="enable_profiling",
        trtexec="--dumpProfile",
    ),
    Entry(
        Option(
            "allow_host_code",
            bool,
            default=False,
            help="Whether code inside a plan may run on the host; allow it only for plans you "
            "would run as programs.",
        ),
        needs=("host_code_allowed",),
    ),
    Entry(
        Option(
            "lean_runtime",
            "path",
            help="The library libnvinfer_lean to load version-compatible plans with.",
        ),
        needs=("load_runtime",),
        trtexec="--leanDLLPath",
    ),
)
"""Options of the run side."""
