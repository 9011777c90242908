"""Operators that ONNX Runtime makes of several, against ONNX Runtime."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from backends.numpy.tests.comparing import compare, run_onnxruntime
from backends.numpy.tests.microsoft_support import DOMAIN, Numbers, agrees
from backends.numpy.tests.models import node_model
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import Unsupported

HALF, FLOAT, DOUBLE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
FLOATS = pytest.mark.parametrize("dtype", [FLOAT, HALF], ids=str)


@pytest.mark.parametrize("flags", list(product((0, 1), repeat=4)), ids=str)
def test_a_fused_product_transposes_matrices_and_batches(flags):
    flip_a, flip_b, batch_a, batch_b = flags
    numbers = Numbers()
    a: Any = numbers.floats(2, 5, 3, 4)
    b: Any = numbers.floats(2, 5, 4, 6)
    a, b = (x.swapaxes(-1, -2) if flip else x for x, flip in ((a, flip_a), (b, flip_b)))
    a, b = (np.moveaxis(x, -2, 0) if turn else x for x, turn in ((a, batch_a), (b, batch_b)))
    agrees(
        "FusedMatMul",
        [a.copy(), b.copy()],
        transA=flip_a,
        transB=flip_b,
        transBatchA=batch_a,
        transBatchB=batch_b,
        alpha=0.125,
    )


@pytest.mark.parametrize("shapes", [((3, 4), (4,)), ((4,), (4, 3)), ((4,), (4,))], ids=str)
def test_a_fused_product_does_not_transpose_vectors(shapes):
    numbers = Numbers()
    flips = {f"trans{name}": 1 for name, s in zip("AB", shapes, strict=True) if len(s) == 1}
    agrees("FusedMatMul", [numbers.floats(*shape) for shape in shapes], **flips)


@pytest.mark.parametrize("dtype", [HALF, DOUBLE], ids=str)
def test_a_fused_product_is_of_the_type_of_its_factors(dtype):
    numbers = Numbers()
    factors = [numbers.floats(3, 4, dtype=dtype), numbers.floats(4, 2, dtype=dtype)]
    agrees("FusedMatMul", factors, alpha=0.5)


GEMM_ACTIVATIONS = {
    "Celu": {"alpha": 0.5},
    "Elu": {"alpha": 0.7},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.2},
    "Relu": {},
    "Selu": {"alpha": 1.6, "gamma": 1.05},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.5},
}


@pytest.mark.parametrize("activation", GEMM_ACTIVATIONS)
def test_a_fused_gemm_ends_with_an_activation(activation):
    numbers = Numbers()
    given_ = {f"activation_{key}": x for key, x in GEMM_ACTIVATIONS[activation].items()}
    agrees(
        "FusedGemm",
        [numbers.floats(3, 4), numbers.floats(5, 4), numbers.floats(5)],
        activation=activation,
        transB=1,
        alpha=0.5,
        beta=2.0,
        **given_,
    )
    agrees("FusedGemm", [numbers.floats(3, 4), numbers.floats(4, 5)], activation="Relu")


CONV_ACTIVATIONS: dict[str, list[float]] = {
    "": [],
    "Clip": [-0.5, 2.5],
    "HardSigmoid": [0.3, 0.4],
    "LeakyRelu": [0.2],
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
}
CONVOLUTIONS: dict[str, tuple[tuple[tuple[int, ...] | None, ...], dict[str, Any]]] = {
    "addend": (((2, 4, 7, 8), (6, 4, 3, 3), (6,), (2, 6, 5, 6)), {}),
    "groups, addend, no bias": (
        ((2, 4, 7, 8), (6, 2, 3, 3), None, (2, 6, 7, 8)),
        {"group": 2, "pads": [1, 1, 1, 1]},
    ),
    "depthwise": (
        ((2, 4, 7, 8), (4, 1, 3, 3), (4,)),
        {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
    "pointwise over one axis": (((2, 4, 9), (4, 4, 1), (4,)), {}),
    "same": (((1, 4, 7, 8), (6, 4, 3, 3)), {"auto_pad": "SAME_UPPER", "strides": [1, 2]}),
}


def _convolution(numbers, name, activation):
    shapes, attributes = CONVOLUTIONS[name]
    more: dict[str, Any] = {"activation": activation} if activation else {}
    if CONV_ACTIVATIONS[activation]:
        more["activation_params"] = CONV_ACTIVATIONS[activation]
    inputs = [None if shape is None else numbers.floats(*shape, scale=0.5) for shape in shapes]
    return inputs, attributes | more


@pytest.mark.parametrize("activation", CONV_ACTIVATIONS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_fused_convolution_adds_and_activates(name, activation):
    inputs, attributes = _convolution(Numbers(), name, activation)
    agrees("FusedConv", inputs, **attributes)


@FLOATS
@pytest.mark.parametrize("constants", [(), (1, 2)])
def test_channels_last_are_convolved_as_channels_first(dtype, constants):
    # ONNX Runtime has no kernel of it for this processor
    inputs, attributes = _convolution(Numbers(), "addend", "Relu")
    inputs = [x.astype(dtype) for x in inputs]
    turned = [np.moveaxis(x, 1, -1).copy() if x.ndim > 1 else x for x in inputs]
    turned[1] = inputs[1]
    results = []
    for op_type, given_ in (("FusedConv", inputs), ("NhwcFusedConv", turned)):
        model = node_model(
            op_type, given_, [dtype], domain=DOMAIN, constants=constants, **attributes
        )
        feeds = {f"x{place}": x for place, x in enumerate(given_) if place not in constants}
        (y,) = compile_model(model).run(feeds)
        results.append(y)
    np.testing.assert_array_equal(np.moveaxis(results[1], -1, 1), results[0])


@pytest.mark.parametrize("op_type", ["FusedConv", "FusedGemm"])
def test_an_activation_that_nothing_implements_is_refused(op_type):
    numbers = Numbers()
    inputs = (
        [numbers.floats(1, 1, 1, 1)] * 2 if op_type == "FusedConv" else [numbers.floats(2, 2)] * 2
    )
    model = node_model(op_type, inputs, [FLOAT], domain=DOMAIN, activation="Nonsense")
    with pytest.raises(Unsupported, match="activation 'Nonsense': nothing implements it"):
        compile_model(model)


@pytest.mark.parametrize("dtype", [FLOAT, HALF], ids=str)
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("Gelu", {}), ("QuickGelu", {}), ("QuickGelu", {"alpha": 1.0}), ("FastGelu", {})],
)
def test_an_activation_agrees(op_type, attributes, dtype):
    agrees(op_type, [Numbers().floats(3, 4, 5, dtype=dtype, scale=3.0)], **attributes)


@FLOATS
@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
def test_an_activation_adds_its_bias_first(op_type, dtype):
    numbers = Numbers()
    agrees(op_type, [numbers.floats(3, 4, 8, dtype=dtype), numbers.floats(8, dtype=dtype)])


@FLOATS
@pytest.mark.parametrize("skipped", [(2, 3, 8), (3, 8), (1, 3, 8)], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shows_sum", [False, True])
def test_a_norm_adds_what_skips_it(*, skipped, has_bias, shows_sum, dtype):
    numbers = Numbers()
    x, skip = numbers.floats(2, 3, 8, dtype=dtype), numbers.floats(*skipped, dtype=dtype)
    gamma, beta, bias = (numbers.floats(8, dtype=dtype) for _ in range(3))
    bias = bias if has_bias else None
    for op_type, inputs in (
        ("SkipLayerNormalization", [x, skip, gamma, beta, bias]),
        ("SkipLayerNormalization", [x, skip, gamma, None, bias]),
        ("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias]),
    ):
        outputs = [dtype, None, None, dtype] if shows_sum else [dtype]
        agrees(op_type, inputs, outputs, epsilon=1e-5)


@pytest.mark.parametrize("types", [(FLOAT, FLOAT), (HALF, HALF), (DOUBLE, DOUBLE)], ids=str)
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_simplified_norm_of_the_default_domain_agrees(types, axis):
    numbers = Numbers()
    x = numbers.floats(2, 3, 8, dtype=types[0])
    scale = numbers.floats(*x.shape[axis:], dtype=types[1])
    agrees("SimplifiedLayerNormalization", [x, scale], domain="", axis=axis, epsilon=1e-4)


@pytest.mark.parametrize("dtype", [FLOAT, HALF, DOUBLE], ids=str)
def test_a_simplified_norm_returns_the_inverse_deviation(dtype):
    numbers = Numbers()
    inputs = [numbers.floats(2, 3, 8, dtype=dtype), numbers.floats(3, 8, dtype=dtype)]
    agrees("SimplifiedLayerNormalization", inputs, [dtype, FLOAT], domain="", axis=1)


def test_a_layer_norm_is_computed_in_an_operator_set_before_it_was_one():
    numbers = Numbers()
    inputs = [numbers.floats(2, 3, 8), numbers.floats(8), numbers.floats(8)]
    agrees("LayerNormalization", inputs, domain="", opset=12)


@FLOATS
@pytest.mark.parametrize("has_segments", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("positions", [None, 1, 2])
def test_embeddings_are_added_and_normalised(*, has_segments, has_mask, positions, dtype):
    numbers = Numbers()
    words, places, kinds = (numbers.floats(n, 8, dtype=dtype) for n in (10, 7, 2))
    mask = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 2]], np.int32)
    inputs = [
        numbers.ints(10, 2, 5), numbers.ints(2, 2, 5) if has_segments else None, words, places,
        kinds if has_segments else None, numbers.floats(8, dtype=dtype),
        numbers.floats(8, dtype=dtype), mask if has_mask else None,
        None if positions is None else numbers.ints(7, positions, 5),
    ]  # fmt: skip
    while inputs[-1] is None:
        inputs.pop()
    model = node_model(
        "EmbedLayerNormalization", inputs, [dtype, np.dtype(np.int32), dtype], domain=DOMAIN
    )
    feeds = {f"x{place}": x for place, x in enumerate(inputs) if x is not None}
    rtol = 2e-3 if dtype == HALF else 2e-6
    compare(run_onnxruntime(model, feeds), compile_model(model).run(feeds), rtol)


def test_a_word_outside_the_table_is_an_error():
    numbers = Numbers()
    inputs = [np.full((1, 2), -1, np.int32), None, numbers.floats(4, 8), numbers.floats(4, 8)]
    inputs += [None, numbers.floats(8), numbers.floats(8)]
    model = node_model("EmbedLayerNormalization", inputs, [FLOAT], domain=DOMAIN)
    feeds = {f"x{place}": x for place, x in enumerate(inputs) if x is not None}
    with pytest.raises(Exception, match="word id is outside the table of 4 rows"):
        compile_model(model).run(feeds)


@pytest.mark.parametrize(("op_type", "attributes", "told"), [
    ("FusedMatMul", {"gamma": 1.0}, "nothing implements its attribute 'gamma'"),
    ("Attention", {"num_heads": 1, "do_rotary": 1}, "do_rotary=1: nothing implements it"),
    ("FusedMatMul", {"dtype": np.int32}, "FusedMatMul of int32: nothing implements it"),
    ("NGramRepeatBlock", {}, "operator com.microsoft::NGramRepeatBlock: no implementation"),
])  # fmt: skip
def test_what_nothing_implements_is_refused(op_type, attributes, told):
    dtype = np.dtype(attributes.pop("dtype", np.float32))
    inputs = [np.ones((2, 2), dtype)] * 2
    model = node_model(op_type, inputs, [dtype], domain=DOMAIN, **attributes)
    with pytest.raises(Unsupported, match=told):
        compile_model(model)
