"""Builder configurations from options, and timings of kernels, kept from build to build."""

import re
from collections.abc import Mapping
from typing import Any, Final

from subgraphkit.backend import BindContext
from subgraphkit.storing import KeptFile
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.network import ParsedNetwork
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.library.builder_settings import apply_settings, put, read_settings
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import check

_RESIZE: Final = "RUNTIME_ACTIVATION_RESIZE_10_10"


def configure(parsed: ParsedNetwork, library: Library, options: Options) -> Any:
    """Return an ``IBuilderConfig``; CompileError if refused (SGK162) or ignored (SGK173)."""
    trt = library.trt
    config = check(parsed.builder.create_builder_config(), "make a builder configuration")
    if options.refittable:
        config.set_flag(trt.BuilderFlag.REFIT)
    if options.weight_streaming:
        config.set_flag(trt.BuilderFlag.WEIGHT_STREAMING)
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options.optimization_level is not None:
        level = options.optimization_level
        put(config, "builder_optimization_level", level, "optimization_level")
    if options.workspace_limit is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_limit)
    apply_settings(config, trt, read_settings(trt, options.builder))
    return config


def add_profile(
    config: Any, parsed: ParsedNetwork, ranges: Mapping[str, InputRange], library: Library
) -> None:
    """Add a profile for open shapes, as from ``check_ranges``; CompileError (SGK162) if refused."""
    if not ranges:
        return
    profile = check(parsed.builder.create_optimization_profile(), "make a profile")
    for tensor in map(parsed.network.get_input, range(parsed.network.num_inputs)):
        if (found := ranges.get(tensor.name)) is None:
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


def attach_timings(file: KeptFile, config: Any) -> Any:
    """Give a builder configuration the timings there are; whatever is wrong with them, none.

    Returns:
        The ``ITimingCache``, which has to outlive the build; None if the library takes none.
    """
    for data in (file.read(), b""):  # the file may be of another library or device
        cache = config.create_timing_cache(data)
        if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
            return cache
    return None


def keep_timings(file: KeptFile, config: Any) -> None:
    """Add what a build has timed to what others have kept meanwhile."""
    if (timed := config.get_timing_cache()) is None:
        return
    with file.lock():
        if (others := config.create_timing_cache(file.read())) is not None:
            timed.combine(others, ignore_mismatch=False)
        file.write(bytes(timed.serialize()))


def timings_for(context: BindContext[Options], library: Library, device: str) -> KeptFile | None:
    """Return the timings of one library on one kind of device; None if there are none to be kept.

    Thread-safety: any number of threads and processes may use the same file.
    """
    capabilities = library.capabilities
    # In TensorRT for RTX, the calls exist, do nothing, and ask for a GPU.
    if capabilities.flavour == "tensorrt_rtx" or not context.options.timing_cache:
        return None
    if (folder := context.kept_folder()) is None:
        return None
    name = re.sub(r"[^\w.]+", "-", f"{capabilities.flavour}-{capabilities.version}-{device}")
    return KeptFile(folder / f"{name}.timings", "tensorrt timings")
