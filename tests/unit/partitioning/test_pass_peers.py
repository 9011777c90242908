"""Graphs of which torch.fx 2.13 makes more regions, or for which it and MXNet take minutes.

Those of which MXNet 1.9.1 makes a cyclic graph, and TVM 0.27 an invalid program, are golden.
"""

import pytest

from subgraphkit.partitioning import partition
from tests.unit.partitioning.pass_support import graph_of, regions, taking

Rows = list[tuple[str, list[str], list[str]]]


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
