"""Convolutions, pools and recurrent layers against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import subgraphkit as sk
from backends.numpy.tests.comparing import (
    F32,
    I64,
    RNG,
    check,
    compare,
    floats,
    onnxruntime_from,
    run_onnxruntime,
)
from backends.numpy.tests.models import node_model, parsed
from backends.numpy.tests.numpy_road import compile_model


@st.composite
def conv_cases(draw):
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    per_group, filters = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    spatial = [
        (k - 1) * d + draw(st.integers(1, 5)) for k, d in zip(kernel, dilations, strict=True)
    ]
    attributes: dict[str, Any] = {
        "group": groups,
        "dilations": dilations,
        "strides": [draw(st.integers(1, 3)) for _ in range(rank)],
    }
    # ONNX Runtime takes no dilation together with padding chosen by name
    named = ["SAME_UPPER", "SAME_LOWER"] if max(dilations) == 1 else []
    padding = draw(st.sampled_from(["pads", "VALID", *named]))
    if padding == "pads":
        attributes["pads"] = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    else:
        attributes["auto_pad"] = padding
    x = floats(draw(st.integers(1, 2)), groups * per_group, *spatial)
    w = floats(groups * filters, per_group, *kernel)
    bias = floats(groups * filters) if draw(st.booleans()) else None
    return [x, w] + ([] if bias is None else [bias]), attributes


@given(case=conv_cases(), constant=st.booleans(), typed=st.booleans())
def test_convolutions_agree_with_onnxruntime(case, constant, typed):
    inputs, attributes = case
    stored = tuple(range(1, len(inputs))) if constant else ()
    model = node_model("Conv", inputs, [F32], constants=stored, typed=typed, **attributes)
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if i not in stored}
    compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds))


@pytest.mark.parametrize("attributes", [
    {},
    {"strides": [2, 3], "pads": [1, 0, 1, 2]},
    {"strides": [2, 2], "output_padding": [1, 1]},
    {"dilations": [2, 1]},
    {"strides": [3, 2], "output_shape": [16, 12]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"group": 2},
])  # fmt: skip
def test_transposed_convolutions_agree_with_onnxruntime(attributes):
    groups = attributes.get("group", 1)
    check("ConvTranspose", [floats(2, 4, 5, 6), floats(4, 3, 3, 3), floats(3 * groups)], [F32],
          **attributes)  # fmt: skip


POOLS = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 0, 0, 1]},
]


@onnxruntime_from("1.26", "counts other padding")
@pytest.mark.parametrize("attributes", POOLS)
def test_averages_that_count_padding_agree_with_onnxruntime(attributes):
    check("AveragePool", [floats(2, 3, 9, 8)], [F32], count_include_pad=1, **attributes)


@pytest.mark.parametrize("opset", [18, 21, 22])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_that_begin_in_the_padding_at_the_end_are_left_out(op_type, opset):
    text = f"y = {op_type} <kernel_shape = [1], strides = [3], ceil_mode = 1> (x)"
    model = parsed(f"g (float[1,1,3] x) => (float[A,B,C] y) {{ {text} }}", opset)
    with sk.InferenceSession(model, backend="numpy") as opened:
        assert opened.get_outputs()[0].shape == [1, 1, 1]
        assert opened.run(None, {"x": np.ones((1, 1, 3), F32)})[0].tolist() == [[[1]]]


LARGE_POOLS = [
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "dilations": [1, 2]},
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [5, 1], "strides": [1, 3]},
]


POOLS_OVER_EVERYTHING = [
    {"kernel_shape": [7, 6]},
    {"kernel_shape": [900, 900], "strides": [900, 900], "ceil_mode": 1},
    {"kernel_shape": [9, 8], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [8, 7], "pads": [0, 0, 1, 1]},
]


@pytest.mark.parametrize(("shape", "attributes"), [
    *(((2, 3, 9, 8), pool) for pool in POOLS),
    *(((2, 48, 61, 60), pool) for pool in LARGE_POOLS),  # larger than a part
    *(((2, 64, 7, 6), pool) for pool in POOLS_OVER_EVERYTHING),
])  # fmt: skip
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_agree_with_onnxruntime(op_type, shape, attributes):
    check(op_type, [floats(*shape)], [F32], **attributes)


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("storage_order", [0, 1])
def test_places_of_maxima_agree_with_onnxruntime(attributes, storage_order):
    check("MaxPool", [floats(2, 3, 9, 8)], [F32, I64], storage_order=storage_order, **attributes)


def test_region_pools_agree_with_onnxruntime():
    rois = np.array([[0, 0, 0, 6, 5], [1, 2, 1, 3, 7], [0, 5, 5, 5, 5]], np.float32)
    check("MaxRoiPool", [floats(2, 3, 9, 8), rois], [F32], pooled_shape=[3, 2], spatial_scale=0.9)


@st.composite
def recurrent_cases(draw):
    op_type = draw(st.sampled_from(["RNN", "GRU", "LSTM"]))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    count = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = draw(st.integers(1, 4)), 3, 2, draw(st.integers(1, 3))
    inputs: list[Any] = [
        floats(steps, batch, size),
        floats(count, gates * hidden, size),
        floats(count, gates * hidden, hidden),
        floats(count, 2 * gates * hidden) if draw(st.booleans()) else None,
        RNG.integers(1, steps + 1, batch).astype(np.int32) if draw(st.booleans()) else None,
        floats(count, batch, hidden) if draw(st.booleans()) else None,
    ]
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if op_type == "LSTM":
        inputs.append(floats(count, batch, hidden) if draw(st.booleans()) else None)
        inputs.append(floats(count, 3 * hidden) if draw(st.booleans()) else None)
        attributes["input_forget"] = draw(st.integers(0, 1))
    if op_type == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if draw(st.booleans()):
        names = draw(st.sampled_from([["Sigmoid", "Softsign", "Relu"], ["HardSigmoid"] * 3]))
        attributes["activations"] = names[: {"RNN": 1, "GRU": 2, "LSTM": 3}[op_type]] * count
    if draw(st.booleans()):
        attributes["clip"] = 0.5
    while inputs[-1] is None:
        inputs.pop()
    return op_type, inputs, attributes


@onnxruntime_from("1.32", "answers some layers with zeros")
@given(case=recurrent_cases())
def test_recurrent_layers_agree_with_onnxruntime(case):
    op_type, inputs, attributes = case
    outputs = [F32] * (3 if op_type == "LSTM" else 2)
    model = node_model(op_type, inputs, outputs, opset=14, **attributes)
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if value is not None}
    compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds), rtol=1e-4)


@pytest.mark.parametrize(("operator", "weights", "shape"), [
    ("GlobalAveragePool", None, (0, 3, 1, 1)),
    ("GlobalMaxPool", None, (0, 3, 1, 1)),
    ("Conv", floats(2, 3, 3, 3), (0, 2, 2, 2)),
    ("ConvTranspose", floats(3, 2, 3, 3), (0, 2, 6, 6)),
])  # fmt: skip
def test_an_empty_batch_gives_an_empty_result_of_the_right_shape(operator, weights, shape):
    inputs = [np.zeros((0, 3, 4, 4), F32)] + ([] if weights is None else [weights])
    (y,) = compile_model(node_model(operator, inputs, [inputs[0].dtype]))(*inputs)
    assert (y.shape, y.dtype) == (shape, F32)


def test_nothing_is_spread_over_the_zeros_that_windows_reach():
    x, how = np.zeros((2, 3, 0, 4), F32), {"strides": [2, 2], "dilations": [2, 2]}
    (y,) = compile_model(node_model("ConvTranspose", [x, (w := floats(3, 2, 3, 3))], [F32], **how))(
        x, w
    )
    np.testing.assert_array_equal(y, np.zeros((2, 2, 3, 11), F32))


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize(
    ("attributes", "size", "made"),
    # by the specification: floor((size - window) / stride) + 1, or the ceiling
    [
        ("kernel_shape=[1,2]", 1, 0),
        ("kernel_shape=[1,2], strides=[1,2]", 1, 0),
        ("kernel_shape=[1,2], strides=[1,2], ceil_mode=1", 1, 1),
        ("kernel_shape=[1,3], strides=[1,2], ceil_mode=1", 1, 0),
        ("kernel_shape=[1,4], strides=[1,2], ceil_mode=1", 2, 0),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "onnxruntime,numpy"])
def test_windows_larger_than_what_they_slide_over_are_counted_as_onnx_says(
    op_type, attributes, size, made, backend
):
    text = f"g (float[1,1,2,{size}] x) => (y) {{ y = {op_type}<{attributes}>(x) }}"
    model = parsed(text, 22)
    with sk.InferenceSession(model, backend, on_fallback="ok") as session:
        (y,) = session.run(None, {"x": np.ones((1, 1, 2, size), np.float32)})
    assert y.shape == (1, 1, 2, made)
    assert (y == 1).all()
