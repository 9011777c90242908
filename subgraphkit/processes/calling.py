"""Functions that are called in a process of their own, where they may crash or never return.

A function is named by its place, ``module:name``, and takes and returns values that JSON can hold.
Its errors are raised again in the caller. A class that is called leaves one instance in the child,
on which its methods are called.
"""

import builtins
import json
import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, Self, cast

from subgraphkit import errors
from subgraphkit.processes.child_process import (
    KeptEnd,
    child_command,
    child_environment,
    stop_child,
)
from subgraphkit.transport import Travelling, parts_of, rebuild_error

_PROGRAM: Final = "subgraphkit.processes.callee"

_LOOK_SECONDS: Final = 0.1
_PIECE: Final = 1 << 20
_MOST_PRINTED: Final = 1 << 16
_MOST_SHOWN: Final = 2000
# How long to wait for the last words of a child that was stopped.
_CLOSING_SECONDS: Final = 10.0

Place = Callable[..., Any] | str
"""A function or class at the top of a module, or a method of such a class; or its place."""


class NoAnswer(Exception):  # noqa: N818 (a state, told as part of a result)
    """A child went down, or kept silent for too long; either way it is gone.

    Attributes:
        code: Its exit status, negative for a signal; None if it was stopped for keeping silent.
        printed: The end of its standard error.
    """

    def __init__(self, code: int | None, printed: str = "") -> None:
        self.code = code
        self.printed = printed
        super().__init__(code)


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


class Child:
    """A process in which functions are called, one after the other; it ends with this process.

    It reads requests from standard input and writes answers to standard output. The end of its
    standard error is kept.

    ``variables``: Environment variables to add or to replace. ``inherited``: Descriptors of this
    process that are to be open in the child as well.

    Thread-safety: used by one thread, except for ``stop`` and ``kill``.
    """

    def __init__(
        self, variables: Mapping[str, str] | None = None, inherited: Sequence[int] = ()
    ) -> None:
        theirs, self._lifeline = os.pipe()  # whose closing ends the child at any time
        try:
            with KeptEnd(_MOST_PRINTED) as self._printed:
                self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                    child_command(_PROGRAM, [str(theirs)]),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._printed.sink,
                    env=child_environment(variables),
                    start_new_session=True,
                    pass_fds=[*inherited, theirs],
                    text=True,
                    encoding="utf-8",
                )
                self._printed.begin()
        except BaseException:
            self.disown()
            raise
        finally:
            os.close(theirs)
        # Both are there, since pipes were asked for.
        self._requests = cast("IO[str]", self._process.stdin)
        self._stream = cast("IO[str]", self._process.stdout)
        self._reading = threading.Lock()
        self._pipe = self._stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._pending = bytearray()

    def call(self, function: Place, *plain: Any, **how: Any) -> Any:
        """Call a function as ``reply`` does; return its result, or raise its error."""
        return result_of(self.reply(function, *plain, **how))

    def reply(
        self,
        function: Place,
        *plain: Any,
        timeout: float = math.inf,
        event: Callable[[Any], object] | None = None,
        look: Callable[[], object] = lambda: None,
    ) -> Mapping[str, Any]:
        """Call a function; ``result_of`` returns its result or raises its error.

        Args:
            function: It is given ``*plain``; before them, if there is ``event``, a function that
                sends one.
            *plain: Arguments that JSON can hold.
            timeout: Seconds without an event or an answer after which the child is stopped.
            event: Called here with each event.
            look: Called ten times a second meanwhile; an error of it ends only the wait.

        Raises:
            NoAnswer: The child went down, or kept silent for too long.
        """
        self._send({"call": place_of(function), "plain": plain, "tells": event is not None})
        while "event" in (reply := self._answer(timeout, look)):
            if event is not None:
                event(reply["event"])
        return cast("Mapping[str, Any]", reply)

    def disown(self) -> None:
        """Leave the child to the process from which this one was forked."""
        line, self._lifeline = self._lifeline, -1
        if line >= 0:
            os.close(line)

    def _line(self, seconds: float) -> str | None:
        """Return the next line, an empty one if the child has gone; None after some seconds."""
        end = self._pending.find(b"\n")
        while end < 0:
            with self._reading:  # another thread may stop the child
                if self._stream.closed:
                    return ""
                if not self._poll.poll(seconds * 1000):
                    return None
                piece = os.read(self._pipe, _PIECE)
            if not piece:
                return ""
            if (place := piece.find(b"\n")) >= 0:
                end = len(self._pending) + place
            self._pending += piece
        line = self._pending[: end + 1].decode()
        del self._pending[: end + 1]
        return line

    @property
    def number(self) -> int:
        """The number of the process, as the system has it."""
        return self._process.pid

    def _send(self, request: Mapping[str, Any]) -> None:
        """Send a request. The wait for its answer notices a child that has gone."""
        with suppress(OSError):
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()

    def _answer(self, seconds: float, look: Callable[[], object]) -> Any:
        """Wait for the next answer; stop the child and its processes after some seconds."""
        end = time.monotonic() + seconds
        line, gone = None, False
        while line is None:
            # In pieces, because a signal that another thread was given wakes nobody here.
            line = self._line(max(0.0, min(_LOOK_SECONDS, end - time.monotonic())))
            if line is None:
                look()
                line = "" if gone else None
                gone = self._process.poll() is not None  # its own processes may hold the pipe open
            if line is None and time.monotonic() >= end:
                self.kill()
                raise NoAnswer(None, self.printed())
        if not line:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSING_SECONDS)
            self.kill()  # if it closed the pipe and did not end
            raise NoAnswer(self._process.wait(), self.printed())
        return json.loads(line)

    def finish(self, seconds: float) -> None:
        """Say that nothing follows, and wait for the child to end by itself.

        Raises:
            NoAnswer: It took longer and was stopped, or it did not end well, as when a library
                fails at its unloading.
        """
        with suppress(OSError):
            self._requests.close()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NoAnswer(None, self.printed()) from None
        if code:
            raise NoAnswer(code, self.printed())

    def printed(self, most: int = _MOST_SHOWN) -> str:
        """Return the end of the child's standard error, in at most so many bytes."""
        return self._printed.text(most).strip()

    def stop(self, patience: float = 0.0) -> int:
        """Stop the process and its own processes; return its exit status, negative for a signal.

        ``patience``: Seconds the process gets to end by itself, once told that nothing follows.
        """
        if patience:
            with suppress(OSError):
                self._requests.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        self.kill()
        with suppress(OSError):
            self._requests.close()  # after the end of a process that may not have read all of them
        code = self._process.wait()
        with self._reading:
            self._stream.close()
        self.disown()
        return code

    def kill(self) -> None:
        """End the process and its children at once; waiting callers hear of it."""
        with suppress(ProcessLookupError, PermissionError):
            stop_child(self._process)

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
        return {"coded": parts_of(error)}
    return {
        "kind": type(error).__name__,
        "text": errors.text_of(error),
        "notes": list(getattr(error, "__notes__", ())),
        "fault": errors.fault_of(error, running=True),
    }


def result_of(reply: Mapping[str, Any]) -> Any:
    """Return the function's result in a reply, or raise its error."""
    if "raised" in reply:
        raise _rebuild_error(reply["raised"])
    return reply["returned"]


def _rebuild_error(plain: Mapping[str, Any]) -> BaseException:
    if "coded" in plain:
        return rebuild_error(*plain["coded"], imports=False)
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
