"""int8: where QuantizeLinear and DequantizeLinear go, with which scales, and where they do not."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import subgraphkit as sk
from subgraphkit.errors import CallerError, UnsupportedModelError
from subgraphkit.precision import Precision, Range, Ranges, rewrite
from subgraphkit.rewriting.quantizing import quantized_weight
from tests.models import parsed
from tests.unit.rewriting import quantizing_nets as nets


def test_inputs_of_products_are_quantized_and_nothing_between_fusion_partners():
    net = nets.Net(["N", 16, 4, 4])
    a = net.add("Conv", ["x", nets.kernel(16, 16), np.ones(16)], "a")
    b = net.add("Relu", [a], "b")
    c = net.add("Conv", [b, nets.kernel(16, 16)], "c")
    done = nets.quantized(
        net.model(net.add("Relu", [c], "y")), nets.ranges_of(x=2.54, a=9, b=1.27, c=9)
    )
    found = nets.sources(done)
    assert found["a"] == [nets.DQ, nets.DQ, ""]
    assert found["b"] == ["Conv"]
    assert found["c"] == [nets.DQ, nets.DQ]
    assert found["y"] == ["Conv"]
    assert done.quantized == ("a", "c")
    assert nets.scale_of(done, "x") == pytest.approx(0.02)
    assert nets.scale_of(done, "b") == pytest.approx(0.01)


def test_weights_are_int8_initializers_with_a_scale_per_channel():
    weight = nets.kernel(16, 16)
    weight[3] = 0
    net = nets.Net([1, 16, 4, 4])
    net.add("Conv", ["x", weight], "y")
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1))
    constants = {t.name: numpy_helper.to_array(t) for t in done.model.graph.initializer}
    (node,) = [n for n in done.model.graph.node if n.op_type == nets.DQ and n.input[0] in constants]
    stored, scale, zero = (constants[name] for name in node.input)
    assert (stored.dtype, zero.dtype, node.attribute[0].i) == (np.int8, np.int8, 0)
    assert scale[3] == 1
    most = abs(weight).max((1, 2, 3))
    np.testing.assert_allclose(scale, np.where(np.arange(16) == 3, 1, most / 127))
    assert stored.min() == -127 or stored.max() == 127
    assert stored.min() >= -127
    step = scale.reshape(-1, 1, 1, 1)
    assert (abs(stored * step - weight) <= step / 2 * 1.001).all()
    assert "w0" not in constants


def test_float8_ends_at_448_cuts_nothing_off_and_takes_no_large_kernels():
    weight = nets.kernel(16, 16)
    net = nets.Net([1, 16, 8, 8])
    a = net.add("Conv", ["x", weight], "a")
    net.add("Conv", [a, nets.RNG.standard_normal((16, 16, 6, 6))], "y")
    model, seen = net.model("y"), {"x": Range(2.0, "mse", 9, -7.0, 4.48), "a": Range(1, "mse")}
    done = rewrite(model, "fp8", Ranges(seen))
    assert (done.quantized, done.quantized_as) == (("a",), "fp8")
    assert [(one.node, one.code) for one in done.kept] == [("y", "kernel")]
    assert "1 nodes read fp8" in done.to_text()
    assert "the operator set is now 19" in done.notes
    constants = {t.name: numpy_helper.to_array(t) for t in done.model.graph.initializer}
    (first,) = [n for n in done.model.graph.node if n.op_type == "QuantizeLinear"]
    # what was seen, not what int8 would cut it to
    assert constants[first.input[1]] == pytest.approx(7 / 448)
    (node,) = [n for n in done.model.graph.node if n.op_type == nets.DQ and n.input[0] in constants]
    stored, scale, zero = (constants[name] for name in node.input)
    assert stored.dtype == zero.dtype == ml_dtypes.float8_e4m3fn
    back = stored.astype(np.float32) * scale.reshape(-1, 1, 1, 1)
    assert (abs(back - weight) <= np.maximum(abs(weight) / 16, scale.max() * 2**-9)).all()
    onnx.checker.check_model(done.model)
    with pytest.raises(CallerError, match=r"SGK231.*fp8 needs ranges"):
        rewrite(model, "fp8")


@pytest.mark.parametrize(
    ("operator", "weight", "attributes", "axis"),
    [
        ("ConvTranspose", (16, 24, 1, 1), {}, 1),
        ("Gemm", (16, 24), {}, 1),
        ("Gemm", (24, 16), {"transB": 1}, 0),
        ("MatMul", (16, 24), {}, 1),
    ],
)
def test_the_axis_of_the_scales_is_that_of_the_results(operator, weight, attributes, axis):
    net = nets.Net([4, 16, *weight[2:]])
    net.add(operator, ["x", nets.RNG.standard_normal(weight)], "y", **attributes)
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1))
    node = next(n for n in done.model.graph.node if n.op_type == nets.DQ)
    assert node.attribute[0].i == axis
    (length,) = {t.dims[0] for t in done.model.graph.initializer if t.name in node.input[1:]}
    assert length == 24


def test_a_value_is_quantized_once_and_other_readers_get_it_whole():
    net = nets.Net([1, 16, 4, 4])
    r = net.add("Relu", ["x"], "r")
    for name in "ab":
        net.add("Conv", [r, nets.kernel(16, 16)], name)
    net.add("Neg", [r], "n")
    done = nets.quantized(net.model("a", "b", "n"), nets.ranges_of(r=1))
    assert [n.op_type for n in done.model.graph.node].count("QuantizeLinear") == 1
    assert nets.sources(done)["n"] == ["Relu"]


@pytest.mark.parametrize(
    ("made", "read", "group", "size", "code"),
    [
        (8, 16, 1, 1, "channels"),
        (16, 8, 1, 1, "channels"),
        (16, 16, 16, 1, "channels"),
        (16, 16, 16, 3, ""),
        (20, 20, 20, 3, "channels"),
        (16, 16, 1, 1, ""),
    ],
)
def test_convolutions_that_do_not_pay_stay(made, read, group, size, code):
    net = nets.Net([1, read, 8, 8])
    r = net.add("Relu", ["x"], "r")
    net.add("Conv", [r, nets.kernel(made, read // group, size)], "y", group=group)
    done = nets.quantized(net.model("y"), nets.ranges_of(r=1))
    assert [one.code for one in done.kept] == ([code] if code else [])
    assert bool(done.quantized) is not bool(code)


def test_a_first_convolution_of_a_picture_is_quantized_if_its_channels_divide_by_eight():
    for made, names in ((24, ("y",)), (20, ())):
        net = nets.Net([1, 3, 8, 8])
        net.add("Conv", ["x", nets.kernel(made, 3, 3)], "y")
        assert nets.quantized(net.model("y"), nets.ranges_of(x=1)).quantized == names


@pytest.mark.parametrize(
    ("operator", "shape", "weight", "code"),
    [
        ("MatMul", (1, 32), (32, 32), "small"),
        ("MatMul", (4, 8), (8, 32), "small"),
        ("MatMul", (4, 32), (2, 32, 32), "weight"),
        ("MatMul", ("N", 32), (32, 32), ""),
        ("Gemm", (32, 1), (32, 32), "small"),  # a column that is read as a row is a vector
    ],
)
def test_matrix_products_that_do_not_pay_stay(operator, shape, weight, code):
    net = nets.Net(shape)
    turned = {"transA": 1} if operator == "Gemm" else {}
    net.add(operator, ["x", nets.RNG.standard_normal(weight)], "y", **turned)
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1))
    assert [one.code for one in done.kept] == ([code] if code else [])


def test_products_of_two_computed_values_and_unknown_ranges_stay_with_their_reason():
    net = nets.Net([32, 32])
    a = net.add("MatMul", ["x", nets.RNG.standard_normal((32, 32))], "a")
    b = net.add("MatMul", [a, a], "b")
    c = net.add("MatMul", [b, nets.RNG.standard_normal((32, 32))], "c")
    zero = net.add("Sub", [c, c], "zero")
    net.add("MatMul", [zero, nets.RNG.standard_normal((32, 32))], "y")
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1, zero=0))
    codes = {one.node: one.code for one in done.kept}
    assert codes == {"b": "attention", "c": "range", "y": "constant"}
    assert done.quantized == ("a",)


def test_a_normalisation_is_folded_before_the_weights_are_measured():
    net = nets.Net([1, 16, 4, 4])
    a = net.add("Conv", ["x", nets.kernel(16, 16), nets.RNG.standard_normal(16)], "a")
    facts = [
        nets.RNG.uniform(0.5, 2, 16),
        nets.RNG.standard_normal(16),
        nets.RNG.standard_normal(16),
    ]
    net.add("BatchNormalization", [a, *facts, nets.RNG.uniform(0.5, 2, 16)], "y", epsilon=1e-3)
    model = net.model("y")
    done = nets.quantized(model, nets.ranges_of(x=4))
    assert "BatchNormalization" not in {node.op_type for node in done.model.graph.node}
    assert done.notes == ("1 BatchNormalizations were folded",)
    feeds = {"x": np.clip(nets.RNG.standard_normal((1, 16, 4, 4)), -4, 4).astype(np.float32)}
    with sk.InferenceSession(model, backend="numpy") as session:
        (expected,) = session.run(None, feeds)
    with sk.InferenceSession(done.model, backend="numpy") as session:
        (got,) = session.run(None, feeds)
    assert abs(got - expected).max() < 0.02 * abs(expected).max()


@pytest.mark.parametrize(
    ("operator", "weight", "group", "outputs"),
    [("Conv", nets.kernel(16, 16), 1, "ya"), ("ConvTranspose", nets.kernel(16, 8), 2, "y")],
)
def test_a_normalisation_stays_where_others_read_its_value_or_behind_transposed_groups(
    operator, weight, group, outputs
):
    net = nets.Net([1, 16, 4, 4])
    a = net.add(operator, ["x", weight], "a", group=group)
    net.add("BatchNormalization", [a, *[np.ones(16)] * 4], "y")
    done = nets.quantized(net.model(*outputs), nets.ranges_of(x=1))
    assert "BatchNormalization" in {node.op_type for node in done.model.graph.node}


def test_the_rest_may_be_fp16_with_the_scales_in_it():
    net = nets.Net([1, 16, 4, 4])
    a = net.add("Conv", ["x", nets.kernel(16, 16)], "a")
    net.add("Relu", [a], "y")
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1), high_precision="fp16")
    kinds = [t.data_type for t in done.model.graph.initializer]
    assert set(kinds) == {TensorProto.FLOAT16, TensorProto.INT8}
    assert done.model.opset_import[0].version == 19
    again = rewrite(done.model, Precision("int8", high_precision="fp16"), nets.ranges_of(x=1))
    assert again.model == done.model


def test_int8_without_ranges_or_with_those_of_another_model_is_refused():
    net = nets.Net([1, 16, 4, 4])
    net.add("Conv", ["x", nets.kernel(16, 16)], "y")
    with pytest.raises(CallerError, match=r"SGK231.*int8 needs ranges"):
        rewrite(net.model("y"), "int8")
    with pytest.raises(UnsupportedModelError, match=r"SGK230.*no range for 'x'"):
        rewrite(net.model("y"), "int8", nets.ranges_of(other=1))


EXISTING = """g (float[2] x) => (float[2] y) <float s = {0.5}, ZERO>
{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d) }"""


def test_quantisation_that_a_model_came_with_passes_through():
    model = parsed(EXISTING.replace("ZERO", "int8 z = {0}"))
    done = rewrite(model, "int8")
    assert done.was_quantized
    assert done.quantized == ()
    assert list(done.model.graph.node) == list(model.graph.node)
    assert rewrite(done.model, "int8").model == done.model


def test_uint8_with_its_zero_point_in_the_middle_becomes_int8():
    body = """g (float[4] x) => (float[4] y)
    <float s = {0.5}, uint8 z = {128}, uint8[4] w = {0, 127, 128, 255}>
    { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
      v = DequantizeLinear(w, s, z) y = Mul(d, v) }"""
    model = parsed(body)
    done = rewrite(model, "int8")
    onnx.checker.check_model(done.model, full_check=True)
    assert {t.data_type for t in done.model.graph.initializer} == {1, 3}
    feeds = {"x": np.array([-100, 100, 3.3, -0.2], np.float32)}
    results = []
    for each in (model, done.model):
        with sk.InferenceSession(each, backend="numpy") as session:
            results += session.run(None, feeds)
    np.testing.assert_array_equal(*results)


def test_channels_of_the_smallest_numbers_stay_finite():
    tiny = np.full((2, 3), np.float32(1e-45))
    steps, scale = quantized_weight(tiny, 0)
    assert (scale > 0).all()
    assert np.isfinite(steps * scale[:, None]).all()


@pytest.mark.parametrize("name", ["a", "y", "bn"])
def test_what_was_folded_goes_by_its_old_names_too(name):
    net = nets.Net([1, 16, 4, 4])
    a = net.add("Conv", ["x", nets.kernel(16, 16)], "a")
    net.add("BatchNormalization", [a, *[np.ones(16)] * 4], "y")
    model = net.model("y")
    model.graph.node[1].name = "bn"
    assert nets.quantized(model, nets.ranges_of(x=1), keep=(name,)).quantized == ()
    assert nets.quantized(model, nets.ranges_of(x=1), only=(name,)).quantized == ("a",)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_stays_as_it_is(odd):
    weight = nets.RNG.standard_normal((16, 16))
    weight[0, 0] = odd
    net = nets.Net([4, 16])
    net.add("MatMul", ["x", weight], "y")
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1))
    assert [(one.node, one.code) for one in done.kept] == [("y", "weights")]


def test_where_the_caller_keeps_the_only_product_with_a_range_nothing_is_quantized():
    net = nets.Net([4, 16])
    a = net.add("MatMul", ["x", nets.RNG.standard_normal((16, 16))], "a")
    net.add("MatMul", [a, nets.RNG.standard_normal((16, 16))], "y")
    done = nets.quantized(net.model("y"), nets.ranges_of(x=1), keep=("a",))
    assert {one.node: one.code for one in done.kept} == {"a": "user", "y": "range"}
    with pytest.raises(UnsupportedModelError, match="SGK230"):
        nets.quantized(net.model("y"), nets.ranges_of())


_STORED = "<float s = {0.5}, uint8 z = {128}>"


@pytest.mark.parametrize(("body", "told"), [
    *((EXISTING.replace("ZERO", zero), "its zero point is")
      for zero in ("uint8 z = {0}", "uint8 z = {3}", "int8 z = {1}")),
    (f"g (uint8[2] q) => (float[2] y) {_STORED} {{ y = DequantizeLinear(q, s, z) }}",
     "'q' is uint8 and no QuantizeLinear"),
    (f"g (float[2] x) => (y) {_STORED} {{ q = Cast<to=2>(x) y = DequantizeLinear(q, s, z) }}",
     "'q' is uint8 and no QuantizeLinear"),
    (EXISTING.replace("[2] y)", "[2] y, uint8[2] q)").replace("ZERO", "uint8 z = {128}"),
     "read by an output or a body"),
])  # fmt: skip
def test_quantisation_that_is_not_symmetric_or_of_others_is_refused(body, told):
    with pytest.raises(UnsupportedModelError, match=f"SGK235.*{told}"):
        rewrite(parsed(body), "int8")
