"""Nodes of an unknown rank, scalars, and sizes that only a run tells: what is taken of them."""

import numpy as np
import pytest

from backends.onnxruntime.tests.ort_models import homes, open_ort, parsed


def assert_as_on_numpy(model, several):
    with open_ort(model) as session, open_ort(model, "numpy") as other:
        for feeds in several:
            for found, wanted in zip(session.run(None, feeds), other.run(None, feeds), strict=True):
                np.testing.assert_allclose(found, wanted, strict=True)


@pytest.mark.parametrize("line", [
    "Resize<axes=[2,3]>(r, , f)",
    'Pad<mode="reflect">(r, p, , a)',
    'Pad<mode="edge">(r, p, , a)',
])  # fmt: skip
def test_what_has_an_unknown_rank_is_resized_and_padded_along_stated_axes(line):
    text = (
        "g (float[N,1,4,4] x, int64[K] s) => (float[A,B,C,D] y) <float[2] f = {2, 2}, "
        "int64[4] p = {1, 1, 1, 1}, int64[2] a = {2, 3}> { r = Reshape(x, s) y = %s }"
    )
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    feeds = {"x": x, "s": np.array([1, 1, 4, 4])}
    model = parsed(text % line, 21)
    with open_ort(model) as session, open_ort(model, "numpy") as other:
        np.testing.assert_array_equal(session.run(None, feeds)[0], other.run(None, feeds)[0])


def test_parts_of_texts_of_an_unknown_rank_are_gathered_by_the_next_backend():
    text = (
        "g (string[N,2,3] x, int64[K] s, int64[M] i) => (string[A,B,C] y) "
        "{ r = Reshape(x, s) y = Gather(r, i) }"
    )
    x = np.array([[list("abc"), list("def")]], object)
    with open_ort(parsed(text)) as session:
        feeds = {"x": x, "s": np.array([2, 1, 3]), "i": np.array([1, 0])}
        assert session.run(None, feeds)[0].tolist() == [[list("def")], [list("abc")]]


@pytest.mark.parametrize(("text", "count"), [
    ("(float[N,3] x, float s) => (float[N,3] y) { a = Mul(x, s) y = Sigmoid(a) }", 1),
    ("""(float[N,3] x) => (float[N,3] y) <float c = {2}> { t = CastLike(c, x) r = Sqrt(t)
     d = Div(x, r) e = Erf(d) y = Mul(x, e) }""", 1),
    ("""(float x) => (float[1] y) <float[1] k = {1.7}> { a = Mul(x, k)
     b = Sigmoid(a) y = Mul(x, b) }""", 3),
    ("""(float x) => (float[1] y) <float q = {1.41421354}, float o = {1}, float[1] h = {0.5}>
     { d = Div(x, q) e = Erf(d) a = Add(e, o) p = Mul(x, h) y = Mul(p, a) }""", 3),
])  # fmt: skip
def test_what_a_fed_scalar_scales_is_one_region_unless_it_meets_stored_axes(text, count):
    model = parsed(f"g {text}", 21)
    feeds = {"x": np.float32(0.5), "s": np.float32(3)}
    if "float[N,3] x" in text:
        feeds["x"] = np.ones((2, 3), np.float32)
    feeds = {value.name: feeds[value.name] for value in model.graph.input}
    with open_ort(model) as session, open_ort(model, "numpy") as other:
        assert len(homes(session)) == count
        wanted = other.run(None, feeds)[0]
        np.testing.assert_allclose(session.run(None, feeds)[0], wanted, rtol=1e-5, strict=True)


@pytest.mark.filterwarnings("ignore:what is fed to subgraph")
@pytest.mark.parametrize("line", [
    "c = Conv(s, w) r = Relu(c) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r)",
    "c = SpaceToDepth<blocksize=2>(s) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)",
])  # fmt: skip
def test_of_pools_behind_a_computed_crop_the_crop_alone_runs_elsewhere(line):
    text = (
        "g (float[1,1,H,W] x, int64[1] e) => (float[1,C,A,B] y) <int64[1] z = {0}, "
        "int64[1] d = {2}, float[1,1,1,1] w = {2}> { s = Slice(x, z, e, d) %s y = Neg(p) }"
    )
    model = parsed(text % line)
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    with open_ort(model) as session:
        assert [len(nodes) for _, nodes in homes(session)] == [1, len(model.graph.node) - 1]
    assert_as_on_numpy(model, [{"x": x, "e": np.array([end])} for end in (8, 4, 2, 0)])


def test_a_bias_of_open_size_is_added_by_the_next_backend():
    line = "y = com.microsoft.QAttention<num_heads=1>(x, w, b, t, t) s = Shape(y)"
    fed = "g (uint8[1,3,2] x, int8[2,6] w, float[N] b) => (int64[3] s) <float t = {0.1}>"
    model = parsed(f"{fed} {{ {line} }}")
    model.opset_import.add(domain="com.microsoft", version=1)
    feeds = {"x": np.ones((1, 3, 2), np.uint8), "w": np.ones((2, 6), np.int8)}
    with open_ort(model) as session:
        (sizes,) = session.run(None, {**feeds, "b": np.ones(6, np.float32)})
    assert sizes.tolist() == [1, 3, 2]


@pytest.mark.filterwarnings("ignore:what is fed to subgraph")
@pytest.mark.parametrize("line", [
    "r = Resize(x, , half) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r)",
    "r = Resize(x, none, none, sizes) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)",
])  # fmt: skip
def test_pictures_smaller_than_a_window_behind_them_run_elsewhere(line):
    text = (
        "g (float[1,1,H,W] x) => (float[1,1,A,B] p, float[1,1,C,D] q) <float[0] none = {}, "
        "float[4] half = {1, 1, 0.5, 0.5}, int64[4] sizes = {1, 1, 3, 3}> { %s q = Neg(r) }"
    )
    pictures = (np.arange(size * size, dtype=np.float32) for size in (8, 3, 1, 4))
    several = [{"x": one.reshape(1, 1, int(one.size**0.5), -1)} for one in pictures]
    assert_as_on_numpy(parsed(text % line), several)
