"""Graphs on which other partitioners were seen to fail, by name.

MXNet 1.9.1 makes a cyclic graph of the first two, TVM 0.27 an invalid program of the third, and
torch.fx 2.13 takes a minute for a few thousand nodes of the last families.
"""

import pytest

from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import graph_of, regions, taking
from tests.unit.partitioning.test_pass_random import check

Rows = list[tuple[str, list[str], list[str]]]


def test_mxnet_cycle_through_another_subgraph_on_six_nodes() -> None:
    rows: Rows = [
        ("exp", ["d1"], ["a1"]),
        ("exp", ["d2"], ["b1"]),
        ("cos", ["a1"], ["x"]),
        ("cos", ["b1"], ["y"]),
        ("broadcast_add", ["a1", "y"], ["a2"]),
        ("broadcast_add", ["b1", "x"], ["b2"]),
    ]
    found = partition(
        graph_of(rows, ["a2", "b2"]), [taking("exp broadcast_add"), taking("*", "rest")]
    )
    check(found)
    assert len(regions(found, "fake")) == 3


@pytest.mark.parametrize("diamonds", [2, 3, 10, 1000])
def test_mxnet_ancestor_search_used_up_by_stacked_diamonds(diamonds: int) -> None:
    rows: Rows = []
    last = "d"
    for at in range(diamonds):
        rows += [
            ("cos", [last], [f"l{at}"]),
            ("cos", [last], [f"r{at}"]),
            ("mul", [f"l{at}", f"r{at}"], [f"j{at}"]),
        ]
        last = f"j{at}"
    rows += [
        ("exp", ["x"], ["s0"]),
        ("cos", ["s0"], ["u"]),
        ("mul", ["u", last], ["v"]),
        ("add", ["s0", "v"], ["s1"]),
    ]
    found = partition(graph_of(rows, ["s1"]), [taking("exp add"), taking("*", "rest")])
    assert regions(found, "fake") == [[3 * diamonds], [3 * diamonds + 3]]


@pytest.mark.parametrize("order", [("A", "B", "C"), ("B", "A", "C"), ("C", "B", "A")])
def test_tvm_dependencies_that_go_stale_when_groups_grow(order: tuple[str, ...]) -> None:
    takes = {"A": "A", "B": "B", "C": "C"}
    rows: Rows = [
        ("B", ["x"], ["g"]),
        ("A", ["z"], ["d"]),
        ("C", ["g"], ["h"]),
        ("B", ["g", "d"], ["n"]),
        ("A", ["d", "h"], ["m"]),
    ]
    found = partition(graph_of(rows, ["n", "m"]), [taking(takes[b], b.lower()) for b in order])
    check(found)
    assert len(found.subgraphs) == 4


def test_torch_fx_dependencies_that_change_while_nodes_are_fused() -> None:
    # pytorch/pytorch#86159: what looks free to merge no longer is once something else has.
    rows: Rows = [
        ("add", ["x"], ["a"]),
        ("relu", ["a"], ["u"]),
        ("add", ["z"], ["b"]),
        ("relu", ["b"], ["v"]),
        ("add", ["u", "b"], ["c"]),
        ("add", ["v", "a"], ["d"]),
        ("add", ["c", "d"], ["e"]),
    ]
    for connectivity, fewest in (("any", 2), ("connected", 3)):
        backends = [taking("add", connectivity=connectivity), taking("*", "rest")]
        found = partition(graph_of(rows, ["e"]), backends)
        check(found)
        assert len(regions(found, "fake")) == fewest


def unet(depth: int) -> Rows:
    rows: Rows = []
    for at in range(depth):
        rows += [("exp", [f"e{at}"], [f"e{at + 1}"]), ("cos", [f"e{at + 1}"], [f"s{at + 1}"])]
    last = f"e{depth}"
    for at in range(depth, 0, -1):
        rows.append(("add", [last, f"s{at}"], [f"d{at}"]))
        last = f"d{at}"
    return rows


def ladder(steps: int) -> Rows:
    rows: Rows = []
    for at in range(steps):
        rows += [
            ("cos", [f"a{at}"], [f"u{at}"]),
            ("exp", [f"u{at}"], [f"e{at}"]),
            ("add", [f"e{at}", f"u{at}"], [f"a{at + 1}"]),
        ]
    return rows


@pytest.mark.parametrize("connectivity", ["any", "connected"])
@pytest.mark.parametrize("size", [4, 300, 10_000])
def test_the_families_that_take_torch_fx_and_mxnet_minutes(size: int, connectivity: str) -> None:
    backends = [taking("exp add", connectivity=connectivity), taking("*", "rest")]
    found = partition(graph_of(unet(size), ["d1"]), backends)
    assert len(regions(found, "fake")) == 2
    found = partition(graph_of(ladder(size), [f"a{size}"]), backends)
    assert len(regions(found, "fake")) == size
