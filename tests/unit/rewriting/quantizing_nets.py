"""Small networks to be quantized, and what is asked of the result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from subgraphkit.precision import Precision, Range, Ranges, Rewriting, rewrite

RNG = np.random.default_rng(7)


class Net:
    """A small network under construction."""

    def __init__(self, shape: Sequence[Any]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)

    def add(self, operator: str, inputs: Sequence[Any], output: str, **attributes: Any) -> str:
        names = [one if isinstance(one, str) else self._stored(one) for one in inputs]
        self.nodes.append(helper.make_node(operator, names, [output], name=output, **attributes))
        return output

    def _stored(self, array: np.ndarray[Any, Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def model(self, *outputs: str, opset: int = 18) -> onnx.ModelProto:
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", [self.x], made, self.weights)
        imports = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def kernel(made: int, read: int, size: int = 1) -> np.ndarray[Any, Any]:
    return RNG.standard_normal((made, read, size, size)) / 8


def ranges_of(**thresholds: float) -> Ranges:
    return Ranges({name: Range(top, "minmax", 1, -top, top) for name, top in thresholds.items()})


def quantized(model: onnx.ModelProto, ranges: Ranges, **more: Any) -> Rewriting:
    done = rewrite(model, Precision("int8", **more), ranges)
    onnx.checker.check_model(done.model, full_check=True)
    return done


def sources(done: Rewriting) -> dict[str, list[str]]:
    """Return the operators behind the inputs of each named node."""
    made = {value: node.op_type for node in done.model.graph.node for value in node.output}
    return {n.name: [made.get(v, "") for v in n.input] for n in done.model.graph.node}


def scale_of(done: Rewriting, value: str) -> float:
    constants = {t.name: numpy_helper.to_array(t) for t in done.model.graph.initializer}
    (node,) = [
        n for n in done.model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == value
    ]
    zero = constants[node.input[2]]
    assert (zero.dtype, zero.item()) == (np.int8, 0)
    return float(constants[node.input[1]])


DQ = "DequantizeLinear"
