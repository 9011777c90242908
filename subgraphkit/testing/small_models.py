"""Small models, of which every backend that does anything should take one.

The checks of the contract, of artefacts and of stress need a subgraph of the backend, whatever it
is; they use the first of these models of which the backend takes a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

from subgraphkit.errors import SubgraphkitError
from subgraphkit.testing.cases import Outcome
from subgraphkit.testing.subject import Stopped, Subject

__all__ = ["ROWS", "SmallModel", "model_of", "model_taken", "small_models"]

ROWS: Final = 4
"""Size of the first axis unless another is asked for."""

_ROWS_PER_IMAGE: Final = 64
_HEADER: Final = '<ir_version: 10, opset_import: ["" : 17]>'
_TEXTS: Final = (
    """mlp (float[N,16] x) => (float[N,8] y)
       <float[16,32] w1, float[32] b1, float[32,8] w2, float[8] b2>
       { h = Gemm(x, w1, b1) r = Relu(h) y = Gemm(r, w2, b2) }""",
    """convolution (float[I,3,16,16] x) => (float[I,8,16,16] y)
       <float[8,3,3,3] w, float[8] b>
       { c = Conv<pads=[1,1,1,1], kernel_shape=[3,3]>(x, w, b) y = Relu(c) }""",
    """product (float[N,16] x) => (float[N,8] y)
       <float[16,8] w>
       { y = MatMul(x, w) }""",
    """elementwise (float[N,8] x) => (float[N,8] y)
       <float[8] w>
       { a = Add(x, w) m = Mul(a, x) r = Relu(m) y = Sigmoid(r) }""",
    """normalised (float[N,8] x) => (float[N,8] y)
       { s = Softmax<axis=1>(x) y = Sqrt(s) }""",
    """pooled (float[I,3,8,8] x) => (float[I,3,4,4] y)
       { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }""",
    """integers (int64[N,8] x) => (int64[N,8] y)
       { a = Add(x, x) y = Mul(a, x) }""",
    """moved (float[N,8] x) => (float[8,N] y)
       { t = Transpose<perm=[1,0]>(x) y = Identity(t) }""",
)


@dataclass(frozen=True, eq=False)
class SmallModel:
    """A model with one input ``x`` and one output ``y``.

    Attributes:
        proto: The model.
    """

    proto: onnx.ModelProto

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.proto.graph.name)

    def feeds(self, seed: int = 0) -> Mapping[str, npt.NDArray[Any]]:
        """Return something to feed; another seed gives other values."""
        tensor = self.proto.graph.input[0].type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        drawn = np.random.default_rng(seed).standard_normal(shape)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        return {"x": (drawn * 4 if dtype.kind == "i" else drawn).astype(dtype)}

    def expected(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return what onnx's own implementation computes."""
        return list(ReferenceEvaluator(self.proto).run(None, dict(feeds)))


def model_of(text: str, header: str = _HEADER) -> onnx.ModelProto:
    """Read a model in onnx's text form.

    Args:
        text: The graph. Values that are declared and made by no node become initializers with
            numbers drawn, unless they have some.
        header: Versions of the format and of the operator sets.
    """
    model = parser.parse_model(f"{header} {text}")
    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    declared = [value for value in graph.value_info if value.name not in made]
    rng = np.random.default_rng(5)
    for value in declared:
        tensor = value.type.tensor_type
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        drawn = rng.standard_normal(shape) / 4
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        graph.initializer.append(onnx.numpy_helper.from_array(drawn.astype(dtype), value.name))
        graph.value_info.remove(value)
    return model


@lru_cache(maxsize=2)
def small_models(rows: int = ROWS) -> tuple[SmallModel, ...]:
    """Return the models, the most revealing first.

    Args:
        rows: Size of the first axis of ``x``; of pictures there are fewer.
    """
    images = max(1, rows // _ROWS_PER_IMAGE)
    texts = (text.replace("[N,", f"[{rows},").replace(",N]", f",{rows}]") for text in _TEXTS)
    return tuple(SmallModel(model_of(text.replace("[I,", f"[{images},"))) for text in texts)


def model_taken(subject: Subject, rows: int = ROWS) -> SmallModel:
    """Return the first model of which the backend takes a node.

    Raises:
        Stopped: It takes none of any (``UNCLAIMED``), or fails when it is asked.
    """
    for model in small_models(rows):
        try:
            partitioning = subject.partitioned(subject.bound(model.proto))
        except SubgraphkitError as error:
            raise Stopped(Outcome.FAIL_PROBE, str(error)) from error
        if subject.nodes_taken(partitioning):
            return model
    names = ", ".join(model.name for model in small_models())
    raise Stopped(Outcome.UNCLAIMED, f"it takes no node of the models {names}")
