"""The compiler of IREE, in a child process of its own: asked what it takes, and had compile it."""

import base64
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from subgraphkit.backend import Progress
from subgraphkit.processes import AnsweringChild, NoAnswer, how_it_ended

__all__ = ["Compiled", "Compiler", "the_compiler"]

_CHILD: Final = "subgraphkit_iree.compiling_child"
_LONG_SECONDS: Final = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a model.

    Attributes:
        problem: What speaks against it; empty if nothing does.
        nodes: Places in the model of the nodes that the problem names.
        engine: The compiled module.
    """

    problem: str
    nodes: tuple[int, ...] = ()
    engine: bytes = b""


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

    def takes(self, model: onnx.ModelProto, flags: Sequence[str], progress: Progress) -> Compiled:
        """Ask whether the compiler has ways to compute the operators of a model; in milliseconds.

        Args:
            model: The model, with its large weights outside.
            flags: Flags of the compiler.
            progress: Cancelled if nobody waits for the answer any more.
        """
        return self._do("takes", model, flags, progress)

    def compile(self, model: onnx.ModelProto, flags: Sequence[str], progress: Progress) -> Compiled:
        """Compile a model; as ``takes``."""
        return self._do("compile", model, flags, progress)

    def rest(self) -> None:
        """Let the child end, unless it is at work; the next question starts another."""
        if self._lock.acquire(blocking=False):
            try:
                if self._child is not None:
                    self._child.stop()
                    self._child = None
            finally:
                self._lock.release()

    def _do(
        self, what: str, model: onnx.ModelProto, flags: Sequence[str], progress: Progress
    ) -> Compiled:
        command = {
            "do": what,
            "model": base64.b64encode(model.SerializeToString()).decode(),
            "flags": list(flags),
        }
        with self._lock:
            progress.check()
            for again in (True, False):
                was_there = self._child is not None
                child = self._child = self._child or AnsweringChild(_CHILD)
                try:
                    with progress.stopping(child.kill):
                        child.tell(command)
                        said = child.answer(_LONG_SECONDS, progress.check)
                except BaseException as error:
                    printed = child.printed(2000)
                    child.stop()
                    self._child = None
                    progress.check()
                    if not isinstance(error, NoAnswer):
                        raise
                    if was_there and again:  # it may have had nothing to do for long, and ended
                        continue
                    ended = how_it_ended(error.code or 0)
                    return Compiled(f"the compiler ended with {ended}: {printed}")
                return Compiled(
                    said["problem"], tuple(said["nodes"]), base64.b64decode(said["engine"])
                )
        raise AssertionError


the_compiler: Final = Compiler()
"""The compiler of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=the_compiler.forget)
