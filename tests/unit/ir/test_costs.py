"""What a node costs: operations formula by formula, and the effort that is never too small."""

import pytest

from subgraphkit.ir import effort_of
from subgraphkit.ir.costs import estimate_flops, work_of
from tests.models import parsed
from tests.unit.partitioning.pass_support import bound

CASES = {
    "float[2, 8, 6, 6] y": ("Conv<pads = [1, 1, 1, 1]>(a, b)",
                            "float[2, 3, 6, 6] a, float[8, 3, 3, 3] b",
                            2 * (2 * 8 * 36) * 27),
    "float[2, 8, 4, 4] y": ("Conv<group = 4>(a, b)", "float[2, 8, 6, 6] a, float[8, 2, 3, 3] b",
                            2 * (2 * 8 * 16) * 18),
    "float[1, 5, 7, 7] y": ("ConvTranspose(a, b)", "float[1, 3, 6, 6] a, float[3, 5, 2, 2] b",
                            2 * (3 * 36) * 20),
    "float[5, 4, 7] y": ("MatMul(a, b)", "float[5, 4, 6] a, float[6, 7] b", 2 * 140 * 6),
    "float[4, 7] y": ("Gemm<transA = 1>(a, b)", "float[6, 4] a, float[6, 7] b", 2 * 28 * 6),
    "float[4, 8] y": ("Gemm(a, b)", "float[4, 6] a, float[6, 8] b", 2 * 32 * 6),
    "float[1, 2, 3, 3] y": ("MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)",
                            "float[1, 2, 6, 6] a", 18 * 4),
    "float[2, 3, 1, 1] y": (("AveragePool<kernel_shape = [64, 64], ceil_mode = 1, "
                            "strides = [64, 64]>(a)"), "float[2, 3, 6, 7] a", 6 * 42),
    "float[2, 2, H, 3] y": ("MaxPool<kernel_shape = [3, 2]>(a)", "float[2, 2, G, 4] a", 12 * 6),
    "float[3, 5] y": ("Softmax(a)", "float[3, 5] a", 75),
    "float[1, 2, 1, 1] y": ("GlobalAveragePool(a)", "float[1, 2, 6, 6] a", 72),
    "float[6, 5] y": ("Reshape(a, s)", "float[3, 10] a, int64[2] s", 0),
    "float[3, 4] y": ("Add(a, b)", "float[3, 4] a, float[4] b", 12),
    "float[N, 4] y": ("Relu(a)", "float[N, 4] a", 4),
    "float[7, 1, 2, 16] y": ("LSTM<hidden_size = 16>(a, b, c)",
                             "float[7, 2, 8] a, float[1, 64, 8] b, float[1, 64, 16] c",
                             2 * 7 * 2 * 64 * 24),
    "float[2, 8, 2] y": ("DFT(a)", "float[2, 8, 1] a", 32 * 4),
    "float[2, 3, 4] y": ("LayerNormalization(a, b)", "float[2, 3, 4] a, float[4] b", 8 * 24),
}  # fmt: skip


@pytest.mark.parametrize("output", CASES)
def test_the_operations_of_an_operator_follow_its_formula(output):
    call, inputs, expected = CASES[output]
    graph = bound(f"one ({inputs}) => ({output}) {{ y = {call} }}")
    assert estimate_flops(graph.nodes[0]) == expected


def test_a_node_with_bodies_counts_what_they_hold():
    graph = bound("""
    branches (bool c, float[4] x) => (float[4] y) {
      y = If (c) <
        then_branch = yes () => (float[4] t) { t = Add(x, x) },
        else_branch = no () => (float[4] e) { u = Neg(x)  e = Neg(u) }
      >
    }
    """)
    assert estimate_flops(graph.nodes[0]) == 12


def test_an_own_operator_named_as_a_pool_needs_no_kernel():
    text = "one (float[1, 2, 7] a) => (float[1, 2, 5] y) { y = com.acme.MaxPool(a) }"
    graph = bound(parsed(text, imports='"com.acme" : 1'))
    assert estimate_flops(graph.nodes[0]) == 10


@pytest.mark.parametrize(("call", "inputs", "output", "least"), [
    ("MatMul(a, b)", "float[2, 900] a, float[900, 3] b", "float[2, 3] y", 2 * 6 * 900),
    ('Einsum<equation = "ij,jk,kl->il">(a, a, a)', "float[9, 9] a", "float[9, 9] y", 2 * 9**4),
    ("LRN<size = 1000>(a)", "float[1, 7, 2, 2] a", "float[1, 7, 2, 2] y", 2 * 28 * 1000),
    ("Gather(a, i)", "float[4000] a, int64[2] i", "float[2] y", 2),
    ("Unique(a)", "float[4] a", "float[n] y", 1 << 60),
])  # fmt: skip
def test_the_effort_of_a_node_is_no_less_than_its_operations(call, inputs, output, least):
    graph = bound(f"one ({inputs}) => ({output}) {{ y = {call} }}")
    assert least <= effort_of(graph.nodes[0]) <= 64 * least
    assert effort_of(graph.nodes[0], [10**9] * len(graph.nodes[0].inputs)) >= least


@pytest.mark.parametrize(("space", "reach", "call", "kind"), [
    ([900, 1], [3, 1], "Conv<group=2>", "depthwise"),
    ([900], [3], "Conv<group=2>", "depthwise rows"),
    ([900, 1], [900, 1], "Conv<group=2>", "convolution"),  # of long sums
    ([900], [1], "Conv", "convolution"),  # which is a product
    ([900], [3], "Conv", "rows"),
    ([9, 9], [3, 3], "ConvTranspose<group=2>", "transposed"),
    ([9, 9, 9], [3, 3, 3], "ConvTranspose", "volume"),
])  # fmt: skip
def test_convolutions_are_of_several_classes(space, reach, call, kind):
    text = f"g (float{[1, 4, *space]} x, float{[4, 2, *reach]} w) => (y) {{ y = {call}(x, w) }}"
    assert work_of(bound(text).nodes[0])[0] == kind


@pytest.mark.parametrize(("inputs", "call", "kind"), [
    ("float16[2, 9] a", "Clip(a)", "short curve"),
    ("float[2, 9] a", "Clip(a)", "elementwise"),
    ("bfloat16[2, 9] a", "Neg(a)", "short"),
    ("float16[1, 4, 9, 9] a, float16[4, 4, 3, 3] w", "Conv(a, w)", "short convolution"),
    ("bool[2, 9] c, float[2, 9] a", "Where(c, a, a)", "choice"),
    ("bool[9] c, float[2, 9] a", "Where(c, a, a)", "elementwise"),  # of a mask that is spread
    ("float[1, 4, 9] a", "ArgMax<axis = -1>(a)", "extreme"),
    ("float[1, 4, 9] a", "ArgMax<axis = 1>(a)", "elementwise"),
    ("float[1, 4, 9, 9] a, float[1, 9, 9, 2] g", "GridSample(a, g)", "elementwise"),
    ("float[1, 4, 9, 9] a, float[1, 9, 9, 2] g", "GridSample<align_corners=1>(a, g)", "sampling"),
])  # fmt: skip
def test_what_some_library_computes_slowly_has_a_class_of_its_own(inputs, call, kind):
    assert work_of(bound(f"g ({inputs}) => (y) {{ y = {call} }}").nodes[0])[0] == kind
