"""One case carried out, and judged by the declarations of the backend's author."""

import time
from dataclasses import replace

from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.subject import Stopped, Subject

__all__ = ["carry_out", "is_declared"]


def carry_out(case: Case, subject: Subject) -> Finding:
    """Run a case to its end, whatever the backend raises; ``KeyboardInterrupt`` alone passes."""
    started = time.perf_counter()
    found = case.signed(_judged(case, subject))
    return replace(found, seconds=round(time.perf_counter() - started, 6))


def is_declared(case: Case, subject: Subject) -> bool:
    """Say whether the author has declared something about a case, or failed to declare anything."""
    try:
        declared = subject.declarations
    except (Exception, SystemExit):  # noqa: BLE001 (whatever a plugin raises)
        return True
    return bool(declared.skipped(case.id, case.needs) or declared.expected_failure(case.id))


def _judged(case: Case, subject: Subject) -> Finding:
    # The level of static checks is about backends that cannot even be loaded.
    if not case.level:
        return _tried(case, subject)
    try:
        declared = subject.declarations
    except SubgraphkitError as error:
        return Finding(Outcome.FAIL_PROBE, str(error))
    except Exception as error:  # noqa: BLE001 (whatever a plugin raises)
        return Finding(Outcome.FAIL_CONTRACT, f"conformance() raised {_shown(error)}")
    reason = declared.skipped(case.id, case.needs)
    if reason:
        return Finding(Outcome.SKIP, reason)
    found = _tried(case, subject)
    expected = declared.expected_failure(case.id)
    return _against(expected, found) if expected else found


def _against(expected: str, found: Finding) -> Finding:
    """Hold a finding against the declaration that the case goes wrong."""
    if found.outcome in {Outcome.SKIP, Outcome.REFUSED}:
        return found
    if found.is_wrong:
        return replace(found, outcome=Outcome.XFAIL, detail=f"{expected} ({found.detail})")
    text = f"declared to go wrong ({expected}), and it did not: {found.outcome.value}"
    return replace(found, outcome=Outcome.FAIL_CONTRACT, detail=text)


def _tried(case: Case, subject: Subject) -> Finding:
    try:
        return case.run(subject)
    except Stopped as stop:
        return stop.finding
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever a plugin raises)
        return Finding(Outcome.FAIL_CONTRACT, _shown(error))


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
