"""Small models, and what becomes of them on ONNX Runtime."""

from typing import Any

import onnx

import subgraphkit as sk
from tests.models import parsed

__all__ = ["homes", "open_ort", "operators", "parsed", "refusals"]


def open_ort(
    model: onnx.ModelProto, backend: str = "onnxruntime,numpy", **options: Any
) -> sk.InferenceSession:
    """Open a session with options of the backend."""
    given = {"onnxruntime": options} if options else None
    # What a backend does is tested, so all nodes are left for it to do.
    return sk.InferenceSession(
        model.SerializeToString(), backend=backend, options=given, fold=False
    )


def homes(session: sk.InferenceSession) -> list[tuple[str, tuple[int, ...]]]:
    """Return the backends and nodes of the regions."""
    return [(one.backend, one.nodes) for one in session.partitioning.subgraphs]


def operators(session: sk.InferenceSession) -> list[Any]:
    """Return the operators of the regions on ONNX Runtime."""
    return [s.operator for s in session.plan.steps if s.subgraph.backend == "onnxruntime"]


def refusals(session: sk.InferenceSession, node: int = 0) -> list[tuple[str, str]]:
    """Return why ONNX Runtime does not run a node."""
    told = session.partitioning.refusals.get(node, ())
    return [(r.refusal.code, r.refusal.text) for r in told if r.backend == "onnxruntime"]
