"""A test of the tests: the kit catches every fault at its stage, and finds none where none is."""

from collections import Counter

import pytest

from subgraphkit.backend import Backend
from subgraphkit.testing import Report, check_backend
from subgraphkit.testing.faulty import FAULTS, SOUND, Fault

SECONDS = 8.0
"""What a case may take here; only the backend that sleeps needs so long."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.backend.__name__)
def test_the_kit_catches_a_faulty_backend_at_its_stage(fault: Fault) -> None:
    level = int(fault.case[1])
    (finding,) = check_backend(fault.backend, level, only=fault.case, timeout_seconds=SECONDS)
    assert finding.outcome is fault.outcome, finding
    assert finding.case == fault.case
    assert finding.detail or not finding.is_wrong
    assert not Report(fault.backend.__name__, [finding]).is_passed


@pytest.mark.parametrize("backend", SOUND, ids=lambda backend: backend.__name__)
@pytest.mark.parametrize(("only", "last"), [("*", 2), ("L6/*", 7), ("L7/*", 7)])
def test_the_kit_finds_nothing_wrong_with_what_the_faulty_ones_are_made_of(
    backend: type[Backend], only: str, last: int
) -> None:
    findings = list(check_backend(backend, last, only=only))
    assert [finding for finding in findings if finding.is_wrong] == []
    assert len({finding.case for finding in findings}) == len(findings)
    counts = Counter(finding.level for finding in findings)
    assert counts.keys() == ({0, 1, 2} if only == "*" else {int(only[1])})
    assert min(counts.values()) >= 5
