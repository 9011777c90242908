"""From a subgraph back to a stand-alone ``ModelProto``."""

import onnx
from onnx import numpy_helper

from subgraphkit.ir import Initializer, Node, Subgraph
from subgraphkit.onnx_io.protos import write_value_info
from subgraphkit.types import DataType, TensorType

__all__ = ["OnnxGraphWriter"]

_OLDEST_IR = 4


class OnnxGraphWriter:
    """Writes nodes and subgraphs of one graph as ONNX.

    Args:
        model: The model the graph belongs to; not changed.
        graph: The graph; not changed.
    """

    def __init__(self, model: onnx.ModelProto, graph: onnx.GraphProto) -> None:
        self._model = model
        self._graph = graph

    def node_proto(self, node: Node) -> onnx.NodeProto:
        """Return the node as it stands in the model; not to be changed."""
        proto: onnx.NodeProto = self._graph.node[node.id]
        return proto

    def subgraph_model(self, subgraph: Subgraph) -> onnx.ModelProto:
        """Write a subgraph with typed inputs, outputs and inner values.

        Weights are stored inside. Names are those of the original model. The IR version is at
        least 4, so that constants need not be inputs.
        """
        model = onnx.ModelProto(
            ir_version=max(self._model.ir_version, _OLDEST_IR),
            producer_name="subgraphkit",
        )
        for domain, version in subgraph.graph.opset_imports.items():
            model.opset_import.add(domain=domain, version=version)
        graph = model.graph
        graph.name = subgraph.id
        types = subgraph.graph.types
        graph.input.extend(write_value_info(n, types.get(n)) for n in subgraph.inputs)
        graph.output.extend(write_value_info(n, types.get(n)) for n in subgraph.outputs)
        # A constant that was replaced is written as it is now, not as its node states it.
        replaced = {name for name, constant in subgraph.constants.items() if constant.version}
        outputs = subgraph.graph.table.outputs
        nodes = [i for i in subgraph.nodes if replaced.isdisjoint(outputs[i])]
        graph.node.extend(self._graph.node[i] for i in nodes)
        made = {name for i in nodes for name in outputs[i] if name}
        graph.initializer.extend(
            _tensor(constant) for name, constant in subgraph.constants.items() if name not in made
        )
        graph.value_info.extend(
            write_value_info(name, type_)
            for name in sorted(made.difference(subgraph.outputs))
            if (type_ := types.get(name)) is not None and _is_told(type_)
        )
        return model


def _is_told(type_: object) -> bool:
    return not (isinstance(type_, TensorType) and type_.dtype is DataType.UNDEFINED)


def _tensor(constant: Initializer) -> onnx.TensorProto:
    array = constant.array()
    if constant.type.dtype is DataType.STRING:
        texts = [s.encode() if isinstance(s, str) else bytes(s) for s in array.reshape(-1)]
        return onnx.TensorProto(
            name=constant.name, dims=array.shape, data_type=DataType.STRING, string_data=texts
        )
    return numpy_helper.from_array(array, constant.name)
