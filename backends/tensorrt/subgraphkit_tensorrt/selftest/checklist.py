"""The checks of the self-test, most telling first, and how each becomes a finding."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from subgraphkit.backend import Check, ModelOpener, SelfCheck
from subgraphkit_tensorrt.selftest import computing, device_checks, engines, networks
from subgraphkit_tensorrt.selftest.computing import HALF, RANGES, NotAvailable, agreement
from subgraphkit_tensorrt.selftest.models import PERCEPTRON, QUANTIZED

Checked = Callable[[ModelOpener], str]
"""Tries one thing and says in a sentence what was seen; raises if it was not as it should be."""

_LIBRARY: Final = "TensorRT or RTX"
_ADA: Final = "TensorRT or RTX, Ada or Hopper"
_IN_INT8: Final[dict[str, Any]] = {"most": HALF, "products": "int8", **RANGES}

CHECKS: Final[Sequence[tuple[str, str, Checked]]] = (
    ("driver", "", device_checks.driver),
    ("CUDA runtime", "driver", device_checks.cuda_runtime),
    ("what the tests assume of CUDA", "CUDA runtime", device_checks.assumptions),
    ("perceptron", _LIBRARY, agreement(PERCEPTRON, (1, 16), (4, 16), (8, 16), **RANGES)),
    ("engine found again", _LIBRARY, engines.found_again),
    ("CUDA graphs of two shapes", _LIBRARY, engines.cuda_graphs),
    ("scratch memory", _LIBRARY, engines.scratch_memory),
    ("light networks", _LIBRARY, networks.light_networks),
    *(
        (f"{title} in {kind}", _ADA if kind == "fp8" else _LIBRARY, networks.in_precision(of, kind))
        for title, of in networks.NETWORKS.items()
        for kind in networks.PRECISIONS
    ),
    ("every length", _LIBRARY, computing.every_length),
    ("arrays on the device", _LIBRARY, device_checks.device_arrays),
    ("tensors of PyTorch", "TensorRT or RTX, torch", device_checks.torch_tensors),
    ("stream of the caller", _LIBRARY, device_checks.user_stream),
    ("quantized model", _LIBRARY, agreement(QUANTIZED, (3, 16), **_IN_INT8)),
    ("memory of many sessions", _LIBRARY, engines.many_sessions),
    ("second GPU", "two GPUs", engines.second_gpu),
    ("refit", _LIBRARY, engines.refit),
    ("weight streaming", _LIBRARY, engines.weight_streaming),
)
"""Name, what it needs, and what it tries."""

_SECONDS: Final = 120.0
_LONG: Final = ("perceptron", "every length", "light networks", "ResNet-50", "BERT")
_MORE: Final = {
    "engine found again": 600.0,
    **{name: 300.0 for name, _, _ in CHECKS if name.startswith(_LONG)},
}


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
