"""Layers, orders and places."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgraphkit.viewing.layout import Extent, place

BOX = Extent(20.0, 60.0, 30.0)


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 25))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = draw(st.lists(ends.filter(lambda pair: pair[0] < pair[1]), max_size=40, unique=True))
    return count, pairs if count > 1 else []


def _graph_of(count: int) -> tuple[int, list[tuple[int, int]]]:
    return count, [(at, at + 1) for at in range(count - 1)]


@given(st.one_of(_graphs(), st.integers(1, 30).map(_graph_of)))
def test_no_box_overlaps_another_and_every_arrow_leads_down_or_to_a_column_on_the_right(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    count, arrows = graph
    placed = place([BOX] * count, arrows)
    for at, (x, y) in enumerate(placed.centres):
        assert x - BOX.left >= 0
        assert x + BOX.right <= placed.width
        assert BOX.height / 2 <= y <= placed.height - BOX.height / 2
        for u, v in placed.centres[:at]:
            assert abs(y - v) >= BOX.height or abs(x - u) >= BOX.left + BOX.right
    for (source, target), route in zip(arrows, placed.routes, strict=True):
        points = [placed.centres[source], *route, placed.centres[target]]
        assert all(v > y or u > x for (x, y), (u, v) in pairwise(points))


def test_a_chain_is_a_straight_line() -> None:
    placed = place([BOX] * 5, [(at, at + 1) for at in range(4)])
    assert len({round(x, 3) for x, _ in placed.centres}) == 1


@pytest.mark.parametrize("count", [4, 12])
def test_two_chains_side_by_side_do_not_cross(count: int) -> None:
    """The chains take turns in the order given, as regions of two branches do."""
    arrows = [(at, at + 2) for at in range(2 * count - 2)]
    placed = place([BOX] * 2 * count, arrows)
    first, second = placed.centres[::2], placed.centres[1::2]
    assert len({a[0] < b[0] for a, b in zip(first, second, strict=True)}) == 1


def test_an_arrow_past_boxes_goes_around_them() -> None:
    placed = place([BOX] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert len(placed.routes[3]) == 2
    for (x, y), (u, v) in zip(placed.routes[3], placed.centres[1:3], strict=True):
        assert y == v
        assert not u - BOX.left < x < u + BOX.right


def test_a_long_chain_is_folded_into_columns_of_about_one_height() -> None:
    placed = place([BOX] * 60, [(at, at + 1) for at in range(59)])
    assert len(placed.columns) > 2
    bottoms = [column.bottom for column in placed.columns]
    assert min(bottoms) > 0.7 * max(bottoms)
    assert placed.height < 60 * BOX.height
    assert placed.width <= 1300
