"""Options of the backend as types; `subgraphkit manifest write` writes them from the manifest."""

from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from subgraphkit.backend import OptionShapes

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'tensorrt'; `subgraphkit info tensorrt --options` says more."""

    flavour: Literal["auto", "tensorrt", "tensorrt_rtx", "tensorrt_lean", "tensorrt_dispatch"] = (
        "auto"
    )
    """Which library to use; auto takes the first of them that is installed."""
    device: int = 0
    """Number of the GPU, as CUDA counts those it may see."""
    build_only: bool = False
    """Whether engines are only to be built; needs no GPU where the library does not."""
    min_subgraph_nodes: int = 3
    """Subgraphs with fewer nodes are given back."""
    modules: tuple[str, ...] = ()
    """Python modules that are imported first, because they register converters or creators of
    plugins."""
    plugin_libraries: tuple[str, ...] = ()
    """Paths of shared libraries with TensorRT plugins; they run in this process."""
    precision: Literal["keep", "fp16", "bf16", "int8", "fp8"] = "keep"
    """Type in which float32 is computed; keep leaves the types of the model. The model is
    rewritten, so that it means the same on every release. fp8 takes a GPU of compute capability
    8.9, 9.0 or newer."""
    high_precision: Literal["fp32", "fp16", "bf16"] = "fp16"
    """With precision int8 or fp8, the type of what is not quantized; int8 between layers of
    float32 is often slower than fp16 alone."""
    keep_fp32: tuple[str, ...] = ()
    """Operators, or regular expressions of names of nodes or their outputs, that stay in
    float32; what precision_search finds can be given here."""
    data_max: float = 512.0
    """With fp16 and calibration, nodes that see larger magnitudes stay in float32."""
    reduction_depth: int | None = None
    """Nodes that sum up more products than this stay in float32."""
    calibration: Path | None = None
    """File with the ranges of values that a calibration measured."""
    tf32: bool = True
    """Whether float32 products may be computed from numbers of 10 bits; without, results agree
    with other backends to a rounding."""
    truncate_double: bool = False
    """Whether to take nodes of float64 and compute them in float32."""
    dims: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Smallest, usual and largest value of symbolic dimensions, such as {'batch': (1, 8, 32)} or
    'batch=1x8x32'; inner shapes follow from them. There may be several ranges, [1, (1, 8, 32)]
    or 'batch=1|1x8x32'."""
    engine_per_range: bool = False
    """Whether each of several ranges has an engine of its own; without, one engine is tuned for
    all of them and holds the weights once."""
    min_shapes: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Smallest shapes of inputs of the model, where symbols are not enough."""
    opt_shapes: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Shapes of inputs of the model that engines are tuned for."""
    max_shapes: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Largest shapes of inputs of the model."""
    dynamic: Literal["range", "exact"] = "range"
    """Whether an engine built for shapes met at run time serves a growing range or exactly those
    shapes."""
    build_at: Literal["auto", "bind", "first_run"] = "auto"
    """When engines are built; auto builds at bind if the shapes or their ranges are known by
    then."""
    allow_runtime_build: bool = True
    """Whether a run may build an engine; without, a shape that no engine covers is an error."""
    max_engines: int = 4
    """Engines kept for one subgraph; the one used longest ago makes room."""
    workspace_limit: int | None = None
    """Most scratch memory one layer may use; too little makes builds fail. In bytes."""
    optimization_level: int | None = None
    """Effort of the builder; more takes longer and may give quicker engines."""
    avg_timing_iterations: int | None = None
    """How often a kernel is timed."""
    max_aux_streams: int | None = None
    """Streams beside the main one that an engine may use."""
    sparse_weights: bool = False
    """Whether kernels for weights with two zeros in four may be used."""
    tiling_level: Literal["none", "fast", "moderate", "full"] = "none"
    """Effort spent on tiling."""
    l2_limit_for_tiling: int | None = None
    """Most of the L2 cache that tiling may count on. In bytes."""
    max_tactics: int | None = None
    """Most kernels that are timed for one layer."""
    strict_nans: bool = False
    """Whether no optimization may assume that there are no NaNs."""
    distributive_independence: bool = False
    """Whether results may not depend on where in a batch a row stands."""
    timing_cache: bool = True
    """Whether timings of kernels are kept for the next build."""
    editable_timing_cache: bool = False
    """Whether builds choose the same kernels as before, from the timing cache."""
    verbosity: Literal["none", "layer_names", "detailed"] = "layer_names"
    """How much a plan tells of its layers; detailed is for reports and profiles."""
    refittable: bool = False
    """Whether new weights are put into the engine in place of building another."""
    strip_weights: bool = False
    """Whether plans are stored without weights and refitted when they are loaded."""
    weight_streaming: bool = False
    """Whether weights may stay in the memory of the host."""
    version_compatible: bool = False
    """Whether plans can be loaded by newer TensorRT of the same major version."""
    exclude_lean_runtime: bool = True
    """With version_compatible, whether plans carry no runtime, which would be code for the host."""
    hardware_compatible: Literal["none", "same_cc", "ampere_plus"] = "none"
    """Which other GPUs a plan runs on: none, those of its compute capability, or Ampere and
    newer."""
    compute_capabilities: tuple[str, ...] = ()
    """GPUs that TensorRT for RTX builds for, such as SM89; current is the one here."""
    stream: int | None = None
    """Address of the CUDA stream to work on, a cudaStream_t that outlives all sessions on its
    GPU; without, the backend makes its own. For single runs, there is on_stream()."""
    max_contexts: int = 1
    """How many runs of one engine may be under way at once. Each of its ranges of shapes has as
    many contexts at most, made when they are needed, and each CUDA graph one of its own."""
    context_memory: Literal["shared", "static", "profile"] = "shared"
    """Scratch memory: one block for engines that do not run at the same time, or one for each
    context, of the size of the engine or of its profile."""
    memory_limit: int | None = None
    """Most device memory for inputs, outputs and scratch of sessions with the same settings;
    weights of engines come on top. What is not used goes back after ten seconds without a run.
    In bytes."""
    persistent_l2_limit: int | None = None
    """Most of the L2 cache that a context may keep for itself. In bytes."""
    weight_streaming_budget: int | None = None
    """With weight_streaming, device memory for weights; without, nine tenths of what is free. In
    bytes."""
    cuda_graphs: Literal["off", "auto"] = "off"
    """Whether runs of equal shapes are recorded and replayed, where an engine allows."""
    kernel_specialization: Literal["lazy", "eager", "none"] = "lazy"
    """With TensorRT for RTX, when kernels for the shapes at hand are compiled."""
    profiling: bool = False
    """Whether the time of every layer is measured; runs are slower meanwhile."""
    nvtx: bool = False
    """Whether runs are NVTX ranges with the names of ONNX nodes, for NVIDIA's profilers; takes
    the package nvtx."""
    allow_host_code: bool = False
    """Whether code inside a plan may run on the host; allow it only for plans you would run as
    programs."""
    lean_runtime: Path | None = None
    """The library libnvinfer_lean to load version-compatible plans with."""
