"""Graphs that other partitioners get wrong, as bare structures, with the numbers that are right."""

from itertools import pairwise

import pytest

from subgraphkit.ir import Adjacency
from subgraphkit.partitioning.algorithms.components import split_to_size
from subgraphkit.partitioning.algorithms.connected import connected_regions
from subgraphkit.partitioning.algorithms.levels import level_bound, level_regions
from subgraphkit.partitioning.algorithms.nets import Nets
from subgraphkit.partitioning.algorithms.quotient import CyclicGroupsError, contract
from subgraphkit.partitioning.outcome.verification import find_violation
from tests.property.partition_oracles import check, with_more


def parse(edges: str, claimed: str) -> tuple[Adjacency, bytearray, list[str]]:
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


CASES = {
    "a chain that is claimed whole": ("a>b>c>d", "a b c d", 1, 1),
    "nothing claimed": ("a>b>c", "", 0, 0),
    "a diamond with one arm refused": ("a>b>d, a>c>d", "a b d", 2, 2),
    "a diamond with both arms refused": ("a>b>d, a>c>d", "a d", 2, 2),
    "a skip over a long refused chain": ("e>c1>c2>c3>c4>c5>c6>s, e>s", "e s", 2, 2),
    "two components that cross": (
        "a1>a2, b1>b2, a1>x>b2, b1>y>a2", "a1 a2 b1 b2", 2, 3,
    ),
    "a ring of three components": (
        "a1>a2, b1>b2, c1>c2, a1>x>b2, b1>y>c2, c1>z>a2", "a1 a2 b1 b2 c1 c2", 2, 4,
    ),
    "one backend of two whose components cross": ("a1>a2, b1>b2, a1>b2, b1>a2", "a1 a2", 1, 1),
    "a side producer": ("a>u>b, c>b", "a b c", 2, 2),
    "a node that must not move first": ("p1>a, p2>a, a>b, p2>b, p1>x>b", "p1 p2 a b", 2, 2),
    "two unconnected chains": ("a>b, c>d", "a b c d", 1, 2),
    "one refused node with three consumers": ("u>a, u>b, u>c", "a b c", 1, 3),
    "short regions between refused nodes": (
        "s1>s2>u1>s3>u2>s4>s5>s6", "s1 s2 s3 s4 s5 s6", 3, 3,
    ),
    "two by two with one refused detour": (
        "a1>b1, a1>b2, a2>b1, a2>b2, a1>u>b2", "a1 a2 b1 b2", 2, 2,
    ),
    "a pattern with a side exit": ("conv>bn>add, conv>u>add", "conv bn add", 2, 2),
}  # fmt: skip


@pytest.mark.parametrize(("edges", "claimed", "any_", "connected"), CASES.values(), ids=CASES)
def test_a_structure_has_its_fewest_regions(
    edges: str, claimed: str, any_: int, connected: int
) -> None:
    adjacency, eligible, _ = parse(edges, claimed)
    regions = level_regions(adjacency, eligible)
    check(adjacency, eligible, regions, connected=False)
    assert len(regions) == level_bound(adjacency, eligible) == any_
    result = connected_regions(adjacency, eligible)
    check(adjacency, eligible, result.regions, connected=True)
    assert len(result.regions) == connected
    assert result.maximal


def test_a_graph_without_nodes_has_no_regions() -> None:
    adjacency = Adjacency.from_predecessors([])
    assert level_regions(adjacency, bytearray()) == []
    assert connected_regions(adjacency, bytearray()).regions == []
    assert contract(adjacency, []).members == []
    assert find_violation(adjacency, [], 0, []) is None


def test_a_side_producer_goes_where_fewer_bytes_are_cut() -> None:
    adjacency, eligible, names = parse("a>u>b, c>b", "a b c")
    nets = Nets.build((n, 100, adjacency.successors(n)) for n in range(adjacency.count))
    first, second = level_regions(adjacency, eligible, nets)
    assert [names[unit] for unit in first] == ["a"]
    assert sorted(names[unit] for unit in second) == ["b", "c"]


def test_values_of_unknown_size_are_kept_inside_too() -> None:
    adjacency, eligible, names = parse("a>u>b, c1>c2>b", "a b c1 c2")
    nets = Nets.build((n, 0, adjacency.successors(n)) for n in range(adjacency.count))
    first, _ = level_regions(adjacency, eligible, nets)
    assert [names[unit] for unit in first] == ["a"]


def test_a_small_side_branch_of_a_large_trunk_leaves_at_its_narrowest() -> None:
    adjacency, eligible, names = parse("t>v>u>r, t>shape>gather>cat>r", "t v r shape gather cat")
    sizes = dict.fromkeys(names, 8) | {"t": 1000, "v": 1000, "u": 1000}
    nets = Nets.build((n, sizes[names[n]], adjacency.successors(n)) for n in range(adjacency.count))
    first, _ = level_regions(adjacency, eligible, nets)
    assert "shape" in {names[unit] for unit in first}


@pytest.mark.parametrize("depth", [2, 10, 1000])
def test_stacked_diamonds_do_not_hide_the_way_back(depth: int) -> None:
    edges = ["s0>x>y>s1", "s0>s1"]
    for step in range(depth):
        below = f"d{step + 1}" if step + 1 < depth else "y"
        edges += [f"d{step}>l{step}>{below}", f"d{step}>r{step}>{below}"]
    names = ["s0", "x", *(f"{k}{s}" for s in range(depth) for k in "dlr"), "y", "s1"]
    place = {name: number for number, name in enumerate(names)}
    rows: list[list[int]] = [[] for _ in names]
    for chain in edges:
        steps = chain.split(">")
        for before, after in pairwise(steps):
            rows[place[after]].append(place[before])
    adjacency = Adjacency.from_predecessors(rows)
    eligible = bytearray(name in ("s0", "s1") for name in names)
    assert len(level_regions(adjacency, eligible)) == 2
    result = connected_regions(adjacency, eligible)
    assert len(result.regions) == 2
    assert result.work < 100 * len(names) + 20_000


def unet(size: int) -> tuple[Adjacency, bytearray]:
    rows: list[list[int]] = []
    for step in range(size):
        rows += [[2 * step - 2] if step else [], [2 * step]]
    for step in range(size - 1, -1, -1):
        rows.append([2 * size - 2 if step == size - 1 else len(rows) - 1, 2 * step + 1])
    return Adjacency.from_predecessors(rows), bytearray(b"\x01\x00" * size + b"\x01" * size)


def ladder(size: int) -> tuple[Adjacency, bytearray]:
    rows: list[list[int]] = []
    for step in range(size):
        value = [3 * step - 1] if step else []
        rows += [value, value, [3 * step, 3 * step + 1]]
    return Adjacency.from_predecessors(rows), bytearray(b"\x00\x01\x01" * size)


@pytest.mark.parametrize("size", [4, 30, 3000])
def test_a_unet_with_refused_skips_has_two_regions(size: int) -> None:
    adjacency, eligible = unet(size)
    assert len(level_regions(adjacency, eligible)) == 2
    result = connected_regions(adjacency, eligible)
    assert (len(result.regions), result.lower_bound, result.maximal) == (2, 2, True)
    assert result.work <= 8 * (adjacency.count + len(adjacency.preds))


@pytest.mark.parametrize("size", [1, 2, 30, 3000])
def test_a_ladder_has_one_region_per_rung(size: int) -> None:
    adjacency, eligible = ladder(size)
    assert len(level_regions(adjacency, eligible)) == size
    result = connected_regions(adjacency, eligible)
    assert (len(result.regions), result.lower_bound, result.maximal) == (size, size, True)
    assert result.work <= 8 * (adjacency.count + len(adjacency.preds))


def test_two_backends_whose_components_cross_need_three_regions() -> None:
    adjacency, first, names = parse("a1>a2, b1>b2, a1>b2, b1>a2", "a1 a2")
    step = contract(adjacency, connected_regions(adjacency, first).regions)
    second = bytearray(names[units[0]].startswith("b") for units in step.members)
    assert len(connected_regions(step.adjacency, second).regions) == 2


def test_groups_made_later_do_not_make_earlier_ones_wait_in_a_ring() -> None:
    adjacency, _, names = parse("g>n, d>n, g>h, d>m, h>m", "")
    backend = {"g": "B", "n": "B", "d": "A", "m": "A", "h": "C"}
    graph, members = adjacency, [[unit] for unit in range(adjacency.count)]
    for wanted in "BAC":
        free = bytearray(
            len(units) == 1 and backend[names[units[0]]] == wanted for units in members
        )
        step = contract(graph, connected_regions(graph, free).regions)
        members = [[u for part in parts for u in members[part]] for parts in step.members]
        graph = step.adjacency
    found = sorted(sorted(names[unit] for unit in units) for units in members)
    assert found == [["d"], ["g", "n"], ["h"], ["m"]]


def test_far_edges_over_one_spine_keep_to_the_budget_and_say_so() -> None:
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


def test_a_chain_of_a_million_nodes_needs_no_recursion() -> None:
    count = 1_000_000
    adjacency = Adjacency.from_predecessors([(unit - 1,) if unit else () for unit in range(count)])
    eligible = bytearray(b"\x01" * count)
    eligible[count // 2] = 0
    assert [len(region) for region in level_regions(adjacency, eligible)] == [
        count // 2,
        count // 2 - 1,
    ]
    result = connected_regions(adjacency, eligible)
    assert (len(result.regions), result.lower_bound, result.maximal) == (2, 2, True)
    contraction = contract(adjacency, result.regions)
    assert len(contraction.members) == 3
    assert find_violation(adjacency, contraction.unit_of, 3, [True] * 3) is None


@pytest.mark.parametrize("hub_claimed", [True, False])
def test_a_hub_with_a_hundred_thousand_consumers_is_linear(*, hub_claimed: bool) -> None:
    fan = 100_000
    rows = [[], *([0] for _ in range(fan)), range(1, fan + 1)]
    adjacency = Adjacency.from_predecessors(rows)
    eligible = bytearray(b"\x01" * (fan + 2))
    eligible[0] = hub_claimed
    eligible[1] = 0
    assert len(level_regions(adjacency, eligible)) == 1 + hub_claimed
    result = connected_regions(adjacency, eligible)
    assert len(result.regions) == 1 + hub_claimed
    assert result.work < 60 * fan


def test_supporting_the_operator_in_the_way_joins_the_regions() -> None:
    adjacency, eligible, names = parse("a>u>b>v>c>u2>d", "a b c d")
    refused = {"u": [names.index("u"), names.index("u2")], "v": [names.index("v")]}
    assert level_bound(adjacency, eligible) == 4
    assert level_bound(adjacency, with_more(eligible, refused["u"])) == 2
    assert level_bound(adjacency, with_more(eligible, refused["v"])) == 3


def test_a_region_is_cut_where_the_fewest_bytes_are_alive() -> None:
    adjacency, _, _ = parse("a>b>c>d>e>f", "")
    sizes = [900, 5, 900, 900, 7, 0]
    nets = Nets.build((n, sizes[n], adjacency.successors(n)) for n in range(6))
    assert split_to_size(adjacency, [0, 1, 2, 3, 4, 5], 4, nets) == [[0, 1], [2, 3, 4, 5]]
    assert split_to_size(adjacency, [0, 1, 2, 3, 4, 5], 5, nets) == [[0, 1], [2, 3, 4, 5]]
    assert split_to_size(adjacency, [0, 1, 2, 3, 4, 5], 6, nets) == [[0, 1, 2, 3, 4, 5]]


def test_contracting_groups_that_wait_on_each_other_names_them() -> None:
    adjacency, _, names = parse("p>a1, p>b1, a1>q>a2, b1>q, b1>r>b2, a1>r", "")
    groups = [
        [names.index("p")],
        [names.index("a1"), names.index("b2")],
        [names.index("b1"), names.index("a2")],
    ]
    with pytest.raises(CyclicGroupsError) as caught:
        contract(adjacency, [sorted(group) for group in groups])
    assert set(caught.value.groups) <= {1, 2}
    path = caught.value.path
    assert all(b in adjacency.successors(a) for a, b in zip(path[::2], path[1::2], strict=True))


def test_the_verifier_tells_what_is_wrong() -> None:
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
