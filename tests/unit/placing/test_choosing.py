"""Choosing by made-up times: as good as trying everything, and equal regions as one."""

import itertools
import math
import random
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraphkit.comparing.intervals import interval, ratio
from subgraphkit.placing import choosing
from subgraphkit.placing.choosing import Piece, RegionTimes, choose, name_choice


class Quotient:
    """A small quotient graph with made-up times, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        count, names = rng.randint(1, 6), "abc"[: rng.randint(1, 3)]
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(range(count))
        pairs = itertools.combinations(range(count), 2)
        self.graph.add_edges_from(pair for pair in pairs if rng.random() < 0.5)
        self.seconds = [
            {name: rng.random() for name in rng.sample(names, rng.randint(1, len(names)))}
            for _ in range(count)
        ]
        self.passing = {(a, b): rng.uniform(-0.3, 0.5) for a in names for b in names}

    def cost(self, choice: Any) -> float:
        own = sum(one[name] for one, name in zip(self.seconds, choice, strict=True))
        return own + sum(self.passing[choice[a], choice[b]] for a, b in self.graph.edges)

    def chosen(self) -> float:
        return self.cost(choose(self.graph, self.seconds, lambda a, b: self.passing[a, b]))

    def best(self) -> float:
        return min(map(self.cost, itertools.product(*self.seconds)))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_the_choice_is_as_good_as_trying_everything(seed: int) -> None:
    drawn = Quotient(seed)
    assert math.isclose(drawn.chosen(), drawn.best(), abs_tol=1e-9)


def test_regions_tied_to_too_many_others_go_by_their_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choosing, "_LARGEST_TABLE", 2)
    for seed in range(50):
        drawn = Quotient(seed)
        assert drawn.best() <= drawn.chosen() < math.inf


def test_equal_regions_are_timed_and_proposed_together() -> None:
    regions = [Piece((at,), 1.0, "even" if at % 2 == 0 else "odd") for at in range(4)]
    times = RegionTimes(regions)
    times.handing["b"] = 0.01
    for region in regions[:2]:
        times.note(region, "a", [1.0, 1.1, 0.9])
        times.note(region, "b", [0.5 if region.kind == "odd" else 1.5] * 3)
    chain = nx.path_graph(4, create_using=nx.DiGraph)
    assert set(times.proposals(chain, {"a": 4.0}, "a")) == {
        ("a", "b", "a", "b"),
        ("b", "b", "b", "b"),  # as much as it takes
    }
    assert list(times.exchanges("a")) == [("odd", "b")]
    # not where handing over costs what is gained, or where keeping together gains as much
    times.handing["b"] = 0.6
    assert ("a", "b", "a", "b") not in set(times.proposals(chain, {"a": 4.0}, "a"))
    times.handing["b"] = 0.01
    assert ("a", "b", "a", "b") not in set(times.proposals(chain, {"a": 2.5}, "a"))


def test_intervals_hold_the_median_with_confidence() -> None:
    assert interval([3.0]) == (3.0, 3.0, 3.0)
    assert interval([5.0, 1.0, 3.0]) == (3.0, 1.0, 5.0)
    assert interval(list(map(float, range(1, 7)))) == (3.5, 1.0, 6.0)
    # by tables of the sign test: from the 2nd to the 9th of 10, from the 6th to the 15th of 20
    assert interval(list(map(float, range(1, 11)))) == (5.5, 2.0, 9.0)
    assert interval(list(map(float, range(1, 21)))) == (10.5, 6.0, 15.0)
    assert ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == (0.5, 0.5, 0.5)


def test_a_choice_is_named_by_who_has_which_regions() -> None:
    assert name_choice(["a", "a", "b", "a"]) == "a 1-2, b 3, a 4"
