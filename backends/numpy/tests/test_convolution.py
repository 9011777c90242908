"""Large convolutions: results, threads, scratch memory, and what is computed with them."""

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from backends.numpy.tests.comparing import F32, compare, floats, run_onnxruntime
from backends.numpy.tests.models import node_model, parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.binding import bind
from subgraphkit.ir import Node
from subgraphkit.onnx_io import load
from subgraphkit_numpy import parallel
from subgraphkit_numpy.kernels import convolution_depthwise as depthwise
from subgraphkit_numpy.kernels.convolution import working_memory

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one element, cut by filters": ((1, 64, 20, 20), (512, 64, 1, 1), {}),
    "one element, cut by pixels": ((1, 32, 110, 90), (24, 32, 1, 1), {}),
    "one element, two images": ((2, 40, 30, 31), (48, 40, 1, 1), {}),
    "one element, a stride": ((1, 96, 41, 40), (128, 96, 1, 1), {"strides": [2, 2]}),
    "one element in three axes": ((1, 24, 6, 9, 40), (48, 24, 1, 1, 1), {}),
    "one element, groups": ((2, 64, 40, 40), (96, 16, 1, 1), {"group": 4}),
    "many rows": ((2, 48, 61, 50), (32, 48, 3, 3), {"pads": [1, 1, 1, 1]}),
    "more padding on one side": ((1, 48, 30, 29), (64, 48, 3, 3), {"pads": [2, 0, 0, 3]}),
    "three channels": ((1, 3, 90, 91), (24, 3, 7, 7), {"pads": [3, 2, 3, 4], "strides": [2, 2]}),
    "stride and dilation": ((1, 40, 40, 39), (48, 40, 3, 3),
     {"strides": [2, 3], "dilations": [3, 2]}),
    "padding wider than the image": ((1, 8, 3, 2), (4, 8, 3, 3), {"pads": [4, 5, 4, 3]}),
    "groups": ((1, 96, 26, 26), (64, 24, 5, 5), {"group": 4, "pads": [2, 2, 2, 2]}),
    "one axis": ((1, 80, 1500), (64, 80, 3), {"pads": [1, 1]}),
    "three axes": ((1, 24, 9, 20, 20), (16, 24, 3, 3, 3), {"pads": [1, 0, 1, 1, 2, 1]}),
    "three axes, strides": ((1, 12, 19, 20, 20), (8, 12, 3, 2, 3), {"strides": [2, 3, 1]}),
    "depthwise": ((1, 96, 56, 57), (96, 1, 3, 3), {"group": 96, "pads": [1, 1, 1, 1]}),
    "depthwise, a stride": ((1, 80, 75, 70), (80, 1, 5, 5),
     {"group": 80, "pads": [2, 1, 2, 2], "strides": [2, 2]}),
    "depthwise, high windows": ((2, 40, 45, 44), (40, 1, 7, 7),
     {"group": 40, "pads": [3, 3, 3, 3]}),
    "depthwise, dilations": ((1, 40, 45, 44), (40, 1, 3, 3),
     {"group": 40, "pads": [2, 3, 2, 3], "dilations": [2, 3]}),
    "depthwise, small": ((1, 640, 7, 7), (640, 1, 5, 5), {"group": 640, "pads": [2, 2, 2, 2]}),
    "depthwise, two filters each": ((1, 48, 50, 50), (96, 1, 3, 3), {"group": 48}),
    "depthwise, huge": ((1, 2, 300, 400), (2, 1, 5, 5), {"group": 2, "pads": [2, 2, 2, 2]}),
    "depthwise, one axis": ((1, 64, 3000), (64, 1, 5), {"group": 64, "pads": [2, 2]}),
}  # fmt: skip


def _model(name, dtype=np.float32, *, constant=True, typed=True):
    x_shape, w_shape, attributes = CASES[name]
    inputs = [floats(*x_shape), floats(*w_shape), floats(w_shape[0])]
    inputs = [value.astype(dtype) for value in inputs]
    stored = (1, 2) if constant else ()
    model = node_model(
        "Conv", inputs, [np.dtype(dtype)], constants=stored, typed=typed, **attributes
    )
    return model, {f"x{i}": value for i, value in enumerate(inputs) if i not in stored}


@pytest.mark.parametrize("name", CASES)
def test_large_convolutions_agree_with_onnxruntime(name):
    model, feeds = _model(name)
    compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_other_element_types_agree_with_float32(name, dtype):
    model, feeds = _model(name, dtype)
    weights = [
        np.array(t) for t in (compile_model(model).bound.constants[n].array() for n in ("x1", "x2"))
    ]
    wide = [feeds["x0"].astype(np.float32), *(w.astype(np.float32) for w in weights)]
    reference = node_model("Conv", wide, [F32], constants=(1, 2), **CASES[name][2])
    (expected,) = compile_model(reference).run({"x0": wide[0]})
    (result,) = compile_model(model).run(feeds)
    assert result.dtype == dtype
    if dtype is np.float64:
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    else:
        np.testing.assert_array_equal(result, expected.astype(dtype))


_SPREADING = [n for n in CASES if n.startswith(("depthwise", "more padding", "many rows"))]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", _SPREADING)
def test_one_element_that_is_not_finite_spoils_only_its_windows(name, value):
    model, feeds = _model(name)
    compiled = compile_model(model)
    x = feeds["x0"].copy()
    (before,) = compiled.run({"x0": x})
    x[0, 1, x.shape[2] // 2] = value if x.ndim == 3 else x[0, 1, x.shape[2] // 2]
    if x.ndim > 3:
        x[0, 1, x.shape[2] // 2, x.shape[3] // 2] = value
    (after,) = compiled.run({"x0": x})
    (expected,) = run_onnxruntime(model, {"x0": x})
    np.testing.assert_array_equal(np.isfinite(after), np.isfinite(expected))
    same = np.isfinite(after)
    assert not same.all()
    np.testing.assert_allclose(after[same], before[same], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [1e8, 3e18, 1e30])
@pytest.mark.parametrize("name", _SPREADING)
def test_one_large_element_costs_its_own_windows_alone_their_precision(name, value):
    model, feeds = _model(name)
    compiled = compile_model(model)
    x = feeds["x0"].copy()
    (before,) = compiled.run({"x0": x})
    place = (0, 1, *(size // 2 for size in x.shape[2:]))
    x[place] = value
    (after,) = compiled.run({"x0": x})
    (expected,) = run_onnxruntime(model, {"x0": x})
    (usual,) = run_onnxruntime(model, feeds)
    beyond = np.isclose(expected, usual, rtol=1e-4, atol=1e-4)  # a weight may be tiny
    np.testing.assert_allclose(after[beyond], before[beyond], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-6 * value)


@given(data=st.data())
@settings(max_examples=150)
def test_wide_depthwise_convolutions_agree_with_onnxruntime(data):
    def draw(low, high):
        return data.draw(st.integers(low, high))

    channels, multiplier = draw(1, 3), draw(1, 2)
    kernel, dilations = [draw(1, 4), draw(1, 4)], [draw(1, 3), draw(1, 3)]
    size = [(k - 1) * d + draw(1, 30) for k, d in zip(kernel, dilations, strict=True)]
    inputs = [
        floats(1, channels, *size),
        floats(channels * multiplier, 1, *kernel),
        floats(channels * multiplier),
    ]
    attributes: dict[str, Any] = {
        "group": channels,
        "dilations": dilations,
        "strides": [draw(1, 3), draw(1, 3)],
        "pads": [draw(0, 3) for _ in range(4)],
    }
    model = node_model("Conv", inputs, [F32], constants=(1, 2), **attributes)
    feeds = {"x0": inputs[0]}
    compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds))


@pytest.mark.parametrize(
    "name", ["depthwise, a stride", "depthwise, huge", "many rows", "three axes, strides"]
)
def test_memory_of_a_convolution_is_told_before_it_is_made(name, monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 1)
    model, feeds = _model(name)
    scratch, packed = working_memory(Node(bind(load(model), fold=False), 0), 1)
    tracemalloc.start()
    compiled = compile_model(model)
    made = _bytes_of(depthwise)
    (y,) = compiled.run(feeds)
    tracemalloc.reset_peak()
    del y
    before, _ = tracemalloc.get_traced_memory()
    (y,) = compiled.run(feeds)
    peak = tracemalloc.get_traced_memory()[1] - before - y.nbytes
    tracemalloc.stop()
    assert made == pytest.approx(packed, abs=1 << 15)
    assert peak == pytest.approx(scratch, rel=0.1, abs=1 << 14)
    assert working_memory(Node(bind(load(model), fold=False), 0), 3)[0] <= 3 * scratch


def _bytes_of(module):
    """Return the bytes that are held of what a module has made."""
    traces = tracemalloc.take_snapshot().traces
    return sum(one.size for one in traces if one.traceback[0].filename == module.__file__)


def test_the_first_of_two_parts_is_longer_by_what_waking_a_thread_takes():
    """The less there is to do, the more of it the calling thread does itself."""
    assert parallel.parts_of(1000, 2) == [slice(0, 500), slice(500, 1000)]
    assert parallel.parts_of(1000, 2, nanoseconds=600_000)[0].stop == 550
    assert parallel.parts_of(1000, 2, nanoseconds=1_000)[0].stop == 700


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


def _chained(body, more_inputs="", more_outputs=""):
    outputs = f"float[2, 8, 40, 41] y{more_outputs}"
    model = parsed(f"g ({INPUTS}{more_inputs}) => ({outputs}) {{ {body} }}", opset=20)
    stored = {"w": floats(8, 6, 3, 3), "b": floats(8), "k": floats(41)}
    stored |= {"low": np.float32(-1), "high": np.float32(2), "half": np.float32(0.5)}
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    model.graph.initializer.extend(kept)
    return model


def _fed(model):
    shapes = [[it.dim_value for it in one.type.tensor_type.shape.dim] for one in model.graph.input]
    return [floats(*shape) for shape in shapes]


def _steps(compiled):
    assert compiled.operator is not None
    labels = [step.label for step in compiled.operator._program.steps]
    return " ".join("+".join(part.split()[1] for part in label.split(" + ")) for label in labels)


def _alone(model):
    """Compile a model that hands out every value, so that each node is computed alone."""
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output]
    handed_out = {one.name for one in model.graph.output}
    apart.graph.output.extend(onnx.ValueInfoProto(name=it) for it in names if it not in handed_out)
    return compile_model(apart)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_what_follows_a_convolution_is_computed_with_it_and_is_the_same(form, threads, monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_SHARING_NS", 0)
    monkeypatch.setattr(parallel, "thread_count", lambda: threads)
    body, steps = FORMS[form]
    model = _chained(
        body, ", float top" * ("top" in body) + ", float[8, 6, 3, 3] u" * ("(u" in body)
    )
    compiled, fed = compile_model(model), _fed(model)
    assert _steps(compiled) == steps
    kept = [one.copy() for one in fed]
    (found,), (expected, *_) = compiled(*fed), _alone(model)(*fed)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_equal(fed, kept)


@pytest.mark.parametrize(("body", "more", "steps"), [
    ("c = Conv(x, w) a = Relu(c) y = Tanh(a)", "c", "Conv Relu Tanh"),
    ("c = Conv(x, w) a = Relu(c) y = Tanh(a)", "a", "Conv+Relu Tanh"),
    ("c = Conv(x, w) a = Sigmoid(c) y = Mul(c, a)", "a", "Conv Sigmoid Mul"),
    ("c = Conv(x, w) a = Relu(c) d = Tanh(c) y = Add(a, d)", "", "Conv Relu Tanh Add"),
])  # fmt: skip
def test_a_value_that_is_read_elsewhere_ends_the_chain(body, more, steps):
    model = _chained(body, more_outputs=f", float[2, 8, 40, 41] {more}" if more else "")
    compiled, fed = compile_model(model), _fed(model)
    assert _steps(compiled) == steps
    for found, expected in zip(compiled(*fed), _alone(model)(*fed), strict=False):
        np.testing.assert_array_equal(found, expected)
