"""What the tests of the OpenVINO backend share."""

from collections.abc import Sequence
from typing import Any

import onnx

import subgraphkit as sk
from subgraphkit.backend import BindContext, SubgraphOperator
from subgraphkit.ir import Subgraph, make_subgraph
from subgraphkit_openvino import OpenVINOBackend
from subgraphkit_openvino.backend_options import Options
from tests import models

SELECTION = "openvino,numpy"


def parsed(body: str, opset: int = 21, **weights: Any) -> onnx.ModelProto:
    """Return a model from ONNX's own textual form, with arrays as initializers."""
    return models.parsed(body, opset, **weights)


def session(model: Any, **options: Any) -> sk.InferenceSession:
    """Open a session on OpenVINO with NumPy behind it."""
    return sk.InferenceSession(model, backend=SELECTION, options={"openvino": options})


def homes(model: onnx.ModelProto, **options: Any) -> list[str]:
    """Return the backend of every node, by place."""
    with session(model, **options) as opened:
        by_node = {
            node: subgraph.backend
            for subgraph in opened.partitioning.subgraphs
            for node in subgraph.nodes
        }
    return [by_node[node] for node in sorted(by_node)]


def reasons(model: onnx.ModelProto) -> list[str]:
    """Return why OpenVINO refused nodes, those whose size is fed not counted."""
    with sk.config(limits="max_value_bytes=0"), session(model) as opened:
        given = opened.partitioning.refusals.values()
        return [str(one.refusal) for row in given for one in row if one.backend == "openvino"]


class OpenedModel:
    """A model compiled as one subgraph, by hand."""

    def __init__(self, model: onnx.ModelProto, **options: Any) -> None:
        self.backend = OpenVINOBackend(Options(**options))
        bound = sk.bind(sk.load(model))
        (property_,) = self.backend.properties()
        self.context = BindContext(self.backend.option_values)
        property_.prepare(bound, self.context)
        self.subgraph: Subgraph = make_subgraph(bound, tuple(bound.order), "openvino")
        self.operator: SubgraphOperator = property_.create_operator(self.subgraph, self.context)

    def __call__(self, *inputs: Any, outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run on inputs in order."""
        return self.operator.run(inputs, outputs)


def compiled(body: str, **options: Any) -> OpenedModel:
    """Compile a graph in textual form as one subgraph."""
    return OpenedModel(parsed(body), **options)
