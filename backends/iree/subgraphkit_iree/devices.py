"""Devices of IREE's runtime, opened once for all who want the same, and their compiler flags."""

import os
import platform
import threading
import weakref
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import installed_versions, unavailable
from subgraphkit.errors import BackendUnavailableError
from subgraphkit_iree.backend_options import Options

_TARGET_FLAGS: Final = {
    "cpu": "--iree-llvmcpu-target-cpu",
    "vulkan": "--iree-vulkan-target",
    "cuda": "--iree-cuda-target",
    "hip": "--iree-rocm-target",
}
"""By device, the flag that names the architecture."""

_REMEDIES: Final = {
    "vulkan": "Install a Vulkan driver of the device, and the loader (libvulkan1).",
    "cuda": "Install NVIDIA's driver; in a container, start it with access to the GPU.",
    "hip": "Install the HIP runtime of ROCm, and set the option target, such as gfx942.",
}

_opening = threading.Lock()
_open: "weakref.WeakValueDictionary[tuple[str, int], IreeDevice]" = weakref.WeakValueDictionary()


class IreeDevice:
    """An open device; its threads end with the last operator that holds it.

    ``threads``: How many threads compute on the processor; 0 leaves it to IREE.

    Attributes:
        threads: The same.

    Raises:
        BackendUnavailableError: There is no such device here (SGK104).
    """

    def __init__(self, name: str, threads: int) -> None:
        from iree import runtime  # noqa: PLC0415 (may be missing, which the probe says)
        from iree.runtime._binding import (  # noqa: PLC0415 (the same; drivers of its own are there)
            create_hal_driver,
        )

        self.driver = name
        if name == "cpu":
            self.driver = "local-sync" if threads == 1 else "local-task"
            # a driver has as many threads as the flag says while it is made
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        self.threads = threads
        try:
            self.hal: Any = create_hal_driver(self.driver).create_default_device()
        except (RuntimeError, ValueError) as error:
            raise _missing(name, str(error)) from error
        self.instance: Any = runtime.VmInstance()


def _missing(name: str, said: str) -> BackendUnavailableError:
    words = said.partition("; ")[2].strip() or said
    return unavailable(
        "iree", [f"IREE finds no device {name!r}: {words.splitlines()[0]}"], _REMEDIES.get(name, "")
    )


def open_device(options: Options, threads: int | None) -> IreeDevice:
    """Return the device that options mean, one for all who want the same number of threads.

    ``threads``: How many the session has; None leaves it to IREE.

    Raises:
        BackendUnavailableError: There is no such device here (SGK104).

    Thread-safety: safe.
    """
    key = options.device, (options.threads or threads or 0) if options.device == "cpu" else 0
    with _opening:
        if (device := _open.get(key)) is None:
            device = _open[key] = IreeDevice(*key)
        return device


def compiler_flags(options: Options) -> list[str]:
    """Return the flags for the compiler that options mean."""
    is_cpu = options.device == "cpu"
    target = options.target or ("host" if is_cpu else "")
    return [
        "--iree-input-type=onnx",
        "--iree-input-demote-f64-to-f32=false",
        f"--iree-hal-target-device={'local' if is_cpu else options.device}",
        *(["--iree-hal-local-target-device-backends=llvm-cpu"] if is_cpu else []),
        *([f"{_TARGET_FLAGS[options.device]}={target}"] if target else []),
        f"--iree-opt-level=O{options.optimization}",
        *options.flags,
    ]


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of IREE's wheels, those that are installed."""
    return installed_versions("iree-base-compiler", "iree-base-runtime")


def identity_of(options: Options) -> str:
    """Return what was compiled for, beyond what the options say.

    Without a target that is, for a processor, which instructions it has.
    """
    return options.target or (_instructions() if options.device == "cpu" else "default")


@lru_cache(maxsize=1)
def _instructions() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    said = {key.strip(): value.strip() for key, _, value in (one.partition(":") for one in lines)}
    keys = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")
    return ";".join(said[key] for key in keys if key in said)


def _start_over() -> None:
    """Open devices anew in a forked process, which has none of the threads."""
    global _opening  # noqa: PLW0603 (one a process)
    _opening = threading.Lock()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
