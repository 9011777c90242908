"""Builder configurations from options, and timings of kernels, kept from build to build."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import BindContext
from subgraphkit.errors import CompileError
from subgraphkit.storing import KeptFile
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.network import ParsedNetwork
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import check, listening, tail

_VERBOSITY: Final = {"none": "NONE", "layer_names": "LAYER_NAMES_ONLY", "detailed": "DETAILED"}
_HARDWARE: Final = {"same_cc": "SAME_COMPUTE_CAPABILITY", "ampere_plus": "AMPERE_PLUS"}
_UNSUPPORTED: Final = "unsupported"
_RESIZE: Final = "RUNTIME_ACTIVATION_RESIZE_10_10"


def configure(parsed: ParsedNetwork, library: Library, options: Options) -> Any:
    """Return an ``IBuilderConfig`` for the options, which were checked against the library.

    Raises:
        CompileError: The library refuses a setting (SGK162), or ignores it (SGK173).
    """
    trt = library.trt
    config = check(parsed.builder.create_builder_config(), "make a builder configuration")
    for flag in _flags(options):
        config.set_flag(trt.BuilderFlag.__members__[flag])
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    for option, attribute, level in (
        ("optimization_level", "builder_optimization_level", options.optimization_level),
        ("avg_timing_iterations", "avg_timing_iterations", options.avg_timing_iterations),
        ("max_aux_streams", "max_aux_streams", options.max_aux_streams),
        ("max_tactics", "max_num_tactics", options.max_tactics),
        ("l2_limit_for_tiling", "l2_limit_for_tiling", options.l2_limit_for_tiling),
    ):
        if level is not None:
            _put(config, attribute, level, option, level)
    if options.workspace_limit is not None:
        limit = options.workspace_limit
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, limit)
    verbosity = _VERBOSITY[options.verbosity]
    config.profiling_verbosity = trt.ProfilingVerbosity.__members__[verbosity]
    if options.tiling_level != "none":
        value = trt.TilingOptimizationLevel.__members__[options.tiling_level.upper()]
        _put(config, "tiling_optimization_level", value, "tiling_level", options.tiling_level)
    _choose_targets(config, parsed, library, options)
    return config


def _flags(options: Options) -> list[str]:
    asked = {
        "SPARSE_WEIGHTS": options.sparse_weights,
        "STRICT_NANS": options.strict_nans,
        "DISTRIBUTIVE_INDEPENDENCE": options.distributive_independence,
        "EDITABLE_TIMING_CACHE": options.editable_timing_cache,
        "STRIP_PLAN": options.strip_weights,
        # What is stored without weights gets them when it is loaded.
        "REFIT": options.refittable or options.strip_weights,
        "WEIGHT_STREAMING": options.weight_streaming,
        "VERSION_COMPATIBLE": options.version_compatible,
    }
    flags = [flag for flag, is_asked in asked.items() if is_asked]
    if options.version_compatible and options.exclude_lean_runtime:
        flags.append("EXCLUDE_LEAN_RUNTIME")
    return flags


def _choose_targets(config: Any, parsed: ParsedNetwork, library: Library, options: Options) -> None:
    trt = library.trt
    if options.hardware_compatible != "none":
        given = options.hardware_compatible
        level = trt.HardwareCompatibilityLevel.__members__[_HARDWARE[given]]
        _put(config, "hardware_compatibility_level", level, "hardware_compatible", given)
    _choose_gpus(config, trt, options.compute_capabilities)
    if options.version_compatible:
        _embed_plugins(config, parsed, allowed=options.allow_host_code)


def _choose_gpus(config: Any, trt: Any, wanted: Sequence[str]) -> None:
    if not wanted:
        return
    config.num_compute_capabilities = len(wanted)
    members = trt.ComputeCapability.__members__
    for place, name in enumerate(wanted):
        if name.upper() not in members:
            raise _unusable(
                f"option 'compute_capabilities' names {name!r}, which this library does not "
                "build for",
                f"It builds for: {', '.join(members)}.",
            )
        is_set = config.set_compute_capability(members[name.upper()], place)
        check(is_set, f"build for {name}")


def _embed_plugins(config: Any, parsed: ParsedNetwork, *, allowed: bool) -> None:
    libraries = parsed.parser.get_used_vc_plugin_libraries()
    if libraries and not allowed:
        raise _unusable(
            f"the plan would carry the plugin libraries {', '.join(libraries)}, which are code for "
            "the host",
            "Set allow_host_code if whoever loads the plan is to run them.",
        )
    if libraries:
        config.plugins_to_serialize = libraries


def _put(config: Any, attribute: str, value: Any, option: str, given: Any) -> None:
    """Set a property and look whether it took: TensorRT clamps or ignores what it cannot do."""
    with listening() as lines:
        setattr(config, attribute, value)
    found = getattr(config, attribute)
    if found != value or any(_UNSUPPORTED in line for line in lines):
        said = tail(lines)
        raise _unusable(
            f"this library does not take {option}={given}",
            f"It said:\n{said}" if said else f"It made {found} of it.",
        )


def _unusable(problem: str, hint: str) -> CompileError:
    return CompileError("SGK173", f"backend 'tensorrt': {problem}", backend="tensorrt", hint=hint)


def add_profile(
    config: Any,
    parsed: ParsedNetwork,
    ranges: Mapping[str, InputRange],
    library: Library,
) -> None:
    """Add a profile of what ``check_ranges`` returned; none is needed where every shape is fixed.

    Raises:
        CompileError: TensorRT does not take it (SGK162).
    """
    if not ranges:
        return
    profile = check(parsed.builder.create_optimization_profile(), "make a profile")
    tensors = map(parsed.network.get_input, range(parsed.network.num_inputs))
    for tensor in tensors:
        found = ranges.get(tensor.name)
        if found is None:
            continue
        if tensor.is_shape_tensor and found.values is not None:
            profile.set_shape_input(tensor.name, *found.values)
        else:
            profile.set_shape(tensor.name, found.min, found.opt, found.max)
    index = config.add_optimization_profile(profile)
    check(bool(profile) and index >= 0, "take the ranges of shapes")
    is_open = any(found.min != found.max for found in ranges.values())
    if is_open and _RESIZE in library.capabilities.preview_features:
        # Scratch memory then follows the shapes at hand, not the largest ones.
        feature = library.trt.PreviewFeature.__members__[_RESIZE]
        config.set_preview_feature(feature, True)  # noqa: FBT003 (it is by position)


class TimingCache:
    """The timings of one library on one kind of device, in a file.

    Whatever is wrong with the file, a build goes on without it and writes a new one.

    Thread-safety: any number of threads and processes may use the same file.
    """

    def __init__(self, path: Path) -> None:
        self._file = KeptFile(path, "tensorrt timings")

    def attach(self, config: Any) -> Any:
        """Give a builder configuration the timings there are.

        Returns:
            The ``ITimingCache``, which has to outlive the build; None if the library takes none.
        """
        cache = config.create_timing_cache(self._file.read())
        if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
            return cache
        empty = config.create_timing_cache(b"")  # the file is of another library or device
        if empty is not None and config.set_timing_cache(empty, ignore_mismatch=False):
            return empty
        return None

    def keep(self, config: Any) -> None:
        """Add what a build has timed to what others have kept meanwhile."""
        timed = config.get_timing_cache()
        if timed is None:
            return
        with self._file.lock():
            others = config.create_timing_cache(self._file.read())
            if others is not None:
                timed.combine(others, ignore_mismatch=False)
            self._file.write(bytes(timed.serialize()))


def timing_cache_for(
    context: BindContext[Options], library: Library, device: str
) -> TimingCache | None:
    """Return the timings for a build; None if there are none to be kept."""
    capabilities = library.capabilities
    # There, the calls exist, do nothing, and ask for a GPU.
    if not capabilities.keeps_timings or not context.options.timing_cache:
        return None
    folder = context.kept_folder()
    if folder is None:
        return None
    name = re.sub(r"[^\w.]+", "-", f"{capabilities.flavour}-{capabilities.version}-{device}")
    return TimingCache(folder / f"{name}.timings")
