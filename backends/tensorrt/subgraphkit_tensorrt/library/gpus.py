"""The GPUs of this machine, as NVIDIA's driver reports them; CUDA's runtime library is not needed.

Asking the driver makes no context and takes no device memory.
"""

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

FP8_FROM: Final = (8, 9)
"""The compute capability from which GPUs multiply numbers of float8: Ada, Hopper and newer."""
_LIBRARY: Final = "libcuda.so.1"
_MULTIPROCESSORS: Final = 16
_COMPUTE_MAJOR: Final = 75
_COMPUTE_MINOR: Final = 76
_NAME_LENGTH: Final = 256
_NO_DEVICE: Final = 100
_NOT_INITIALIZED: Final = 3
_HINTS: Final = {
    _NO_DEVICE: "Look at CUDA_VISIBLE_DEVICES; in a container, start it with access to the GPU.",
    _NOT_INITIALIZED: "CUDA does not survive a fork: start workers with the method 'spawn'.",
}
_NO_DRIVER: Final = "Install NVIDIA's driver; in a container, start it with access to the GPU."


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: Its number, as CUDA counts those it may see.
    """

    index: int
    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int

    @property
    def sm(self) -> str:
        """Its compute capability as libraries name it, such as ``SM89``."""
        return "SM{}{}".format(*self.compute_capability)

    def __str__(self) -> str:
        """Render for people, such as ``cuda:0 NVIDIA L4 (8.9)``."""
        major, minor = self.compute_capability
        return f"cuda:{self.index} {self.name} ({major}.{minor})"


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs of this machine, as the driver reports them.

    Attributes:
        driver: The version of CUDA the driver was made for, such as ``"13.0"``; empty if absent.
        problem: Why there is no device; empty if there is one.
    """

    devices: tuple[Gpu, ...] = ()
    driver: str = ""
    problem: str = ""
    hint: str = ""


@lru_cache(maxsize=1)
def machine() -> Machine:
    """Ask the driver, once in a process; never raises."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError:
        return Machine(problem=f"NVIDIA's driver is not installed ({_LIBRARY})", hint=_NO_DRIVER)
    try:
        return _ask_driver(driver)
    except _DriverError as error:
        hint = _HINTS.get(error.status, "See whether nvidia-smi works.")
        return Machine(problem=f"NVIDIA's driver cannot be used: {error}", hint=hint)


class _DriverError(Exception):
    """A call failed."""

    def __init__(self, call: str, status: int, name: str) -> None:
        super().__init__(f"{call} returned {status} ({name})")
        self.status = status


def _ask_driver(driver: Any) -> Machine:
    _call(driver, "cuInit", 0)
    version = _number(driver, "cuDriverGetVersion")
    count = _number(driver, "cuDeviceGetCount")
    named = f"{version // 1000}.{version % 1000 // 10}"
    if count == 0:
        return Machine(driver=named, problem="there is no NVIDIA GPU", hint=_HINTS[_NO_DEVICE])
    return Machine(tuple(_device(driver, index) for index in range(count)), named)


def _device(driver: Any, index: int) -> Gpu:
    handle = _number(driver, "cuDeviceGet", index)
    name = ctypes.create_string_buffer(_NAME_LENGTH)
    _call(driver, "cuDeviceGetName", name, _NAME_LENGTH, handle)
    major, minor, multiprocessors = (
        _number(driver, "cuDeviceGetAttribute", which, handle)
        for which in (_COMPUTE_MAJOR, _COMPUTE_MINOR, _MULTIPROCESSORS)
    )
    return Gpu(index, name.value.decode("utf-8", "replace"), (major, minor), multiprocessors)


def _number(driver: Any, name: str, *arguments: Any) -> int:
    """Return what a function of the driver writes to its first argument."""
    place = ctypes.c_int()
    _call(driver, name, ctypes.byref(place), *arguments)
    return place.value


def _call(driver: Any, name: str, *arguments: Any) -> None:
    status = getattr(driver, name)(*arguments)
    if status != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        raise _DriverError(name, status, (text.value or b"unknown").decode())
