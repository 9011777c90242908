"""Build failures: one region is divided anew, everything else stays."""

import pytest

from subgraphkit.backend.refusal import Refusal
from subgraphkit.errors import ConfigError, SelectorContractError
from subgraphkit.partitioning import Partitioning, partition
from tests.unit.partitioning.pass_support import graph_of, taking

FAILED = Refusal("compile_failed", "the compiler gave up")
ROWS = [
    ("Exp", ["x"], ["a"]),
    ("Neg", ["a"], ["b"]),
    ("Exp", ["b"], ["c"]),
    ("Cos", ["c"], ["d"]),
    ("Exp", ["d"], ["e"]),
    ("Neg", ["e"], ["f"]),
]


def divide() -> Partitioning:
    backends = [taking("Exp Neg", "one"), taking("Neg", "two"), taking("*", "rest")]
    return partition(graph_of(ROWS, ["f"]), backends)


def test_a_node_given_back_goes_to_the_next_backend_and_the_rest_stays() -> None:
    before = divide()
    after = before.repartition("one_0", {1: FAILED})
    assert [(one.id, one.nodes) for one in after.subgraphs] == [
        ("one_0", (0,)),
        ("two_1", (1,)),
        ("one_2", (2,)),
        ("rest_3", (3,)),
        ("one_4", (4, 5)),
    ]
    assert after.subgraph("one_4") is before.subgraph("one_4")
    assert after.subgraph("rest_3") is before.subgraph("rest_3")
    assert [tuple(one) for one in after.refusals[1]] == [("one", "main", FAILED)]
    assert after.claim_of(after.subgraph("two_1")).backend.name == "two"


def test_the_partitioning_it_was_made_from_does_not_change() -> None:
    before = divide()
    text = before.report(details=True)
    before.repartition("one_0", {1: FAILED})
    assert before.report(details=True) == text
    assert 1 not in before.refusals


def test_a_whole_subgraph_can_be_given_back() -> None:
    after = divide().give_back("one_0", FAILED)
    assert [(one.id, one.nodes) for one in after.subgraphs][:3] == [
        ("rest_0", (0,)),
        ("two_1", (1,)),
        ("rest_2", (2,)),
    ]


def test_an_unknown_subgraph_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"SGK123.*no subgraph 'rest_33'; did you mean 'rest_3'"):
        divide().repartition("rest_33", {1: FAILED})


def test_a_node_of_another_subgraph_is_the_backends_fault() -> None:
    with pytest.raises(SelectorContractError, match=r"SGK122.*gave back node 3, which is not in"):
        divide().repartition("one_0", {3: FAILED})


def test_a_reason_that_is_no_refusal_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"SGK123.*because of 'slow', expected a Refusal"):
        divide().repartition("one_0", {1: "slow"})  # type: ignore[dict-item]
