"""The operator table, its rules, and what they say of single nodes; no library is asked."""

import inspect

import pytest

from backends.tensorrt.tests.tensorrt_claims import loaded, parsed, static_refusal
from backends.tensorrt.tests.tensorrt_models import needs_rtx
from subgraphkit_tensorrt.library.flavours import Installation, planning_library
from subgraphkit_tensorrt.library.gpus import Machine
from subgraphkit_tensorrt.rules import operator_rules
from subgraphkit_tensorrt.rules.judged_node import types_of
from subgraphkit_tensorrt.rules.operators import operator_table
from subgraphkit_tensorrt.rules.static_rules import Rules


def test_every_rule_is_of_an_operator():
    used = {row.rules for row in operator_table((99, 0), "tensorrt").operators.values()}
    written = inspect.getmembers(operator_rules, inspect.isfunction)
    own = {one for _, one in written if one.__module__ == operator_rules.__name__}
    assert {one for one in own if not one.__name__.startswith("_")} <= used


def test_every_word_for_an_element_type_is_one():
    for row in operator_table((99, 0), "tensorrt").operators.values():
        assert types_of(row.types)


def test_no_operator_is_both_taken_and_missing():
    table = operator_table((10, 3, 0), "tensorrt")
    assert not table.missing & {*table.operators, *table.newer}


@pytest.mark.parametrize(("generation", "name", "there"), [
    ((10, 3, 0), "LayerNormalization", True),
    ((10, 4, 0), "STFT", False),
    ((10, 13, 0), "Attention", False),
    ((10, 14, 0), "Attention", True),
    ((10, 16, 1), "Swish", False),
    ((11, 0, 0), "Swish", True),
])  # fmt: skip
def test_an_operator_is_known_from_the_release_that_brought_it(generation, name, there):
    table = operator_table(generation, "tensorrt")
    assert (name in table.operators) is there
    assert (name in table.newer) is not there


def test_an_operator_set_before_the_documented_ones_is_refused():
    graph = loaded(parsed("g (float[4] x) => (float[4] y) { y = Relu(x) }", 8))
    nothing = planning_library(Installation("absent package", None, Machine()))
    refusal = Rules(nothing).refusal(graph.nodes[0])
    assert str(refusal) == "opset: Relu of operator set 8, TensorRT takes 9 and later"


# Every case up to the many elements was measured: the parser takes the node and makes something
# else of it, or the builder fails at it.
REFUSED = {
    "a recurrent network whose batch comes first": (
        (
            "attribute: LSTM with layout=1, TensorRT takes 0; TensorRT takes it and computes "
            "something else"
        ),
        (
            "g (float[2,3,4] x, float[1,20,4] w, float[1,20,5] r) => (float[2,3,1,5] y) "
            "{ y = LSTM<hidden_size=5, layout=1>(x, w, r) }"
        ),
    ),
    "a pooling that may round up into the padding": (
        (
            "dynamic_shape: MaxPool with ceil_mode=1 of a shape that is not known: TensorRT may "
            "round up to one window more than ONNX"
        ),
        (
            "g (float[1,3,n,2] x) => (float[1,3,m,1] y) { y = MaxPool<kernel_shape=[1,1], "
            "strides=[2,2], pads=[0,0,1,1], ceil_mode=1>(x) }"
        ),
    ),
    "a quantization to uint8": (
        (
            "dtype: QuantizeLinear makes uint8, TensorRT makes int8, float8_e4m3fn, int4, "
            "float4_e2m1fn"
        ),
        (
            "g (float[4] x) => (uint8[4] y) <float s = {0.5}, uint8 z = {0}> "
            "{ y = QuantizeLinear(x, s, z) }"
        ),
    ),
    "double": (
        "dtype: 'x' is float64[4], which TensorRT does not have",
        "g (double[4] x) => (double[4] y) { y = Relu(x) }",
    ),
    "more than 3,840 largest elements": (
        "shape: K of TopK is 5000, TensorRT takes 3840",
        (
            "g (float[9000] x) => (float[5000] y, int64[5000] i) <int64[1] k = {5000}> "
            "{ y, i = TopK(x, k) }"
        ),
    ),
    "nine axes": (
        "rank: 'x' has 9 axes, TensorRT has 8",
        "g (float[1,1,1,1,1,1,1,1,2] x) => (float[1,1,1,1,1,1,1,1,2] y) { y = Relu(x) }",
    ),
    "an axis that is fed": (
        "not_constant: axis of CumSum is not constant, TensorRT wants it to be",
        "g (float[4] x, int64 a) => (float[4] y) { y = CumSum(x, a) }",
    ),
    "a zero point": (
        ("attribute: y_zero_point of QuantizeLinear is not 0, TensorRT quantizes symmetrically"),
        (
            "g (float[4] x) => (int8[4] y) <float s = {0.5}, int8 z = {3}> "
            "{ y = QuantizeLinear(x, s, z) }"
        ),
    ),
    "an operator it lacks, in a body": (
        "op_unsupported: in else_branch, #0 Det: TensorRT for RTX has no Det",
        (
            "g (float[2,2] x, bool c) => (float y) { y = If(c) <"
            "then_branch = t () => (float a) { a = ReduceMax<keepdims=0>(x) }, "
            "else_branch = e () => (float b) { b = Det(x) }> }"
        ),
    ),
}


@needs_rtx
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_has_a_code_and_says_what_is_there(case):
    expected, body = REFUSED[case]
    assert static_refusal(body) == expected


TAKEN = {
    "a pooling that rounds up to a window ONNX keeps": (
        "g (float[1,3,5,5] x) => (float[1,3,3,3] y) "
        "{ y = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x) }"
    ),
    "what is computed from shapes, which counts as constant beside a parser": (
        "g (float[2,3] x) => (float[2] y) <int64[1] one = {1}, int64 zero = {0}> "
        "{ s = Shape(x) n = Gather(s, zero) m = Sub(n, one) y = ReduceSum<keepdims=0>(x, m) }"
    ),
    "an output that nobody reads, of any type": (
        "g (float[1,2,4,4] x) => (float[1,2,2,2] y) { y, i = MaxPool<kernel_shape=[3,3]>(x) }"
    ),
}


@needs_rtx
@pytest.mark.parametrize("case", TAKEN)
def test_what_nothing_speaks_against_is_taken(case):
    assert static_refusal(TAKEN[case]) == ""
