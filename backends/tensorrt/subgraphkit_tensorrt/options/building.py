"""Options of the builder: effort, kernels, weights and where a plan may be loaded."""

from types import MappingProxyType
from typing import Final

from subgraphkit.backend import Option
from subgraphkit_tensorrt.options.entry import Entry

__all__ = ["BUILDING"]

BUILDING: Final[tuple[Entry, ...]] = (
    # effort and kernels
    Entry(
        Option(
            "workspace_limit",
            "bytes",
            help="Most scratch memory one layer may use; too little makes builds fail.",
            cache=True,
        ),
        onnxruntime="trt_max_workspace_size",
        torch_tensorrt="workspace_size",
        tf_trt="max_workspace_size_bytes",
        trtexec="--memPoolSize",
    ),
    Entry(
        Option(
            "optimization_level",
            int,
            minimum=0,
            maximum=5,
            help="Effort of the builder; more takes longer and may give quicker engines.",
            cache=True,
        ),
        needs=("builder_optimization_level",),
        onnxruntime="trt_builder_optimization_level",
        torch_tensorrt="optimization_level",
        trtexec="--builderOptimizationLevel",
    ),
    Entry(
        Option(
            "avg_timing_iterations",
            int,
            minimum=1,
            help="How often a kernel is timed.",
            cache=True,
        ),
        torch_tensorrt="num_avg_timing_iters",
        trtexec="--avgTiming",
    ),
    Entry(
        Option(
            "max_aux_streams",
            int,
            minimum=0,
            help="Streams beside the main one that an engine may use.",
            cache=True,
        ),
        needs=("max_aux_streams",),
        onnxruntime="trt_auxiliary_streams",
        torch_tensorrt="max_aux_streams",
        trtexec="--maxAuxStreams",
    ),
    Entry(
        Option(
            "sparse_weights",
            bool,
            default=False,
            help="Whether kernels for weights with two zeros in four may be used.",
            cache=True,
        ),
        needs=("builder_flags.SPARSE_WEIGHTS",),
        onnxruntime="trt_sparsity_enable",
        torch_tensorrt="sparse_weights",
        trtexec="--sparsity",
    ),
    Entry(
        Option(
            "tactic_sources",
            "list",
            default=(),
            help="Names of the sources of kernels that may be used; the others may not.",
            cache=True,
        ),
        values_in="tactic_sources",
        onnxruntime="trt_tactic_sources",
        trtexec="--tacticSources",
    ),
    Entry(
        Option(
            "preview_features",
            "list",
            default=(),
            help="Names of preview features to switch on.",
            cache=True,
        ),
        values_in="preview_features",
        onnxruntime="trt_preview_features",
        trtexec="--preview",
    ),
    Entry(
        Option(
            "tiling_level",
            "enum",
            default="none",
            choices=("none", "fast", "moderate", "full"),
            help="Effort spent on tiling.",
            cache=True,
        ),
        needs=("tiling_optimization_level",),
        torch_tensorrt="tiling_optimization_level",
        trtexec="--tilingOptimizationLevel",
    ),
    Entry(
        Option(
            "l2_limit_for_tiling",
            "bytes",
            help="Most of the L2 cache that tiling may count on.",
            cache=True,
        ),
        needs=("l2_limit_for_tiling",),
        torch_tensorrt="l2_limit_for_tiling",
        trtexec="--l2LimitForTiling",
    ),
    Entry(
        Option(
            "max_tactics",
            int,
            minimum=0,
            help="Most kernels that are timed for one layer.",
            cache=True,
        ),
        needs=("max_num_tactics",),
        trtexec="--maxTactics",
    ),
    Entry(
        Option(
            "strict_nans",
            bool,
            default=False,
            help="Whether no optimization may assume that there are no NaNs.",
            cache=True,
        ),
        needs=("builder_flags.STRICT_NANS",),
    ),
    Entry(
        Option(
            "distributive_independence",
            bool,
            default=False,
            help="Whether results may not depend on where in a batch a row stands.",
            cache=True,
        ),
        needs=("builder_flags.DISTRIBUTIVE_INDEPENDENCE",),
        trtexec="--distributiveIndependence",
    ),
    Entry(
        Option(
            "timing_cache",
            bool,
            default=True,
            help="Whether timings of kernels are kept for the next build.",
        ),
        onnxruntime="trt_timing_cache_enable",
        torch_tensorrt="timing_cache_path",
        trtexec="--timingCacheFile",
    ),
    Entry(
        Option(
            "editable_timing_cache",
            bool,
            default=False,
            help="Whether builds choose the same kernels as before, from the timing cache.",
            cache=True,
        ),
        needs=("editable_timing_cache", "keeps_timings"),
    ),
    Entry(
        Option(
            "dla_core",
            int,
            minimum=0,
            help="Core of the deep learning accelerator to build for, on boards that have one.",
            cache=True,
        ),
        needs=("accelerators",),
        onnxruntime="trt_dla_enable, trt_dla_core",
        torch_tensorrt="Device(dla_core)",
        trtexec="--useDLACore",
    ),
    Entry(
        Option(
            "gpu_fallback",
            bool,
            default=False,
            help="Whether layers that the accelerator cannot run go to the GPU.",
            cache=True,
        ),
        needs=("accelerators",),
        torch_tensorrt="Device(allow_gpu_fallback)",
        trtexec="--allowGPUFallback",
    ),
    Entry(
        Option(
            "verbosity",
            "enum",
            default="layer_names",
            choices=("none", "layer_names", "detailed"),
            help="How much a plan tells of its layers; detailed is for reports and profiles.",
            cache=True,
        ),
        trtexec="--profilingVerbosity",
    ),
    Entry(
        Option(
            "progress",
            "enum",
            default="auto",
            choices=("auto", "off"),
            help="Whether builds show how far they are; auto draws a bar on a terminal and writes "
            "a line now and then elsewhere.",
        ),
    ),
    # weights
    Entry(
        Option(
            "refittable",
            bool,
            default=False,
            help="Whether new weights are put into the engine in place of building another.",
            cache=True,
        ),
        needs=("refitter", "builder_flags.REFIT"),
        torch_tensorrt="immutable_weights",
        trtexec="--refit",
    ),
    Entry(
        Option(
            "strip_weights",
            bool,
            default=False,
            help="Whether plans are stored without weights and refitted when they are loaded.",
            cache=True,
        ),
        needs=("parser_refitter", "builder_flags.STRIP_PLAN"),
        onnxruntime="trt_weight_stripped_engine_enable",
        torch_tensorrt="strip_engine_weights",
        trtexec="--stripWeights",
    ),
    Entry(
        Option(
            "share_identical",
            bool,
            default=False,
            help="Whether subgraphs that differ in their weights alone are built once and "
            "refitted.",
            cache=True,
        ),
        needs=("parser_refitter", "builder_flags.REFIT"),
        torch_tensorrt="reuse_cached_engines",
    ),
    Entry(
        Option(
            "weight_streaming",
            bool,
            default=False,
            help="Whether weights may stay in the memory of the host.",
            cache=True,
        ),
        needs=("weight_streaming", "builder_flags.WEIGHT_STREAMING"),
        torch_tensorrt="enable_weight_streaming",
        trtexec="--allowWeightStreaming",
    ),
    # where a plan may be loaded
    Entry(
        Option(
            "version_compatible",
            bool,
            default=False,
            help="Whether plans can be loaded by newer TensorRT of the same major version.",
            cache=True,
        ),
        needs=("builder_flags.VERSION_COMPATIBLE",),
        torch_tensorrt="version_compatible",
        trtexec="--versionCompatible",
    ),
    Entry(
        Option(
            "exclude_lean_runtime",
            bool,
            default=True,
            help="With version_compatible, whether plans carry no runtime, which would be code "
            "for the host.",
            cache=True,
        ),
        needs=("builder_flags.EXCLUDE_LEAN_RUNTIME",),
        trtexec="--excludeLeanRuntime",
    ),
    Entry(
        Option(
            "hardware_compatible",
            "enum",
            default="none",
            choices=("none", "same_cc", "ampere_plus"),
            help="Which other GPUs a plan runs on: none, those of its compute capability, or "
            "Ampere and newer.",
            cache=True,
        ),
        needs=("hardware_classes",),
        needs_of=MappingProxyType(
            {
                "same_cc": "hardware_levels.SAME_COMPUTE_CAPABILITY",
                "ampere_plus": "hardware_levels.AMPERE_PLUS",
            }
        ),
        onnxruntime="trt_engine_hw_compatible",
        torch_tensorrt="hardware_compatible",
        trtexec="--hardwareCompatibilityLevel",
    ),
    Entry(
        Option(
            "compute_capabilities",
            "list",
            default=(),
            help="GPUs that TensorRT for RTX builds for, such as SM89; current is the one here.",
            cache=True,
        ),
        needs=("compute_capabilities",),
        trtexec="--computeCapabilities",
    ),
    Entry(
        Option(
            "target_platform",
            "enum",
            default="same",
            choices=("same", "windows"),
            help="Operating system the plan is for; another than this one is only built.",
            cache=True,
        ),
        needs_of=MappingProxyType({"windows": "platforms.WINDOWS_AMD64"}),
        torch_tensorrt="enable_cross_compile_for_windows",
        trtexec="--runtimePlatform",
    ),
)
"""Options of the builder."""
