"""Graphs that other partitioners get wrong, as bare structures, with the numbers that are right."""

from array import array
from itertools import pairwise

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import Nets, level_regions
from subgraphkit.partitioning.outcome.verification import find_violation
from tests.property.partition_oracles import check


def parse(edges, claimed):
    """Read ``a>b>c, a>c`` and the names of claimed nodes; number topologically by first mention."""
    feeds: dict[str, list[str]] = {}
    for chain in edges.replace(" ", "").split(","):
        names = chain.split(">")
        for name in names:
            feeds.setdefault(name, [])
        for before, after in pairwise(names):
            feeds[before].append(after)
    order: list[str] = []
    while len(order) < len(feeds):
        order.append(
            next(
                name
                for name in feeds
                if name not in order
                and all(b in order for b, afters in feeds.items() if name in afters)
            )
        )
    number = {name: place for place, name in enumerate(order)}
    rows: list[list[int]] = [[] for _ in order]
    for before, afters in feeds.items():
        for after in afters:
            if number[before] not in rows[number[after]]:
                rows[number[after]].append(number[before])
    wanted = claimed.replace(",", " ").split()
    return Adjacency.from_predecessors(rows), bytearray(name in wanted for name in order), order


def nets_of_nodes(adjacency, sizes):
    """Return one value of each node, of a size, read by its successors."""
    sources = array("i", range(adjacency.count))
    return Nets(sources, array("q", sizes), adjacency.succ_start[:], adjacency.succs[:])


def test_values_of_unknown_size_are_kept_inside_too():
    adjacency, eligible, names = parse("a>u>b, c1>c2>b", "a b c1 c2")
    nets = nets_of_nodes(adjacency, [0] * adjacency.count)
    first, _ = level_regions(adjacency, eligible, lambda: nets)
    assert [names[unit] for unit in first] == ["a"]


def test_a_small_side_branch_of_a_large_trunk_leaves_at_its_narrowest():
    adjacency, eligible, names = parse("t>v>u>r, t>shape>gather>cat>r", "t v r shape gather cat")
    sizes = dict.fromkeys(names, 8) | {"t": 1000, "v": 1000, "u": 1000}
    nets = nets_of_nodes(adjacency, [sizes[name] for name in names])
    first, _ = level_regions(adjacency, eligible, lambda: nets)
    assert "shape" in {names[unit] for unit in first}


def test_far_edges_over_one_spine_keep_to_the_budget_and_say_so():
    rows: list[list[int]] = [[], []]
    claimed = [0]
    spine = 1
    for step in range(400):
        rows.append([spine, claimed[(step * 7) % max(1, len(claimed) // 8)]])
        claimed.append(len(rows) - 1)
        rows.append([spine, len(rows) - 1])
        spine = len(rows) - 1
    adjacency = Adjacency.from_predecessors(rows)
    eligible = bytearray(unit in claimed for unit in range(len(rows)))
    few = connected_regions(adjacency, eligible, work_limit=500)
    check(adjacency, eligible, few.regions, connected=True)
    many = connected_regions(adjacency, eligible)
    check(adjacency, eligible, many.regions, connected=True)
    assert len(many.regions) <= len(few.regions)
    assert few.maximal <= many.maximal
    assert many.work <= 80 * (adjacency.count + len(adjacency.preds)) + 40_000


def test_the_verifier_tells_what_is_wrong():
    adjacency, _, _ = parse("a>b>c, d", "")
    assert find_violation(adjacency, [0, 0, 0, 1], 2, [True, True]) is None
    for region_of, count, kind in (
        ([0, 0, -1, 1], 2, "unassigned"),
        ([0, 0, 2, 1], 2, "unassigned"),
        ([0, 0, 0], 1, "unassigned"),
        ([0, 0, 0, 1], 3, "empty"),
        ([0, 1, 0, 2], 3, "cycle"),
        ([0, 0, 0, 0], 1, "disconnected"),
    ):
        violation = find_violation(adjacency, region_of, count, [True] * count)
        assert violation is not None
        assert violation.kind == kind
