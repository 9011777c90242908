"""The parent's end of a candidate: start it, ask it, survive it."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from subgraphkit.comparing.benchmark import Schedule
from subgraphkit.comparing.measured_candidate import MeasuredContender
from subgraphkit.comparing.messages import crashed, hung
from subgraphkit.errors import SubgraphkitError
from subgraphkit.processes import Child, NoAnswer

_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TVM_NUM_THREADS",
)
"""What libraries read to learn how many threads to use, before they start any."""

_PATIENCE_AT_THE_END: Final = 10.0


class BenchEntry:
    """A child process that binds a model on a selection of backends, and what is known of it.

    ``selection``: Its backends; None for what is configured.
    ``schedule``: How many threads libraries are told to use, and how long an answer may take.

    Attributes:
        turns: What it has told of each of its turns.
        failed: Why it is out, in the words of ``Measured``; empty unless it is.

    Thread-safety: used by one thread.
    """

    def __init__(
        self, selection: str | None, job: Mapping[str, Any], folder: Path, schedule: Schedule
    ) -> None:
        self.results = folder / "results"
        self.facts: dict[str, Any] = {}
        self.turns: list[dict[str, Any]] = []
        self.failed: dict[str, Any] = {}
        self._called = selection or "as configured"
        self._selection, self._seconds = selection, schedule.timeout_seconds
        folder.mkdir()
        self._job = {**job, "selection": selection, "results": os.fspath(self.results)}
        threads = schedule.threads
        variables = {} if threads is None else dict.fromkeys(_VARIABLES, str(threads))
        self._process = Child(variables)

    @property
    def label(self) -> str:
        """Its backends, as given or, where nothing was, as it has told."""
        return self._selection or str(self.facts.get("selection", self._called))

    def bind(self) -> None:
        """Bind the model, and learn what is known before the first run."""
        self.ask(MeasuredContender, self._job, doing="binding the model")
        self.facts |= self.ask(MeasuredContender.facts, doing="binding the model")

    def ask(self, function: Callable[..., Any], *plain: Any, doing: str) -> dict[str, Any]:
        """Call a method of the candidate in its process; return what that returns."""
        if self.failed:
            return {}
        try:
            answer = self._process.call(function, *plain, timeout=self._seconds)
        except NoAnswer as gone:
            if gone.code is None:
                self._fail(hung(self._called, doing, self._seconds))
            else:
                self._fail(crashed(self._called, doing, gone.code))
        except SubgraphkitError as error:
            self._fail(error)
        else:
            return answer or {}
        return {}

    def _fail(self, error: SubgraphkitError) -> None:
        failed = {"code": error.code, "kind": type(error).__name__, "text": str(error)}
        self.failed = {**failed, "printed": self._process.printed()}

    def __enter__(self) -> Self:
        """Return the candidate, which is stopped on leaving."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the session, and see the process off."""
        if kind is None and not self.failed:
            with suppress(NoAnswer, SubgraphkitError):  # it is measured
                self._process.call(MeasuredContender.close, timeout=_PATIENCE_AT_THE_END)
        self._process.stop(_PATIENCE_AT_THE_END if kind is None else 0)
