"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from subgraphkit.backend import OptionMapping, OptionShapes

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'tensorrt'; `subgraphkit list tensorrt --options` says more."""

    flavour: Literal["auto", "tensorrt", "tensorrt_rtx"] = "auto"
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
    io_precision: Literal["keep", "fp16"] = "keep"
    """Type in which float32 inputs and outputs of the model cross to the device and back; with
    fp16, half as many bytes. Arrays of the host stay float32; those on the device are float16,
    as inputs if you like."""
    data_max: float = 512.0
    """With fp16 and calibration, nodes that see larger magnitudes stay in float32."""
    reduction_depth: int | None = None
    """Nodes that sum up more products than this stay in float32."""
    calibration: Path | None = None
    """File with the ranges of values that a calibration measured."""
    tf32: bool = True
    """Whether float32 products may be computed from numbers of 10 bits; without, results agree
    with other backends to a rounding."""
    dims: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Smallest, usual and largest value of symbolic dimensions, such as {'batch': (1, 8, 32)} or
    'batch=1x8x32'; inner shapes follow from them. There may be several ranges, [1, (1, 8, 32)]
    or 'batch=1|1x8x32'."""
    min_shapes: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Smallest shapes of inputs of the model, where symbols are not enough."""
    opt_shapes: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Shapes of inputs of the model that engines are tuned for."""
    max_shapes: OptionShapes = field(default_factory=lambda: MappingProxyType({}))
    """Largest shapes of inputs of the model."""
    dynamic: Literal["range", "exact"] = "range"
    """Whether an engine built for shapes met at run time serves a growing range or exactly those
    shapes."""
    allow_runtime_build: bool = True
    """Whether a run may build an engine; without, shapes or their ranges have to be known at
    bind, and a shape that no engine covers is an error."""
    build_behind: bool = True
    """Whether shapes that no engine covers run on the fallback backend while a wider engine is
    built; without, such a run waits for it. The first engine is always waited for."""
    max_engines: int = 4
    """Engines kept for one subgraph; the one used longest ago makes room."""
    workspace_limit: int | None = None
    """Most scratch memory one layer may use; too little makes builds fail. In bytes."""
    optimization_level: int | None = None
    """Effort of the builder; more takes longer and may give quicker engines."""
    builder: OptionMapping = field(default_factory=lambda: MappingProxyType({}))
    """Settings of the builder by TensorRT's own names: properties of IBuilderConfig, and members
    of BuilderFlag, MemoryPoolType and PreviewFeature, such as {'max_num_tactics': 8,
    'SPARSE_WEIGHTS': True}."""
    timing_cache: bool = True
    """Whether timings of kernels are kept for the next build."""
    refittable: bool = False
    """Whether new weights are put into the engine in place of building another."""
    weight_streaming: bool = False
    """Whether weights may stay in the memory of the host."""
    stream: int | None = None
    """Address of the CUDA stream to work on, a cudaStream_t that outlives all sessions on its
    GPU; without, the backend makes its own. For single runs, there is on_stream()."""
    max_contexts: int = 1
    """How many runs of one engine may be under way at once. Each of its ranges of shapes has as
    many contexts at most, made when they are needed, and each CUDA graph one of its own."""
    weight_streaming_budget: int | None = None
    """With weight_streaming, device memory for weights; without, nine tenths of what is free. In
    bytes."""
    cuda_graphs: Literal["off", "auto"] = "off"
    """Whether runs of equal shapes are recorded and replayed, where an engine allows."""
