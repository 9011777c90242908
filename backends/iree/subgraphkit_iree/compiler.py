"""The compiler of IREE, in a child process of its own: it says what it takes, and compiles."""

import base64
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx

from subgraphkit.backend import BindContext, Progress
from subgraphkit.processes import Child, NoAnswer, how_it_ended
from subgraphkit_iree.backend_options import Options

_CHILD: Final = "subgraphkit_iree.compiling_child"
"""The module of the functions that are called there; here it would load the compiler."""

_ENDED_IDLE: Final = -getattr(signal, "SIGALRM", 0)
_ASKED_SECONDS: Final = 10
"""Of processor time. The compiler answers within 0.2, or turns in circles for ever."""


class CompilerEndedError(RuntimeError):
    """The process of the compiler went down over what it was given."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a model.

    Attributes:
        nodes: Places in the model of the nodes that the problem names.
    """

    problem: str
    nodes: tuple[int, ...]
    engine: bytes


class Compiler:
    """The compiler, in a child that is started when it is needed and ends when it is not.

    It ends when an operator is closed, or when nobody has asked anything for a while.

    Thread-safety: safe; one thread at a time is served.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over in a forked process: the child of the parent answers the parent."""
        self._lock = threading.Lock()
        self._child: Child | None = None

    def takes(self, model: onnx.ModelProto, context: BindContext[Options]) -> str:
        """Return what speaks against the operators of a model, an empty text if nothing does.

        It takes some milliseconds, since nothing is compiled.

        Raises:
            CompilerEndedError: The compiler does not survive the question.
        """
        return self._do("takes", _ASKED_SECONDS, model, context).problem

    def compile(
        self, model: onnx.ModelProto, flags: Sequence[str], context: BindContext[Options]
    ) -> Compiled:
        """Compile a model, with flags of the compiler; else as ``takes``."""
        seconds = context.limits.max_compile_seconds
        return self._do("compile_model", seconds, model, context, list(flags))

    def rest(self) -> None:
        """Let the child end, unless it is at work; the next question starts another."""
        if self._lock.acquire(blocking=False):
            try:
                self._stop()
            finally:
                self._lock.release()

    def _do(
        self,
        function: str,
        seconds: int,
        model: onnx.ModelProto,
        context: BindContext[Options],
        *plain: Any,
    ) -> Compiled:
        code = base64.b64encode(model.SerializeToString()).decode()
        given = code, (context.limits.compile_bytes, seconds), *plain
        with self._lock:
            reply = self._reply(f"{_CHILD}:{function}", given, context.progress)
        return Compiled(reply["problem"], tuple(reply["nodes"]), base64.b64decode(reply["engine"]))

    def _reply(self, place: str, given: Sequence[Any], progress: Progress) -> Any:
        progress.check()
        child = self._child = self._child or Child()
        try:
            with progress.stopping(child.kill):
                return child.call(place, *given, look=progress.check)
        except BaseException as error:
            self._stop()
            progress.check()
            if not isinstance(error, NoAnswer):
                raise
            if error.code == _ENDED_IDLE:
                return self._reply(place, given, progress)
            ended = how_it_ended(error.code or 0)
            text = f"IREE's compiler ended with {ended}: {error.printed}"
            raise CompilerEndedError(text) from None

    def _stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None


the_compiler: Final = Compiler()
"""The compiler of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=the_compiler.forget)
