"""Graphs in which partitioning goes wrong easily, as models with something to feed.

``Carry`` stands for a node that the backend under test cannot have; see ``foreign``.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from subgraphkit.testing.claimed import Substitution
from subgraphkit.testing.foreign import DOMAIN
from subgraphkit.testing.small_models import SmallModel, graphs_of, model_of

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

    def with_substitution(self, substitution: Substitution) -> onnx.ModelProto | None:
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


_FUNCTION: Final = """<domain: "local", opset_import: ["" : 17]>
    Twice (p) => (r) { q = Relu(p) r = Add(q, p) }"""


def edge_cases() -> Iterator[EdgeCase]:
    """Return every edge case, the same each time."""
    plain = {name: f"g {text}" for name, text in graphs_of("edge cases").items()}
    needs = {"dimension_that_is_not_known": ("dynamic_shapes",)}
    for name, text in plain.items():
        yield EdgeCase(name, text, needs=needs.get(name, ()))
    for name, text in graphs_of("edge cases with bodies").items():
        yield EdgeCase(name, f"g {text}", needs=("control_flow",))
    yield EdgeCase("node_names_missing_or_repeated", plain["long_bypass"], _with_repeated_names)
    yield EdgeCase("output_named_twice", plain["chain"], _with_an_output_twice)
    weighted = "<float[4] w> { a = Relu(x) y = Mul(a, w) }"
    text = f"g (float[4] x) => (float[4] y) {weighted}"
    yield EdgeCase("initializer_that_is_an_input", text, partial(_with_initializer_in, "input"))
    yield EdgeCase("initializer_that_is_an_output", text, partial(_with_initializer_in, "output"))
    text = "g (float[4] x) => (float[4] y) { a = local.Twice(x) y = local.Twice(a) }"
    yield EdgeCase("function_of_the_model", f"{text} {_FUNCTION}", _with_local_opset)
    text = "g (float[4] x) => (float[4] y) { y = Mul(x, w) }"
    yield EdgeCase("sparse_initializer", text, _with_sparse_w, expected=_sparse_results)
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


def _with_local_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def _with_sparse_w(model: onnx.ModelProto) -> onnx.ModelProto:
    values = onnx.numpy_helper.from_array(np.array([2, 5], np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 2], np.int64), "w_places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    return model


def _sparse_results(feeds: Mapping[str, Any]) -> list[Any]:
    return [feeds["x"] * np.array([2, 0, 5, 0], np.float32)]
