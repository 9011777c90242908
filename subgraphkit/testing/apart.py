"""A function called in a process of its own, which begins and ends as that of a user does.

``python -m subgraphkit.testing.apart MODULE:FUNCTION SUBJECT [WORD ...]`` calls the function with
the backend that a JSON document describes and the words, and writes what it returns as another.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from subgraphkit.processes.child_process import how_it_ended, run_child
from subgraphkit.testing.cases import Finding, Outcome, Stopped
from subgraphkit.testing.subject import Subject

_MODULE: Final = "subgraphkit.testing.apart"
_LAST_OUTPUT: Final = 600


def called_apart(
    function: Callable[..., Any], subject: Subject, seconds: float, *words: str, what: str
) -> Any:
    """Call a function in a new process, let that end by itself, and return what it returned.

    ``seconds``: How long the process may take.

    Raises:
        Stopped: The process did not end (``HANG``), or not well (``CRASH``); or the function did.
    """
    place = f"{function.__module__}:{function.__name__}"
    ended = run_child(_MODULE, [place, json.dumps(subject.described()), *words], seconds)
    if ended.code is None:
        raise Stopped(Outcome.HANG, f"a process that {what} does not end within {seconds:.0f} s")
    if ended.code or not ended.answer:
        printed = ended.printed.strip()[-_LAST_OUTPUT:]
        text = f"a process that {what} ended with {how_it_ended(ended.code)}"
        raise Stopped(Outcome.CRASH, f"{text}; it printed: {printed}" if printed else text)
    answer = json.loads(ended.answer)
    if "stopped" in answer:
        found = Finding.from_dict(answer["stopped"])
        raise Stopped(found.outcome, found.detail, found.taken)
    return answer["returned"]


def found_apart(
    check: Callable[..., Finding], subject: Subject, seconds: float, *words: str, what: str
) -> Finding:
    """Have a check carried out as ``called_apart`` calls a function; return what it finds."""
    return Finding.from_dict(called_apart(check, subject, seconds, *words, what=what))


def main(arguments: Sequence[str]) -> int:
    """Call the function that the first argument names; what others print is no answer."""
    place, described, *words = arguments
    answer = os.dup(1)
    os.dup2(2, 1)  # sys.stdout stays what it is, and whether others write to it can be looked at
    module, _, name = place.partition(":")
    try:
        found = getattr(import_module(module), name)(Subject(**json.loads(described)), *words)
        told = {"returned": found.to_dict() if isinstance(found, Finding) else found}
    except Stopped as stop:
        told = {"stopped": stop.finding.to_dict()}
    with os.fdopen(answer, "w", encoding="utf-8") as stream:
        json.dump(told, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
