"""Which nodes are computed with a convolution, and that they come out as they would alone."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from backends.numpy.tests.comparing import floats
from backends.numpy.tests.models import parsed
from backends.numpy.tests.numpy_road import CompiledModel, compile_model
from subgraphkit_numpy import parallel

INPUTS = "float[2, 6, 42, 43] x, float[2, 8, 40, 41] r, float[8, 1, 1] s"
FORMS = {
    "an activation": ("c = Conv(x, w, b) y = Relu(c)", "Conv+Relu"),
    "limits": ("c = Conv(x, w, b) y = Clip(c, low, high)", "Conv+Clip"),
    "a residual": ("c = Conv(x, w) a = Add(r, c) y = Relu(a)", "Conv+Add+Relu"),
    "a number per channel": (
        "c = Conv(x, w) m = Mul(c, s) a = Sub(s, m) y = Tanh(a)",
        "Conv+Mul+Sub+Tanh",
    ),
    "one number": ("c = Conv(x, w) a = Add(c, half) y = Div(a, half)", "Conv+Add+Div"),
    "itself": ("c = Conv(x, w) y = Mul(c, c)", "Conv+Mul"),
    "a gate": ("c = Conv(x, w, b) a = Sigmoid(c) y = Mul(c, a)", "Conv+Sigmoid+Mul"),
    "a gate and a residual": (
        "c = Conv(x, w) a = HardSigmoid(c) g = Mul(a, c) y = Add(g, r)",
        "Conv+HardSigmoid+Mul+Add",
    ),
    "a gate that is no product": ("c = Conv(x, w) a = Tanh(c) y = Add(c, a)", "Conv Tanh Add"),
    "a gate of something else": (
        "c = Conv(x, w) a = Tanh(r) q = Relu(c) y = Mul(q, a)",
        "Tanh Conv+Relu+Mul",
    ),
    "limits known at run time": ("c = Conv(x, w) y = Clip(c, low, top)", "Conv Clip"),
    "a number per column": ("c = Conv(x, w) y = Add(c, k)", "Conv Add"),
    "weights known at run time": ("v = Abs(u) c = Conv(x, v) y = Relu(c)", "Abs Conv Relu"),
    "no elementwise node": ("c = Conv(x, w) y = Softmax(c)", "Conv Softmax"),
}


def _model(body: str, more_inputs: str = "", more_outputs: str = "") -> onnx.ModelProto:
    outputs = f"float[2, 8, 40, 41] y{more_outputs}"
    model = parsed(f"g ({INPUTS}{more_inputs}) => ({outputs}) {{ {body} }}", opset=20)
    stored = {"w": floats(8, 6, 3, 3), "b": floats(8), "k": floats(41)}
    stored |= {"low": np.float32(-1), "high": np.float32(2), "half": np.float32(0.5)}
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    model.graph.initializer.extend(kept)
    return model


def _fed(model: onnx.ModelProto) -> list[Any]:
    shapes = [
        [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in model.graph.input
    ]
    return [floats(*shape) for shape in shapes]


def _steps(compiled: CompiledModel) -> str:
    assert compiled.operator is not None
    labels = [step.label for step in compiled.operator._program.steps]
    return " ".join("+".join(part.split()[1] for part in label.split(" + ")) for label in labels)


def _alone(model: onnx.ModelProto) -> CompiledModel:
    """Compile a model that hands out every value, so that each node is computed alone."""
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output]
    handed_out = {one.name for one in model.graph.output}
    apart.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in handed_out
    )
    return compile_model(apart)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_what_follows_a_convolution_is_computed_with_it_and_comes_out_the_same(
    form: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_WORTH_SHARING_NS", 0)
    monkeypatch.setattr(parallel, "thread_count", lambda: threads)
    body, steps = FORMS[form]
    model = _model(body, ", float top" * ("top" in body) + ", float[8, 6, 3, 3] u" * ("(u" in body))
    compiled, fed = compile_model(model), _fed(model)
    assert _steps(compiled) == steps
    kept = [one.copy() for one in fed]
    (found,), (expected, *_) = compiled(*fed), _alone(model)(*fed)
    np.testing.assert_array_equal(found, expected)
    for one, before in zip(fed, kept, strict=True):
        np.testing.assert_array_equal(one, before)


@pytest.mark.parametrize(
    ("body", "more", "steps"),
    [
        ("c = Conv(x, w) a = Relu(c) y = Tanh(a)", "c", "Conv Relu Tanh"),
        ("c = Conv(x, w) a = Relu(c) y = Tanh(a)", "a", "Conv+Relu Tanh"),
        ("c = Conv(x, w) a = Sigmoid(c) y = Mul(c, a)", "a", "Conv Sigmoid Mul"),
        ("c = Conv(x, w) a = Relu(c) d = Tanh(c) y = Add(a, d)", "", "Conv Relu Tanh Add"),
    ],
)
def test_a_value_that_is_read_elsewhere_ends_the_chain(body: str, more: str, steps: str) -> None:
    model = _model(body, more_outputs=f", float[2, 8, 40, 41] {more}" if more else "")
    compiled, fed = compile_model(model), _fed(model)
    assert _steps(compiled) == steps
    for found, expected in zip(compiled(*fed), _alone(model)(*fed), strict=False):
        np.testing.assert_array_equal(found, expected)
