"""Record of what a run finds, in a file that is whole at every instant, and kept for the next."""

import hashlib
import json
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Final

from subgraphkit import __version__
from subgraphkit.configuration.config import resolve
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.lazy import cached_property
from subgraphkit.storing.files import write_output
from subgraphkit.storing.folders import kept_folder
from subgraphkit.storing.kept_files import KeptFile
from subgraphkit.testing.cases import Finding
from subgraphkit.testing.checking import subject_of
from subgraphkit.testing.report import RUNNING, SCHEMA, Report
from subgraphkit.texts import printable

_LEAST_WAIT: Final = 2.0
_WRITING: Final = 0.05
"""The part of the time that writing what was found may take."""


class Record:
    """The findings of a run, written every few seconds.

    The findings of a backend and its version are kept in the user's cache as well: those of this
    run in the place of earlier ones of the same cases.

    Raises:
        ConfigError: The backend cannot be described, or the selection not be read (SGK310, SGK107).
        BackendNotFoundError: No backend of that name is installed (SGK101, SGK102).

    Thread-safety: to be used by one thread.
    """

    def __init__(self, backend: str, path: Path | None, seed: int = 0) -> None:
        self._backend, self._path, self._seed = backend, path, seed
        self._subject = subject_of(backend, {})
        self._findings: list[Finding] = []
        self._seconds: dict[int, float] = {}
        self._since, self._saved = time.monotonic(), -inf
        self._wait = _LEAST_WAIT

    @cached_property
    def version(self) -> str:
        """The distribution of the backend and its version; empty if it is not installed."""
        name = self._subject.get("installed")
        records = CATALOGUE.find(name, self._subject["distribution"]) if name else []
        return records[0].provider if records else ""

    @cached_property
    def _file(self) -> KeptFile | None:
        resolved = resolve()
        folder = kept_folder(resolved.cache_dir, "conformance") if resolved.cache else None
        if folder is None:
            return None
        # what another kit has found says nothing of the cases of this one
        words = json.dumps(
            [SCHEMA, __version__, self._subject, self.version], sort_keys=True, default=str
        )
        digest = hashlib.sha256(words.encode()).hexdigest()
        return KeptFile(folder / f"{digest}.findings", "findings of the conformance kit")

    @cached_property
    def kept(self) -> Mapping[str, Finding] | None:
        """What was found last, by case, before this run; None if nothing is kept."""
        kept = self._file.read() if self._file is not None else b""
        found = map(Finding.from_dict, json.loads(kept or "[]"))
        return {finding.case: finding for finding in found} if kept else None

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
        """Write the file in one step, and keep the findings.

        Raises:
            OSError: The file cannot be written.
        """
        started = time.monotonic()
        report = self.report(printable(cut_short))
        if self._path is not None:
            text = json.dumps(report.to_dict(), indent=2) + "\n"
            write_output(self._path, text.encode(errors="backslashreplace"))
        if self._file is not None and self._findings:
            both = {**(self.kept or {}), **{one.case: one for one in report.findings}}
            data = json.dumps([one.to_dict() for one in both.values()])
            self._file.write(data.encode(), durable=False)
        self._saved = time.monotonic()
        self._wait = max(_LEAST_WAIT, (self._saved - started) / _WRITING)
