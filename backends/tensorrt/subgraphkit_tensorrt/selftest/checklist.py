"""The checks of the self-test, most telling first, and how each becomes a finding."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from subgraphkit.backend import Check, ModelOpener, SelfCheck
from subgraphkit_tensorrt.selftest import computing, device_checks, engines
from subgraphkit_tensorrt.selftest.computing import NotAvailable

Checked = Callable[[ModelOpener], str]
"""Tries one thing and says in a sentence what was seen; raises if it was not as it should be."""

_DRIVER: Final = "driver"
_CUDA: Final = "CUDA runtime"
_LIBRARY: Final = "TensorRT or RTX"
_FULL: Final = "TensorRT"

CHECKS: Final[Sequence[tuple[str, str, Checked]]] = (
    ("driver", "", device_checks.driver),
    ("CUDA runtime", _DRIVER, device_checks.cuda_runtime),
    ("what the tests assume of CUDA", _CUDA, device_checks.assumptions),
    ("copies", _CUDA, device_checks.copies),
    ("exchange with PyTorch", "CUDA runtime, torch", device_checks.torch_arrays),
    ("perceptron", _LIBRARY, computing.perceptron),
    ("engine found again", _LIBRARY, engines.found_again),
    ("CUDA graphs of two shapes", _LIBRARY, engines.cuda_graphs),
    ("scratch memory", _LIBRARY, engines.scratch_memory),
    ("every length", _LIBRARY, computing.every_length),
    ("arrays on the device", _LIBRARY, device_checks.device_arrays),
    ("tensors of PyTorch", "TensorRT or RTX, torch", device_checks.torch_tensors),
    ("stream of the caller", _LIBRARY, device_checks.user_stream),
    ("fp16", _LIBRARY, computing.float16_model),
    ("quantized model", _LIBRARY, computing.quantized_model),
    ("float8", "TensorRT or RTX, Ada or Hopper", computing.eight_bit_floats),
    ("bf16", _LIBRARY, computing.bfloat16_model),
    ("convolutions", _LIBRARY, computing.convolutions),
    ("element types", _LIBRARY, computing.element_types),
    ("empty and strided inputs", _LIBRARY, computing.odd_inputs),
    ("shapes from values", _LIBRARY, computing.shapes_from_values),
    ("shapes from data", _FULL, computing.shapes_from_data),
    ("several ranges", _LIBRARY, engines.several_ranges),
    ("control flow", _LIBRARY, engines.control_flow),
    ("threads", _LIBRARY, engines.threads),
    ("memory of many runs", _LIBRARY, engines.many_runs),
    ("memory of many sessions", _LIBRARY, engines.many_sessions),
    ("Ctrl-C", _LIBRARY, engines.ctrl_c),
    ("second GPU", "two GPUs", engines.second_gpu),
    ("refit", _LIBRARY, engines.refit),
    ("plans for other GPUs", _FULL, engines.compatible_plans),
    ("weight streaming", _LIBRARY, engines.weight_streaming),
    ("layers", _LIBRARY, engines.layers),
    ("time of a run", _LIBRARY, engines.time_of_a_run),
)
"""Name, what it needs, and what it tries."""

_SECONDS: Final = 120.0
_MORE: Final = {"engine found again": 600.0, "perceptron": 300.0, "every length": 300.0}


def checks() -> Sequence[SelfCheck]:
    """Return the checks; one that goes wrong does not keep the others from being made."""
    return tuple(
        SelfCheck(
            name, needs or "nothing", partial(_finding, name, check), _MORE.get(name, _SECONDS)
        )
        for name, needs, check in CHECKS
    )


def _finding(name: str, check: Checked, bench: ModelOpener) -> Check:
    try:
        return Check(name, "ok", check(bench))
    except NotAvailable as missing:
        return Check(name, "warning", f"not tried: {missing}")
    except Exception as error:  # noqa: BLE001 (whatever goes wrong is the finding)
        text = " ".join(str(error).split())
        return Check(name, "failure", f"{type(error).__name__}: {text}")
