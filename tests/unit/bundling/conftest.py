"""What the tests of bundles share: models, backends with engines, and a manifest to be edited."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

import subgraphkit as sk
from subgraphkit.bundling.reading import MARK
from subgraphkit.ir.structure import canonical, data_digest
from tests.models import parsed
from tests.storing import storing
from tests.unit.compiling.conftest import home

__all__ = ["home"]

X = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)


def wide():
    """Return a model of three products whose weights are large enough to be left out.

    The one in the middle is a Gemm, which ``storing`` leaves to NumPy.
    """
    model = parsed(
        """
        wide (float[N, 64] x) => (float[N, 64] y) {
          a = MatMul(x, w1)
          b = Gemm(a, w2)
          y = MatMul(b, w3)
        }
        """
    )
    rng = np.random.default_rng(1)
    for name in ("w1", "w2", "w3"):
        weight = rng.uniform(-0.1, 0.1, (64, 64)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


@pytest.fixture(autouse=True)
def _inside(home, monkeypatch):
    monkeypatch.chdir(home)


@pytest.fixture
def backend():
    """Return a backend whose engines can be stored, with counts of its own."""
    return storing()


@pytest.fixture
def bundle(backend):
    """Return a bundle of ``wide``: two engines of ``storing`` and a subgraph of NumPy between."""
    with sk.InferenceSession(wide(), backend=[backend], shapes={"N": 2}) as session:
        session.export("bundle")
    backend.compilations = backend.restorations = 0
    return Path("bundle")


@pytest.fixture
def expected():
    """Return what ``wide`` computes of ``X``."""
    with sk.InferenceSession(wide(), backend="numpy", shapes={"N": 2}) as session:
        return session.run(None, {"x": X})[0]


def edited(bundle, edit):
    """Change the manifest of a bundle and give it the digest it should have."""
    path = bundle / "manifest.json"
    members = json.loads(path.read_text())
    edit(members)
    members.pop("sha256", None)
    if MARK in members:
        members["sha256"] = data_digest(canonical(members))
    path.write_text(json.dumps(members))
