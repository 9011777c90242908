"""What the tests of the run side share: models compiled for the double of TensorRT."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import onnx

import subgraphkit as sk
from backends.tensorrt.tests.tensorrt_double import Double
from backends.tensorrt.tests.tensorrt_models import context_of
from subgraphkit.backend import (
    Answer,
    Backend,
    BindContext,
    SubgraphOperator,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.ir import BoundGraph, Node, Subgraph, make_subgraph
from subgraphkit.types import TensorType, ValueType
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.network import PACKED, TYPES
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.running.regions import compile_region
from tests import models

SUM = "agraph (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Add(t, x) }"
GROWING = "agraph (float[n,3] x) => (float[n,3] y) { t = Relu(x) y = Add(t, x) }"
PICKED = "agraph (float[n] x) => (int64[1,m] y, float[n] z) { y = NonZero(x) z = Neg(x) }"
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3

_QUIET: dict[str, Any] = {"timing_cache": False, "build_behind": False}
_DTYPES = {*TYPES.values()} - PACKED
_NEVER = {"Loop", "Scan", "RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"}


WIDE = "agraph (float[n,768] x) => (float[n,768] y) { t = Relu(x) y = Add(t, x) }"
WIDEST = 512
NEEDED = 2 * WIDEST * 768 * 4
"""Bytes of the input and the output of WIDE at its largest."""


def wide(rows: int) -> Any:
    """Return an input of WIDE."""
    return np.full((rows, 768), rows, np.float32)


def summed(x: Any) -> Any:
    """Return what SUM and GROWING compute."""
    return np.maximum(x, 0) + x


def parsed(body: str, opset: int = 21, **weights: Any) -> onnx.ModelProto:
    """Return a model from ONNX's own textual form, with arrays as initializers."""
    return models.parsed(body, opset, **weights)


def weighted(weight: Any) -> onnx.ModelProto:
    """Return a model with one weight of shape 3 by 3."""
    text = "agraph (float[2,3] x) => (float[2,3] y) { y = MatMul(x, w) }"
    return parsed(text, w=np.float32(weight))


class Opened:
    """A model compiled as one subgraph, by hand."""

    def __init__(self, model: onnx.ModelProto | str, double: Double, **given: Any) -> None:
        proto = parsed(model) if isinstance(model, str) else model
        self.options = Options(**{**_QUIET, **given})
        bound = sk.bind(sk.load(proto))
        self.subgraph = make_subgraph(bound, tuple(bound.order), "tensorrt")
        self.context = context_of(bound, self.options)
        self.operator = compile_region(self.subgraph, double.library, self.context)

    def __call__(self, *inputs: Any, outputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run on inputs in order."""
        return self.operator.run(inputs, outputs)

    def check(self, *lengths: int) -> None:
        """Run GROWING at lengths one after the other, and compare."""
        for n in lengths:
            x = np.full((n, 3), n, np.float32)
            np.testing.assert_array_equal(self(x)[0], summed(x))


class Tensor:
    """An array of another library, made on its own stream, that speaks the array interface.

    ``said``: What it says otherwise of itself.
    """

    def __init__(self, double: Double, array: Any, offset: int = 0, **said: Any) -> None:
        self._said = said
        self.cuda = Cuda(double.cuda)
        self.stream = self.cuda.create_stream()
        self.array = np.ascontiguousarray(array)
        self.shape, self.dtype = self.array.shape, self.array.dtype
        self.block = self.cuda.allocate(max(self.array.nbytes, 1) + 256)
        self.address = self.block + offset
        self.cuda.upload(self.address, self.array.ctypes.data, self.array.nbytes, self.stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.array.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.stream,
            **self._said,
        }

    def numpy(self, *, stream: int | None = None) -> Any:
        """Read it on a stream, its own unless another is named; waits for that stream alone."""
        found, where = np.empty_like(self.array), self.stream if stream is None else stream
        self.cuda.download(found.ctypes.data, self.address, found.nbytes, where)
        self.cuda.wait_for_stream(where)
        return found


class _Selector(SubgraphSelector):
    """Takes nodes whose values are plain tensors."""

    def __init__(self, graph: BoundGraph) -> None:
        self._graph = graph

    def select(self, node: Node) -> Answer:
        types = [self._graph.types.get(name) for name in (*node.inputs, *node.outputs) if name]
        return node.op_type not in _NEVER and all(map(_is_plain, types))


def _is_plain(type_: ValueType | None) -> bool:
    """Say whether TensorRT has such values: it wants to know the rank."""
    return isinstance(type_, TensorType) and type_.shape is not None and type_.dtype in _DTYPES


class _Property(SubgraphProperty):
    name: ClassVar[str] = "double"

    def __init__(self, double: Double, options: Options, most: int | None) -> None:
        self._double = double
        self._options = options
        self.max_nodes = most

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        return _Selector(graph)

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> SubgraphOperator:
        given = replace(context_of(subgraph.graph, self._options), compile=context.compile)
        return compile_region(subgraph, self._double.library, given)


class DoubleBackend(Backend[Options]):
    """The run side of the backend, with a double's engines for whatever has plain tensors."""

    name: ClassVar[str] = "tensorrt"

    def __init__(self, double: Double, *, most: int | None = None, **given: Any) -> None:
        super().__init__(Options(**{**_QUIET, **given}))
        self._double = double
        self._most = most

    def properties(self) -> Sequence[SubgraphProperty]:
        return (_Property(self._double, self.option_values, self._most),)


def session(model: Any, double: Double, most: int | None = None, **options: Any) -> Any:
    """Open a session on the double with NumPy behind it."""
    backend = DoubleBackend(double, most=most, **options)
    return sk.InferenceSession(model, backend=[backend, "numpy"])


def run_bound(opened: Any, feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """Run a session with inputs and outputs bound; return what it wrote."""
    binding = opened.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, array)
    for name, place in outputs.items():
        binding.bind_output(name, place)
    opened.run_with_iobinding(binding)
    return binding.get_outputs()


def in_thread(function: Callable[[], Any], *, waits: bool = True) -> threading.Thread:
    """Call a function in another thread; wait until it is done, unless told not to."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(20 if waits else 0.02)
    assert not (waits and thread.is_alive())
    return thread


def on_numpy(model: Any, feeds: Any) -> list[Any]:
    """Return what the NumPy backend computes."""
    with sk.InferenceSession(model, backend="numpy") as opened:
        return opened.run(None, feeds)
