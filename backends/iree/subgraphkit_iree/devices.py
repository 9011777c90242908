"""Devices of IREE's runtime: opened once for all who want the same, and looked for."""

import os
import platform
import threading
import weakref
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend import BindContext
from subgraphkit_iree.backend_options import Options

__all__ = ["Device", "compiler_flags", "identity", "open_device", "versions"]

WHEELS: Final = ("iree-base-compiler", "iree-base-runtime")

_TARGETS: Final = {
    "cpu": ("--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu="),
    "vulkan": ("", "--iree-vulkan-target="),
    "cuda": ("", "--iree-cuda-target="),
    "hip": ("", "--iree-rocm-target="),
}
"""By device, a flag of the compiler, and the one that names the architecture."""

_opening = threading.Lock()
_open: "weakref.WeakValueDictionary[tuple[str, int], Device]" = weakref.WeakValueDictionary()


class Device:
    """An open device; its threads end with the last operator that holds it.

    Args:
        name: The device, as the option ``device`` has it.
        threads: How many threads compute on the processor; 0 leaves it to IREE.

    Attributes:
        hal: The device as the runtime has it.
        instance: The virtual machine that its modules belong to.
    """

    def __init__(self, name: str, threads: int) -> None:
        from iree import runtime  # noqa: PLC0415 (the manifest says whether it is there)
        from iree.runtime._binding import create_hal_driver  # noqa: PLC0415

        driver = name
        if name == "cpu":
            driver = "local-sync" if threads == 1 else "local-task"
            # a driver of its own has the threads that the flag says when it is made
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        self.driver = driver
        self.threads = threads
        self.hal: Any = create_hal_driver(driver).create_default_device()
        self.instance: Any = runtime.VmInstance()


def open_device(options: Options, context: BindContext[Options]) -> Device:
    """Return the device that the options mean, the same to all who want the same number of threads.

    Thread-safety: safe.
    """
    threads = 0
    if options.device == "cpu":
        threads = options.threads or context.threads or 0
    key = options.device, threads
    with _opening:
        device = _open.get(key)
        if device is None:
            device = _open[key] = Device(*key)
        return device


def compiler_flags(options: Options) -> list[str]:
    """Return the flags for the compiler that the options mean."""
    general, target = _TARGETS[options.device]
    architecture = options.target or ("host" if options.device == "cpu" else "")
    device = "local" if options.device == "cpu" else options.device
    flags = [
        f"--iree-hal-target-device={device}",
        general,
        target + architecture if architecture else "",
        "--iree-input-type=onnx",
        f"--iree-opt-level=O{options.optimization}",
        *options.flags,
    ]
    return [flag for flag in flags if flag]


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of the wheels that are installed."""
    found = {}
    for wheel in WHEELS:
        try:
            found[wheel] = version(wheel)
        except PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=1)
def identity() -> str:
    """Return which instructions the processor has, as the system counts them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    told = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    keys = ("vendor_id", "cpu family", "model", "flags", "CPU part", "Features")
    return ";".join(told[key] for key in keys if key in told)


def _start_over() -> None:
    """Open devices anew in a forked process, which has none of the threads."""
    global _opening  # noqa: PLW0603 (one a process)
    _opening = threading.Lock()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)
