"""Choosing by made-up times: as good as trying everything, and equal regions as one."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraphkit.comparing.benchmark import interval, ratio
from subgraphkit.placing.composing import few_switches, name_choice


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_the_choice_is_as_good_as_trying_all_with_two_switches(seed):
    rng = random.Random(seed)
    count, names = rng.randint(1, 6), "abc"[: rng.randint(1, 3)]
    seconds = [
        {name: rng.random() for name in rng.sample(names, rng.randint(1, len(names)))}
        for _ in range(count)
    ]
    passing, together = ({name: rng.random() / 2 for name in names} for _ in range(2))

    def switches(choice):
        return [two for two in itertools.pairwise(choice) if two[0] != two[1]]

    def cost(choice):
        own = sum(one[name] for one, name in zip(seconds, choice, strict=True))
        kept = sum(together[a] for a, b in itertools.pairwise(choice) if a == b)
        return own - kept + sum(max(passing[a], passing[b]) for a, b in switches(choice))

    every = [one for one in itertools.product(*seconds) if len(switches(one)) <= 2]
    found = few_switches(seconds, passing, together)
    assert sorted(found) == sorted(every)
    costs = [cost(one) for one in found]
    assert costs == pytest.approx(sorted(costs))


def test_intervals_hold_the_median_with_confidence():
    assert interval([3.0]) == (3.0, 3.0, 3.0)
    assert interval([5.0, 1.0, 3.0]) == (3.0, 1.0, 5.0)
    assert interval(list(map(float, range(1, 7)))) == (3.5, 1.0, 6.0)
    # by tables of the sign test: from the 2nd to the 9th of 10, from the 6th to the 15th of 20
    assert interval(list(map(float, range(1, 11)))) == (5.5, 2.0, 9.0)
    assert interval(list(map(float, range(1, 21)))) == (10.5, 6.0, 15.0)
    assert ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == (0.5, 0.5, 0.5)


def test_a_choice_is_named_by_who_has_which_regions():
    assert name_choice(["a", "a", "b", "a"]) == "a 1-2, b 3, a 4"
