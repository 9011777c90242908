"""The parent's end of a contender: start it, ask it, survive it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from subgraphkit.comparing.messages import crashed, hung
from subgraphkit.errors import SubgraphkitError
from subgraphkit.processes.answering_child import AnsweringChild, NoAnswer

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
        self._process = AnsweringChild(_MODULE, [os.fspath(file)], variables)

    def ask(self, what: Mapping[str, Any] | None, doing: str, timeout: float) -> dict[str, Any]:
        """Give a command and wait for the answer; None only waits.

        Args:
            what: The command.
            doing: What it does, for messages, such as ``taking a turn``.
            timeout: After how many seconds the contender is stopped.

        Raises:
            Failed: The contender is out: an error of its own, a crash (SGK320), no answer (SGK321).
        """
        if what is not None:
            self._process.tell(what)
        try:
            answer: dict[str, Any] = self._process.answer(timeout)
        except NoAnswer as gone:
            if gone.code is None:
                raise self._failed(hung(self._selection, doing, timeout)) from None
            raise self._failed(crashed(self._selection, doing, gone.code)) from None
        if "failed" in answer:
            raise Failed(**answer["failed"], printed=self._process.printed(_LAST_OUTPUT))
        return answer

    def _failed(self, error: SubgraphkitError) -> Failed:
        return Failed.of(error, self._process.printed(_LAST_OUTPUT))

    def __enter__(self) -> Self:
        """Return the contender, which is stopped on leaving."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Tell the child that there is nothing more to do, and see it off."""
        self._process.stop(_PATIENCE_AT_THE_END if kind is None else 0)
