"""What a partitioning says of itself: text, data and pages."""

import json
import re

import networkx as nx
import pytest

from subgraphkit.errors import ConfigError
from subgraphkit.partitioning import partition
from subgraphkit.partitioning.reports.quality import find_moves
from subgraphkit.partitioning.reports.sections import sections_of
from subgraphkit.viewing import Table
from tests.unit.partitioning.pass_support import backend, bound, described, graph_of, taking

MODEL = """
small_network (float[1, 3, 8, 8] image, float[1, 8] noise, float[8, 3, 3, 3] w1, float[8] b1,
               float[8, 8, 3, 3] w2, float[8, 10] w3)
=> (float[1, 10] scores, float[1, 8] pooled) {
  [conv_1] c1 = Conv<pads = [1, 1, 1, 1]>(image, w1, b1)
  [relu_1] r1 = Relu(c1)
  [conv_2] c2 = Conv<pads = [1, 1, 1, 1]>(r1, w2)
  [celu] r2 = Celu(c2)
  [sum] s = Add(r1, r2)
  [pool] p = GlobalAveragePool(s)
  [flat] pooled = Flatten(p)
  [tan] t = Tan(pooled)
  [noisy] n = Add(t, noise)
  [head] m = MatMul(n, w3)
  [softmax] scores = Softmax(m)
}
"""
LINES = (
    "fast: Conv Relu Add GlobalAveragePool Flatten; min_nodes=2",
    "small: MatMul Softmax",
    "rest: *",
)


def network():
    return partition(bound(MODEL), [described(line) for line in LINES])


def many():
    rows = []
    for at in range(60):
        operator = f"{'Exp' if at % 2 else 'Odd' + str(at)}"
        rows.append((operator, [f"v{max(at - step, 0)}" for step in range(6)], [f"v{at + 1}"]))
    return partition(graph_of(rows, ["v60"]), [taking("Exp", "one"), taking("*", "rest")])


def test_a_report_reads_like_this(golden):
    golden("reports/network", network().report(details=True))


def test_who_runs_which_share_is_said_in_a_few_lines(golden):
    texts = [network().report(), many().report()]
    assert max(len(text.splitlines()) for text in texts) <= 6
    golden("reports/summary", "\n".join(texts))


def test_a_report_of_nothing(golden):
    golden(
        "reports/nothing", partition(graph_of([], []), [taking("*", "one")]).report(details=True)
    )


def test_the_explanation_of_a_node_reads_like_this(golden):
    found = network()
    golden("reports/explanation", "\n\n".join(str(found.explain(node)) for node in (0, 3, 8, 9)))


@pytest.mark.parametrize("node", [99, -1])
def test_a_node_that_the_model_does_not_have_is_refused(node):
    found = network()
    for question in (found.explain, found.home_of):
        with pytest.raises(ConfigError, match=rf"SGK123.*the model has no node {node}"):
            question(node)


def test_the_data_has_exactly_these_keys_and_survives_json():
    found = network()
    data = found.to_dict()
    keys = ["model", "node_count", "left_out", "backends", "evidence", "cannot_run", "subgraphs"]
    assert list(data) == [*keys, "refusals", "quality"]
    assert data["backends"] == ["fast", "small", "rest"]
    assert data["evidence"] == dict.fromkeys(data["backends"], "declared")
    assert data["cannot_run"] == {}
    assert data["subgraphs"][0] == {
        "id": "fast_0",
        "backend": "fast",
        "property_name": "main",
        "nodes": [0, 1, 2],
        "inputs": ["image", "w1", "b1", "w2"],
        "outputs": ["r1", "c2"],
    }
    assert data["refusals"][0] == {
        "node": 3,
        "backend": "fast",
        "property": "main",
        "code": "op_unsupported",
        "text": "operator Celu is not in the list",
    }
    assert json.loads(found.to_json(indent=2)) == data


def twice_refused():
    """Return the network divided by a backend that looks twice and says nearly always the same."""
    first, second = (described(f"fast: {names}") for names in ("Conv Relu", "Conv Relu Add"))
    looks = [first.properties()[0], second.properties()[0]]
    looks[0].min_nodes, looks[1].min_nodes = 3, 2
    looks[1].name = "again"
    return partition(bound(MODEL), [backend("fast", *looks), described("rest: *")])


def test_what_two_properties_of_a_backend_refuse_alike_is_told_once():
    found = twice_refused()
    assert [(one.backend, one.property) for one in found.refusals[3]] == [("fast", "main")]
    of_the_node = [one["property"] for one in found.to_dict()["refusals"] if one["node"] == 3]
    assert of_the_node == ["main"]
    assert str(found.explain(3)).splitlines()[1:] == [
        "  fast (main, again): refused, op_unsupported: operator Celu is not in the list",
        "  rest (main): claimed",
    ]
    assert [one.property for one in found.explain(3).asked] == ["main", "again", "main"]


def test_a_backend_is_told_why_it_did_not_get_nodes():
    found = twice_refused()
    refusals = found.refusals_by("fast")
    elsewhere = {one for step in found.subgraphs if step.backend != "fast" for one in step.nodes}
    assert set(refusals) == elsewhere
    assert refusals[3].text == "operator Celu is not in the list"
    assert refusals[4].code == "too_small"
    assert found.refusals_by("rest") == {}


def test_the_quotient_graph_has_weights():
    found = network()
    quotient = found.to_networkx()
    assert list(quotient.nodes) == [one.id for one in found.subgraphs]
    assert nx.is_directed_acyclic_graph(quotient)
    assert quotient.edges["fast_0", "rest_3"] == {"tensors": ("c2",), "bytes": 4 * 8 * 64}
    assert quotient.edges["fast_0", "fast_4"]["tensors"] == ("r1",)
    flops = {name: of["flops"] for name, of in quotient.nodes(data=True)}
    assert flops == {one.id: found.flops_of(one.nodes) for one in found.subgraphs}


def test_the_measures_add_up():
    found = network()
    quality = found.quality
    assert quality.nodes == 11
    assert sum(one.nodes for one in quality.backends) == quality.nodes
    assert sum(one.flops for one in quality.backends) == quality.flops
    assert [one.regions for one in quality.backends] == [2, 1, 2]
    assert [one.gap for one in quality.backends] == [0, 0, 0]
    crossing = {"r1": 4 * 8 * 64, "c2": 4 * 8 * 64, "r2": 4 * 8 * 64, "pooled": 32, "n": 32}
    assert quality.cut_tensors == len(crossing)
    assert quality.cut_bytes == sum(crossing.values())
    assert quality.largest_share == pytest.approx(3 / 11)


def test_a_repr_says_what_it_is():
    having = "fast 2, rest 2, small 1"
    assert repr(network()) == f"Partitioning('small_network', 11 nodes in 5 subgraphs: {having})"
    notebook = network()._repr_html_()
    assert "<svg" in notebook
    assert "<script" not in notebook


COLUMNS = ["subgraph", "number", "operator", "name", "backend", "kFLOPs", "reads", "makes"]


def _data(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return [one for one in json.loads(found[1]) if one]


def _table(text, title):
    (table,) = (one for one in _data(text) if one.get("title") == title)
    return {
        name: cells
        if isinstance(cells, list)
        else [cells["texts"][at] for at in cells.get("places", range(table["count"]))]
        for name, cells in zip(table["columns"], table["cells"], strict=True)
    }


def _other():
    return partition(bound(MODEL), [described("fast: Conv Relu"), described("rest: *")])


def test_a_page_has_every_node_with_its_types_and_who_refused_it():
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


def test_the_boxes_of_the_picture_are_the_subgraphs_and_open_the_nodes():
    found = network()
    (drawing,) = (one for one in _data(found.to_html()) if "opens" in one)
    assert drawing["opens"] == "Nodes"
    assert [key for key, _ in drawing["boxes"]] == [one.id for one in found.subgraphs]
    facts = dict(drawing["boxes"][0][1])
    assert facts["backend"] == "fast"
    assert facts["nodes"] == "2 Conv, 1 Relu"
    assert "float32[1,3,8,8]" in facts["reads"]


def test_times_of_subgraphs_and_nodes_are_shown_where_they_are_known():
    found = network()
    times: dict[str | int, float] = {one.id: 0.002 for one in found.subgraphs}
    text = found.to_html(times={**times, 0: 0.0015})
    assert "its area is its time" in text
    assert _table(text, "Nodes")["time, ms"].count(1.5) == 1
    assert set(_table(text, "Subgraphs in running order")["time, ms"]) == {2.0}
    assert "its area is its arithmetic" in found.to_html(times={0: 0.0015})


def test_a_comparison_shows_what_moved_from_where_to_where():
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


def test_a_comparison_with_another_model_is_refused():
    other = partition(graph_of([("Exp", ["x"], ["y"])], ["y"]), [taking("Exp", "one")])
    with pytest.raises(ConfigError, match=r"SGK123.*different models"):
        network().to_html(against=other)


def test_the_nodes_of_a_page_are_linked_to_those_they_read():
    found = network()
    (nodes,) = [one for one in sections_of(found, found.quality, {}) if one.title == "Nodes"]
    assert isinstance(nodes, Table)
    number = list(nodes.columns).index("number")
    makers, reads = found.graph.producers, found.graph.read_by
    for row, links in zip(nodes.rows, nodes.links, strict=True):
        read = {makers[name] for name in reads(int(str(row[number]))) if name in makers}
        assert {nodes.rows[at][number] for at in links} == read
    assert sum(map(len, nodes.links)) > 10
