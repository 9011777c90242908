"""Small models, and what becomes of them on TVM."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

import subgraphkit as sk
from tests.models import parsed

__all__ = ["dense", "homes", "open_tvm", "operators", "parsed", "refusals"]


def dense(seed: int = 0) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Make a matrix product with a bias and a tail, and its weights."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.standard_normal((48, 33)).astype(np.float32),
        "b": rng.standard_normal(33).astype(np.float32),
    }
    text = "g (float[5, 48] x) => (float[5, 33] y) { t = MatMul(x, w) u = Add(t, b) y = Relu(u) }"
    return parsed(text, **weights), weights


def open_tvm(
    model: onnx.ModelProto, backend: str = "tvm,numpy", **settings: Any
) -> sk.InferenceSession:
    """Open a session with TVM first; nothing is taken from the cache unless a test says so."""
    return sk.InferenceSession(
        model.SerializeToString(), backend=backend, **{"cache": False, **settings}
    )


def homes(session: sk.InferenceSession) -> list[tuple[str, tuple[int, ...]]]:
    """Return the backends and nodes of the regions."""
    return [(one.backend, one.nodes) for one in session.partitioning.subgraphs]


def operators(session: sk.InferenceSession) -> list[Any]:
    """Return the operators of the regions on TVM."""
    return [s.operator for s in session.plan.steps if s.subgraph.backend == "tvm"]


def refusals(session: sk.InferenceSession, node: int = 0) -> list[tuple[str, str]]:
    """Return why TVM does not run a node."""
    told: Mapping[int, Any] = session.partitioning.refusals
    return [(r.refusal.code, r.refusal.text) for r in told[node] if r.backend == "tvm"]
