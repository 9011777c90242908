"""The compiler of IREE, in a child process of its own: asked what it takes, and had compile it."""

import base64
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx

from subgraphkit.backend import BindContext, Progress
from subgraphkit.processes import AnsweringChild, NoAnswer, how_it_ended
from subgraphkit_iree.backend_options import Options

_CHILD: Final = "subgraphkit_iree.compiling_child"
_ENDED_IDLE: Final = -getattr(signal, "SIGALRM", 0)
_PRINTED: Final = 2_000
_ASKED_SECONDS: Final = 10
"""Of processor time. The compiler answers within 0.2, or turns in circles for ever."""

_EVER: Final = 1e9


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
        self._child: AnsweringChild | None = None

    def takes(self, model: onnx.ModelProto, context: BindContext[Options]) -> str:
        """Return what speaks against the operators of a model, an empty text if nothing does.

        It takes some milliseconds, since nothing is compiled.

        Raises:
            CompilerEndedError: The compiler does not survive the question.
        """
        return self._do("takes", model, (), context).problem

    def compile(
        self, model: onnx.ModelProto, flags: Sequence[str], context: BindContext[Options]
    ) -> Compiled:
        """Compile a model, with flags of the compiler; else as ``takes``."""
        return self._do("compile", model, flags, context)

    def rest(self) -> None:
        """Let the child end, unless it is at work; the next question starts another."""
        if self._lock.acquire(blocking=False):
            try:
                self._stop()
            finally:
                self._lock.release()

    def _do(
        self,
        what: str,
        model: onnx.ModelProto,
        flags: Sequence[str],
        context: BindContext[Options],
    ) -> Compiled:
        limits = context.limits
        seconds = _ASKED_SECONDS if what == "takes" else limits.max_compile_seconds
        command = {
            "do": what,
            "model": base64.b64encode(model.SerializeToString()).decode(),
            "flags": list(flags),
            "limits": (limits.compile_bytes, seconds),
        }
        with self._lock:
            said = self._answer(command, context.progress)
        return Compiled(said["problem"], tuple(said["nodes"]), base64.b64decode(said["engine"]))

    def _answer(self, command: dict[str, Any], progress: Progress) -> Any:
        progress.check()
        child = self._child = self._child or AnsweringChild(_CHILD)
        try:
            with progress.stopping(child.kill):
                child.tell(command)
                return child.answer(_EVER, progress.check)
        except BaseException as error:
            self._stop()
            progress.check()
            if not isinstance(error, NoAnswer):
                raise
            if error.code == _ENDED_IDLE:
                return self._answer(command, progress)
            ended = how_it_ended(error.code or 0)
            printed = child.printed(_PRINTED)
            raise CompilerEndedError(f"IREE's compiler ended with {ended}: {printed}") from None

    def _stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None


the_compiler: Final = Compiler()
"""The compiler of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=the_compiler.forget)
