"""``subgraphkit author test``: tables, the document, exit codes."""

import json

import pytest

from subgraphkit.cli.commands import test
from subgraphkit.testing.cases import LEVELS

pytestmark = pytest.mark.usefixtures("ready_children")

FAULTY = "tests.faulty"


@pytest.fixture(autouse=True)
def no_progress(clean_surroundings, monkeypatch):
    """Have standard error to ourselves, however long a run takes."""
    del clean_surroundings
    monkeypatch.setenv("SUBGRAPH_PROGRESS", "none")


def test_the_levels_of_the_command_are_those_of_the_kit():
    assert list(test._LEVELS) == list(range(len(LEVELS)))


def test_a_backend_that_is_right_passes_with_tables_and_headline(cli):
    ended = cli("author", "test", "numpy", "--level", "2", "--only", "L2/c*")
    assert ended.code == 0
    assert ended.out.splitlines()[0].split()[:2] == ["LEVEL", "RIGHT"]
    assert ended.out.splitlines()[-1] == (
        "numpy: level 2 passed; claimed and right: 3 of 3 offered (100.0 %)"
    )
    assert ended.err == ""


def test_a_backend_that_is_wrong_fails_and_the_finding_is_told(cli):
    ended = cli("author", "test", f"{FAULTY}:WrongValue", "--only", "L2/one_node")
    assert ended.code == 1
    assert "fail_value  L2/one_node  output 0:" in ended.out
    named, again = ended.err.splitlines()[-2:]
    assert named.startswith("fail_value L2/one_node: output 0: 4 of 4 elements differ")
    assert again == f"  again: subgraphkit author test {FAULTY}:WrongValue --only L2/one_node"


def test_the_document_has_every_case(cli):
    ended = cli("author", "test", "loopback", "--only", "L2/t*", "--json")
    assert ended.code == 0
    document = json.loads(ended.out)
    assert document["schema"] == "subgraphkit.test/1"
    data = document["data"]
    assert data["schema"] == "subgraphkit.conformance/1"
    assert (data["right"], data["offered"], data["passed"]) == (3, 3, True)
    assert {one["case"] for one in data["findings"]} == {
        "L2/two_roots",
        "L2/text",
        "L2/time_is_linear",
    }
