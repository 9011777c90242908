"""A function called in a process of its own, which begins and ends as that of a user does."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from subgraphkit.processes import NoAnswer, call, how_it_ended
from subgraphkit.processes.calling import place_of
from subgraphkit.testing.cases import Finding, Outcome, Stopped
from subgraphkit.testing.subject import Subject

_LAST_OUTPUT: Final = 600


def call_in_subprocess(
    function: Callable[..., Any], subject: Subject, seconds: float, *words: str, what: str
) -> Any:
    """Call a function in a new process, let that end by itself, and return what it returned.

    ``seconds``: How long the process may take.

    Raises:
        Stopped: The process did not end (``HANG``), or not well (``CRASH``); or the function did.
    """
    try:
        answer = call(answered, place_of(function), subject.to_dict(), words, timeout=seconds)
    except NoAnswer as gone:
        raise _ended(gone, what, seconds) from None
    except Exception as error:
        text = f"a process that {what} failed: {type(error).__name__}: {error}"
        raise Stopped(Outcome.CRASH, text) from error
    if "stopped" in answer:
        found = Finding.from_dict(answer["stopped"])
        raise Stopped(found.outcome, found.detail, found.taken)
    return answer["returned"]


def check_in_subprocess(
    check: Callable[..., Finding], subject: Subject, seconds: float, *words: str, what: str
) -> Finding:
    """Have a check carried out as ``call_in_subprocess`` calls a function; return what it finds."""
    return Finding.from_dict(call_in_subprocess(check, subject, seconds, *words, what=what))


def answered(place: str, described: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Call a function in the process it was to be called in."""
    module, _, name = place.partition(":")
    try:
        found = getattr(import_module(module), name)(Subject(**described), *words)
    except Stopped as stop:
        return {"stopped": stop.finding.to_dict()}
    return {"returned": found.to_dict() if isinstance(found, Finding) else found}


def _ended(gone: NoAnswer, what: str, seconds: float) -> Stopped:
    if gone.code is None:
        return Stopped(Outcome.HANG, f"a process that {what} does not end within {seconds:.0f} s")
    printed = gone.printed.strip()[-_LAST_OUTPUT:]
    text = f"a process that {what} ended with {how_it_ended(gone.code)}"
    return Stopped(Outcome.CRASH, f"{text}; it printed:\n{printed}" if printed else text)
