"""A test of the tests: the kit catches every fault at its stage, and finds none where none is."""

import csv
import io
import warnings
from functools import lru_cache

import pytest

from subgraphkit.testing import Outcome, Report, Subject, check_backend
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from tests import faulty
from tests.faulty import FAULTS, SOUND
from tests.faulty.corruptions import CORRUPTIONS

pytestmark = pytest.mark.usefixtures("ready_children")

SECONDS = 8.0
"""What a case may take here; only the backend that sleeps needs so long."""


HARMLESS = ("L1/properties", "L1/answers", "L1/stateless", "L1/operator/", "L2/", "L5/", "L6/")
"""Cases of faults that end neither the process nor the peace of the tests after them."""

APART = ("L0/", "L1/keeps_to_one_thread", "L1/leaves_the_process_alone")
"""Cases that start a process of their own, whatever becomes of it."""


@lru_cache
def _cases(level):
    return cases_of_level(level, Subject("numpy"))


def _finding(name):
    """Carry the case out: here, where that does no harm, which spares starting a child."""
    fault = FAULTS[name]
    level = int(fault.case[1])
    ends = fault.outcome in {Outcome.CRASH, Outcome.HANG} or name == "ExitsInRun"
    if fault.case.startswith(APART) or (fault.case.startswith(HARMLESS) and not ends):
        subject = Subject(target=f"{faulty.__name__}:{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in a child
            return carry_out(_cases(level)[fault.case], subject)
    backend = getattr(faulty, name)
    (finding,) = check_backend(backend, level, only=fault.case, timeout_seconds=SECONDS)
    return finding


@pytest.mark.parametrize("name", FAULTS)
def test_the_kit_catches_a_faulty_backend_at_its_stage(name):
    fault, finding = FAULTS[name], _finding(name)
    assert finding.outcome is fault.outcome, finding
    assert finding.case == fault.case
    assert finding.detail or not finding.is_wrong
    assert not Report(name, [finding]).is_passed


def test_the_page_lists_every_backend_that_computes_wrongly(golden):
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("backend", "what it does", "caught by"))
    for name, one in CORRUPTIONS.items():
        writer.writerow((name, f"{one.text} ({', '.join(one.takes.split())})", one.case))
    golden("faults", stream.getvalue())


@pytest.mark.parametrize("level", [0, 1, 2, 6, 7])
def test_the_kit_finds_nothing_wrong_with_what_the_faulty_ones_are_made_of(level):
    backend = SOUND[level == 6]  # what stores is made of what does not
    subject = Subject(target=f"{backend.__module__}:{backend.__qualname__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in a child
        findings = [carry_out(case, subject) for case in _cases(level).values()]
    assert [finding for finding in findings if finding.is_wrong] == []
    assert {finding.case for finding in findings} == set(_cases(level))
    assert len(findings) >= 5
