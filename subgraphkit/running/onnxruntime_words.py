"""Words that only ONNX Runtime has, answered with ours."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn

from subgraphkit.configuration.providers import in_our_names
from subgraphkit.errors import CallerError

__all__ = ["METHODS", "explain_attribute", "refuse_arguments"]

_THEIRS: Final = (
    "One of its TensorRT provider, given so, is answered with the option of backend 'tensorrt' for "
    "it; docs/migrating-to-tensorrt.md lists them."
)
_METADATA: Final = (
    "the session keeps no metadata of the model; read it with "
    "subgraphkit.load(path).proto, such as .producer_name or .metadata_props"
)
_PROFILE: Final = "measure with 'subgraphkit bench', or watch runs with an observer"
_CLOSED_ENDS: Final = "a session is never changed; make another one with backend=..."
METHODS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "get_providers": "the backends in use are those of session.partitioning.subgraphs, each "
        "with its backend; those asked for are session.resolved_config.backends",
        "get_provider_options": "the options are in session.resolved_config.option_sources",
        "set_providers": _CLOSED_ENDS,
        "get_modelmeta": _METADATA,
        "get_session_options": "the settings are in session.resolved_config",
        "get_profiling_start_time_ns": _PROFILE,
        "end_profiling": _PROFILE,
        "enable_fallback": "say on_run_error='fallback' when the session is made",
        "disable_fallback": "leave on_run_error out when the session is made",
        "run_async": "call session.run from a thread; a session may be used by any number of them",
        "run_with_ort_values": "call session.run, which takes arrays on a device too, or "
        "session.run_with_iobinding",
        "run_with_ortvaluevector": "call session.run_with_iobinding",
    }
)
"""Methods of ONNX Runtime's session that are not here, with what to use."""


def explain_attribute(owner: object, name: str) -> NoReturn:
    """Say that an object has no such attribute, and what to use if ONNX Runtime's class has it.

    Raises:
        AttributeError: Always.
    """
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in METHODS:
        text += f", which is a method of ONNX Runtime's; here, {METHODS[name]}"
    raise AttributeError(text, name=name, obj=owner)


def refuse_arguments(settings: Mapping[str, Any]) -> None:
    """Say which argument takes the place of one that only ONNX Runtime has.

    Raises:
        CallerError: One of them was given (SGK114).
    """
    if "providers" in settings or "provider_options" in settings:
        raise _no_providers(settings)
    if "sess_options" in settings:
        raise CallerError(
            "SGK114",
            "InferenceSession has no argument 'sess_options', which takes the SessionOptions of "
            "ONNX Runtime",
            hint="Settings are arguments by name, such as strict=True; every one of them: "
            "subgraphkit config\nThreads and optimization are options of a backend: options="
            "{'BACKEND': {...}}; see: subgraphkit info BACKEND --options",
        )


def _no_providers(settings: Mapping[str, Any]) -> CallerError:
    word = "providers" if "providers" in settings else "provider_options"
    names, options = _asked_for(settings.get("providers"))
    ours = in_our_names(",".join(names))
    lines = [f'Write backend="{ours}".'] if ours else []
    if not ours and word == "providers":
        lines = ["Choose backends with backend=..., or leave the choice to SUBGRAPH_BACKEND."]
    if options or settings.get("provider_options"):
        lines += ["Their options are given with options={'BACKEND': {...}}.", _THEIRS]
    elif not lines:
        lines = ["Options are given with options={'BACKEND': {...}}."]
    return CallerError(
        "SGK114",
        f"InferenceSession has no argument {word!r}, which is for execution providers of ONNX "
        "Runtime",
        hint="\n".join(lines),
    )


def _asked_for(providers: Any) -> tuple[list[str], bool]:
    """Return the names of providers, and whether there are options among them."""
    if isinstance(providers, str):
        return [providers], False
    names, options = [], False
    for one in providers if isinstance(providers, Sequence) else ():
        is_pair = isinstance(one, tuple) and bool(one)
        names.append(str(one[0] if is_pair else one))
        options = options or (is_pair and bool(one[1:] and one[1]))
    return names, options
