"""Every official case our rules claim is taken by parser and builder, or listed with its cause."""

import json
import random
from pathlib import Path

import pytest

from backends.tensorrt.tests.official_claims import judge
from backends.tensorrt.tests.tensorrt_models import needs_rtx
from subgraphkit.testing.official_cases import official_cases

pytestmark = needs_rtx

EXCEPTIONS = json.loads((Path(__file__).parent / "data" / "claim_exceptions.json").read_text())


def test_what_our_rules_claim_is_taken_and_built(pytestconfig: pytest.Config) -> None:
    cases = official_cases("node")
    wanted = min(pytestconfig.getoption("--claimed-cases"), len(cases))
    chosen = random.Random(5).sample(cases, wanted)
    chosen += [case for case in cases if case.name in EXCEPTIONS and case not in chosen]
    verdicts = {case.name: judge(case) for case in chosen}
    problems = {name: verdict.problem for name, verdict in verdicts.items() if verdict.problem}
    assert sum(verdict.claimed for verdict in verdicts.values()) > wanted // 3
    assert {name: problem for name, problem in problems.items() if name not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(problems), "listed, and taken all the same"
