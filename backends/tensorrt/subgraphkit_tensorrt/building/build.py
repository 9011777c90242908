"""The build of one subgraph: parsed, configured, built, and its failure explained by its cause."""

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import FrameType
from typing import Any, Final

from subgraphkit.backend import BindContext, Progress
from subgraphkit.errors import CompileError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building import configuration
from subgraphkit_tensorrt.building.model import PreparedModel, prepare_model
from subgraphkit_tensorrt.building.network import ParsedNetwork, check_ranges, parse_model
from subgraphkit_tensorrt.building.plan import EnginePlan
from subgraphkit_tensorrt.building.profiles import InputRange
from subgraphkit_tensorrt.building.report import describe
from subgraphkit_tensorrt.library.cudart import on_device
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.gpus import machine
from subgraphkit_tensorrt.library.logger import LOGGER, listening, tail

# Kernels are timed while a plan is built, and two builds on a device would time each other.
_DEVICE_LOCKS: Final[defaultdict[int, threading.Lock]] = defaultdict(threading.Lock)


def build_engine(
    subgraph: Subgraph,
    context: BindContext[Options],
    library: Library,
    ranges: Sequence[Mapping[str, InputRange]],
) -> EnginePlan:
    """Build the plan of a subgraph; one build at a time goes on for a device, others wait.

    Raises:
        CompileError: With one of these codes. SGK169: shapes are not known or do not fit. SGK170:
            the parser does not take the subgraph. SGK171: the parser makes something else of it.
            SGK172: the builder fails. SGK173: an option cannot be honoured. SGK174: CUDA fails.
            SGK176: memory is short.
        OptionError: The ranges asked for are not ranges of the model (SGK169).
        KeyboardInterrupt: The build was stopped by Ctrl-C.
    """
    options = context.options
    model = prepare_model(subgraph, options)
    progress = context.progress
    with ExitStack() as stack:
        stack.enter_context(on_device(options.device))  # it times kernels there
        with cancellable(progress):  # the parser swallows Ctrl-C as well, where it calls the logger
            parsed = stack.enter_context(closing(parse_model(model, subgraph, library, options)))
            needed = [check_ranges(one, parsed.network, subgraph.id) for one in ranges]
            config = configuration.configure(parsed, library, options)
            for one in needed:
                configuration.add_profile(config, parsed, one, library)
        progress.check()
        with _DEVICE_LOCKS[options.device]:
            started = time.monotonic()
            data = _build_plan(parsed, config, subgraph, library, context)
            seconds = time.monotonic() - started
        report = describe(parsed, library, seconds=seconds, nbytes=len(data))
        del config
    profiles = tuple(tuple(one[name] for name in subgraph.inputs) for one in ranges)
    return EnginePlan(data, subgraph.inputs, subgraph.outputs, profiles, report)


def _build_plan(
    parsed: ParsedNetwork,
    config: Any,
    subgraph: Subgraph,
    library: Library,
    context: BindContext[Options],
) -> bytes:
    options, progress = context.options, context.progress
    monitor = monitor_for(library.trt, f"TensorRT builds {subgraph.id}", progress)
    config.progress_monitor = monitor
    kinds = [device.name for device in machine().devices[options.device :]] or ["none"]
    timings = configuration.timings_for(context, library, kinds[0])
    attached = configuration.attach_timings(timings, config) if timings is not None else None
    with listening() as lines, cancellable(progress):
        made = parsed.builder.build_serialized_network(parsed.network, config)
    progress.check()
    skipped = sum("insufficient" in line.lower() for line in lines)  # its memory is, of a kernel
    if skipped:
        LOGGER.warning(
            "for want of memory on the GPU, TensorRT tried %d kernels or more less for %s: the "
            "engine may be slower than it could be",
            skipped,
            subgraph.id,
        )
    if made is None:
        raise build_failure(parsed.model, subgraph, lines, options)
    if timings is not None and attached is not None:
        configuration.keep_timings(timings, config)
    return bytes(made)


_MEMORY: Final = "memory"
_DEVICE: Final = "device"
_FAULTS: Final = (
    ("out of memory", _MEMORY), ("outofmemory", _MEMORY), ("amount of gpu memory", _MEMORY),
    ("cuda_success", _DEVICE), ("cuda_error", _DEVICE), ("cuda runtime", _DEVICE),
    ("cuda driver", _DEVICE),
)  # fmt: skip
"""What TensorRT says if the machine is at fault, in small letters."""
_HINTS: Final = (
    ("workspace", "Leave workspace_limit out, or give more; TensorRT then chooses by itself."),
    ("libnvinfer_lean", "VERSION_COMPATIBLE needs TensorRT's lean runtime to be installed."),
)


def fault_of_machine(lines: Sequence[str]) -> str:
    """Say what of the machine made a build fail, which other nodes would not do away with."""
    said = "\n".join(line for line in lines if not line.startswith("warning")).lower()
    return next((fault for words, fault in _FAULTS if words in said), "")


def build_failure(
    model: PreparedModel, subgraph: Subgraph, lines: Sequence[str], options: Options
) -> CompileError:
    """Make the error of a build that failed."""
    places = sorted({place for line in lines for place in model.names.places(line)})
    said = model.names.readable(tail(lines)) or "It gave no reason."
    code, reason, hint = _cause_of(lines, said, options)
    return CompileError(
        code,
        f"TensorRT could not build an engine for subgraph {subgraph.id!r} "
        f"({len(subgraph.nodes)} nodes){reason}",
        backend="tensorrt",
        subgraph=subgraph.id,
        hint="\n".join(filter(None, ["It said:", said, hint])),
        nodes=tuple(subgraph.nodes[place] for place in places),
        lines=tuple(lines),
    )


def _cause_of(lines: Sequence[str], said: str, options: Options) -> tuple[str, str, str]:
    """Return code, reason and remedy."""
    fault = fault_of_machine(lines)
    if fault == _DEVICE and not machine().devices:
        remedy = "Build on a machine with a GPU."
        if not options.refittable:
            return "SGK173", ", which needs a GPU here", remedy
        reason = ": option refittable=true needs a GPU, and there is none"
        return "SGK173", reason, f"Leave refittable out. {remedy}"
    if fault == _DEVICE:
        remedy = "See whether nvidia-smi works, and start the process again."
        return "SGK174", " because a call of CUDA failed", remedy
    if fault == _MEMORY:
        remedy = "Free memory of the device, or give less with workspace_limit."
        return "SGK176", " because the memory of the GPU does not suffice", remedy
    return "SGK172", "", next((hint for word, hint in _HINTS if word in said.lower()), "")


_PERCENT: Final = 100


def monitor_for(trt: Any, title: str, progress: Progress) -> Any:
    """Return an ``IProgressMonitor`` that tells how far a build is, and stops it if that is asked.

    ``progress``: Told how many percent of the outermost phase are done, and which phase is the
    innermost. TensorRT reports from any thread.
    """
    lock, steps, percent = threading.Lock(), dict[str, int](), [0]

    def report() -> None:
        with lock:
            phase, done = next(reversed(steps), ""), percent[0]
        _run_safely(progress, lambda: progress(title, done, _PERCENT, phase))

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # known when imported
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)  # the binding does not find it through super()

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            with lock:
                steps[phase_name] = 0 if parent_phase else max(num_steps, 1)
            report()

        def step_complete(self, phase_name: str, step: int) -> bool:
            with lock:
                if whole := steps.get(phase_name):
                    percent[0] = max(percent[0], _PERCENT * min(step + 1, whole) // whole)
            report()
            return not progress.cancelled

        def phase_finish(self, phase_name: str) -> None:
            with lock:
                if steps.pop(phase_name, 0) and not progress.cancelled:
                    percent[0] = _PERCENT
            report()

    return Monitor()


def _run_safely(progress: Progress, report: Callable[[], Any]) -> None:
    try:
        report()
    except BaseException as error:  # noqa: BLE001 (nothing may be raised into C++; told later)
        progress.cancel(error)


@contextmanager
def cancellable(progress: Progress) -> Iterator[None]:
    """Let Ctrl-C stop the build rather than get lost in it.

    That is, in the main thread, what the handler in place raises, be it Python's own or another.
    """
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if not in_main or not callable(handler):
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        _run_safely(progress, lambda: handler(number, frame))

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
