"""The two libraries that go by the name TensorRT, and the state in which each is found here.

A library may be absent. Its package may be there without its shared libraries. Or there may be no
GPU to run on. Each state has its own remedy. Nothing is imported before a backend is probed or
bound, and nothing here raises because of what is installed.
"""

import importlib
import os
import threading
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Final, Literal

from subgraphkit_tensorrt.library.capabilities import OLDEST, Capabilities
from subgraphkit_tensorrt.library.gpus import Gpu, Machine, machine
from subgraphkit_tensorrt.library.logger import listening, logger_for

_VARIABLE: Final = "SUBGRAPH_TENSORRT_FLAVOUR"


@dataclass(frozen=True, slots=True)
class Flavour:
    """One of the libraries."""

    name: str
    title: str
    install: str

    @property
    def modules(self) -> tuple[str, str]:
        """Names under which wheels install its module, the most usual first."""
        return self.name, f"{self.name}_bindings"


FLAVOURS: Final = {
    flavour.name: flavour
    for flavour in (
        Flavour("tensorrt", "TensorRT", "pip install 'subgraphkit-tensorrt[cu13]'"),
        Flavour("tensorrt_rtx", "TensorRT for RTX", "pip install 'subgraphkit-tensorrt[rtx]'"),
    )
}
"""By name, in the order in which ``auto`` looks for them."""

State = Literal["ready", "build only", "absent package", "absent library", "absent device"]
"""What stands in the way, if anything."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that was imported.

    Attributes:
        trt: Its module; None if it cannot be asked anything here, see ``planning_library``.
        logger: The ``ILogger`` to give to whatever is made of it.

    Thread-safety: may be used from any thread.
    """

    flavour: Flavour
    trt: Any
    capabilities: Capabilities
    logger: Any


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation of TensorRT on this machine: its state, library and GPUs.

    Attributes:
        state: ``ready``; ``build only`` if there is a builder and no GPU; ``absent package``;
            ``absent library`` if the package cannot be imported; ``absent device`` if neither
            building nor running is possible for want of a driver or a GPU.
        library: The library; None in the states ``absent package`` and ``absent library``.
        problem: What stands in the way, one sentence without a full stop; empty if ``ready``.
    """

    state: State
    library: Library | None
    machine: Machine
    problem: str = ""
    hint: str = ""
    flavour: Flavour = FLAVOURS["tensorrt"]


def wanted_flavour() -> str:
    """Return the flavour that the environment asks for, or ``auto``; read now."""
    return os.environ.get(_VARIABLE, "").strip() or "auto"


def find(flavour: str = "auto") -> Installation:
    """Look for a library, import it and see what it can do here.

    Thread-safety: may be called from any thread.
    """
    if flavour != "auto" and flavour not in FLAVOURS:
        problem = f"{_VARIABLE} is {flavour!r}, expected auto, {', '.join(FLAVOURS)}"
        hint = f"Correct {_VARIABLE}, or unset it."
        return Installation("absent package", None, machine(), problem, hint)
    for candidate in FLAVOURS.values() if flavour == "auto" else (FLAVOURS[flavour],):
        if module := _installed_module(candidate):
            return _load(candidate, module)
    missed = FLAVOURS["tensorrt" if flavour == "auto" else flavour]
    # The backend is installed and the library is not: two packages of much the same name.
    problem = (
        f"{missed.title} itself, NVIDIA's library, is not installed; the package "
        "subgraphkit-tensorrt only drives it"
    )
    hint = f"Install it: {missed.install}"
    if flavour == "auto":
        hint += f"\nOr, for GeForce RTX and RTX PRO: {FLAVOURS['tensorrt_rtx'].install}"
    return Installation("absent package", None, machine(), problem, hint, missed)


def planning_library(found: Installation) -> Library:
    """Return what a dry run claims by: the library if its parser answers here, else its tables."""
    if (library := found.library) is None:
        flavour = found.flavour
        return Library(flavour, None, Capabilities.without_library(flavour.name), None)
    return replace(library, trt=None) if found.state == "absent device" else library


def _installed_module(flavour: Flavour) -> str:
    """Return the name under which a flavour can be imported, or an empty string."""
    for module in flavour.modules:
        try:
            if find_spec(module) is not None:
                return module
        except (ImportError, ValueError):  # ValueError: imported already, and has no spec
            return module
    return ""


_LIBRARIES: Final[dict[str, Library]] = {}
_LOCK: Final = threading.Lock()


def _load(flavour: Flavour, module: str) -> Installation:
    with _LOCK:
        # Lazy loading saves device memory and time; CUDA reads the variable when it starts.
        os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
        if (library := _LIBRARIES.get(module)) is None:
            try:
                trt = importlib.import_module(module)
                capabilities = Capabilities.of(trt, flavour.name)
                if capabilities.generation < OLDEST:
                    oldest = ".".join(map(str, OLDEST))
                    problem = f"is installed; the oldest that can be used is {oldest}"
                    hint = "Install a newer one beside it, in an environment of its own:"
                    return _unusable(flavour, f"{capabilities.version} {problem}", hint)
                library = Library(flavour, trt, capabilities, logger_for(trt))
            except Exception as error:  # noqa: BLE001 (whatever is wrong, it is told)
                text = " ".join(str(error).split()) or type(error).__name__
                problem = f"is installed ({module}) but does not load: {text}"
                more = "\nOr add the folder that holds them to LD_LIBRARY_PATH."
                return _unusable(flavour, problem, "Install its shared libraries:", more)
            _LIBRARIES[module] = library
    return _installation_of(library)


def _unusable(flavour: Flavour, problem: str, remedy: str, more: str = "") -> Installation:
    hint = f"{remedy} {flavour.install}{more}"
    problem = f"{flavour.title} {problem}"
    return Installation("absent library", None, machine(), problem, hint, flavour)


def _installation_of(library: Library) -> Installation:
    here = machine()
    problems = [kernels_problem(library, gpu) for gpu in here.devices]
    if not all(problems):
        return Installation("ready", library, here)
    title = f"{library.flavour.title} {library.capabilities.version}"
    why, hint = "; ".join(problems) or here.problem, here.hint
    if problems:
        hint = f"Install TensorRT itself: {FLAVOURS['tensorrt'].install}"
    if _can_build(library):
        problem = f"{title} can build engines here but cannot run them: {why}"
        return Installation("build only", library, here, problem, hint)
    return Installation("absent device", library, here, f"{title} needs a GPU: {why}", hint)


def kernels_problem(library: Library, gpu: Gpu) -> str:
    """Say why a library cannot run on a GPU; empty if it can, or if it lists no GPUs.

    TensorRT for RTX has kernels for GeForce RTX and RTX PRO alone, and none for an H100.
    """
    known = library.capabilities.gpus - {"NONE", "CURRENT"}
    if not known or gpu.sm in known:
        return ""
    names = ", ".join(sorted(known, key=lambda name: (len(name), name)))
    return f"it has kernels for {names} and none for {gpu}"


def _can_build(library: Library) -> bool:
    """Try to make a builder; without a GPU, TensorRT refuses and TensorRT for RTX does not."""
    with listening():
        try:
            return library.trt.Builder(library.logger) is not None
        except Exception:  # noqa: BLE001 (a binding raises whatever it likes, mostly TypeError)
            return False


def network_flags(trt: Any) -> int:
    """Return the flags for a network whose types are those of the model."""
    return 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
