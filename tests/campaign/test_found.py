"""Every failure that the campaign has found, minimised: none of them may come back."""

import json
from contextlib import ExitStack
from functools import cache

import pytest

from tests.campaign.attacks import ATTACKS
from tests.campaign.children import Trials
from tests.campaign.engine import FOUND

FILES = sorted(FOUND.glob("*.json"))


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory):
    """Carry cases out, in the same children for each attack on each backend."""
    scratch = tmp_path_factory.mktemp("found")

    @cache
    def trials(attack, backend):
        children.callback((made := Trials(ATTACKS[attack], backend, scratch)).stop)
        return made

    with ExitStack() as children:
        yield lambda kept: trials(kept["attack"], kept["backend"]).only({"case": kept["case"]})


@pytest.mark.filterwarnings("ignore:what is fed to subgraph")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_was_found_once_is_mended(path, carried_out):
    outcome = carried_out(json.loads(path.read_text()))
    assert not outcome.failed, f"{outcome.kind} {outcome.key}: {outcome.text}"
