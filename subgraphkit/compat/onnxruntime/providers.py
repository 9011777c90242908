"""Backends for execution providers, and providers for backends.

A backend configured by ``SUBGRAPH_BACKEND``, a context manager or a file wins. It is meant for
programs whose code names providers. Otherwise each provider stands for its backend in
``BACKEND_OF``, if that is installed. Behind them comes the first installed backend that is fast on
the processor.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from subgraphkit.backend.messages import warn_user
from subgraphkit.compat.onnxruntime.options import UnknownNameError
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.names import BACKEND_OF
from subgraphkit.errors import CallerError, SubgraphkitError
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.finding.registry import get_backend

CPU: Final = "CPUExecutionProvider"
_ON_THE_HOST: Final = ("onnxruntime", "openvino", "onednn", "numpy")
_HOPEFUL: Final = ("registered", "loaded", "ready")

Provider = str | tuple[str, Mapping[str, Any]]


class Asked(NamedTuple):
    """Providers that a program asks for."""

    names: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]


def asked_for(
    providers: Sequence[Provider] | None, options: Sequence[Mapping[str, Any]] | None = None
) -> Asked:
    """Read ``providers`` and ``provider_options``; CallerError (SGK107) if they are no such."""
    pairs = []
    for place, one in enumerate(providers or ()):
        name, given = (one, {}) if isinstance(one, str) else one
        pairs.append((name, {**given, **(options[place] if options else {})}))
    unknown = [name for name, _ in pairs if not str(name).endswith("ExecutionProvider")]
    if unknown and isinstance(unknown[0], str):
        hint = f"Available: {', '.join(get_available_providers())}."
        raise UnknownNameError("SGK107", f"there is no provider {unknown[0]!r}", hint=hint)
    if unknown or (options and len(options) != len(pairs)):
        raise CallerError(
            "SGK107",
            f"providers are {providers!r} with options {options!r}",
            hint="Expected names such as 'CPUExecutionProvider', or pairs of a name and options.",
        )
    return Asked(tuple(name for name, _ in pairs), dict(pairs))


def selection_of(asked: Asked) -> str | None:
    """Return the backends for providers; None for the configured ones."""
    if not asked.names or resolve().sources["backend"][0] != "default":
        return None
    usable = _usable()
    chosen = []
    for name in asked.names:
        backend = BACKEND_OF.get(name, "")
        if backend in usable:
            chosen.append(f"{backend}?")
        elif name != CPU:
            why = f"backend {backend!r} is not here" if backend else "it has no backend here"
            text = f"provider {name!r} is left out: {why}"
            hint = f"Available: {', '.join(get_available_providers())}."
            warn_user(CallerError("SGK104" if backend else "SGK102", text, hint=hint))
    # The processor runs the rest, as in ONNX Runtime.
    chosen += [f"{one}?" for one in _ON_THE_HOST if one in usable][:1]
    return ",".join(dict.fromkeys(chosen)) or None


def providers_of(asked: Asked, backends: Sequence[str]) -> list[str]:
    """Return the names of the providers in use: as they were asked for, else as of backends."""
    names = [name for name in asked.names if BACKEND_OF.get(name) in backends and name != CPU]
    said = {BACKEND_OF[name] for name in names}
    ours = {backend: name for name, backend in reversed([*BACKEND_OF.items()])}
    names += [ours[one] for one in backends if one in ours and one not in said]
    return [*(name for name in names if name != CPU), CPU]


def get_available_providers() -> list[str]:
    """Return the providers whose backends can run here, that of the processor last."""
    usable = _usable() - ({"tensorrt"} if get_device() == "CPU" else set())
    return [*(name for name, one in BACKEND_OF.items() if one in usable and name != CPU), CPU]


def get_all_providers() -> list[str]:
    """Return the providers that have a backend."""
    return list(BACKEND_OF)


def get_device() -> str:
    """Return ``"GPU"`` if TensorRT's backend can run here, else ``"CPU"``."""
    with suppress(SubgraphkitError):
        if "tensorrt" in _usable() and get_backend("tensorrt").probe().devices:
            return "GPU"
    return "CPU"


def _usable() -> set[str]:
    return {record.name for record in list_backends() if record.state in _HOPEFUL}
