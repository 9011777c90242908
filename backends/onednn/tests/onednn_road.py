"""The road from a model to arrays on the oneDNN backend alone, with the operator at hand."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from subgraphkit.backend import BindContext
from subgraphkit.binding import bind
from subgraphkit.ir import make_subgraph
from subgraphkit.onnx_io import load
from subgraphkit_onednn import OnednnBackend
from subgraphkit_onednn.backend_options import Options
from subgraphkit_onednn.operator import OnednnOperator


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] = MappingProxyType({}),
    *,
    opset: int = 17,
    dtype: int = onnx.TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Make a model; all inputs and outputs are of one element type."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, dtype, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def conv_net(seed: int = 0) -> onnx.ModelProto:
    """Make two convolutions with batch normalization, a residual sum, a pool and a product."""
    rng = np.random.default_rng(seed)

    def weight(*dims: int) -> Any:
        return rng.standard_normal(dims).astype(np.float32) / 8

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c2", "s", "b", "m", "v"], ["n2"]),
        helper.make_node("Add", ["n2", "r1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    constants = {
        "w1": weight(16, 3, 3, 3),
        "b1": weight(16),
        "w2": weight(16, 16, 3, 3),
        "s": 1 + weight(16),
        "b": weight(16),
        "m": weight(16),
        "v": 1 + weight(16) ** 2,
        "w3": weight(10, 16),
        "b3": weight(10),
    }
    return make_model(nodes, {"x": [1, 3, 12, 12]}, ["y"], constants)


def compile_model(model: onnx.ModelProto, **given: Any) -> OnednnOperator:
    """Compile a whole model as one region of the backend."""
    bound, options = bind(load(model)), Options(**given)
    (property_,) = OnednnBackend(options).properties()
    subgraph = make_subgraph(bound, tuple(bound.order), "onednn")
    operator = property_.create_operator(subgraph, BindContext(options))
    assert isinstance(operator, OnednnOperator)
    return operator


def refusals(model: onnx.ModelProto) -> list[str]:
    """Return what the selector says about the nodes it does not take."""
    bound = bind(load(model))
    (property_,) = OnednnBackend().properties()
    selector = property_.create_selector(bound)
    answers = [selector.select(node) for node in bound.nodes if not bound.is_constant_node(node.id)]
    return [str(answer) for answer in answers if not answer]
