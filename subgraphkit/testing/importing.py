"""Changes that importing a backend makes to a process that has imported nothing of it yet.

``python -m subgraphkit.testing.importing SUBJECT`` imports and probes the backend described by a
JSON document and writes what it found as another.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from subgraphkit.backend.contract import ProbeResult
from subgraphkit.finding.listing import list_backends
from subgraphkit.processes.child_process import how_it_ended, run_child
from subgraphkit.testing.process_state import changes, output_kept, process_state
from subgraphkit.testing.subject import Subject

__all__ = ["ImportFindings", "import_in_child", "main"]

_MODULE: Final = "subgraphkit.testing.importing"
_LAST_OUTPUT: Final = 600


@dataclass(frozen=True, slots=True)
class ImportFindings:
    """The findings of a new process about a backend.

    Attributes:
        crash: How the process ended, if it did not end well.
        hang: Whether it had to be stopped.
        error: Why the backend could not be loaded, or empty.
        seconds: Processor time that loading it took.
        listing: Modules that listing the backends imported from the backend's package.
        changed: What importing it changed in the process.
        printed: What it wrote to standard output or standard error meanwhile.
        probe_error: What its probe raised, or returned in place of a ``ProbeResult``.
        probe_seconds: How long the probe took.
        problems: Why it cannot run here.
    """

    crash: str = ""
    hang: bool = False
    error: str = ""
    seconds: float = 0.0
    listing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    printed: str = ""
    probe_error: str = ""
    probe_seconds: float = 0.0
    problems: tuple[str, ...] = ()


def import_in_child(subject: Subject, seconds: float) -> ImportFindings:
    """Import and probe a backend in a new process, and let that process end by itself."""
    ended = run_child(_MODULE, [json.dumps(subject.described())], seconds)
    if ended.code is None:
        return ImportFindings(hang=True)
    if ended.code or not ended.answer:
        words = ended.printed.strip()[-_LAST_OUTPUT:]
        return ImportFindings(
            crash=how_it_ended(ended.code) + (f"; it printed: {words}" if words else "")
        )
    found: dict[str, Any] = json.loads(ended.answer)
    found |= {key: tuple(found[key]) for key in ("listing", "changed", "problems") if key in found}
    return ImportFindings(**found)


def main(arguments: list[str]) -> int:
    """Import and probe the backend that the first argument describes; write the findings."""
    subject = Subject(**json.loads(arguments[0]))
    answer = os.dup(1)
    facts = _facts(subject)
    with os.fdopen(answer, "w", encoding="utf-8") as stream:
        json.dump(facts, stream)
    return 0


def _facts(subject: Subject) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if subject.installed:
        facts["listing"] = _imported_by_listing(subject)
    before = {**process_state(), "the threads": _threads()}
    printed: list[str] = []
    with output_kept(printed.append):
        started = time.process_time()
        try:
            backend: Any = subject.backend_class
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
            return {**facts, "error": f"{type(error).__name__}: {error}"}
        facts["seconds"] = time.process_time() - started
    after = {**process_state(), "the threads": _threads()}
    facts["printed"] = "".join(printed)
    facts["changed"] = changes(before, after)
    return {**facts, **_probed(backend)}


def _imported_by_listing(subject: Subject) -> list[str]:
    records = [one for one in list_backends() if one.name == subject.installed]
    packages = {one.entry_point.partition(":")[0].partition(".")[0] for one in records}
    return sorted(name for name in sys.modules if name.partition(".")[0] in packages)


def _threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


def _probed(backend: Any) -> Mapping[str, Any]:
    started = time.perf_counter()
    with output_kept(lambda _: None):
        try:
            found = backend.probe()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
            return {"probe_error": f"it raised {type(error).__name__}: {error}"}
    seconds = time.perf_counter() - started
    if not isinstance(found, ProbeResult):
        return {"probe_error": f"it returned {found!r:.80}, expected a ProbeResult"}
    problems = list(found.problems) or ["it gives no reason"]
    return {"probe_seconds": seconds, "problems": [] if found.available else problems}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
