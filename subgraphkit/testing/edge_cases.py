"""Graphs in which partitioning goes wrong easily, as models with something to feed.

``Carry`` stands for a node that the backend under test cannot have; see ``foreign``.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from subgraphkit.testing.claimed import Substitution
from subgraphkit.testing.foreign import DOMAIN
from subgraphkit.testing.small_models import SmallModel, model_of

_OPSET: Final = 17
_SHARED: Final = "weights_shared_by_two_subgraphs"


@dataclass(frozen=True, eq=False)
class EdgeCase:
    """One graph.

    Attributes:
        text: The graph in onnx's text form; empty if that cannot say it.
        expected: The results, where onnx's own implementation cannot run the model.
    """

    name: str
    text: str = ""
    finish: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda model: model
    needs: tuple[str, ...] = ()
    expected: Callable[[Mapping[str, Any]], list[Any]] | None = None

    def build(self) -> onnx.ModelProto:
        """Make the model as it is."""
        return self.finish(model_of(self.text, _header(_OPSET)) if self.text else onnx.ModelProto())

    def cast(self, substitution: Substitution) -> onnx.ModelProto | None:
        """Make the model with other operators; None if it means nothing with them."""
        text = substitution.of(self.text, shares=self.name == _SHARED)
        return self.finish(model_of(text, _header(substitution.opset))) if text else None

    def feeds(self, model: onnx.ModelProto) -> dict[str, Any]:
        """Return positive numbers, so that an operator may have nothing to do."""
        fed = SmallModel(model).feeds()
        return {n: abs(one) + 1 if one.dtype.kind in "fi" else one for n, one in fed.items()}

    def results(self, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
        """Return what the model must compute."""
        return SmallModel(model).expected(feeds) if self.expected is None else self.expected(feeds)


_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "one_node": "g (float[4] x) => (float[4] y) { y = Relu(x) }",
        "chain": "g (float[4] x) => (float[4] y) { a = Relu(x) b = Sigmoid(a) y = Tanh(b) }",
        "two_roots": """g (float[4] x, float[4] z) => (float[4] y)
            { a = Relu(x) b = Sigmoid(z) y = Add(a, b) }""",
        "diamond": "g (float[4] x) => (float[4] y) { a = Relu(x) b = Tanh(a) y = Add(a, b) }",
        "diamond_with_a_foreign_middle": """g (float[4] x) => (float[4] y) <float[4] m>
            { a = Relu(x) m = subgraphkit.testing.Carry(a) y = Add(a, m) }""",
        "long_bypass": """g (float[4] x) => (float[4] y) <float[4] c>
            { a = Relu(x) b = Sigmoid(a) c = subgraphkit.testing.Carry(b) d = Tanh(c)
              e = Relu(d) y = Add(a, e) }""",
        "regions_that_wait_for_each_other": """g (float[4] x) => (float[4] y)
            <float[4] b, float[4] d>
            { a = Relu(x) b = subgraphkit.testing.Carry(x) c = Add(a, b)
              d = subgraphkit.testing.Carry(a) y = Mul(c, d) }""",
        "foreign_at_both_ends": """g (float[4] x) => (float[4] y) <float[4] a>
            { a = subgraphkit.testing.Carry(x) b = Relu(a) y = subgraphkit.testing.Carry(b) }""",
        "same_input_twice": "g (float[4] x) => (float[4] y) { y = Add(x, x) }",
        "value_used_inside_and_outside": """g (float[4] x) => (float[4] y, float[4] z)
            { a = Relu(x) y = Sigmoid(a) z = subgraphkit.testing.Carry(a) }""",
        "inner_value_is_an_output": """g (float[4] x) => (float[4] a, float[4] y)
            { a = Relu(x) y = Sigmoid(a) }""",
        "outputs_in_another_order": """g (float[2,3] x) => (float[3,2] z, float[6] y, float[2,3] a)
            <int64[1] s = {6}>
            { a = Relu(x) y = Reshape(a, s) z = Transpose<perm=[1,0]>(a) }""",
        "output_nobody_reads": """g (float[1,1,4,4] x) => (float[1,1,2,2] y)
            { y, unread = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }""",
        "optional_input_left_out": """g (float[4] x) => (float[4] y) <float m = {1.0}>
            { y = Clip(x, "", m) }""",
        "node_nobody_reads": "g (float[4] x) => (float[4] y) { y = Relu(x) u = Sigmoid(x) }",
        "constant_node": """g (float[4] x) => (float[4] y)
            { c = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>() y = Mul(x, c) }""",
        "initializer_shared_by_two_subgraphs": """g (float[4] x) => (float[4] y)
            <float[4] w, float[4] b>
            { a = Mul(x, w) b = subgraphkit.testing.Carry(a) c = Mul(b, w) y = Add(c, w) }""",
        _SHARED: """g (float[4] x) => (float[4] y) <float[4] b>
            { a = Relu(x) b = subgraphkit.testing.Carry(a) y = Relu(b) }""",
        "input_is_an_output": "g (float[4] x) => (float[4] x, float[4] y) { y = Relu(x) }",
        "dimension_that_is_not_known": """g (float[n,4] x) => (float[n,4] y)
            { a = Relu(x) y = Add(a, x) }""",
        "no_nodes": "g (float[4] x) => (float[4] x) { }",
        "disconnected_parts": """g (float[4] x, float[3,3] z) => (float[4] y, float[3,3] u)
            { y = Relu(x) u = MatMul(z, z) }""",
        "no_axes": "g (float x) => (float y) { a = Relu(x) y = Add(a, a) }",
        "no_elements": "g (float[0,3] x) => (float[0,3] y) { a = Relu(x) y = Add(a, a) }",
        "many_dtypes": """g (float[4] x, float[4] z) => (float[4] y, bool[4] p, int64[4] n)
            { p = Greater(x, z) y = Where(p, x, z) n = Cast<to=7>(y) }""",
        "float16": "g (float16[4] x) => (float16[4] y) { a = Relu(x) y = Add(a, x) }",
        "float64": "g (double[4] x) => (double[4] y) { a = Relu(x) y = Add(a, x) }",
        "int64": "g (int64[4] x) => (int64[4] y) { a = Add(x, x) y = Mul(a, x) }",
        "text": "g (string[3] x) => (string[3] y, float[3] z) { y = Identity(x) "
        "e = Equal(x, y) z = Cast<to=1>(e) }",
        "sequence_between_nodes": """g (float[4,2] x) => (float[2,2] y)
            <int64 i = {1}, int64 n = {2}>
            { a = Relu(x) s = SplitToSequence<axis=0>(a, n) b = SequenceAt(s, i) y = Tanh(b) }""",
    }
)
"""Those that need no more than operators; opset 17."""

_WITH_BODIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "if_with_captures": """g (float[4] x, bool c) => (float[4] y)
            { a = Relu(x)
              b = If(c) <then_branch = t () => (float[4] p) { p = Sigmoid(a) },
                         else_branch = e () => (float[4] q) { q = Tanh(x) }>
              y = Add(a, b) }""",
        "loop_with_captures": """g (float[4] x, int64 n) => (float[4] y)
            { a = Relu(x) t = Constant<value = bool {1}>()
              b = Loop(n, t, a) <body = l (int64 i, bool k, float[4] v) => (bool o, float[4] u)
                { o = Identity(k) u = Add(v, a) }>
              y = Tanh(b) }""",
        "scan_with_captures": """g (float[3,4] x) => (float[4] y, float[3,4] z)
            { s = Constant<value = float[4] {0.0, 0.0, 0.0, 0.0}>()
              w = ReduceMax<axes=[0], keepdims=0>(x)
              y, z = Scan(s, x) <num_scan_inputs = 1, body = l (float[4] v, float[4] r)
                => (float[4] u, float[4] o) { u = Add(v, r) o = Mul(u, w) }> }""",
    }
)


def edge_cases() -> Iterator[EdgeCase]:
    """Return every trap, the same each time."""
    needs = {"dimension_that_is_not_known": ("dynamic_shapes",)}
    for name, text in _TEXTS.items():
        yield EdgeCase(name, text, needs=needs.get(name, ()))
    for name, text in _WITH_BODIES.items():
        yield EdgeCase(name, text, needs=("control_flow",))
    yield EdgeCase("node_names_missing_or_repeated", _TEXTS["long_bypass"], _with_repeated_names)
    yield EdgeCase("output_named_twice", _TEXTS["chain"], _with_an_output_twice)
    weighted = "<float[4] w> { a = Relu(x) y = Mul(a, w) }"
    text = f"g (float[4] x) => (float[4] y) {weighted}"
    yield EdgeCase("initializer_that_is_an_input", text, partial(_with_initializer_in, "input"))
    yield EdgeCase("initializer_that_is_an_output", text, partial(_with_initializer_in, "output"))
    yield EdgeCase("function_of_the_model", finish=_function)
    yield EdgeCase("sparse_initializer", finish=_sparse, expected=_sparse_results)
    yield EdgeCase("chain_of_a_thousand", finish=lambda _: chain(1000))


def _header(opset: int) -> str:
    return f'<ir_version: 10, opset_import: ["" : {opset}, "{DOMAIN}" : 1]>'


def chain(length: int, substitution: Substitution | None = None) -> onnx.ModelProto:
    """Return a chain of nodes: cheap ones, or those of a substitution."""
    operators = ("Relu", "Sigmoid", "Tanh")
    names = ["x", *(f"v{place}" for place in range(1, length)), "y"]
    pairs = itertools.pairwise(names)
    nodes = [f"{to} = {operators[n % 3]}({of})" for n, (of, to) in enumerate(pairs)]
    text = f"g (float[4] x) => (float[4] y) {{ {' '.join(nodes)} }}"
    if substitution is None:
        return model_of(text, _header(_OPSET))
    return model_of(substitution.of(text), _header(substitution.opset))


def _model(
    nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str], **more: Any
) -> onnx.ModelProto:
    def described(names: list[str]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in names]

    graph = helper.make_graph(nodes, "g", described(inputs), described(outputs), **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def _with_repeated_names(model: onnx.ModelProto) -> onnx.ModelProto:
    for node in model.graph.node[:4]:
        node.name = "the same"
    return model


def _with_an_output_twice(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.output.append(model.graph.output[0])
    return model


def _with_initializer_in(field: str, model: onnx.ModelProto) -> onnx.ModelProto:
    (tensor,) = (one for one in model.graph.initializer if one.name == "w")
    described = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    getattr(model.graph, field).append(described)
    return model


def _function(_: onnx.ModelProto) -> onnx.ModelProto:
    body = [helper.make_node("Relu", ["p"], ["q"]), helper.make_node("Add", ["q", "p"], ["r"])]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Twice", ["p"], ["r"], body, opsets)
    nodes = [
        helper.make_node("Twice", ["x"], ["a"], domain="local"),
        helper.make_node("Twice", ["a"], ["y"], domain="local"),
    ]
    model = _model(nodes, ["x"], ["y"])
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.functions.append(function)
    return model


def _sparse(_: onnx.ModelProto) -> onnx.ModelProto:
    values = onnx.numpy_helper.from_array(np.array([2, 5], np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 2], np.int64), "w_places")
    sparse = helper.make_sparse_tensor(values, places, [4])
    model = _model([helper.make_node("Mul", ["x", "w"], ["y"])], ["x"], ["y"])
    model.graph.sparse_initializer.append(sparse)
    return model


def _sparse_results(feeds: Mapping[str, Any]) -> list[Any]:
    return [feeds["x"] * np.array([2, 0, 5, 0], np.float32)]
