"""Growing regions by questions: the order of the questions, convexity, filters, budgets."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from subgraphkit.backend.property import BindContext
from subgraphkit.backend.selector import SubgraphSelector
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.merger import RunningOrder
from subgraphkit.partitioning.algorithms.quotient import run_order
from subgraphkit.partitioning.claiming.ask import RefusalColumn
from subgraphkit.partitioning.claiming.claim import merge, open_pass
from subgraphkit.partitioning.claiming.graph import PartitionState
from subgraphkit.partitioning.claiming.grow import grow
from subgraphkit.partitioning.claims import Claim
from tests.property.partition_oracles import build, check_disjoint
from tests.unit.partitioning.pass_support import graph_of, selecting


@dataclass
class Rules:
    """What selectors answer: yes, unless told otherwise. Writes down what they are asked."""

    takes: Callable[[int], bool] = lambda unit: True
    keeps: Callable[[list[int]], list[int]] = list
    splittable: bool = True
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    filtered: list[list[int]] = field(default_factory=list)

    def answer(self, question, unit, other):
        self.asked.append((question, unit, other))
        return self.takes(other)


class Following(SubgraphSelector):
    """Answers by rules."""

    def __init__(self, rules):
        self.rules = rules
        self.splittable = rules.splittable  # type: ignore[misc]
        self.question = "start"

    def select(self, node):
        return self.rules.answer(self.question, node.id, node.id)

    def select_input(self, node, producer):
        return self.rules.answer("input", node.id, producer.id)

    def select_output(self, node, consumer):
        return self.rules.answer("output", node.id, consumer.id)

    def filter(self, candidates):
        units = [node.id for node in candidates]
        self.rules.filtered.append(units)
        kept = set(self.rules.keeps(units))
        return [node for node in candidates if node.id in kept]

    def reset(self):
        self.question = "restart"


class Result(NamedTuple):
    """Regions, why other nodes are in none, by node as code and way, and whether all was tried."""

    regions: list[list[int]]
    excluded: dict[int, tuple[str, list[int]]]
    complete: bool


def grow_regions(adjacency, eligible, rules, *, connectivity):
    """Let selectors that follow rules claim nodes that are eligible."""
    rows = [
        ("Sum", [f"v{pred}" for pred in adjacency.predecessors(unit)] or ["x"], [f"v{unit}"])
        for unit in range(adjacency.count)
    ]
    graph = graph_of(rows, [f"v{adjacency.count - 1}"])
    made = selecting(lambda _: Following(rules), connectivity=connectivity)
    (property_,) = made.properties()
    claim = Claim(made, BindContext(), None, is_fallback=False, property_name="main",
                  property=property_)  # fmt: skip
    state = PartitionState(graph, [claim])
    state.free = bytearray(eligible)
    refusals = RefusalColumn(adjacency.count)
    turn = open_pass(state, 0, refusals, {})
    regions, _, complete = merge(turn, grow(turn))
    regions = [regions[at] for at in run_order(adjacency, regions)]
    taken = {unit for region in regions for unit in region}
    excluded = {
        unit: (refusal.code, [int(number) for number in re.findall(r"#(\d+)", refusal.text)])
        for unit, refusal in refusals.items()
        if unit not in taken
    }
    return Result(regions, excluded, complete)


def everything(rows):
    return build(rows, range(len(rows)))


def test_a_region_that_must_stay_whole_is_grown_again_without_what_is_in_the_way():
    adjacency, eligible = build([[], [0], [0], [1, 2]], [0, 1, 3])
    rules = Rules(splittable=False)
    result = grow_regions(adjacency, eligible, rules, connectivity="connected")
    assert result.regions == [[0, 1], [3]]
    assert rules.filtered == [[0, 1, 3], [0, 1], [3]]
    assert ("restart", 0, 0) in rules.asked


def test_what_a_filter_takes_apart_is_given_up_if_it_must_stay_whole():
    adjacency, eligible = everything([[], [0], [1]])
    rules = Rules(keeps=lambda units: [0, 2] if len(units) == 3 else [], splittable=False)
    result = grow_regions(adjacency, eligible, rules, connectivity="connected")
    assert result.regions == []
    assert result.excluded[2] == ("not_convex", [0, 1, 2])
    assert result.excluded[1] == ("filtered", [])


def test_unconnected_pieces_may_stay_one_region_where_that_is_allowed():
    adjacency, eligible = everything([[], [0], [], [1, 2], [2]])
    drops = Rules(keeps=lambda units: [unit for unit in units if unit != 3])
    apart = grow_regions(adjacency, eligible, drops, connectivity="connected")
    assert apart.regions == [[0, 1], [2, 4]]
    drops = Rules(keeps=lambda units: [unit for unit in units if unit != 3])
    together = grow_regions(adjacency, eligible, drops, connectivity="any")
    assert together.regions == [[0, 1, 2, 4]]


def test_a_filter_that_keeps_nothing_does_not_take_for_ever():
    count = 8_000
    adjacency, eligible = everything([[unit - 1] if unit else [] for unit in range(count)])
    rules = Rules(keeps=lambda units: [])
    result = grow_regions(adjacency, eligible, rules, connectivity="any")
    assert result.regions == []
    assert not result.complete
    assert len(rules.asked) < 200 * count
    assert all(reason == ("filtered", []) for reason in result.excluded.values())
    assert len(result.excluded) == count


@pytest.mark.parametrize("splittable", [True, False])
def test_a_large_tangle_is_not_grown_again_for_each_of_its_regions(*, splittable):
    rng = random.Random(1)
    count = 1_500
    claimed = [unit for unit in range(count) if rng.random() < 0.9]
    rows = [
        [rng.randrange(max(0, unit - 64), unit) for _ in range(2)] if unit else []
        for unit in range(count)
    ]
    adjacency, eligible = build(rows, claimed)
    rules = Rules(splittable=splittable)
    result = grow_regions(adjacency, eligible, rules, connectivity="connected")
    check_disjoint(adjacency, eligible, result.regions, connected=True)
    assert result.excluded == {}
    assert result.complete
    assert len(rules.asked) < 20 * (count + len(adjacency.preds))
    fewest = connected_regions(adjacency, eligible).lower_bound
    assert len(result.regions) < 2 * fewest


def test_inserting_at_one_place_over_and_over_stays_cheap():
    count = 20_000
    order = RunningOrder(count)
    for item in range(1, count - 1):
        order.move([item], count - 1, before=True)
    labels = [order.label[item] for item in range(count)]
    assert labels == sorted(labels)
    assert order.work < 60 * count
