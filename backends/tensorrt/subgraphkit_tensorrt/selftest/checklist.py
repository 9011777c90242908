"""The checks of the self-test, and how each becomes a finding."""

from collections.abc import Callable, Iterator
from typing import Final

from subgraphkit.backend import Check, ModelOpener, unavailable
from subgraphkit_tensorrt.library.flavours import find, wanted_flavour
from subgraphkit_tensorrt.selftest import borders, computing, engines

__all__ = ["CHECKS", "run_checklist"]

Checked = Callable[[ModelOpener], str]
"""Tries one thing and says in a sentence what was seen; raises if it was not as it should be."""

CHECKS: Final[dict[str, Checked]] = {
    "perceptron": computing.perceptron,
    "convolutions": computing.convolutions,
    "quantized model": computing.quantized,
    "fp16": computing.half,
    "bf16": computing.brain,
    "element types": computing.element_types,
    "empty and strided inputs": computing.odd_inputs,
    "shapes from values": computing.shapes_from_values,
    "shapes from data": computing.shapes_from_data,
    "range of shapes": computing.range_of_shapes,
    "control flow": engines.control_flow,
    "several ranges": engines.several_ranges,
    "arrays on the device": borders.device_arrays,
    "stream of the caller": borders.user_stream,
    "allocator of the caller": borders.allocator,
    "threads": engines.threads,
    "two sessions": engines.two_sessions,
    "scratch memory": engines.scratch_memory,
    "CUDA graphs": engines.cuda_graphs,
    "refit": engines.refit,
    "plans without weights": engines.plans_without_weights,
    "plans for other GPUs": engines.compatible_plans,
    "weight streaming": engines.weight_streaming,
    "layers": engines.layers,
    "memory of many runs": engines.many_runs,
    "time of a run": engines.time_of_a_run,
}
"""By name, in the order of growing risk."""


def run_checklist(bench: ModelOpener) -> Iterator[Check]:
    """Make every check; one that goes wrong does not keep the others from being made.

    Args:
        bench: Opens models on this backend.

    Yields:
        The findings.

    Raises:
        BackendUnavailableError: There is no library, or no device to run on (SGK104).
    """
    found = find(wanted_flavour())
    library = found.library
    if library is None or found.state != "ready":
        raise unavailable("tensorrt", [found.problem], found.hint)
    devices = ", ".join(map(str, found.machine.devices))
    text = f"{library.flavour.title} {library.capabilities.version} on {devices}"
    yield Check("device", "ok", f"{text}, driver for CUDA {found.machine.driver}")
    for name, check in CHECKS.items():
        yield _finding(name, check, bench)


def _finding(name: str, check: Checked, bench: ModelOpener) -> Check:
    try:
        return Check(name, "ok", check(bench))
    except computing.NotAvailable as missing:
        return Check(name, "warning", f"not tried: {missing}")
    except Exception as error:  # noqa: BLE001 (whatever goes wrong is the finding)
        text = " ".join(str(error).split())
        return Check(name, "failure", f"{type(error).__name__}: {text}")
