"""Atomic groups, sizes, reviews and rounds."""

import random

import pytest

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector
from subgraphkit.ir import Subgraph
from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import (
    DescribedProperty,
    backend,
    graph_of,
    regions,
    selecting,
    taking,
)

CHAIN = [(op, [f"v{i}"], [f"v{i + 1}"]) for i, op in enumerate(["Exp", "Neg", "Exp", "Exp"])]


def with_groups(operators, *groups, **settings):
    made = taking(operators, "one", groups=lambda graph: groups, **settings)
    return partition(graph_of(CHAIN, ["v4"]), [made, taking("*", "rest")])


def reasons(found, node):
    return [str(one.refusal) for one in found.refusals.get(node, ())]


def test_a_group_stays_out_as_a_whole_if_one_node_is_refused():
    found = with_groups("Exp", [1, 2])
    assert regions(found, "one") == [[0], [3]]
    (reason,) = reasons(found, 2)
    assert reason.startswith("group: stays together with #1 Neg, which was refused")
    assert reason.endswith("(op_unsupported: operator Neg is not in the list)")


def test_a_group_that_cannot_stay_together_stays_out():
    found = with_groups("Exp", [0, 2])
    assert regions(found, "one") == [[3]]
    assert reasons(found, 0) == [
        "group: the group cannot stay together: a path leaves it and comes back"
    ]


def test_a_group_claimed_in_part_is_left_out_by_the_next():
    first = taking("Neg", "first")
    second = taking("Exp", "second", groups=lambda graph: [[1, 2]])
    found = partition(graph_of(CHAIN, ["v4"]), [first, second, taking("*", "rest")])
    assert regions(found, "second") == [[0], [3]]
    assert reasons(found, 2)[-1] == "group: another node of the group was claimed before"


def test_a_group_larger_than_the_maximum_stays_out():
    found = with_groups("*", [0, 1, 2], max_nodes=2)
    assert regions(found, "one") == [[3]]
    assert reasons(found, 1) == [
        "too_large: an atomic group has 3 nodes, the property's maximum is 2"
    ]


def test_a_review_may_refuse_a_region_with_a_reason():
    seen: list[Subgraph] = []

    def accept(subgraph):
        seen.append(subgraph)
        return len(subgraph.nodes) > 1 or Refusal("unprofitable", "not worth it")

    made = taking("Exp", "one", accept=accept)
    found = partition(graph_of(CHAIN, ["v4"]), [made, taking("*", "rest")])
    assert regions(found, "one") == [[2, 3]]
    assert reasons(found, 0) == ["unprofitable: not worth it"]
    assert {one.inputs for one in seen} == {("v0",), ("v2",)}
    assert all(one.backend == "one" for one in seen)


def test_a_bare_no_of_a_review_is_reported_as_not_accepted():
    made = taking("*", "one", accept=lambda subgraph: False)
    found = partition(graph_of(CHAIN, ["v4"]), [made, taking("*", "rest")])
    assert reasons(found, 0) == ["not_accepted: the review did not accept the region of 4 nodes"]


def test_nodes_of_a_rejected_region_go_to_the_next_property_of_the_backend():
    large, small = (
        DescribedProperty(lambda g: OpSelector(g, ["Exp"])),
        DescribedProperty(lambda g: OpSelector(g, ["Exp", "Neg"])),
    )
    large.min_nodes, small.name = 2, "second"
    found = partition(graph_of(CHAIN, ["v4"]), [backend("one", large, small), taking("*", "rest")])
    assert [(one.property_name, one.nodes) for one in found.subgraphs] == [
        ("second", (0, 1)),
        ("main", (2, 3)),
    ]
    assert [one.property for one in found.refusals[0]] == ["main"]


@pytest.mark.parametrize("seed", range(200))
def test_random_groups_are_in_one_region_or_none(seed):
    dice = random.Random(seed)
    rows = []
    for at in range(12):
        inputs = [f"v{dice.randrange(-1, at)}".replace("v-1", "x") for _ in range(2)]
        rows.append((dice.choice(["Add", "Mul"]), inputs, [f"v{at}"]))
    groups = [dice.sample(range(12), dice.randint(1, 3)) for _ in range(3)]
    stateful = dice.random() < 0.5

    class Taking(OpSelector):
        stateless = not stateful

    mode = dice.choice(["any", "connected"])
    made = selecting(
        lambda graph: Taking(graph, dice.choice([["Add"], ["Add", "Mul"]])),
        connectivity=mode,
        groups=lambda graph: groups,
    )
    found = partition(graph_of(rows, ["v11"]), [made, taking("*", "rest")])
    home = {node: one.id for one in found.subgraphs for node in one.nodes}
    claimed = {node for region in regions(found, "fake") for node in region}
    for group in groups:
        homes = {home[node] for node in group}
        assert len(homes) == 1 or not claimed & set(group)
