"""The needs of checks: a driver, CUDA's runtime library, TensorRT, and what else may be missing."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from subgraphkit.errors import BackendUnavailableError
from subgraphkit_tensorrt.library import cudart
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.library.flavours import Installation, Library, find, wanted_flavour
from subgraphkit_tensorrt.library.gpus import Gpu

__all__ = [
    "NotAsExpected",
    "NotAvailable",
    "cuda_library",
    "gpus",
    "installation",
    "module",
    "require",
    "tensorrt",
]


class NotAsExpected(Exception):  # noqa: N818 (its text is the finding)
    """Something came out differently."""


class NotAvailable(Exception):  # noqa: N818 (not a failure)
    """What was to be tried cannot be, for want of something."""


def require(holds: bool, text: str) -> None:  # noqa: FBT001 (reads as an assertion)
    """Make sure of something.

    Raises:
        NotAsExpected: It does not hold.
    """
    if not holds:
        raise NotAsExpected(text)


def installation() -> Installation:
    """Return what is installed, and the GPUs."""
    return find(wanted_flavour())


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs.

    Raises:
        NotAvailable: There is no driver, or no GPU.
    """
    here = installation().machine
    if not here.devices:
        raise NotAvailable(f"{here.problem}; {here.hint}")
    return here.devices


def cuda_library() -> Cuda:
    """Return CUDA's runtime library.

    Raises:
        NotAvailable: There is none, or no GPU.
    """
    gpus()
    try:
        return cudart.cuda_runtime()
    except BackendUnavailableError as error:
        raise NotAvailable(f"{error.message}; {error.hint}") from error


def tensorrt(flavour: str = "") -> Library:
    """Return a library that can run engines here; the one in use unless another is named.

    Raises:
        NotAvailable: There is none.
    """
    cuda_library()
    found = find(flavour) if flavour else installation()
    if found.library is None or found.state != "ready":
        raise NotAvailable(f"{found.problem}; {found.hint}")
    return found.library


def module(name: str) -> Any:
    """Import what is no part of this package.

    Raises:
        NotAvailable: It is not installed.
    """
    if find_spec(name) is None:
        raise NotAvailable(f"{name} is not installed")
    return import_module(name)
