"""The parent's end of a contender: start it, ask it, survive it."""

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from subgraphkit.backend.child_process import child_command, child_environment, stop_child
from subgraphkit.comparing.messages import crashed, hung
from subgraphkit.errors import SubgraphkitError

__all__ = ["Contender", "Failed"]

_MODULE: Final = "subgraphkit.comparing.bench_child"
_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TVM_NUM_THREADS",
)
"""What libraries read to learn how many threads to use, before they start any."""

_LAST_OUTPUT: Final = 2000
_PATIENCE_AT_THE_END: Final = 10.0


class Failed(Exception):  # noqa: N818 (a state that travels, told as part of the result)
    """A contender is out.

    Attributes:
        code: Code of the error.
        kind: Name of its class in ``subgraphkit.errors``.
        text: What happened, as a user would be told.
        printed: The end of what the contender printed.
    """

    def __init__(self, code: str, kind: str, text: str, printed: str = "") -> None:
        super().__init__(text)
        self.code, self.kind, self.text, self.printed = code, kind, text, printed

    @classmethod
    def of(cls, error: SubgraphkitError, printed: str = "") -> Self:
        """Word an error of ours."""
        return cls(error.code, type(error).__name__, str(error), printed)


class Contender:
    """A child process that has bound a model on a selection of backends.

    Args:
        selection: What it is called in messages.
        job: What to do, see ``bench_child``; JSON-able.
        folder: A folder for its files.
        threads: How many threads libraries are told to use, or None.

    Thread-safety: used by one thread.
    """

    def __init__(
        self, selection: str, job: Mapping[str, Any], folder: Path, threads: int | None
    ) -> None:
        self._selection = selection
        file = folder / "job.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        variables = {} if threads is None else dict.fromkeys(_VARIABLES, str(threads))
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed on exit)
        self._child = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            child_command(_MODULE, [os.fspath(file)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=child_environment(variables),
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        # A thread, because a pipe cannot be read with a time limit everywhere.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        if self._child.stdout is not None:
            for line in self._child.stdout:
                self._answers.put(line)
        self._answers.put("")

    def ask(self, what: Mapping[str, Any] | None, doing: str, timeout: float) -> dict[str, Any]:
        """Give a command and wait for the answer; None only waits.

        Args:
            what: The command.
            doing: What it does, for messages, such as ``taking a turn``.
            timeout: After how many seconds the contender is stopped.

        Raises:
            Failed: The contender is out: an error of its own, a crash (SGK320), no answer (SGK321).
        """
        if what is not None and self._child.stdin is not None:
            with suppress(BrokenPipeError):  # what became of it is told below
                self._child.stdin.write(json.dumps(what) + "\n")
                self._child.stdin.flush()
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            stop_child(self._child)
            raise Failed.of(hung(self._selection, doing, timeout), self._last_words()) from None
        if not line:
            code = self._child.wait()
            raise Failed.of(crashed(self._selection, doing, code), self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise Failed(**answer["failed"], printed=self._last_words())
        return answer

    def _last_words(self) -> str:
        self._printed.seek(0)
        return self._printed.read().decode("utf-8", errors="replace")[-_LAST_OUTPUT:]

    def __enter__(self) -> Self:
        """Return the contender, which is stopped on leaving."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tell the child that there is nothing more to do, and see it off."""
        with suppress(BrokenPipeError):
            if self._child.stdin is not None:
                self._child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE_AT_THE_END if kind is None else 0)
        with suppress(ProcessLookupError):  # whatever it started keeps its pipes open
            stop_child(self._child)
        self._child.wait()
        self._reader.join(_PATIENCE_AT_THE_END)
        if self._child.stdout is not None and not self._reader.is_alive():
            self._child.stdout.close()
        self._printed.close()
