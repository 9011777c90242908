"""A small builder for ONNX graphs whose nodes and values carry readable names."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

OPSET = 18
IR_VERSION = 10

Weights: TypeAlias = Mapping[str, npt.NDArray[Any]]
Attribute: TypeAlias = int | float | Sequence[int]


class GraphBuilder:
    """Collects nodes and initializers, naming each node after the module it belongs to."""

    def __init__(self, weights: Weights) -> None:
        """Start an empty graph.

        Args:
            weights: The trained parameters by name. Only those that a node uses enter the graph.
        """
        self._weights = weights
        self._nodes: dict[str, onnx.NodeProto] = {}
        self._initializers: dict[str, onnx.TensorProto] = {}

    def node(
        self,
        op_type: str,
        scope: str,
        inputs: Sequence[str],
        output: str | None = None,
        /,
        **attributes: Attribute,
    ) -> str:
        """Add a node with one output.

        Args:
            op_type: The operator, from the default ONNX domain.
            scope: The module the node belongs to, such as `/encoder/layer.0/attention/query`. The
                node is called after it and the operator, with a number where that is taken.
            inputs: The names of the values it reads.
            output: The name of the value it writes; by default it follows from the node's name.
            **attributes: The operator's attributes.

        Returns:
            The name of the output.
        """
        name, repeats = f"{scope}/{op_type}", 0
        while name in self._nodes:
            repeats += 1
            name = f"{scope}/{op_type}_{repeats}"
        output = output or f"{name}_output"
        node = helper.make_node(op_type, inputs, [output], name=name)
        node.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
        self._nodes[name] = node
        return output

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """Add an initializer unless there is one of that name already, and return its name."""
        if name not in self._initializers:
            array = np.asarray(value, dtype=dtype, order="C")
            self._initializers[name] = numpy_helper.from_array(array, name)
        return name

    def parameter(self, name: str) -> str:
        """Add a trained parameter as it is stored, and return its name."""
        return self.constant(name, self._weights[name])

    def linear(self, scope: str, source: str, value: str) -> str:
        """Apply the trained affine map called `source` to the last axis of `value`."""
        # The file holds [outputs, inputs]; transposing here saves a Transpose on every run.
        matrix = self.constant(f"{source}.weight", self._weights[f"{source}.weight"].T)
        product = self.node("MatMul", scope, [value, matrix])
        return self.node("Add", scope, [product, self.parameter(f"{source}.bias")])

    def layer_norm(self, scope: str, source: str, value: str, epsilon: float) -> str:
        """Normalise the last axis of `value` with the trained scale and shift of `source`."""
        inputs = [value, self.parameter(f"{source}.weight"), self.parameter(f"{source}.bias")]
        return self.node("LayerNormalization", scope, inputs, axis=-1, epsilon=epsilon)

    def model(
        self,
        name: str,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
    ) -> onnx.ModelProto:
        """Wrap everything collected so far into a model.

        Args:
            name: The name of the graph.
            inputs: The graph's inputs, with their types.
            outputs: The graph's outputs, with their types.

        Returns:
            A model in IR version 10 that imports opset 18 of the default domain.
        """
        graph = helper.make_graph(
            list(self._nodes.values()),
            name,
            inputs,
            outputs,
            list(self._initializers.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
