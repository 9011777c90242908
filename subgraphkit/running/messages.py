"""The errors of a session, worded, and words that only ONNX Runtime has, answered with ours."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from subgraphkit.errors import CallerError, InputError

OPEN_A_FILE: Final = (
    "Open the model with InferenceSession, by its path or by that of a bundle which "
    "session.export() wrote."
)
"""What to do about a session that has no spec."""


def run_closed(*_: object) -> list[Any]:
    """Refuse to run a session that is closed (CallerError, SGK144)."""
    raise CallerError("SGK144", "the session is closed", hint="Make a new one, or close it later.")


def check_count(name: str, value: object) -> None:
    """Refuse an argument that is no number of things (CallerError, SGK142)."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CallerError("SGK142", f"{name} is {value!r}, expected a whole number from 1 on")


def check_seconds(name: str, value: object, *, may_be_none: bool = True) -> None:
    """Refuse an argument that is no time something may take (CallerError, SGK142)."""
    if value is None and may_be_none:
        return
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        hint = "Leave it out, or give None, for a run that takes as long as it takes."
        raise CallerError(
            "SGK142",
            f"{name} is {value!r}, expected a number of seconds, 0 or more",
            hint=hint if may_be_none else "",
        )


def unfit(message: str, hint: str = "", **context: Any) -> InputError:
    """Word that an object given for an input or an output is of a wrong kind (SGK145)."""
    return InputError("SGK145", message, hint=hint, **context)


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


def not_a_list(output_names: str | Mapping[str, object]) -> InputError:
    """Word that the names of outputs are one text, or inputs in their place (SGK143)."""
    if isinstance(output_names, Mapping):
        return InputError(
            "SGK143",
            "output_names is a mapping, as inputs are",
            hint="run(output_names, feeds) takes the outputs first, as in ONNX Runtime;\n"
            "arun(feeds, output_names) and submit(feeds, output_names) take them last.",
        )
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


_DOOR: Final = "subgraphkit.compat.onnxruntime"
METHODS: Final = frozenset(
    {"get_providers", "get_provider_options", "set_providers", "get_modelmeta", "run_async"}
    | {"get_session_options", "get_profiling_start_time_ns", "end_profiling"}
    | {"enable_fallback", "disable_fallback", "run_with_ort_values"}
)
"""Methods of ONNX Runtime's session that are not here, but behind the door for its programs."""


def explain_attribute(owner: object, name: str) -> NoReturn:
    """Raise AttributeError, with a replacement if ONNX Runtime's class has the attribute."""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in METHODS:
        text += f", which is ONNX Runtime's; {_DOOR} has an InferenceSession with it"
    raise AttributeError(text, name=name, obj=owner)


ARGUMENTS: Final = ("providers", "provider_options", "sess_options")
"""Arguments of ONNX Runtime's session that are not here."""


def foreign_argument(word: str) -> CallerError:
    """Word that only ONNX Runtime has an argument, with a replacement (SGK114)."""
    return CallerError(
        "SGK114",
        f"InferenceSession has no argument {word!r}, which is ONNX Runtime's",
        hint="Use backend=..., options={'BACKEND': {...}} and settings such as threads=2. Or keep "
        f"your program,\nand import {_DOOR} in place of onnxruntime.",
    )
