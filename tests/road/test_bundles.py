"""Real networks on several backends, exported and opened again in a process of its own."""

import json
from pathlib import Path

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.partitioning import Constraints
from subgraphkit.testing.light_models import seeded_feeds, seeded_model
from tests.ready import python_command
from tests.scripts import run_child

MIXED = "openvino,onnxruntime,numpy"
OPENING = """
import json, sys
import numpy as np
from unittest import mock
import subgraphkit as sk
from subgraphkit.backend.property import SubgraphProperty

def nothing(*_, **__):
    raise AssertionError("the model was divided again")

with mock.patch("subgraphkit.partitioning.division.claim_all", nothing):
    session = sk.InferenceSession(sys.argv[1])
feeds = dict(np.load("feeds.npz"))
np.savez("results.npz", *session.run(None, feeds))
print(json.dumps([[one.id, one.backend] for one in session.partitioning.subgraphs]))
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Work in a folder of the test."""
    monkeypatch.chdir(tmp_path)


def _constraints():
    """Give every backend a part: pooling to ONNX Runtime, Relu to NumPy, the rest to OpenVINO."""
    return {"exclusions": {"openvino": ["MaxPool", "Relu"], "onnxruntime": ["Relu"]}}


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_network_on_three_backends_computes_the_same_in_another_process(name):
    pytest.importorskip("openvino")
    pytest.importorskip("onnxruntime")
    model = seeded_model(name)
    feeds = seeded_feeds(model)
    bound = sk.bind(sk.load(model), backend=MIXED)
    partitioning = sk.partition(bound, constraints=Constraints(**_constraints()))
    with sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning))) as session:
        want = session.run(None, feeds)
        session.export("bundle")
        subgraphs = [[one.id, one.backend] for one in session.partitioning.subgraphs]
    assert {backend for _, backend in subgraphs} == {"openvino", "onnxruntime", "numpy"}
    np.savez("feeds.npz", **feeds)
    Path("bundle").rename("moved")
    done = run_child(python_command("-c", OPENING, "moved"))
    assert json.loads(done.stdout.splitlines()[-1]) == subgraphs
    results = np.load("results.npz")
    for one, other in zip((results[key] for key in results.files), want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_network_in_one_engine_brings_none_of_its_weights_along():
    pytest.importorskip("openvino")
    model = seeded_model("resnet50")
    feeds = seeded_feeds(model)
    with sk.InferenceSession(model, backend="openvino") as session:
        want = session.run(None, feeds)
        session.export("bundle")
    assert Path("bundle/model.onnx").stat().st_size < 300_000
    assert not list(Path("bundle").glob("weights.*"))
    with sk.InferenceSession("bundle") as opened:
        np.testing.assert_array_equal(opened.run(None, feeds)[0], want[0])
