"""Graphs in which partitioning goes wrong easily, as models with something to feed.

``Carry`` stands for a node that the backend under test cannot have; see ``foreign``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from subgraphkit.testing.foreign import DOMAIN
from subgraphkit.testing.forms import without_foreign
from subgraphkit.testing.small_models import model_of

__all__ = ["Trap", "chain", "traps"]

_HEADER: Final = f'<ir_version: 10, opset_import: ["" : 17, "{DOMAIN}" : 1]>'
_NAN_FREE: Final = 0.25


@dataclass(frozen=True, eq=False)
class Trap:
    """One graph.

    Attributes:
        name: What is special about it.
        build: Makes the model.
        needs: Capabilities it needs.
        sizes: Sizes of its symbolic dimensions in what is fed.
        expected: The results, where onnx's own implementation cannot run the model.
    """

    name: str
    build: Callable[[], onnx.ModelProto]
    needs: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    expected: Callable[[Mapping[str, Any]], list[Any]] | None = None

    def feeds(self, model: onnx.ModelProto) -> dict[str, Any]:
        """Return an array for every input that has no default."""
        stored = {tensor.name for tensor in model.graph.initializer}
        rng = np.random.default_rng(11)
        fed = {}
        for value in model.graph.input:
            tensor = value.type.tensor_type
            shape = [self.sizes.get(dim.dim_param, dim.dim_value) for dim in tensor.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            if value.name not in stored:
                fed[value.name] = _drawn(rng, tuple(shape), dtype)
        return fed

    def results(self, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
        """Return what the model must compute, by onnx's own implementation."""
        if self.expected is not None:
            return self.expected(feeds)
        return list(ReferenceEvaluator(without_foreign(model)).run(None, dict(feeds)))


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if dtype.hasobject:
        return np.array([f"text {number}" for number in range(shape[0])], dtype=object)
    if dtype.kind == "b":
        return rng.random(shape) > _NAN_FREE
    return (rng.random(shape) * 4 + _NAN_FREE).astype(dtype)


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
        "input_is_an_output": "g (float[4] x) => (float[4] x, float[4] y) { y = Relu(x) }",
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
"""Those that onnx's text form can say; opset 17."""

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


def traps() -> Iterator[Trap]:
    """Return every trap, the same each time."""
    for name, text in _TEXTS.items():
        yield Trap(name, _reader(text))
    for name, text in _WITH_BODIES.items():
        yield Trap(name, _reader(text), ("control_flow",))
    yield Trap("dimension_that_is_not_known", _unknown_dimension, ("dynamic_shapes",), {"n": 5})
    yield Trap("node_names_missing_or_repeated", _repeated_names)
    yield Trap("output_named_twice", _output_twice)
    yield Trap("initializer_that_is_an_input", _initializer_input)
    yield Trap("initializer_that_is_an_output", _initializer_output)
    yield Trap("function_of_the_model", _function)
    yield Trap("sparse_initializer", _sparse, expected=_sparse_results)
    yield Trap("chain_of_a_thousand", lambda: chain(1000))


def _reader(text: str) -> Callable[[], onnx.ModelProto]:
    return lambda: model_of(text, _HEADER)


def chain(length: int) -> onnx.ModelProto:
    """Return a chain of cheap nodes."""
    operators = ("Relu", "Sigmoid", "Tanh")
    nodes = [
        helper.make_node(operators[place % 3], [f"v{place}"], [f"v{place + 1}"])
        for place in range(length)
    ]
    return _model(nodes, ["v0"], [f"v{length}"])


def _model(
    nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str], **more: Any
) -> onnx.ModelProto:
    def described(names: list[str]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in names]

    graph = helper.make_graph(nodes, "g", described(inputs), described(outputs), **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def _weights(name: str) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array([1, -2, 3, -4], np.float32), name)


def _unknown_dimension() -> onnx.ModelProto:
    return model_of("g (float[n,4] x) => (float[n,4] y) { a = Relu(x) y = Add(a, x) }", _HEADER)


def _repeated_names() -> onnx.ModelProto:
    model = model_of(_TEXTS["long_bypass"], _HEADER)
    for node in model.graph.node[:4]:
        node.name = "the same"
    return model


def _output_twice() -> onnx.ModelProto:
    model = model_of(_TEXTS["chain"], _HEADER)
    model.graph.output.append(model.graph.output[0])
    return model


def _initializer_input() -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    return _model(nodes, ["x", "w"], ["y"], initializer=[_weights("w")])


def _initializer_output() -> onnx.ModelProto:
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    return _model(nodes, ["x"], ["y", "w"], initializer=[_weights("w")])


def _function() -> onnx.ModelProto:
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


def _sparse() -> onnx.ModelProto:
    values = onnx.numpy_helper.from_array(np.array([2, 5], np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 2], np.int64), "w_places")
    sparse = helper.make_sparse_tensor(values, places, [4])
    model = _model([helper.make_node("Mul", ["x", "w"], ["y"])], ["x"], ["y"])
    model.graph.sparse_initializer.append(sparse)
    return model


def _sparse_results(feeds: Mapping[str, Any]) -> list[Any]:
    return [feeds["x"] * np.array([2, 0, 5, 0], np.float32)]
