"""Times from inside of the operators of every backend that is installed."""

import numpy as np
import pytest

import subgraphkit as sk
from tests.models import parsed

NETWORK = """
network (float[1, 4, 16, 16] x) => (float[1, 4] y)
{
  c = Conv <pads = [1, 1, 1, 1]> (x, k)
  r = Relu(c)
  m = GlobalAveragePool(r)
  f = Flatten(m)
  g = MatMul(f, w)
  y = Softmax(g)
}
"""
FEEDS = {"x": np.random.default_rng(0).standard_normal((1, 4, 16, 16), np.float32)}
NAMES_NODES = dict.fromkeys(("numpy", "onednn", "openvino"), "all")
NAMES_NODES |= {"onnxruntime": "some", "tvm": "no"}
"""Which rows inside name nodes of the model; ONNX Runtime puts reorders of its own between."""


def network():
    draw = np.random.default_rng(1).standard_normal
    return parsed(NETWORK, k=draw((4, 4, 3, 3), np.float32), w=draw((4, 4), np.float32))


@pytest.mark.parametrize("backend", NAMES_NODES)
def test_every_backend_has_times_inside_that_add_up(backend):
    try:
        session = sk.InferenceSession(network(), backend, on_fallback="ok")
    except sk.errors.BackendError as error:
        pytest.skip(str(error))
    with session, session.profile(3) as profile:
        before = session.run(None, FEEDS)
        profile.run(FEEDS)
        again = session.run(None, FEEDS)
    np.testing.assert_allclose(again[0], before[0], rtol=1e-5)
    assert profile.notes == ()
    inside = [row for row in profile.rows if row.kind == "inside" and row.backend == backend]
    assert inside
    if NAMES_NODES[backend] == "all":
        assert all(row.nodes for row in inside)
    assert all(row.label.startswith(f"{backend}: ") for row in inside if not row.nodes)
    if NAMES_NODES[backend] != "no":
        taken = {n for row in profile.rows if row.kind == "subgraph" for n in row.numbers}
        assert {0, 4} <= {node for row in inside for node in row.numbers} <= taken  # Conv, MatMul
    leaves = sum(row.seconds for row in profile.rows if row.kind != "subgraph")
    wall = sum(profile.walls) / len(profile.walls)
    assert leaves == pytest.approx(wall, rel=1e-9)
