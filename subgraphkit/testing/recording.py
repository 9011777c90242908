"""Record of what a run finds, in a file that is whole at every instant."""

import json
import time
from math import inf
from pathlib import Path
from typing import Final

from subgraphkit.storing.files import write_output
from subgraphkit.testing.cases import Finding
from subgraphkit.testing.checking import subject_of
from subgraphkit.testing.report import RUNNING, Report
from subgraphkit.texts import printable

_LEAST_WAIT: Final = 2.0
_WRITING: Final = 0.05
"""The part of the time that writing what was found may take."""


class Record:
    """The findings of a run, written every few seconds.

    Raises:
        ConfigError: The backend cannot be described, or the selection not be read (SGK310, SGK107).
        BackendNotFoundError: No backend of that name is installed (SGK101, SGK102).

    Thread-safety: to be used by one thread.
    """

    def __init__(self, backend: str, path: Path | None, seed: int = 0) -> None:
        self._backend, self._path, self._seed = backend, path, seed
        subject_of(backend, {})  # a backend that is not there is told before anything is tried
        self._findings: list[Finding] = []
        self._seconds: dict[int, float] = {}
        self._since, self._saved = time.monotonic(), -inf
        self._wait = _LEAST_WAIT

    def add(self, finding: Finding) -> None:
        """Add a finding, which is written soon.

        Raises:
            OSError: The file cannot be written.
        """
        now = time.monotonic()
        taken = self._seconds.get(finding.level, 0.0) + now - self._since
        self._seconds[finding.level], self._since = taken, now
        self._findings.append(finding)
        if now - self._saved >= self._wait:
            self.save(RUNNING)

    def report(self, cut_short: str = "") -> Report:
        """Return what was found."""
        return Report(
            self._backend,
            self._findings,
            seconds=self._seconds,
            seed=self._seed,
            cut_short=cut_short,
        )

    def save(self, cut_short: str = "") -> None:
        """Write the file in one step.

        Raises:
            OSError: The file cannot be written.
        """
        started = time.monotonic()
        report = self.report(printable(cut_short))
        if self._path is not None:
            text = json.dumps(report.to_dict(), indent=2) + "\n"
            write_output(self._path, text.encode(errors="backslashreplace"))
        self._saved = time.monotonic()
        self._wait = max(_LEAST_WAIT, (self._saved - started) / _WRITING)
