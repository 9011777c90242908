"""The parent's end of a contender: start it, ask it, survive it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from subgraphkit.comparing.benchmark import Schedule
from subgraphkit.comparing.messages import crashed, hung
from subgraphkit.processes.answering_child import AnsweringChild, NoAnswer

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


class Contender:
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
        file = folder / "job.json"
        job = {**job, "selection": selection, "results": os.fspath(self.results)}
        file.write_text(json.dumps(job), encoding="utf-8")
        threads = schedule.threads
        variables = {} if threads is None else dict.fromkeys(_VARIABLES, str(threads))
        self._process = AnsweringChild(_MODULE, [os.fspath(file)], variables)

    @property
    def label(self) -> str:
        """Its backends, as given or, where nothing was, as it has told."""
        return self._selection or str(self.facts.get("selection", self._called))

    def ask(self, what: Mapping[str, Any] | None, doing: str) -> dict[str, Any]:
        """Give a command and wait for the answer; None only waits."""
        if self.failed:
            return {}
        if what is not None:
            self._process.tell(what)
        try:
            answer: dict[str, Any] = self._process.answer(self._seconds)
        except NoAnswer as gone:
            if gone.code is None:
                error = hung(self._called, doing, self._seconds)
            else:
                error = crashed(self._called, doing, gone.code)
            failed = {"code": error.code, "kind": type(error).__name__, "text": str(error)}
            answer = {"failed": failed}
        if "failed" in answer:
            self.failed = {**answer["failed"], "printed": self._process.printed(_LAST_OUTPUT)}
            return {}
        return answer

    def __enter__(self) -> Self:
        """Return the contender, which is stopped on leaving."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Tell the child that there is nothing more to do, and see it off."""
        self._process.stop(_PATIENCE_AT_THE_END if kind is None else 0)
