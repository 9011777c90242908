"""Regions that need not hang together: what selectors with a state took, in the fewest of them."""

import random

from subgraphkit.partitioning import partition
from tests.property.partition_oracles import fewest_regions
from tests.unit.partitioning.pass_support import graph_of, selecting, taking
from tests.unit.partitioning.test_pass_random import Moody, check, random_rows


def divided(seed, made):
    """Divide a random graph of at most ten nodes between a backend and the rest."""
    dice = random.Random(f"any {seed}")
    rows, outputs = random_rows(dice, dice.randint(4, 10))
    found = partition(graph_of(rows, outputs), [made, taking("*", "rest")])
    check(found)
    return found


def homes(found):
    return [one.nodes for one in found.subgraphs if one.backend == "one"]


def fewest(found):
    """Return the fewest regions for the nodes that the backend took, by trying everything."""
    taken = {node for home in homes(found) for node in home}
    claimed = bytearray(node in taken for node in range(len(found.graph.nodes)))
    return fewest_regions(found.graph.adjacency, claimed, connected=False)


def test_what_a_selector_with_a_state_took_is_in_as_few_regions_as_possible():
    for seed in range(250):
        moody = selecting(lambda _, seed=seed: Moody(seed, splittable=True), "one",
                          connectivity="any")  # fmt: skip
        found = divided(seed, moody)
        assert len(homes(found)) == fewest(found)
        assert found.quality.backends[0].gap == 0


def test_regions_of_a_selector_that_may_not_be_cut_stay_as_they_were_grown():
    kept: set[tuple[int, ...]] = set()

    class Whole(Moody):
        def filter(self, candidates):
            answer = super().filter(candidates)
            kept.add(tuple(sorted(node.id for node in answer)))
            return answer

    apart = 0
    for seed in range(250):
        kept.clear()
        whole = selecting(lambda _, seed=seed: Whole(seed, splittable=False), "one",
                          connectivity="any")  # fmt: skip
        found = divided(seed, whole)
        assert all(tuple(sorted(home)) in kept for home in homes(found))
        apart += len(homes(found)) > fewest(found)
    assert apart > 50
