"""Slow and simple answers to compare the partition algorithms with."""

import random
from collections.abc import Iterable, Iterator, Sequence

import networkx as nx

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.levels import Nets

Regions = list[list[int]]
Graph = tuple[Adjacency, bytearray]


def build(rows: Sequence[Iterable[int]], claimed: Iterable[int]) -> tuple[Adjacency, bytearray]:
    """Build a graph from the predecessors of each unit and the units that may be claimed."""
    inside = set(claimed)
    adjacency = Adjacency.from_predecessors([list(dict.fromkeys(row)) for row in rows])
    return adjacency, bytearray(unit in inside for unit in range(len(rows)))


def random_dag(seed: int, *, nodes: tuple[int, int], refused: tuple[float, float]) -> Graph:
    """A random graph whose edges reach near, far or anywhere, and a random mask."""
    rng = random.Random(seed)
    count = rng.randint(*nodes)
    reach = rng.choice((3, 8, 30, count))
    share = rng.uniform(*refused)
    rows = []
    for unit in range(count):
        low = max(0, unit - reach)
        inputs = min(unit, rng.choice((0, 1, 1, 2, 2, 3)))
        rows.append(sorted({rng.randrange(low, unit) for _ in range(inputs)}))
    return build(rows, [unit for unit in range(count) if rng.random() >= share])


def networkx_of(adjacency: Adjacency) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(adjacency.count))
    graph.add_edges_from((p, u) for u in range(adjacency.count) for p in adjacency.predecessors(u))
    return graph


def home_of(adjacency: Adjacency, regions: Regions) -> list[int]:
    """Number the regions, then the units in none of them."""
    home = [-1] * adjacency.count
    for region, units in enumerate(regions):
        for unit in units:
            assert home[unit] == -1, "a unit is in two regions"
            home[unit] = region
    following = iter(range(len(regions), len(regions) + adjacency.count))
    return [region if region >= 0 else next(following) for region in home]


def check(adjacency: Adjacency, eligible: bytearray, regions: Regions, *, connected: bool) -> None:
    """Assert with networkx that the regions cover what they may, hang together and can run."""
    check_disjoint(adjacency, eligible, regions, connected=connected)
    assert sum(map(len, regions)) == sum(eligible)


def check_disjoint(
    adjacency: Adjacency, eligible: bytearray, regions: Regions, *, connected: bool
) -> None:
    """Assert the same of regions that need not take every eligible unit."""
    graph = networkx_of(adjacency)
    home = home_of(adjacency, regions)
    quotient = nx.DiGraph((home[a], home[b]) for a, b in graph.edges if home[a] != home[b])
    assert nx.is_directed_acyclic_graph(quotient)
    for before, after in quotient.edges:
        assert before >= len(regions) or after >= len(regions) or before < after, "not in order"
    for region in regions:
        assert region == sorted(region)
        assert all(eligible[unit] for unit in region)
        assert not connected or nx.is_weakly_connected(graph.subgraph(region))


def cut_bytes(nets: Nets, region_of: Sequence[int]) -> int:
    """Add up the bytes that cross from a region into another or into the rest."""
    total = 0
    start = 0
    sinks = nets.sinks
    for source, size, end in zip(nets.source, nets.bytes_, nets.sink_start[1:], strict=True):
        if end - start == 1:
            total += size * (region_of[sinks[start]] != region_of[source])
        elif end > start:
            readers = {region_of[sink] for sink in sinks[start:end]}
            total += size * (len(readers) - (region_of[source] in readers))
        start = end
    return total


def fewest_regions(adjacency: Adjacency, eligible: bytearray, *, connected: bool) -> int:
    """Find the fewest regions by trying every way to run one region after the other.

    A partitioning can run if and only if some topological order lists each region in one piece, so
    the search goes over sets of claimed units that have run; unclaimed units run when they can.
    """
    claimed = [unit for unit in range(adjacency.count) if eligible[unit]]
    needs = [sum(1 << p for p in adjacency.predecessors(unit)) for unit in range(adjacency.count)]
    joined = [
        needs[unit] | sum(1 << s for s in adjacency.successors(unit))
        for unit in range(adjacency.count)
    ]
    everything = sum(1 << unit for unit in claimed)
    others = [unit for unit in range(adjacency.count) if not eligible[unit]]
    reached = {_run_others(0, others, needs)}
    frontier, count = reached, 0
    while all(done & everything != everything for done in frontier):
        count += 1
        frontier = {
            _run_others(done | region, others, needs)
            for done in frontier
            for region in _next_regions(done, claimed, needs, joined, connected=connected)
        } - reached
        reached |= frontier
    return count


def _run_others(done: int, others: list[int], needs: list[int]) -> int:
    for unit in others:
        if not needs[unit] & ~done:
            done |= 1 << unit
    return done


def _next_regions(
    done: int, claimed: list[int], needs: list[int], joined: list[int], *, connected: bool
) -> Iterator[int]:
    """List, as bit sets, the regions that can run next."""
    left = [unit for unit in claimed if not done >> unit & 1]
    # Region by region in topological order: a unit may come in once all it needs is there.
    sets = [0]
    for unit in left:
        sets += [s | 1 << unit for s in sets if not needs[unit] & ~(done | s)]
    for region in sets:
        if region and (not connected or _hangs_together(region, joined)):
            yield region


def _hangs_together(region: int, joined: Sequence[int]) -> bool:
    reached = frontier = region & -region
    while frontier:
        unit = frontier.bit_length() - 1
        frontier ^= 1 << unit
        fresh = joined[unit] & region & ~reached
        reached |= fresh
        frontier |= fresh
    return reached == region
