"""The one place where OpenVINO is imported: late, once per process, and without its telemetry."""

import importlib
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from subgraphkit.backend import installed_versions
from subgraphkit.errors import OptionError

_TELEMETRY: Final = "openvino_telemetry"


def is_installed() -> bool:
    """Say whether OpenVINO could be imported, without importing it."""
    if "openvino" in sys.modules:
        return sys.modules["openvino"] is not None
    return find_spec("openvino") is not None


@lru_cache(maxsize=1)
def runtime() -> Any:
    """Return the module ``openvino``.

    Importing OpenVINO sends an event over the network unless its telemetry package is missing. So
    that package is hidden while OpenVINO is imported, and OpenVINO uses the stub that it ships for
    the case. Where the program imported OpenVINO before, nothing is changed.

    Raises:
        ImportError: OpenVINO is not installed, or its libraries cannot be loaded.
    """
    if "openvino" in sys.modules or _TELEMETRY in sys.modules:
        return importlib.import_module("openvino")
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment]  # Python's own mark for "missing"
    try:
        return importlib.import_module("openvino")
    finally:
        del sys.modules[_TELEMETRY]


_CORES: Final[list[Any]] = []
_MAKING: Final = Lock()


def core() -> Any:
    """Return the ``openvino.Core`` of this process; it may be used by several threads.

    Two threads that ask at once get the same. OpenVINO lends the thread that makes a core a stack
    for its signals, and takes it away with the core: the next signal would end the process.
    """
    with _MAKING:
        if not _CORES:
            _CORES.append(runtime().Core())
        return _CORES[0]


def _let_threads_go() -> None:
    """End the threads that OpenVINO keeps for models to come: a forked child would wait for them.

    The plugin of a core that goes away does so, for all cores of the process.
    """
    if _CORES:
        with suppress(RuntimeError):
            runtime().Core().get_property("CPU", "FULL_DEVICE_NAME")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_threads_go)


@lru_cache(maxsize=1)
def frontend() -> Any:
    """Return OpenVINO's ONNX frontend; it may be used by several threads."""
    return runtime().frontend.FrontEndManager().load_by_framework("onnx")


@lru_cache(maxsize=8)
def query_settings(device: str) -> Mapping[str, str]:
    """Return properties with which ``query_model`` takes time linear in the number of nodes.

    The processor joins element-wise operators before it answers, which takes 54 s for a chain of
    2000. The switch is not documented, so it is used only where a device accepts it.
    """
    openvino = runtime()
    parameter = openvino.opset13.parameter([1], openvino.Type.f32)
    settings = {"SNIPPETS_MODE": "DISABLE"}
    try:
        core().query_model(openvino.Model([parameter], [parameter]), device, settings)
    except RuntimeError:
        return MappingProxyType({})
    return MappingProxyType(settings)


@lru_cache(maxsize=2)
def exact_bytes(*, is_needed: bool = False) -> Mapping[str, str]:
    """Return properties with which the processor adds up products of 8-bit numbers exactly.

    Without VNNI, OpenVINO adds them up in 16 bits and cuts off what does not fit. With weights near
    the largest int8, the result can be almost lost. There the switch lets quantized nodes compute
    in float32, from the same rounded numbers. Whether it is needed is tried once. It is not
    documented, so it is used only where it is accepted.

    ``is_needed``: It is needed for more than products.
    """
    settings = {"LP_TRANSFORMS_MODE": "NO"}
    try:
        is_needed |= _sum_of_bytes({}) < _sum_of_bytes(settings)
    except RuntimeError:
        is_needed = False
    return MappingProxyType(settings if is_needed else {})


def _sum_of_bytes(settings: Mapping[str, str]) -> float:
    """Return a sum of products of the largest uint8 and int8, as a convolution finds it."""
    openvino = runtime()
    ops = openvino.opset13
    x = ops.parameter([1, 64, 4, 4], openvino.Type.f32)
    ends = np.float32(0), np.float32(255)
    weight = ops.convert(ops.constant(np.full((16, 64, 1, 1), 127, np.int8)), "f32")
    scaled = ops.multiply(weight, ops.constant(np.ones((16, 1, 1, 1), np.float32)))
    data = ops.fake_quantize(x, *ends, *ends, 256)
    product = ops.convolution(data, scaled, [1, 1], [0, 0], [0, 0], [1, 1])
    compiled = core().compile_model(openvino.Model([product], [x]), "CPU", dict(settings))
    return float(compiled([np.full((1, 64, 4, 4), ends[1])])[0].max())


_NEAREST: Final = 0x3F81
"""The bits of 1.0078125, the bfloat16 nearest to 1.005."""


@lru_cache(maxsize=1)
def rounds_to_bfloat16() -> bool:
    """Say whether float32 becomes the nearest bfloat16, on the way there and back as well.

    Without instructions for it, and on the way back with an open size, OpenVINO rounds down what
    lies between half a step and three quarters. So it is tried once.
    """
    openvino = runtime()
    x = openvino.opset13.parameter([-1], openvino.Type.f32)
    made = openvino.opset13.convert(x, "bf16")
    back = openvino.opset13.convert(made, "f32")
    given = np.array([1.005], np.float32)
    models = (openvino.Model([one], [x]) for one in (made, back))
    there, again = (core().compile_model(one, "CPU", {})([given])[0] for one in models)
    return bool(there.view(np.uint16)[0] == _NEAREST == again.view(np.uint32)[0] >> 16)


def devices() -> tuple[str, ...]:
    """Return the names of the devices that OpenVINO found, such as ``CPU`` and ``GPU.0``."""
    return tuple(core().available_devices)


def versions() -> dict[str, str]:
    """Return the versions of the distributions involved, as far as they are installed."""
    return installed_versions("openvino", "subgraphkit-openvino")


def check_device(name: str) -> None:
    """Require a device, ``GPU`` the first of several; OptionError (SGK112) if there is none."""
    found = devices()
    if name not in {*found, *(device.partition(".")[0] for device in found)}:
        raise OptionError(
            "SGK112",
            f"option 'device' of backend 'openvino' is {name!r}, expected one of the devices that "
            f"OpenVINO found: {', '.join(found)}",
            hint="Graphics and neural processors need their driver to be found.",
            backend="openvino",
            option="device",
        )


def words(error: Exception) -> str:
    """Return what OpenVINO meant to say: its message without source files and boilerplate."""
    lines = (line.strip() for line in _FAILED_CHECK.sub("", str(error)).splitlines())
    told = [line for line in lines if line and not line.startswith(_BOILERPLATE)]
    return " ".join(dict.fromkeys(told)) or type(error).__name__


_FAILED_CHECK: Final = re.compile(
    r"Check '[^\n]*' failed at \S+:\d+:?|Caught exception: Exception from \S+:\d+:"
)
_BOILERPLATE: Final = (
    "Exception from ", "FrontEnd API failed with ", "Model wasn't fully converted.", "Summary:",
    "-- Conversion is failed for", "To facilitate the conversion",
)  # fmt: skip
