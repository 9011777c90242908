"""Valid graphs, a sample of them in every run, come out on every backend as two judges say."""

import pytest

from tests.campaign.bodies import drawable
from tests.campaign.engine import Engine
from tests.campaign.graphs import Graphs
from tests.campaign.growing import LARGEST_OPSET

BACKENDS = ("numpy", "onnxruntime", "openvino", "onednn", "openvino,onednn", "onednn,onnxruntime")
"""Each gets its share of the seeds; those that compile for seconds are left to the campaign."""
_NOT_DRAWN = "Bernoulli ImageDecoder Multinomial RandomNormal RandomNormalLike RandomUniform "


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_valid_graph_is_computed_right(backend, pytestconfig, tmp_path):
    count = pytestconfig.getoption("--valid-graphs")
    seeds = range(BACKENDS.index(backend), count, len(BACKENDS))
    tally = Engine(Graphs(), backend, tmp_path).run(seeds, float("inf"))
    assert tally.found == []
    assert tally.judged > 0.8 * tally.trials


def test_every_operator_is_drawn_but_those_of_chance():
    onnx = pytest.importorskip("onnx")
    known = {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if not schema.domain and schema.since_version <= LARGEST_OPSET
    }
    drawn = {schema.name for opset in range(7, 26) for schema in drawable(opset)}
    assert known - drawn == {*_NOT_DRAWN.split(), "RandomUniformLike"}
