"""The build of one subgraph: parsed, configured, built, and its failure explained."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from subgraphkit.backend import BindContext, Progress
from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.configuration import add_profile, configure
from subgraphkit_tensorrt.building.failure import build_failure
from subgraphkit_tensorrt.building.model import PreparedModel, prepare_model
from subgraphkit_tensorrt.building.network import ParsedNetwork, parse_model
from subgraphkit_tensorrt.building.plan import EnginePlan
from subgraphkit_tensorrt.building.profiles import InputRange, ranges_at_bind
from subgraphkit_tensorrt.building.progress import BuildPhases, cancellable, monitor_for
from subgraphkit_tensorrt.building.range_checks import check_names, check_ranges
from subgraphkit_tensorrt.building.report import describe, memory_told
from subgraphkit_tensorrt.building.shared_plans import (
    SHELF,
    check_separate,
    plan_key,
    separate_weights,
)
from subgraphkit_tensorrt.building.timing_cache import timing_cache_for
from subgraphkit_tensorrt.library.cudart import on_device
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.gpus import machine
from subgraphkit_tensorrt.library.logger import listening, noting

__all__ = ["build_engine"]

# Kernels are timed while a plan is built, and two builds on a device would time each other.
_DEVICE_LOCKS: Final[defaultdict[int, threading.Lock]] = defaultdict(threading.Lock)


def build_engine(
    subgraph: Subgraph,
    context: BindContext[Options],
    library: Library,
    ranges: Sequence[Mapping[str, InputRange]] | None = None,
) -> EnginePlan:
    """Build the plan of a subgraph, or share that of an equal one.

    A shared plan has the names of the subgraph it was built for; go by the order of ``inputs`` and
    ``outputs``. One build at a time goes on for a device; others wait.

    Args:
        subgraph: The subgraph.
        context: What is known of the bind; its ``progress`` is told how far the build is, unless
            the option ``progress`` says not to, and stops it.
        library: The library; it can build.
        ranges: By input of the subgraph, the shapes the engine is to take, and the more of them
            the more ranges it has; None for the one that the shapes fixed at bind, or the options,
            say.

    Raises:
        CompileError: The parser does not take it (SGK170), makes something else of it (SGK171), the
            builder fails (SGK172), shapes are not known or do not fit (SGK169), an option cannot
            be honoured (SGK173), CUDA fails (SGK174), or memory is short (SGK176).
        BackendUnavailableError: This TensorRT builds on one GPU of a process alone (SGK153).
        OptionError: The ranges asked for are not ranges of the model (SGK169).
        KeyboardInterrupt: The build was stopped by Ctrl-C.
    """
    options = context.options
    if ranges is None:
        whole = ranges_at_bind(subgraph, context)
        if whole is None:
            raise _shapes_unknown(subgraph)
        ranges = [whole]
    wanted = tuple(ranges)
    for one in wanted:
        check_names(one, subgraph)
    model = prepare_model(subgraph, options)

    def build() -> EnginePlan:
        return _build(subgraph, model, wanted, library, context)

    return SHELF.obtain(plan_key(model, subgraph, wanted, library, options), build)


def _build(
    subgraph: Subgraph,
    model: PreparedModel,
    wanted: Sequence[Mapping[str, InputRange]],
    library: Library,
    context: BindContext[Options],
) -> EnginePlan:
    options, progress = context.options, context.progress
    separate = separate_weights(subgraph, options)
    with ExitStack() as stack:
        stack.enter_context(on_device(options.device))  # it times kernels there
        with cancellable(progress):  # the parser swallows Ctrl-C as well, where it calls the logger
            parsed = stack.enter_context(parse_model(model, subgraph, library, options))
            if separate and library.capabilities.mark_weights_refittable:
                check_separate(parsed, separate, subgraph)
            needed = [check_ranges(one, parsed.network, subgraph.id) for one in wanted]
            config = configure(parsed, library, options)
            for one in needed:
                add_profile(config, parsed, one, library)
        progress.check()
        with _DEVICE_LOCKS[options.device]:
            started = time.monotonic()
            with noting() as told:
                data = _built(parsed, config, subgraph, library, context)
            seconds = time.monotonic() - started
        report = describe(parsed, subgraph, library, seconds=seconds, nbytes=len(data))
        report["memory"] = memory_told(told)
        del config
    return EnginePlan(
        data,
        subgraph.inputs,
        subgraph.outputs,
        tuple(tuple(one[name] for name in subgraph.inputs) for one in wanted),
        bool(options.strip_weights or options.share_identical),
        report,
    )


def _built(
    parsed: ParsedNetwork,
    config: Any,
    subgraph: Subgraph,
    library: Library,
    context: BindContext[Options],
) -> bytes:
    options, progress = context.options, context.progress
    title = f"TensorRT builds {subgraph.id}"
    phases = BuildPhases(title, progress, is_told=options.progress != "off")
    monitor = monitor_for(library.trt, phases)
    config.progress_monitor = monitor
    timings = timing_cache_for(context, library, _device(options.device))
    attached = timings.attach(config) if timings is not None else None
    made, lines = _run(parsed, config, progress)
    progress.check()
    if made is None:
        raise build_failure(parsed.model, subgraph, lines, options)
    if timings is not None and attached is not None:
        timings.keep(config)
    return made


def _run(
    parsed: ParsedNetwork, config: Any, progress: Progress
) -> tuple[bytes | None, Sequence[str]]:
    with listening() as lines, cancellable(progress):
        made = parsed.builder.build_serialized_network(parsed.network, config)
        return (None if made is None else bytes(made)), lines


def _device(index: int) -> str:
    devices = machine().devices
    return str(devices[index].name) if index < len(devices) else "none"


def _shapes_unknown(subgraph: Subgraph) -> CompileError:
    types = zip(subgraph.inputs, subgraph.input_types, strict=True)
    shown = ", ".join(f"{name!r} {type_}" for name, type_ in types)
    return CompileError(
        "SGK169",
        f"the shapes that subgraph {subgraph.id!r} is to take are not known before it runs: "
        f"{shown}",
        backend="tensorrt",
        subgraph=subgraph.id,
        hint="Give the sizes of symbolic dimensions at bind, or their ranges with the option dims, "
        "such as dims={'batch': (1, 8, 32)}; or let the engine be built at the first run.",
    )
