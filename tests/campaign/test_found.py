"""Every failure that the campaign has found, minimised: none of them may come back."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.campaign.attacks import ATTACKS
from tests.campaign.children import Child, judge_child, trial_child
from tests.campaign.engine import FOUND
from tests.campaign.trials import Outcome

FILES = sorted(FOUND.glob("*.json"))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Outcome]]:
    """Carry all of them out, in one child for each attack on each backend."""
    scratch = tmp_path_factory.mktemp("found")
    children: dict[tuple[str, str], tuple[Child, Child]] = {}
    yield {path.name: _outcome(path, scratch, children) for path in FILES}
    for both in children.values():
        for child in both:
            child.stop()


def _outcome(
    path: Path, scratch: Path, children: dict[tuple[str, str], tuple[Child, Child]]
) -> Outcome:
    kept = json.loads(path.read_text())
    key = kept["attack"], kept["backend"]
    if key not in children:
        attack = ATTACKS[kept["attack"]]
        children[key] = trial_child(attack, key[1], scratch), judge_child(attack, scratch)
    trial, judge = children[key]
    outcome = trial.only({"case": kept["case"]})
    if outcome.answers:
        verdict = judge.only({"case": kept["case"], "answers": outcome.answers})
        return verdict if verdict.kind == "wrong" else outcome
    return outcome


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_was_found_once_is_mended(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    outcome = outcomes[path.name]
    assert not outcome.failed, f"{outcome.kind} {outcome.key}: {outcome.text}"
