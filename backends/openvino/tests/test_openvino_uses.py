"""Uses of operators that OpenVINO computes otherwise, found with random graphs."""

import numpy as np
import pytest

from backends.openvino.tests.openvino_road import homes, parsed, reasons, session
from subgraphkit.errors import SubgraphkitWarning


@pytest.mark.parametrize(
    ("text", "opset", "said"),
    [
        (
            """(float[1,1,N] x, float[1,1,3] w) => (float[1,1,N] y)
            { y = ConvTranspose <auto_pad = "SAME_UPPER"> (x, w) }""",
            18,
            "padding to the same size of an open size",
        ),
        (
            """(float[1,1,4] x, float[1,1,3] w) => (float[1,1,8] y)
            { y = ConvTranspose <auto_pad = "SAME_LOWER", output_shape = [8], strides = [2]>
              (x, w) }""",
            18,
            "pads otherwise",
        ),
        (
            "(float[4] x, uint8 z) => (uint8[4] y) <float s = {1}> { y = QuantizeLinear(x, s, z) }",
            18,
            "behind which OpenVINO rounds",
        ),
        (
            """(uint8[2,2] x, uint8 z) => (uint8[2,2] y) <float s = {1}, uint8 o = {1}>
            { y = QLinearMatMul(x, s, o, x, s, o, s, z) }""",
            18,
            "behind which OpenVINO rounds",
        ),
        (
            """(float[1,8,8] x, float[S,K,8] w) => (float[S,8,K] y) <float[3] b = {1,2,3}>
            { t = Transpose <perm = [0,2,1]> (w) m = MatMul(x, t) y = Add(m, b) }""",
            18,
            "open columns",
        ),
        ("(float[4] x, int64[N] p) => (float[M] y) { y = Pad(x, p) }", 18, "number of pads"),
        (
            "(float[1,2] x, float[3,4] c) => (y) { n=Neg(x) t=Concat<axis=1>(n, x) y=Mul(t, c) }",
            18,
            "of more rows than it turns",
        ),
        (
            """(float[2,1,4] x, float[1] s) => (float[2,1,4] y)
            { y = GroupNormalization <num_groups = 1> (x, s, s) }""",
            21,
            "a single channel",
        ),
        (
            """(float[2,3,1] x, float[2,4,1] w) => (float[2,3,2,1] y)
            { y = LSTM <hidden_size = 1, layout = 1, direction = "bidirectional"> (x, w, w) }""",
            18,
            "batches first",
        ),
        (
            """(float[A,B,4] x, float[4] s, float[B,4] b) => (float[A,B,4] y)
            { y = LayerNormalization(x, s, b) }""",
            18,
            "along further axes",
        ),
        (
            "(float[4] x, float v) => (float[6] y) <int64[2] p = {1,1}> { y = Pad(x, p, v) }",
            18,
            "a value known when running",
        ),
        (
            "(float[1,1,4,4] x, float16[1,2,2,2] g) => (float[1,1,2,2] y) { y = GridSample(x, g) }",
            22,
            "places of few bits",
        ),
        ("(float x, float z) => (float y) { y = Max(x, z, x) }", 7, "single numbers"),
        ("(float[1,2] x) => (y) { y = ReduceLogSum<axes = [1]>(x) }", 13, "axes as an attribute"),
        ("(int8[2] x) => (uint32[2] y) { y = Cast<to = 12>(x) }", 18, "more than the 31 bits"),
        ("(float[2,2] x) => (y) <int64[2] s={2,3}> { y=Resize(x,,,s) }", 18, "channels that may"),
        ("(float[1,1,1] x) => (y) <float[1,1,1] w = {2}> { y = MatMul(x, w) }", 7, "one by one"),
        (
            "(int64[4] x, int64 d, float[2] v) => (float[4,3] y) { y = OneHot(x, d, v) }",
            10,
            "may be below 0",
        ),
        (
            "(float[N,2] x) => (float[M,2] y, float[O,2] z) { y, z = Split <split = [2,0]> (x) }",
            7,
            "a part of no size",
        ),
        (
            """(float[N,B,2] x, float[1,2,2] w) => (float[N,1,B,2] y) <float[1,1,2] g = {1,2}>
            { y = RNN <hidden_size = 2> (x, w, w, "", "", g) }""",
            18,
            "of an open batch",
        ),
        (
            """(float[3,2,2] x, float[1,9,2] w, float[1,9,3] r) => (float[1,2,3] y)
            <float two = {2}> { "", h = GRU <hidden_size = 3> (x, w, r) y = Mul(h, two) }""",
            18,
            "loses the shape",
        ),
        (
            """(float[1,2,4,5] x, float[2,2,1,1] w) => (float[1,2,3,4] y)
            { a = Relu(x) y = Conv <pads = [1,1,1,1], strides = [2,2]> (a, w) }""",
            18,
            "before it pads",
        ),
        (
            "(float[1,C,3,3] x) => (float[1,C,3,3] y) { y = LRN <size = 3> (x) }",
            18,
            "has no kernel",
        ),
        (
            "(float[A,B] x) => (float[A,1] y) { y = ReduceL1 <axes = [-1]> (x) }",
            13,
            "adds up all there is",
        ),
        (
            """(float[1,1,8,4,3] x, float[2,1,3,2,3] w) => (float[1,2,3,3,1] y)
            { y = Conv <strides = [2,1,2]> (x, w) }""",
            18,
            "steps along a last axis",
        ),
        (
            """(bool[3] c) => (int64[1] y) <int64[3] w = {1,2,3}>
            { x = Compress(w, c) y = ReduceMin(x) }""",
            16,
            "Compress may leave nothing of",
        ),
    ],
)
def test_what_would_come_out_otherwise_is_refused(text, opset, said):
    (reason,) = reasons(parsed(f"g {text}", opset=opset))
    assert said in reason


@pytest.mark.parametrize("rows", [1, 4])
def test_computed_places_along_open_axes_are_looked_up(rows):
    model = parsed(
        """g (float[N,M,2] x, float[1,K] s) => (float[1,2] y)
        <int64[1,1] row = {0}, int64[1] last = {-1}>
        { i = ArgMax<axis=1, keepdims=0>(s) c = Unsqueeze(i, last) p = Concat<axis=1>(row, c)
          y = GatherND(x, p) }"""
    )
    assert homes(model)[-1] == "openvino"
    x = np.arange(rows * 10, dtype=np.float32).reshape(rows, 5, 2)
    scores = np.array([[0, 1, 3, 2, 1]], np.float32)
    with session(model) as opened:
        assert opened.run(None, {"x": x, "s": scores})[0].tolist() == x[0, 2:3].tolist()


def test_fed_numbers_that_become_places_along_open_axes_are_left_to_others():
    model = parsed(
        """g (float[N,M,2] x, int64[1] i, int64[1] j) => (float[1,2] y) <int64[1] last = {-1}>
        { a = Unsqueeze(i, last) b = Unsqueeze(j, last) p = Concat<axis=1>(a, b)
          y = GatherND(x, p) }"""
    )
    assert any("open size" in one for one in reasons(model))


_TILE = "n = Shape(w) r = Concat <axis = 0> (n, one) {} = Tile(z, r)"
_GATHER = "{} = GatherElements <axis = 1> (z, i)"
_BRANCHES = f"""y = If(b) <then_branch = t () => (float[C,D] p) {{ {_TILE.format("p")} }},
  else_branch = e () => (float[C,D] q) {{ {_GATHER.format("q")} }}>"""


@pytest.mark.parametrize("makes", [_TILE.format("y"), _GATHER.format("y"), _BRANCHES])
def test_what_openvino_refuses_or_reads_elsewhere_is_written_otherwise(makes):
    model = parsed(
        "g (bool b, float[A,B] x, float[N] w, int64[K,L] i) => (float[C,D] y) <int64[1] one = {1}> "
        f"{{ z = Neg(x) {makes} }}"
    )
    assert homes(model)[-1] == "openvino"
    x, taken = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[2, 0, 1, 1]])
    with session(model) as opened:
        for branch, count in ((True, 3), (True, 0), (False, 1)):
            feeds = {"b": np.array(branch), "x": x, "w": np.zeros(count, np.float32), "i": taken}
            (y,) = opened.run(None, feeds)
            tiles = branch if makes == _BRANCHES else "Tile" in makes
            wanted = np.tile(-x, (count, 1)) if tiles else -x[:1, taken[0]]
            np.testing.assert_array_equal(y, wanted)


def test_large_results_of_branches_are_handed_out_at_every_run():
    model = parsed("""g (bool b, float[N,99] x) => (float[N,99] y) { y = If(b) <
        then_branch = t () => (float[N,99] p) { p = Neg(x) },
        else_branch = e () => (float[N,99] q) { q = Relu(x) }> }""")
    with session(model) as opened:
        for size in (200, 100, 300):
            x = np.full((size, 99), 2, np.float32)
            np.testing.assert_array_equal(opened.run(None, {"b": np.bool_(1), "x": x})[0], -x)


def test_a_mask_that_is_counted_up_is_taken_and_other_numbers_are_run_elsewhere():
    model = parsed(
        "g (int64[N] m, float[9] x) => (float[N] y) <int64 axis = {0}, int64 one = {1}> "
        "{ c = CumSum(m, axis) p = Mul(c, m) i = Sub(p, one) y = Gather(x, i) }"
    )
    assert set(homes(model)) == {"openvino"}
    x = np.arange(9, dtype=np.float32)
    with session(model) as opened:
        (y,) = opened.run(None, {"m": np.array([0, 1, 1, 0, 1]), "x": x})
        np.testing.assert_array_equal(y, [8, 0, 1, 8, 2])
        with pytest.warns(SubgraphkitWarning, match="neither 0 nor 1"):
            (y,) = opened.run(None, {"m": np.array([1, 2]), "x": x})
    np.testing.assert_array_equal(y, [0, 5])


@pytest.mark.parametrize(("scale", "home"), [(2.0, "openvino"), (1.5, "numpy")])
def test_corners_are_aligned_by_scales_where_these_are_whole_numbers(scale, home):
    model = parsed(
        f"g (float[1,1,H,W] x) => (float[1,1,A,B] y) <float[4] s = {{1, 1, 1, {scale}}}> {{ "
        'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x,, s) }'
    )
    assert homes(model) == [home]
    with session(model) as opened:
        (y,) = opened.run(None, {"x": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)})
    wanted = np.arange(int(3 * scale)) * 2 / (3 * scale - 1)  # ONNX's own cases do not round this
    np.testing.assert_allclose(y[0, 0, 0], wanted, rtol=1e-6)


@pytest.mark.parametrize(("line", "shape"), [
    ("float[3,1,N,1] y) { y = LSTM<hidden_size = 1>(x, w, w) }", (3, 1, 0, 1)),
    ("int64[1,N,1] y) { y = ArgMax(x) }", (1, 0, 1)),
    ("float[3,N,M] y) { y = MaxPool<kernel_shape = [2], pads = [1,1]>(x) }", (3, 0, 2)),
    ("""float[A,B,C,D] y) <float[1,5] r = {0,0,0,1,1}, int64[1] a = {3}>
        { u = Unsqueeze(x, a) y = MaxRoiPool<pooled_shape = [1,1]>(u, r) }""", (1, 0, 1, 1)),
    ("""float[A,B,C] y) { s = ReduceSum<keepdims=0>(w) c = Cast<to=9>(s) y = If(c) <then_branch = t
        () => (float[A,B,C] p) { u = Transpose<perm=[2,0,1]>(x) p = MaxPool<kernel_shape=[2]>(u) },
        else_branch = e () => (float[A,B,C] q) { q = Relu(x) }> }""", (1, 3, 0)),
])  # fmt: skip
def test_what_is_fed_nothing_runs_on_the_fallback(line, shape):
    model = parsed(f"g (float[3,N,1] x, float[1,4,1] w) => ({line}")
    assert {*homes(model)} == {"openvino"}
    feeds = {"x": np.zeros((3, 0, 1), np.float32), "w": np.ones((1, 4, 1), np.float32)}
    with session(model) as opened, pytest.warns(SubgraphkitWarning, match="has no elements"):
        assert opened.run(None, feeds)[0].shape == shape


def test_of_nothing_but_padding_there_is_no_garbage():
    text = """g (float[1,2,N] x) => (float[1,1,M] y) <float[1,2,2] w = {1,2,3,4}>
        { y = Conv<pads = [1,1]>(x, w) }"""
    with session(parsed(text)) as opened, pytest.warns(SubgraphkitWarning, match="no elements"):
        (y,) = opened.run(None, {"x": np.zeros((1, 2, 0), np.float32)})
    assert y.tolist() == [[[0]]]
