"""The errors of a session, worded, and words that only ONNX Runtime has, answered with ours."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn

from subgraphkit.configuration.names import in_our_names
from subgraphkit.errors import CallerError, InputError

OPEN_A_FILE: Final = (
    "Open the model with InferenceSession, by its path or by that of a bundle which "
    "session.export() wrote."
)
"""What to do about a session that has no spec."""


def run_closed(feeds: Mapping[str, Any], buffers: Any = None) -> list[Any]:
    """Run a session that is closed.

    Raises:
        CallerError: Always (SGK144).
    """
    del feeds, buffers
    raise CallerError("SGK144", "the session is closed", hint="Make a new one, or close it later.")


def check_count(name: str, value: object) -> None:
    """Make sure that an argument is a number of things.

    Raises:
        CallerError: It is not (SGK142).
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CallerError("SGK142", f"{name} is {value!r}, expected a whole number from 1 on")


def check_seconds(name: str, value: object, *, may_be_none: bool = True) -> None:
    """Make sure that an argument says how long something may take.

    Raises:
        CallerError: It does not (SGK142).
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if not is_number and not (value is None and may_be_none):
        hint = "Leave it out, or give None, for a run that takes as long as it takes."
        raise CallerError(
            "SGK142",
            f"{name} is {value!r}, expected a number of seconds, 0 or more",
            hint=hint if may_be_none else "",
        )


def no_spec(why: str, fix: str) -> CallerError:
    """Word that a session, or the call that would open one, has no spec (SGK192)."""
    return CallerError("SGK192", f"there is no spec of this session: {why}", hint=fix)


def unknown_run_options(options: object) -> CallerError:
    """Word that run options are not understood (SGK142)."""
    return CallerError(
        "SGK142",
        f"run options of type {type(options).__name__} are not understood",
        hint="Pass a subgraphkit.RunOptions, or leave run_options out.",
    )


def not_a_list(output_names: str) -> InputError:
    """Word that the names of outputs are one text (SGK143)."""
    return InputError("SGK143", f"output_names is a str; pass a list, [{output_names!r}]")


def no_output(name: object, outputs: Iterable[str]) -> InputError:
    """Word that an output does not exist (SGK143)."""
    return InputError(
        "SGK143",
        f"the model has no output {name!r}",
        hint="Its outputs: " + ", ".join(map(repr, outputs)) + ".",
    )


def not_batched(why: str) -> CallerError:
    """Word that requests to a model cannot be stacked (SGK196)."""
    return CallerError(
        "SGK196",
        f"requests to the model cannot be put together in batches: {why}",
        hint="The first axis of every input and output is to be one open dimension, such as 'N'.\n"
        "Bind the model without a size for it, or export it with one that is dynamic;\n"
        "session.arun and session.stream need none.",
    )


def queue_full(most: int) -> CallerError:
    """Word that too many runs wait (SGK198); the caller may come again."""
    error = CallerError(
        "SGK198",
        f"{most} runs of the session wait for their turn already, and max_waiting={most}",
        hint="Ask again later or another session, let more wait, or put requests into batches.",
    )
    error.fault = "machine"
    return error


def other_model() -> CallerError:
    """Word that a plan is of another bound model than the session's (SGK123)."""
    return CallerError(
        "SGK123",
        "the plan given to exchange() is of another bound model than the session's",
        hint="Call partition() on session.graph, compile and plan what it returns.",
    )


def profiled_already() -> CallerError:
    """Word that two profiles of a session are wanted at once (SGK146)."""
    return CallerError(
        "SGK146",
        "a profile of this session is being taken already",
        hint="Leave the block of the first before you enter the second.",
    )


# -- words that only ONNX Runtime has --------------------------------------------------------------


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
            "subgraphkit doctor --settings\nThreads and optimization are options of a backend: "
            "options={'BACKEND': {...}}; see: subgraphkit list BACKEND --options",
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
