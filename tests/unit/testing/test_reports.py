"""What findings come to: headline, levels, operators."""

from typing import Any

import pytest

from subgraphkit.testing import Finding, Outcome, Report
from tests.house.tree import ROOT
from tests.scripts import load_script


def found(case, outcome, **more):
    return Finding(outcome, case=case, level=int(case[1]), **more)  # type: ignore[arg-type]


STATIC = found("L0/import", Outcome.PASSED, offers=False)
CONV = {"operator": "Conv", "version": 17, "dtypes": ("float32",)}
RIGHT = found("L3/Conv/plain/alone", Outcome.RIGHT, **CONV)
WRONG = found("L3/Conv/dilated/alone", Outcome.FAIL_VALUE, **CONV)
UNCLAIMED = found("L3/Loop/plain/alone", Outcome.UNCLAIMED, operator="Loop", version=17)


def test_every_outcome_either_counts_as_wrong_or_does_not():
    wrong = {outcome.value for outcome in Outcome if outcome.is_wrong}
    assert wrong == {
        *(
            f"fail_{stage}"
            for stage in ["probe", "select", "compile", "run", "shape", "dtype", "value"]
        ),
        "fail_alias",
        "fail_contract",
        "CRASH",
        "HANG",
    }
    assert Outcome.wrong_at("shape") is Outcome.FAIL_SHAPE


def test_a_backend_that_claims_nothing_passes_no_level_that_offers_nodes():
    report = Report("idle", [STATIC, UNCLAIMED])
    assert report.level_passed == 0
    assert not report.is_passed
    assert report.headline.endswith(
        "0 of 1 offered (0.0 %); it claims nothing, which scores nothing"
    )


def test_a_level_of_which_too_little_was_tried_asks_for_time():
    tried = found("L4/simple/test_a", Outcome.UNCLAIMED)
    (level,) = Report("mine", [tried, found("L4/real/test_b", Outcome.UNTRIED)]).levels
    assert (level.result, "--within" in level.advice) == ("nothing claimed", True)


def test_a_level_in_which_nothing_was_claimed_is_not_passed_and_says_what_to_do():
    apart = found("L1/properties", Outcome.PASSED, offers=False)
    idle = found("L1/operator/repeated_runs", Outcome.UNCLAIMED)
    above = found("L2/chain", Outcome.RIGHT)
    report = Report("idle", [STATIC, apart, idle, above])
    assert (report.level_passed, report.is_passed) == (0, False)
    document = report.to_dict()["levels"][1]
    assert document["result"] == "nothing claimed"
    assert "subgraphkit plan MODEL --backend NAME" in document["advice"]
    assert report.level_rows()[1][-1] == "nothing claimed"


def test_a_level_that_was_wholly_left_out_passes_nothing_and_stops_nothing():
    left_out = found("L1/options", Outcome.SKIP, detail="declared")
    assert not Report("mine", [left_out]).is_passed
    report = Report("mine", [STATIC, left_out, found("L2/chain", Outcome.RIGHT)])
    assert (report.level_passed, report.is_passed) == (2, True)
    assert report.to_dict()["levels"][1]["result"] == "nothing offered"


def test_one_wrong_case_fails_its_level_and_all_above():
    above = found("L7/many_runs", Outcome.PASSED, offers=False)
    report = Report("mine", [above, WRONG, RIGHT, STATIC])
    assert (report.level_passed, report.is_passed) == (0, False)
    assert [one.case for one in report.wrong] == ["L3/Conv/dilated/alone"]


def test_a_sample_is_said_to_be_one():
    untried = found("L3/Relu/plain/alone", Outcome.UNTRIED)
    report = Report("mine", [STATIC, RIGHT, UNCLAIMED, untried], seed=7)
    assert report.is_passed
    assert report.level_rows()[1][-1] == "passed, 67 % tried"
    assert report.headline.endswith("; a sample of 3 of 4 cases, seed 7; --all for the rest")


def test_a_level_of_which_less_than_60_percent_was_tried_is_passed_in_part():
    untried = found("L3/Relu/plain/alone", Outcome.UNTRIED)
    report = Report("mine", [STATIC, RIGHT, untried])
    assert (report.is_passed, report.is_passed_in_part, report.level_passed) == (False, True, 0)
    assert report.level_rows()[1][-1] == "passed in part, 50 % tried"
    assert report.headline.startswith(
        "mine: level 0 passed; level 3 passed in part, 50 % tried; claimed and right"
    )
    assert "--within SECONDS" in report.levels[1].advice
    assert not Report("mine", [STATIC, RIGHT, WRONG, untried]).is_passed_in_part


def test_a_level_that_was_cut_short_is_not_passed():
    operator = found("L1/operator/repeated_runs", Outcome.RIGHT)
    report = Report("mine", [STATIC, operator], cut_short="ended by SIGTERM")
    assert (report.level_passed, report.is_passed) == (0, False)
    assert report.level_rows()[1][-1] == "cut short"


def test_operators_are_listed_with_what_was_right():
    pytest.importorskip("sphinx")
    conv: dict[str, Any] = {"operator": "Conv", "version": 17, "dtypes": ("float32",)}
    half = conv | {"version": 22, "dtypes": ("float16",)}
    found = [
        Finding(Outcome.RIGHT, **conv),
        Finding(Outcome.FAIL_VALUE, **conv),
        Finding(Outcome.SKIP, **conv),
        Finding(Outcome.UNCLAIMED, operator="Loop", version=17),
        Finding(Outcome.RIGHT, **half),
    ]
    text = load_script(ROOT / "docs/_extensions/support_table.py").table_of(
        {"findings": [one.to_dict() for one in found]}
    )
    assert text.splitlines()[1:] == ["Conv,,17 22,float16 float32,3,3,2,1", "Loop,,,,1,0,0,0"]
