"""Arithmetic on quantised numbers of ONNX Runtime's own domain, bit for bit as there.

Weights of signed bytes are small: on processors without VNNI ONNX Runtime adds pairs of products
of larger ones up in 16 bits, which saturate.
"""

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.numpy.tests.microsoft_support import DOMAIN, Numbers, agrees
from backends.numpy.tests.models import node_model
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported

U8, S8, FLOAT, HALF = (np.dtype(kind) for kind in (np.uint8, np.int8, np.float32, np.float16))
SMALL = 60

PAIRS = pytest.mark.parametrize("types", [(U8, U8), (U8, S8), (S8, S8)], ids=str)
BYTES = pytest.mark.parametrize("dtype", [U8, S8], ids=str)


def _weights(numbers, dtype, *shape):
    return numbers.bytes(dtype, *shape, most=None if dtype == U8 else SMALL)


def _scaled_weights(numbers, dtype, *, by_column):
    """Return weights of (16, 6), their scale and their zero point."""
    shape = (6,) if by_column else ()
    weights = _weights(numbers, dtype, 16, 6)
    return weights, numbers.scale(*shape) * np.float32(0.2), _weights(numbers, dtype, *shape)


@PAIRS
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_a_quantised_gemm_agrees(*, types, by_column, is_quantized):
    numbers, (left, right) = Numbers(), types
    b, b_scale, b_zero = _scaled_weights(numbers, right, by_column=by_column)
    a_scale, a_zero = numbers.scale(), numbers.bytes(left)
    tail = [numbers.scale() * np.float32(5), numbers.bytes(left)] if is_quantized else [None, None]
    for c, alpha in product((None, numbers.ints(3000, 6)), (1.0, 0.7)):
        inputs = [numbers.bytes(left, 5, 16), a_scale, a_zero, b, b_scale, b_zero, c, *tail]
        agrees("QGemm", inputs, [left if is_quantized else FLOAT], alpha=alpha)
    turned = [numbers.bytes(left, 16, 5), a_scale, a_zero, b.T.copy(), b_scale, b_zero, None, *tail]
    agrees("QGemm", turned, [left if is_quantized else FLOAT], transA=1, transB=1)


@PAIRS
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_products_of_bytes_become_numbers(*, types, by_column, has_bias):
    numbers, (left, right) = Numbers(), types
    b, b_scale, b_zero = _scaled_weights(numbers, right, by_column=by_column)
    bias = numbers.floats(6) if has_bias else None
    a, a_scale = numbers.bytes(left, 2, 5, 16), numbers.scale()
    agrees("MatMulIntegerToFloat", [a, b, a_scale, b_scale, None, None, bias], [FLOAT])
    zeros = [numbers.bytes(left), b_zero]
    agrees("MatMulIntegerToFloat", [a, b, a_scale, b_scale, *zeros, bias], [FLOAT])
    x = numbers.floats(2, 5, 16, scale=3.0)
    agrees("DynamicQuantizeMatMul", [x, b, b_scale, b_zero, bias])
    agrees("DynamicQuantizeMatMul", [np.abs(x), b, b_scale, None, bias])


def test_sums_too_large_for_float32_are_exact():
    terms = 4096
    a, b = np.full((1, terms), 255, U8), np.full((terms, 2), 255, U8)
    b[0, 0] = 254
    one = np.ones((), np.float32)
    small = np.array(1 / 65025, np.float32)
    agrees("MatMulIntegerToFloat", [a, b, one, small], [FLOAT])


SHAPES = [((4, 33), (4, 33)), ((4, 33), (1,)), ((), (5,)), ((2, 3, 37), (3, 1))]


@BYTES
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_bytes_are_combined(op_type, shapes, dtype):
    numbers = Numbers()
    inputs: list[Any] = []
    for shape in shapes:
        inputs += [numbers.bytes(dtype, *shape), numbers.scale(), numbers.bytes(dtype)]
    agrees(op_type, [*inputs, numbers.scale() * np.float32(3), numbers.bytes(dtype)])


@settings(max_examples=15, deadline=None)
@given(
    scales=st.lists(st.sampled_from([0.125, 0.25, 0.5, 1.0]), min_size=3, max_size=3),
    zeros=st.lists(st.integers(0, 255), min_size=3, max_size=3),
    op_type=st.sampled_from(["QLinearAdd", "QLinearMul"]),
)
def test_halves_are_rounded_alike(scales, zeros, op_type):
    every = np.arange(256, dtype=U8)
    tail = [x for s, z in zip(scales, zeros, strict=True) for x in (np.float32(s), U8.type(z))]
    tail = [np.asarray(x) for x in tail]
    agrees(op_type, [every[:, None], *tail[:2], every[None], *tail[2:]])


@BYTES
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", {"alpha": 0.3})],
)
def test_a_function_of_bytes_is_a_table(op_type, attributes, dtype):
    numbers = Numbers()
    every = np.arange(256, dtype=U8).view(dtype)
    tail = [numbers.scale(), numbers.bytes(dtype)]
    agrees(op_type, [every, numbers.scale(), numbers.bytes(dtype), *tail], **attributes)
    agrees(op_type, [every, numbers.scale(), None, *tail], **attributes)


@BYTES
@pytest.mark.parametrize("count", [1, 2, 3])
def test_bytes_of_several_scales_are_concatenated(count, dtype):
    numbers = Numbers()
    inputs: list[Any] = [numbers.scale(), numbers.bytes(dtype)]
    for place in range(count):
        inputs += [numbers.bytes(dtype, 2, place + 3, 5), numbers.scale(), numbers.bytes(dtype)]
    agrees("QLinearConcat", inputs, [dtype], axis=1)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [9, 8]},
]


def _picture(numbers, dtype, *, last):
    return numbers.bytes(dtype, *((2, 9, 8, 4) if last else (2, 4, 9, 8)))


@BYTES
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("attributes", [*POOLS, None], ids=str)
def test_bytes_are_averaged(attributes, last, dtype):
    """Under windows, or over whole pictures."""
    numbers = Numbers()
    inputs = [_picture(numbers, dtype, last=last)]
    inputs += [numbers.scale(), numbers.bytes(dtype), numbers.scale(), numbers.bytes(dtype)]
    op_type = "QLinearGlobalAveragePool" if attributes is None else "QLinearAveragePool"
    agrees(op_type, inputs, channels_last=last, **(attributes or {}))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    zeros=st.tuples(st.integers(0, 255), st.integers(0, 255)),
    attributes=st.sampled_from([{"kernel_shape": [3, 3]}, {"kernel_shape": [9, 8]}]),
)
def test_halves_of_averages_are_rounded_alike(seed, zeros, attributes):
    x = _picture(Numbers(seed), U8, last=0)
    # the quotient of the scales is 3 / 2, so that many averages are halves, but for rounding
    parameters = [np.float32(0.03), U8.type(zeros[0]), np.float32(0.02), U8.type(zeros[1])]
    agrees("QLinearAveragePool", [x, *parameters], **attributes)


@BYTES
def test_bytes_with_channels_last_have_maxima(dtype):
    inputs = [_picture(Numbers(), dtype, last=1)]
    agrees("NhwcMaxPool", inputs, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])


@PAIRS
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("by_filter", [False, True])
def test_bytes_are_convolved(*, types, last, group, by_filter):
    numbers = Numbers()
    left, right = types
    weights = _weights(numbers, right, 8, 4 // group, 3, 3)
    scale = numbers.scale(*((8,) if by_filter else ())) * np.float32(0.2)
    zero = np.full(8 if by_filter else (), 7, right)
    inputs = [
        _picture(numbers, left, last=last), numbers.scale(), numbers.bytes(left), weights, scale,
        zero, numbers.scale() * np.float32(5), numbers.bytes(left), numbers.ints(3000, 8),
    ]  # fmt: skip
    more = {"pads": [1, 1, 1, 1], "strides": [1, 2]}
    agrees("QLinearConv", inputs, [left], channels_last=last, group=group, **more)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(np.dtype(dtype), FLOAT) for dtype in ("uint8", "int8", "uint16", "int16")]
    + [(U8, HALF), (S8, HALF)],
    ids=str,
)
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_numbers_become_quantised_and_back(dtype, kind, axis):
    numbers = Numbers()
    shape = () if axis is None else ((4, 33)[axis],)
    more = {} if axis is None else {"axis": axis}
    scale, zero = numbers.scale(*shape).astype(kind), numbers.bytes(dtype, *shape)
    x = numbers.floats(4, 33, dtype=kind, scale=4.0)
    agrees("QuantizeLinear", [x, scale, zero], [dtype], **more)
    agrees("DequantizeLinear", [numbers.bytes(dtype, 4, 33), scale, zero], [kind], **more)


@pytest.mark.parametrize("right", [U8, S8], ids=str)
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("has_past", [False, True])
def test_attention_projects_bytes(*, right, has_mask, has_past):
    numbers = Numbers()
    inputs = [
        numbers.bytes(U8, 2, 5, 12), _weights(numbers, right, 12, 96), numbers.floats(96),
        numbers.scale(), numbers.scale(), np.array([5, 3], np.int32) if has_mask else None,
        numbers.bytes(U8), np.array(3, right), numbers.floats(2, 2, 4, 3, 8) if has_past else None,
    ]  # fmt: skip
    agrees("QAttention", inputs, [FLOAT, FLOAT], num_heads=4, unidirectional=int(has_past))


@BYTES
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("opset", [11, 13])
def test_a_softmax_of_bytes_is_a_table(axis, opset, dtype):
    numbers = Numbers()
    zero, y_scale = numbers.bytes(dtype), np.array(1 / 256, np.float32)
    inputs = [numbers.bytes(dtype, 3, 4, 30), numbers.scale(), zero, y_scale, numbers.bytes(dtype)]
    # ONNX Runtime wants to know the shape
    agrees("QLinearSoftmax", inputs, shapes=(True,), axis=axis, clashing={"opset": opset})


@BYTES
@pytest.mark.parametrize("has_segments", [False, True])
def test_embeddings_of_bytes_are_added_and_normalised(*, has_segments, dtype):
    numbers = Numbers()
    tables: list[Any] = [numbers.bytes(dtype, rows, 8) for rows in (10, 7, 2)]
    norm = [numbers.bytes(dtype, 8) for _ in range(2)]
    scales, zeros = [numbers.scale() for _ in range(5)], [numbers.bytes(dtype) for _ in range(5)]
    segments: Any = numbers.ints(2, 2, 5)
    if not has_segments:
        segments = tables[2] = scales[2] = zeros[2] = None
    mask = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 2]], np.int32)
    inputs = [numbers.ints(10, 2, 5), segments, *tables, *norm, mask, *scales, *zeros]
    outputs = [FLOAT, np.dtype(np.int32)]
    agrees("QEmbedLayerNormalization", inputs, outputs, shapes=(True,))


# -- weights of a few bits -------------------------------------------------------------------------


def _packed(numbers, dtype, k, length, bits, zeros):
    """Return the inputs of ``MatMulNBits`` with 16 columns."""
    blocks, columns = -(-k // length), 16
    zero: Any = None
    if zeros == "packed":
        zero = numbers.bytes(U8, columns * -(-blocks * bits // 8))
    elif zeros == "numbers":
        zero = (numbers.rng.random(columns * blocks) * (2**bits - 1)).astype(dtype)
    scales = numbers.scale(columns * blocks).astype(dtype)
    weights = numbers.bytes(U8, columns, blocks, length * bits // 8)
    return [numbers.floats(2, 3, k, dtype=dtype), weights, scales, zero]


@pytest.mark.parametrize("dtype", [FLOAT, HALF], ids=str)
@pytest.mark.parametrize("sizes", [(64, 16), (70, 32), (33, 16), (128, 128)], ids=str)
@pytest.mark.parametrize(("bits", "zeros"), [
    *((bits, zeros) for bits in (2, 4, 8) for zeros in ("none", "packed")),
    *((bits, "numbers") for bits in (2, 4)),
])  # fmt: skip
def test_weights_of_a_few_bits_are_unpacked(bits, sizes, zeros, dtype):
    numbers = Numbers()
    inputs = _packed(numbers, dtype, *sizes, bits, zeros)
    more = {"K": sizes[0], "N": 16, "bits": bits, "block_size": sizes[1]}
    agrees("MatMulNBits", inputs, **more)
    # of a bias ONNX Runtime wants to know the shape
    inputs += [None, numbers.floats(16, dtype=dtype)]
    agrees("MatMulNBits", inputs, shapes=(True,), **more)


@pytest.mark.parametrize("zeros", ["none", "numbers"])
def test_rows_may_belong_to_groups_in_any_order(zeros):
    inputs = [*_packed(Numbers(), FLOAT, 70, 32, 4, zeros), Numbers().ints(3, 96)]
    agrees("MatMulNBits", inputs, K=70, N=16, bits=4, block_size=32)


@pytest.mark.parametrize(("bits", "zeros", "told"), [
    (2, "none", "g_idx and weights of 2 bits"),
    (4, "packed", "g_idx and packed zero points"),
    (3, "none", "has weights of 3 bits"),
])  # fmt: skip
def test_weights_of_undocumented_kinds_are_refused(bits, zeros, told):
    inputs = [*_packed(Numbers(), FLOAT, 64, 16, 4, zeros), Numbers().ints(4, 64)]
    more = {"K": 64, "N": 16, "bits": bits, "block_size": 16}
    model = node_model("MatMulNBits", inputs, [FLOAT], domain=DOMAIN, **more)
    with pytest.raises(Unsupported, match=told):
        compile_model(model)


def test_weights_of_four_bits_stay_packed():
    inputs = _packed(Numbers(), FLOAT, 1 << 13, 32, 4, "none")[:3]
    more = {"K": 1 << 13, "N": 16, "bits": 4, "block_size": 32, "constants": (1, 2)}
    model = node_model("MatMulNBits", inputs, [FLOAT], domain=DOMAIN, **more)
    compiled = [compile_model(model)]  # imports what it needs
    tracemalloc.start()
    compiled.append(compile_model(model))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * inputs[1].nbytes + 3 * inputs[2].nbytes  # of which float32 takes 8 times


def test_weights_of_a_quantised_lstm_may_be_fed():
    numbers = Numbers()
    weights = [numbers.bytes(S8, 1, size, 20, most=SMALL) for size in (3, 5)]
    scales = [(numbers.scale(1), np.zeros(1, S8)) for _ in weights]
    inputs = [numbers.floats(4, 1, 3), *weights, None, None, None, None, None, *scales[0]]
    agrees("DynamicQuantizeLSTM", [*inputs, *scales[1]], [FLOAT] * 3, hidden_size=5)
