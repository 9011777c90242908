"""Functions that are called in a process of their own, where they may crash or never return.

A function goes by its place, ``module:name``, and takes and returns what JSON can hold; what it
raises is raised again by the caller. A class that is called stays in the child, one instance of
it, and its methods are called on that.
"""

import builtins
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self, cast

from subgraphkit import errors
from subgraphkit.processes.answering_child import AnsweringChild
from subgraphkit.transport import Travelling, carried, rebuilt

_PROGRAM: Final = "subgraphkit.processes.callee"

Place = Callable[..., Any] | str
"""A function or class at the top of a module, or a method of such a class; or its place."""


def call(
    function: Place,
    *plain: Any,
    timeout: float,
    variables: Mapping[str, str] | None = None,
    event: Callable[[Any], object] | None = None,
) -> Any:
    """Call a function in a new process, which then ends by itself.

    Args:
        function: What is called; see ``Child.call``.
        *plain: Its arguments, which JSON can hold.
        timeout: Seconds for the process to start, to answer and to end.
        variables: Environment variables to add or to replace.
        event: See ``Child.call``.

    Raises:
        NoAnswer: The process went down, before or after it answered, or took too long.
        BaseException: What the function raised.

    Thread-safety: may be called from any thread; several children may run at once.
    """
    with Child(variables) as child:
        result = child.call(function, *plain, timeout=timeout, event=event)
        child.finish(timeout)
    return result


class Child(AnsweringChild):
    """A process in which functions are called, one after the other; it ends with this process.

    ``variables``: Environment variables to add or to replace. ``inherited``: Descriptors of this
    process that are to be open in the child as well.

    Thread-safety: used by one thread, except for ``stop`` and ``kill``.
    """

    def __init__(
        self, variables: Mapping[str, str] | None = None, inherited: Sequence[int] = ()
    ) -> None:
        theirs, self._lifeline = os.pipe()  # whose closing ends the child, whatever it is doing
        try:
            super().__init__(_PROGRAM, [str(theirs)], variables, [*inherited, theirs])
        except BaseException:
            self.disown()
            raise
        finally:
            os.close(theirs)

    def call(
        self,
        function: Place,
        *plain: Any,
        timeout: float = math.inf,
        event: Callable[[Any], object] | None = None,
        look: Callable[[], object] = lambda: None,
    ) -> Any:
        """Call a function and return what it returns.

        Args:
            function: It is given ``*plain``; before them, if there is ``event``, a function that
                sends one.
            *plain: Arguments that JSON can hold.
            timeout: Seconds without an event or an answer after which the child is stopped.
            event: Called here with each event.
            look: Called ten times a second meanwhile; what it raises ends the wait alone.

        Raises:
            NoAnswer: The child went down, or kept silent for too long.
            BaseException: What the function raised.
        """
        return result_of(self.reply(function, *plain, timeout=timeout, event=event, look=look))

    def reply(
        self,
        function: Place,
        *plain: Any,
        timeout: float,
        event: Callable[[Any], object] | None = None,
        look: Callable[[], object] = lambda: None,
    ) -> Mapping[str, Any]:
        """Call a function; what it returned or raised comes out of ``result_of``."""
        self.tell({"call": place_of(function), "plain": plain, "tells": event is not None})
        while "event" in (reply := self.answer(timeout, look)):
            if event is not None:
                event(reply["event"])
        return cast("Mapping[str, Any]", reply)

    def disown(self) -> None:
        """Leave the child to the process from which this one was forked."""
        line, self._lifeline = self._lifeline, -1
        if line >= 0:
            os.close(line)

    def stop(self, patience: float = 0.0) -> int:
        """Stop the process, and whatever it started; see ``AnsweringChild.stop``."""
        code = super().stop(patience)
        self.disown()
        return code

    def __enter__(self) -> Self:
        """Return the child, which is stopped on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the child."""
        self.stop()


def place_of(function: Place) -> str:
    """Return ``module:name`` of a function."""
    if isinstance(function, str):
        return function
    return f"{function.__module__}:{function.__qualname__}"


def plain_error(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data, from which the caller makes it anew."""
    if isinstance(error, Travelling):
        return {"coded": carried(error)}
    return {
        "kind": type(error).__name__,
        "text": errors.text_of(error),
        "notes": list(getattr(error, "__notes__", ())),
        "fault": errors.fault_of(error, running=True),
    }


def result_of(reply: Mapping[str, Any]) -> Any:
    """Return what the function of a reply returned, or raise what it raised."""
    if "raised" in reply:
        raise _raised(reply["raised"])
    return reply["returned"]


def _raised(plain: Mapping[str, Any]) -> BaseException:
    if "coded" in plain:
        return rebuilt(*plain["coded"], imports=False)
    kind: object = getattr(builtins, plain["kind"], None)
    error: Any = RuntimeError(f"{plain['kind']}: {plain['text']}")
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # it may take more than a text
            error = kind(plain["text"])
    for note in plain["notes"]:
        error.add_note(note)
    if plain["fault"] is not None:
        error.fault = plain["fault"]
    return cast("BaseException", error)
