"""Rules of the options beyond the manifest: ranges of shapes, and checks against the library.

The ranges are read into one form; what one library cannot honour, or contradicts itself, is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend import did_you_mean, options_of
from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.backend_options import Options

_WORDS: Final = ("min_shapes", "opt_shapes", "max_shapes")
_THREE: Final = 3

Range = tuple[int, int, int]
"""Smallest, usual and largest."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeRanges:
    """The ranges of shapes known before the first run.

    Attributes:
        inputs: Smallest, usual and largest shape, by input of the model.
    """

    dims: Mapping[str, Range]
    inputs: Mapping[str, tuple[Shape, Shape, Shape]]


def read_ranges(options: Options) -> tuple[ShapeRanges, ...]:
    """Read ``dims``, ``min_shapes``, ``opt_shapes``, ``max_shapes``; OptionError (SGK161)."""
    several = {name: _dim_ranges(name, values) for name, values in options.dims.items()}
    given = [options.min_shapes, options.opt_shapes, options.max_shapes]
    names = {name: None for shapes in given for name in shapes}
    inputs = MappingProxyType({name: _shape_range(name, given) for name in names})
    return tuple(
        ShapeRanges(MappingProxyType(dict(zip(several, chosen, strict=True))), inputs)
        for chosen in product(*several.values())
    )


def contradiction(message: str, hint: str, *options: str) -> OptionError:
    """Build the error for options that cannot hold together (SGK161)."""
    return OptionError("SGK161", message, hint=hint, backend="tensorrt", options=options)


def unusable(code: str, option: str, problem: str, hint: str) -> OptionError:
    """Build the error for an option that cannot be honoured; ``problem`` goes on with its name."""
    message = f"option {option!r} of backend 'tensorrt' {problem}"
    return OptionError(code, message, hint=hint, backend="tensorrt", option=option)


def _dim_ranges(name: str, values: tuple[Any, ...]) -> tuple[Range, ...]:
    """Read one range, or several: ``1x8x32``, ``1|1x8x32``, ``(1, 8, 32)``, ``[1, (1, 8, 32)]``."""
    words = [word for value in values for word in _split_ranges(value)]
    several = words if any(isinstance(word, tuple) for word in words) else [tuple(words)]
    found = [_dim_range(one if isinstance(one, tuple) else (one,)) for one in several]
    ranges = tuple(dict.fromkeys(one for one in found if one is not None))
    if None in found or not ranges:
        raise contradiction(
            f"option 'dims' of backend 'tensorrt' gives dimension {name!r} the range {values!r}, "
            "expected one number, or the smallest, the usual and the largest, or several such "
            "ranges",
            f"Write dims={{{name!r}: (1, 8, 32)}}, or {name}=1x8x32 where text is wanted; for "
            f"several ranges, dims={{{name!r}: [(1, 1, 1), (1, 8, 32)]}}, or {name}=1|1x8x32.",
            "dims",
        )
    return ranges


def _split_ranges(value: Any) -> list[Any]:
    """Return the ranges in a word of text; what is no text, as it is."""
    if not isinstance(value, str):
        return [value]
    words = [word.split("x") for word in value.split("|")]
    return [tuple(int(one) if one.strip().isdigit() else one for one in word) for word in words]


def _dim_range(values: tuple[Any, ...]) -> Range | None:
    if not all(isinstance(value, int) and value >= 0 for value in values):
        return None
    if len(values) == 1:
        return (values[0],) * 3
    if len(values) == _THREE and list(values) == sorted(values):
        return (values[0], values[1], values[2])
    return None


def _shape_range(
    name: str, given: list[Mapping[str, tuple[Any, ...]]]
) -> tuple[Shape, Shape, Shape]:
    missing = [word for word, shapes in zip(_WORDS, given, strict=True) if name not in shapes]
    if missing:
        raise contradiction(
            f"input {name!r} has no shape in {' and '.join(missing)} of backend 'tensorrt'",
            "Give an input in min_shapes, opt_shapes and max_shapes, or in none of them.",
            *missing,
        )
    shapes = low, usual, high = given[0][name], given[1][name], given[2][name]
    whole = all(isinstance(dim, int) for shape in (low, usual, high) for dim in shape)
    ranks = {len(low), len(usual), len(high)}
    if whole and len(ranks) == 1 and all(0 <= a <= b <= c for a, b, c in zip(*shapes, strict=True)):
        return low, usual, high
    raise contradiction(
        f"the shapes of input {name!r} for backend 'tensorrt' are {low!r}, {usual!r} and {high!r} "
        "(min, opt, max), expected whole numbers, equally many, none larger than the next",
        "Correct min_shapes, opt_shapes and max_shapes.",
        *_WORDS,
    )


def check_agreement(options: Options) -> None:
    """Refuse options that contradict one another (OptionError, SGK161)."""
    read_ranges(options)
    if options.precision in {"int8", "fp8"} and options.calibration is None:
        raise contradiction(
            f"option precision={options.precision} of backend 'tensorrt' needs calibration, which "
            "is not set",
            "Set calibration as well, or leave precision out.",
            "precision",
            "calibration",
        )


_TOOLS: Final[Mapping[str, str]] = {
    "onnxruntime": "ONNX Runtime",
    "torch_tensorrt": "Torch-TensorRT",
    "tf_trt": "TF-TRT",
}
_VALUES: Final[Mapping[str, str]] = {
    "fp16": "trt_fp16_enable enable_autocast",
    "bf16": "trt_bf16_enable",
    "int8": "trt_int8_enable",
    "{type}": "precision_mode enabled_precisions autocast_low_precision_type",
    "{opposite}": "disable_tf32 immutable_weights",
    "auto": "trt_cuda_graph_enable cuda_graph_strategy",
    "true": "timing_cache_path",
    "range": "dynamic_shape_profile_strategy",
    "FILE": "use_calibration autocast_calibration_dataloader",
    "max_aux_streams={}": "trt_auxiliary_streams max_aux_streams",
    "avg_timing_iterations={}": "num_avg_timing_iters",
    "tiling_optimization_level={upper}": "tiling_optimization_level",
    "l2_limit_for_tiling={}": "l2_limit_for_tiling",
    "SPARSE_WEIGHTS=true": "trt_sparsity_enable sparse_weights",
    "VERSION_COMPATIBLE=true": "version_compatible",
    "hardware_compatibility_level=AMPERE_PLUS": "trt_engine_hw_compatible hardware_compatible",
}
"""What an option is set to here where it has another value elsewhere, with its names there."""
_FORMS: Final = {word: form for form, words in _VALUES.items() for word in words.split()}
_SETTINGS: Final = {
    ("onnxruntime", "cache"): "trt_engine_cache_enable",
    ("onnxruntime", "cache_dir"): "trt_engine_cache_path",
    ("onnxruntime", "keep_off"): "trt_op_types_to_exclude",
    ("tf_trt", "keep_off"): "TF_TRT_OP_DENYLIST",
    ("torch_tensorrt", "keep_off"): "torch_executed_ops torch_executed_modules",
    ("torch_tensorrt", "require={'tensorrt': 1.0}"): "require_full_compilation",
    ("torch_tensorrt", "on_unsupported='raise'"): "pass_through_build_failures",
    ("torch_tensorrt", "cache"): "cache_built_engines reuse_cached_engines",
    ("torch_tensorrt", "cache_dir"): "engine_cache_dir",
    ("torch_tensorrt", "cache_size"): "engine_cache_size",
}
"""By tool, what is a setting of a session here, with its names there."""


def foreign_option(name: str, value: Any) -> str:
    """Say what to write for an option of another integration of TensorRT; empty if it is none."""
    text = str(value).lower()
    floats = text.replace("bfloat", "bf").replace("float", "fp").replace("half", "fp16")
    words = {
        "upper": text.upper(),
        "opposite": str(text in {"false", "0", "no", "off"}).lower(),
        "type": next((ours for ours in ("fp8", "int8", "bf16", "fp16") if ours in floats), "keep"),
    }
    theirs = {
        word: (tool, f"{option.name}={_FORMS.get(word, '{}').format(value, **words)}")
        for option in options_of(Options)
        for tool in _TOOLS
        for word in option.elsewhere.get(tool, "").replace(",", " ").split()
    }
    for (tool, setting), names in _SETTINGS.items():
        said = (tool, f"the setting {setting} of the session")
        theirs |= dict.fromkeys(names.split(), said)
    if name in theirs:
        tool, ours = theirs[name]
        return f"{_TOOLS[tool]}'s {name} is {ours} here."
    if not name.startswith("trt_"):
        return ""
    hint = did_you_mean(name, list(theirs))
    return f"No option here does what {name} of ONNX Runtime does{hint}."
