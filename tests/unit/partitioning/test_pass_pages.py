"""The page about a partitioning: what is in it, and what moved."""

import json
import re
from typing import Any

import pytest

from subgraphkit.errors import ConfigError
from subgraphkit.partitioning import Partitioning, partition
from subgraphkit.partitioning.reports.quality import find_moves
from subgraphkit.partitioning.reports.sections import sections_of
from subgraphkit.viewing import Table
from tests.unit.partitioning.pass_support import bound, described, graph_of, taking
from tests.unit.partitioning.test_pass_report import MODEL, network

COLUMNS = ["subgraph", "number", "operator", "name", "backend", "kFLOPs", "reads", "makes"]


def _data(text: str) -> list[Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return [one for one in json.loads(found[1]) if one]


def _table(text: str, title: str) -> dict[str, list[Any]]:
    (table,) = (one for one in _data(text) if one.get("title") == title)
    return {
        name: cells
        if isinstance(cells, list)
        else [cells["texts"][at] for at in cells.get("places", range(table["count"]))]
        for name, cells in zip(table["columns"], table["cells"], strict=True)
    }


def _other() -> Partitioning:
    return partition(bound(MODEL), [described("fast: Conv Relu"), described("rest: *")])


def test_a_page_has_every_node_with_its_types_and_who_refused_it() -> None:
    found = network()
    nodes = _table(found.to_html(), "Nodes")
    assert list(nodes) == [*COLUMNS, "refused by"]
    assert sorted(nodes["number"]) == list(range(11))
    at = nodes["number"].index(3)
    row = {name: cells[at] for name, cells in nodes.items()}
    assert (row["operator"], row["name"]) == ("Celu", "celu")
    assert row["backend"] == found.home_of(3).backend == "rest"
    assert row["subgraph"] == found.home_of(3).id
    assert row["reads"] == row["makes"] == "float32[1,8,8,8]"
    assert row["refused by"].startswith("fast: ")


def test_the_boxes_of_the_picture_are_the_subgraphs_and_open_the_nodes() -> None:
    found = network()
    (drawing,) = (one for one in _data(found.to_html()) if "opens" in one)
    assert drawing["opens"] == "Nodes"
    assert [key for key, _ in drawing["boxes"]] == [one.id for one in found.subgraphs]
    facts = dict(drawing["boxes"][0][1])
    assert facts["backend"] == "fast"
    assert facts["nodes"] == "2 Conv, 1 Relu"
    assert "float32[1,3,8,8]" in facts["reads"]


def test_times_of_subgraphs_and_nodes_are_shown_where_they_are_known() -> None:
    found = network()
    times: dict[str | int, float] = {one.id: 0.002 for one in found.subgraphs}
    text = found.to_html(times={**times, 0: 0.0015})
    assert "its area is its time" in text
    assert _table(text, "Nodes")["time, ms"].count(1.5) == 1
    assert set(_table(text, "Subgraphs in running order")["time, ms"]) == {2.0}
    assert "its area is its arithmetic" in found.to_html(times={0: 0.0015})


def test_a_comparison_shows_what_moved_from_where_to_where() -> None:
    found, other = network(), _other()
    moves = find_moves(found, other)
    ends = [(move.source, move.target, len(move.nodes)) for move in moves]
    assert sorted(ends) == [("rest", "fast", 3), ("rest", "small", 2)]
    assert sum(move.flops for move in moves) > 0
    text = found.to_html(against=other)
    moved = _table(text, "What moved")
    assert moved["to"] == [move.target for move in moves]
    assert moved["kFLOPs"] == [move.flops / 1e3 for move in moves]
    nodes = _table(text, "Nodes")
    before = {n: was for n, was in zip(nodes["number"], nodes["before"], strict=True) if was}
    assert before == {n: "rest" for move in moves for n in move.nodes}
    assert text.count("<svg xmlns") == 2


def test_a_comparison_with_another_model_is_refused() -> None:
    other = partition(graph_of([("Exp", ["x"], ["y"])], ["y"]), [taking("Exp", "one")])
    with pytest.raises(ConfigError, match=r"SGK123.*different models"):
        network().to_html(against=other)


def test_the_nodes_of_a_page_are_linked_to_those_they_read() -> None:
    found = network()
    (nodes,) = [one for one in sections_of(found, found.quality, {}) if one.title == "Nodes"]
    assert isinstance(nodes, Table)
    number = list(nodes.columns).index("number")
    makers, reads = found.graph.producers, found.graph.read_by
    for row, links in zip(nodes.rows, nodes.links, strict=True):
        read = {makers[name] for name in reads(int(str(row[number]))) if name in makers}
        assert {nodes.rows[at][number] for at in links} == read
    assert sum(map(len, nodes.links)) > 10
