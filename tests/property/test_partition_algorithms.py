"""The partition algorithms against brute force, networkx and the rules of other systems."""

import random
from array import array
from functools import partial

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraphkit.partitioning.algorithms import merger
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import Nets, level_bound, level_regions
from subgraphkit.partitioning.algorithms.quotient import CyclicGroupsError, contract, split_to_size
from subgraphkit.partitioning.outcome.verification import find_violation
from tests.property.partition_oracles import (
    build,
    check,
    cut_bytes,
    fewest_regions,
    home_of,
    networkx_of,
    random_dag,
)

SMALL = [random_dag(seed, nodes=(3, 10), refused=(0.15, 0.6)) for seed in range(2_400)]
MEDIUM = [random_dag(seed, nodes=(30, 120), refused=(0.08, 0.4)) for seed in range(200)]


def nets_of(adjacency, seed):
    rng = random.Random(seed)
    sizes = array("q", (rng.choice((0, 8, 400, 9_000)) for _ in range(adjacency.count)))
    return Nets(array("i", range(adjacency.count)), sizes, adjacency.succ_start, adjacency.succs)


def outside_as_minus_one(adjacency, regions):
    return [home if home < len(regions) else -1 for home in home_of(adjacency, regions)]


def test_levels_give_the_fewest_regions_of_small_graphs():
    for adjacency, eligible in SMALL:
        regions = level_regions(adjacency, eligible)
        check(adjacency, eligible, regions, connected=False)
        assert len(regions) == level_bound(adjacency, eligible)
        assert len(regions) == fewest_regions(adjacency, eligible, connected=False)


def test_settling_levels_by_bytes_keeps_them_fewest_and_never_cuts_more():
    gained = 0
    for seed, (adjacency, eligible) in enumerate(SMALL[:800] + MEDIUM):
        nets = nets_of(adjacency, seed)
        earliest = level_regions(adjacency, eligible)
        settled = level_regions(adjacency, eligible, partial(nets_of, adjacency, seed))
        check(adjacency, eligible, settled, connected=False)
        assert len(settled) == len(earliest)
        priced = Nets(
            nets.source, array("q", (b + 1 for b in nets.bytes_)), nets.sink_start, nets.sinks
        )
        before, after = (
            cut_bytes(priced, outside_as_minus_one(adjacency, regions))
            for regions in (earliest, settled)
        )
        assert after <= before
        gained += after < before
    assert gained > 100


def test_connected_regions_of_small_graphs_are_fewest_almost_always():
    missed = loose = 0
    for adjacency, eligible in SMALL:
        result = connected_regions(adjacency, eligible)
        check(adjacency, eligible, result.regions, connected=True)
        fewest = fewest_regions(adjacency, eligible, connected=True)
        assert result.lower_bound <= fewest <= len(result.regions)
        assert result.maximal
        missed += len(result.regions) > fewest
        loose += result.lower_bound < fewest
    assert missed <= len(SMALL) // 1_000
    assert loose <= len(SMALL) // 50


@pytest.mark.parametrize("reach", [1, 64])
def test_no_two_regions_of_a_maximal_result_can_be_merged(reach, monkeypatch):
    # A short reach makes the searches turn round, as they do in large graphs.
    monkeypatch.setattr(merger, "_FIRST_REACH", reach)
    for adjacency, eligible in SMALL[:300] + MEDIUM[:40]:
        result = connected_regions(adjacency, eligible)
        assert result.maximal
        check(adjacency, eligible, result.regions, connected=True)
        home = home_of(adjacency, result.regions)
        graph = networkx_of(adjacency)
        borders = {(home[a], home[b]) for a, b in graph.edges if eligible[a] and eligible[b]}
        for first, last in sorted(borders):
            if first != last:
                merged = result.regions[first] + result.regions[last]
                rest = [r for i, r in enumerate(result.regions) if i not in (first, last)]
                with pytest.raises(CyclicGroupsError):
                    contract(adjacency, [*rest, merged])


def test_a_budget_that_ends_early_leaves_regions_that_can_run():
    incomplete = 0
    for adjacency, eligible in MEDIUM:
        result = connected_regions(adjacency, eligible, work_limit=40)
        check(adjacency, eligible, result.regions, connected=True)
        assert len(result.regions) >= result.lower_bound
        incomplete += not result.maximal
    assert incomplete > 0


def test_backends_one_after_the_other_never_wait_on_each_other():
    for seed, (adjacency, _) in enumerate(MEDIUM):
        rng = random.Random(seed)
        colour = [rng.randrange(4) for _ in range(adjacency.count)]
        graph, members = adjacency, [[unit] for unit in range(adjacency.count)]
        for backend in range(3):
            free = bytearray(len(units) == 1 and colour[units[0]] == backend for units in members)
            regions = (
                connected_regions(graph, free).regions
                if backend % 2
                else level_regions(graph, free)
            )
            step = contract(graph, regions)
            members = [[u for part in parts for u in members[part]] for parts in step.members]
            graph = step.adjacency
        unit_of = [0] * adjacency.count
        for region, units in enumerate(members):
            for unit in units:
                unit_of[unit] = region
        assert find_violation(adjacency, unit_of, len(members), [False] * len(members)) is None
        grouped = [sorted(units) for units in members if len(units) > 1]
        check(adjacency, bytearray(len(members[r]) > 1 for r in unit_of), grouped, connected=False)


def test_parts_of_a_region_keep_to_the_size_and_can_run():
    for adjacency, eligible in MEDIUM[:60]:
        region = max(level_regions(adjacency, eligible), key=len)
        for most in (1, 3, 7):
            for connected in (False, True):
                parts = split_to_size(adjacency, region, most, connected=connected)
                assert sorted(unit for part in parts for unit in part) == region
                assert max(map(len, parts)) <= most
                inside = bytearray(unit in region for unit in range(adjacency.count))
                check(adjacency, inside, parts, connected=connected)
                assert connected or len(parts) == -(-len(region) // most)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 9))
    rows = [draw(st.sets(st.integers(0, u - 1), max_size=3)) if u else () for u in range(count)]
    return build([sorted(row) for row in rows], draw(st.sets(st.integers(0, count - 1))))


@settings(max_examples=300)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_verifier_agrees_with_networkx(graph, rng):
    adjacency, _ = graph
    count = rng.randint(1, adjacency.count)
    region_of = [rng.randrange(count) for _ in range(adjacency.count)]
    used = sorted(set(region_of))
    region_of = [used.index(region) for region in region_of]
    promised = [rng.random() < 0.5 for _ in used]
    regions = [[u for u, r in enumerate(region_of) if r == region] for region in range(len(used))]
    violation = find_violation(adjacency, region_of, len(used), promised)
    edges = networkx_of(adjacency).edges
    homes = ((region_of[a], region_of[b]) for a, b in edges)
    shrunk = nx.DiGraph((one, other) for one, other in homes if one != other)
    if not nx.is_directed_acyclic_graph(shrunk):
        assert violation is not None
        assert violation.kind == "cycle"
        path = violation.path
        for here, there, onward in zip(path[::2], path[1::2], [*path[2::2], path[0]], strict=True):
            assert (here, there) in edges
            assert region_of[there] == region_of[onward]
            assert region_of[here] != region_of[there]
        with pytest.raises(CyclicGroupsError):
            contract(adjacency, regions)
        return
    gaps = [
        region
        for region, units in enumerate(regions)
        if promised[region] and not nx.is_weakly_connected(networkx_of(adjacency).subgraph(units))
    ]
    assert (violation.regions if violation else ()) == tuple(gaps[:1])
    contraction = contract(adjacency, regions)
    assert [contraction.members[n] for n in contraction.unit_of] == [regions[r] for r in region_of]
    small = contraction.adjacency
    assert all(p < unit for unit in range(small.count) for p in small.predecessors(unit))
