"""The road from a model to arrays on the NumPy backend alone: load, bind, compile, run."""

from collections.abc import Mapping
from typing import Any

import onnx

from subgraphkit.backend import BindContext, Unsupported
from subgraphkit.binding import bind
from subgraphkit.ir import BoundGraph, make_subgraph
from subgraphkit.onnx_io import load
from subgraphkit.partitioning import partition
from subgraphkit_numpy import NumpyBackend
from subgraphkit_numpy.backend_options import Options
from subgraphkit_numpy.operator import NumpyOperator


class CompiledModel:
    """A model whose nodes all run on the NumPy backend."""

    def __init__(self, bound: BoundGraph, options: Options) -> None:
        self.bound = bound
        self.operator: NumpyOperator | None = None
        (property_,) = NumpyBackend(options).properties()
        selector = property_.create_selector(bound)
        for node in bound.nodes:
            answer = bound.is_constant_node(node.id) or selector.select(node)
            if not answer:
                raise Unsupported(f"{node.label}: {answer}")
        if len(bound.nodes):
            subgraph = make_subgraph(bound, tuple(bound.order), "numpy")
            context = BindContext(options, partition=partition)
            operator = property_.create_operator(subgraph, context)
            assert isinstance(operator, NumpyOperator)
            self.subgraph, self.operator = subgraph, operator

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the outputs of the model in order."""
        values = {name: stored.array() for name, stored in self.bound.constants.items()}
        values |= {name: stored.array() for name, stored in self.bound.defaults.items()}
        values |= feeds
        if self.operator is not None:
            results = self.operator.run([values[name] for name in self.subgraph.inputs])
            values |= dict(zip(self.subgraph.outputs, results, strict=True))
        return [values[name] for name in self.bound.outputs]

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run on inputs in order."""
        return self.run(dict(zip(self.bound.inputs, inputs, strict=True)))


def compile_model(proto: onnx.ModelProto, shapes: Any = None, **options: Any) -> CompiledModel:
    """Take a model down the road."""
    return CompiledModel(bind(load(proto), shapes, fold=False), Options(**options))
