"""Layers, orders and places."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from subgraphkit.viewing.layout import Extent, place

BOX = Extent(20.0, 60.0, 30.0)


@st.composite
def _graphs(draw):
    count = draw(st.integers(1, 25))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = draw(st.lists(ends.filter(lambda pair: pair[0] < pair[1]), max_size=40, unique=True))
    return count, pairs if count > 1 else []


def _graph_of(count):
    return count, [(at, at + 1) for at in range(count - 1)]


@given(st.one_of(_graphs(), st.integers(1, 30).map(_graph_of)))
def test_no_box_overlaps_another_and_every_arrow_leads_down_or_to_a_column_on_the_right(graph):
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


def test_a_long_chain_is_folded_into_columns_of_about_one_height():
    placed = place([BOX] * 60, [(at, at + 1) for at in range(59)])
    assert len(placed.columns) > 2
    bottoms = [column.bottom for column in placed.columns]
    assert min(bottoms) > 0.7 * max(bottoms)
    assert placed.height < 60 * BOX.height
    assert placed.width <= 1300
