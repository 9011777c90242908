"""A child process that is told things, a line of JSON each, and answers in the same way."""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, cast

from subgraphkit.processes.child_process import (
    KeptEnd,
    child_command,
    child_environment,
    stop_child,
)

_LOOK_SECONDS: Final = 0.1
_PIECE: Final = 1 << 20
_MOST_PRINTED: Final = 1 << 16
_MOST_SHOWN: Final = 2000
_CLOSING_SECONDS: Final = 10.0
"""How long to wait for the last words of a child that was stopped."""


class NoAnswer(Exception):  # noqa: N818 (a state, told as part of a result)
    """A child went down, or kept silent for too long; either way it is gone.

    Attributes:
        code: Its exit status, negative for a signal; None if it was stopped for keeping silent.
        printed: The end of what it wrote to standard error.
    """

    def __init__(self, code: int | None, printed: str = "") -> None:
        self.code = code
        self.printed = printed
        super().__init__(code)


class AnsweringChild:
    """A child process of our own interpreter, alive until it is stopped.

    It reads commands from standard input and writes answers to standard output; the end of what
    it writes to standard error is kept.

    Args:
        module: Full name of one of our modules.
        words: Its arguments.
        variables: Environment variables to add or to replace.
        inherited: Descriptors of this process that are to be open in the child as well.

    Thread-safety: used by one thread, except for ``stop`` and ``kill``.
    """

    def __init__(
        self,
        module: str,
        words: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        with KeptEnd(_MOST_PRINTED) as self._printed:
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                child_command(module, words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed.sink,
                env=child_environment(variables),
                start_new_session=True,
                pass_fds=inherited,
                text=True,
                encoding="utf-8",
            )
            self._printed.begin()
        # Both are there, since pipes were asked for.
        self._commands = cast("IO[str]", self._process.stdin)
        self._stream = cast("IO[str]", self._process.stdout)
        self._reading = threading.Lock()
        self._pipe = self._stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._pending = bytearray()

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

    def tell(self, what: Mapping[str, Any]) -> None:
        """Send a command. That a child has gone is noticed when its answer is awaited."""
        with suppress(OSError):
            self._commands.write(json.dumps(what) + "\n")
            self._commands.flush()

    def answer(self, seconds: float, look: Callable[[], object] = lambda: None) -> Any:
        """Wait for the next answer.

        Args:
            seconds: After how long the child, and whatever it started, is stopped.
            look: Called ten times a second meanwhile; what it raises ends the wait alone.

        Raises:
            NoAnswer: There will be none.
        """
        end = time.monotonic() + seconds
        line, gone = None, False
        while line is None:
            # In pieces, because a signal that another thread was given wakes nobody here.
            line = self._line(max(0.0, min(_LOOK_SECONDS, end - time.monotonic())))
            if line is None:
                look()
                line = "" if gone else None
                gone = self._process.poll() is not None  # what it started may hold the pipe open
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
            NoAnswer: It took longer and was stopped, or did not end well, as one whose library
                fails when it is unloaded.
        """
        with suppress(OSError):
            self._commands.close()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NoAnswer(None, self.printed()) from None
        if code:
            raise NoAnswer(code, self.printed())

    def printed(self, most: int = _MOST_SHOWN) -> str:
        """Return the end of what the child wrote to standard error, in at most so many bytes."""
        return self._printed.text(most).strip()

    def stop(self, patience: float = 0.0) -> int:
        """Stop the process, and whatever it started.

        Args:
            patience: Seconds the process gets to end by itself, once told that nothing follows.

        Returns:
            Its exit status, negative for a signal, which may be the one that stopped it.
        """
        if patience:
            with suppress(OSError):
                self._commands.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        self.kill()
        with suppress(OSError):
            self._commands.close()  # after the end of who may not have read all of them
        code = self._process.wait()
        with self._reading:
            self._stream.close()
        return code

    def kill(self) -> None:
        """End the process, and whatever it started, at once; whoever waits for it is told."""
        with suppress(ProcessLookupError, PermissionError):
            stop_child(self._process)


@contextmanager
def answering() -> Iterator[Callable[[Any], None]]:
    """Keep standard output for answers, a line of JSON each; other output is an error's."""
    # The duplicate is ours alone; descriptor 1, which C code writes to, becomes standard error.
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    lock = threading.Lock()  # a function may send events from its own threads
    with os.fdopen(answer, "w", encoding="utf-8") as stream:

        def send(what: Any) -> None:
            text = json.dumps(what)
            with lock:
                stream.write(text + "\n")
                stream.flush()

        yield send
