"""Options that say for which shapes engines are built, when, and how many are kept."""

from typing import Final

from subgraphkit.backend import Option
from subgraphkit_tensorrt.options.entry import Entry

__all__ = ["SHAPING"]

SHAPING: Final[tuple[Entry, ...]] = (
    Entry(
        Option(
            "dims",
            "shapes",
            default={},
            help="Smallest, usual and largest value of symbolic dimensions, such as "
            "{'batch': (1, 8, 32)} or 'batch=1x8x32'; inner shapes follow from them. Several "
            "ranges, [1, (1, 8, 32)] or 'batch=1|1x8x32', have an engine each.",
            cache=True,
            expected="smallest, usual and largest value by symbolic dimension, such as "
            "{'batch': (1, 8, 32)} or 'batch=1x8x32', or a list of several, such as "
            "{'batch': [1, (1, 8, 32)]} or 'batch=1|1x8x32'",
        ),
        trtexec="--minShapes, --optShapes, --maxShapes",
    ),
    Entry(
        Option(
            "min_shapes",
            "shapes",
            default={},
            help="Smallest shapes of inputs of the model, where symbols are not enough.",
            cache=True,
        ),
        onnxruntime="trt_profile_min_shapes",
        torch_tensorrt="Input(min_shape)",
        trtexec="--minShapes",
    ),
    Entry(
        Option(
            "opt_shapes",
            "shapes",
            default={},
            help="Shapes of inputs of the model that engines are tuned for.",
            cache=True,
        ),
        onnxruntime="trt_profile_opt_shapes",
        torch_tensorrt="Input(opt_shape)",
        trtexec="--optShapes",
    ),
    Entry(
        Option(
            "max_shapes",
            "shapes",
            default={},
            help="Largest shapes of inputs of the model.",
            cache=True,
        ),
        onnxruntime="trt_profile_max_shapes",
        torch_tensorrt="Input(max_shape)",
        trtexec="--maxShapes",
    ),
    Entry(
        Option(
            "dynamic",
            "enum",
            default="range",
            choices=("range", "exact"),
            help="Whether an engine built for shapes met at run time serves a growing range or "
            "exactly those shapes.",
        ),
        tf_trt="dynamic_shape_profile_strategy",
    ),
    Entry(
        Option(
            "build_at",
            "enum",
            default="auto",
            choices=("auto", "bind", "first_run"),
            help="When engines are built; auto builds at bind if the shapes or their ranges are "
            "known by then.",
        ),
        torch_tensorrt="lazy_engine_init",
    ),
    Entry(
        Option(
            "allow_runtime_build",
            bool,
            default=True,
            help="Whether a run may build an engine; without, a shape that no engine covers is an "
            "error.",
        ),
        tf_trt="allow_build_at_runtime",
    ),
    Entry(
        Option(
            "max_engines",
            int,
            default=4,
            minimum=1,
            help="Engines kept for one subgraph; the one used longest ago makes room.",
        ),
        tf_trt="maximum_cached_engines",
    ),
)
"""Options about shapes."""
