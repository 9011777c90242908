"""Options that say which library to use, which nodes it gets, and in what precision."""

from types import MappingProxyType
from typing import Final

from subgraphkit.backend import Option
from subgraphkit_tensorrt.options.entry import Entry

__all__ = ["CHOOSING"]

CHOOSING: Final[tuple[Entry, ...]] = (
    # library and device
    Entry(
        Option(
            "flavour",
            "enum",
            default="auto",
            choices=("auto", "tensorrt", "tensorrt_rtx", "tensorrt_lean", "tensorrt_dispatch"),
            help="Which library to use; auto takes the first of them that is installed.",
        ),
    ),
    Entry(
        Option(
            "device",
            int,
            default=0,
            minimum=0,
            help="Number of the GPU, as CUDA counts those it may see.",
        ),
        onnxruntime="device_id",
        torch_tensorrt="device",
        trtexec="--device",
    ),
    Entry(
        Option(
            "build_only",
            bool,
            default=False,
            help="Whether engines are only to be built; needs no GPU where the library does not.",
        ),
        trtexec="--skipInference",
    ),
    # which nodes
    Entry(
        Option(
            "min_subgraph_nodes",
            int,
            default=3,
            minimum=1,
            help="Subgraphs with fewer nodes are given back.",
        ),
        onnxruntime="trt_min_subgraph_size",
        torch_tensorrt="min_block_size",
        tf_trt="minimum_segment_size",
    ),
    Entry(
        Option(
            "exclude_ops",
            "list",
            default=(),
            help="Operators that are left to other backends.",
        ),
        onnxruntime="trt_op_types_to_exclude",
        torch_tensorrt="torch_executed_ops",
        tf_trt="TF_TRT_OP_DENYLIST",
    ),
    Entry(
        Option(
            "exclude_nodes",
            "list",
            default=(),
            help="Regular expressions; nodes whose whole name matches are left to others.",
        ),
        torch_tensorrt="torch_executed_modules",
    ),
    Entry(
        Option(
            "only_ops",
            "list",
            default=(),
            help="If given, operators other than these are left to other backends.",
        ),
    ),
    Entry(
        Option(
            "max_query_rounds",
            int,
            default=100,
            minimum=1,
            help="How often the parser is asked again about what is left of a region.",
        ),
        onnxruntime="trt_max_partition_iterations",
    ),
    Entry(
        Option(
            "on_build_failure",
            "enum",
            default="give_back",
            choices=("give_back", "raise"),
            help="What becomes of nodes that the builder refuses although the parser took them: "
            "they go to the next backend, with the reason in the report, or bind raises.",
        ),
        torch_tensorrt="pass_through_build_failures",
    ),
    Entry(
        Option(
            "max_build_retries",
            int,
            default=2,
            minimum=0,
            help="How often a subgraph is built again without the nodes that made a build fail.",
        ),
    ),
    Entry(
        Option(
            "require_nodes",
            float,
            default=0.0,
            minimum=0.0,
            maximum=1.0,
            help="Share of the nodes that TensorRT must get, or bind raises.",
        ),
        torch_tensorrt="require_full_compilation",
    ),
    Entry(
        Option(
            "require_flops",
            float,
            default=0.0,
            minimum=0.0,
            maximum=1.0,
            help="Share of the multiplications that TensorRT must get, or bind raises.",
        ),
    ),
    Entry(
        Option(
            "modules",
            "list",
            default=(),
            help="Python modules that are imported first, because they register converters or "
            "creators of plugins.",
            cache=True,
        ),
    ),
    Entry(
        Option(
            "plugin_libraries",
            "list",
            default=(),
            help="Paths of shared libraries with TensorRT plugins; they run in this process.",
            cache=True,
        ),
        needs=("load_plugin_library", "plugins"),
        onnxruntime="trt_extra_plugin_lib_paths",
        trtexec="--dynamicPlugins",
    ),
    # precision
    Entry(
        Option(
            "precision",
            "enum",
            default="keep",
            choices=("keep", "fp16", "bf16", "int8"),
            help="Type in which float32 is computed; keep leaves the types of the model. The "
            "model is rewritten, so that it means the same on every release.",
            cache=True,
        ),
        needs_of=MappingProxyType({"bf16": "data_types.BF16"}),
        onnxruntime="trt_fp16_enable, trt_bf16_enable, trt_int8_enable",
        torch_tensorrt="enable_autocast, autocast_low_precision_type",
        tf_trt="precision_mode",
    ),
    Entry(
        Option(
            "high_precision",
            "enum",
            default="fp16",
            choices=("fp32", "fp16", "bf16"),
            help="With precision int8, the type of what is not quantized; int8 between layers of "
            "float32 is often slower than fp16 alone.",
            cache=True,
        ),
        needs_of=MappingProxyType({"bf16": "data_types.BF16"}),
    ),
    Entry(
        Option(
            "keep_fp32",
            "list",
            default=(),
            help="Operators, or regular expressions of names of nodes or their outputs, that stay "
            "in float32; what precision_search finds can be given here.",
            cache=True,
        ),
        onnxruntime="trt_layer_norm_fp32_fallback",
        torch_tensorrt="autocast_excluded_ops, autocast_excluded_nodes",
        trtexec="--layerPrecisions",
    ),
    Entry(
        Option(
            "data_max",
            float,
            default=512.0,
            minimum=0.0,
            help="With fp16 and calibration, nodes that see larger magnitudes stay in float32.",
            cache=True,
        ),
        torch_tensorrt="autocast_max_output_threshold",
    ),
    Entry(
        Option(
            "reduction_depth",
            int,
            minimum=1,
            help="Nodes that sum up more products than this stay in float32.",
            cache=True,
        ),
        torch_tensorrt="autocast_max_depth_of_reduction",
    ),
    Entry(
        Option(
            "calibration",
            "path",
            help="File with the ranges of values that a calibration measured.",
            cache=True,
        ),
        onnxruntime="trt_int8_calibration_table_name",
        torch_tensorrt="autocast_calibration_dataloader",
        tf_trt="use_calibration",
        trtexec="--calib",
    ),
    Entry(
        Option(
            "tf32",
            bool,
            default=True,
            help="Whether float32 products may be computed from numbers of 10 bits; without, "
            "results agree with other backends to a rounding.",
            cache=True,
        ),
        torch_tensorrt="disable_tf32",
        trtexec="--noTF32",
    ),
    Entry(
        Option(
            "truncate_double",
            bool,
            default=False,
            help="Whether to take nodes of float64 and compute them in float32.",
            cache=True,
        ),
        torch_tensorrt="truncate_double",
    ),
)
"""Options by which a user chooses what TensorRT gets to do."""
