"""Values that a node cannot compute with: a coded error that names it, and a session after it."""

import io
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from backends.numpy.tests.comparing import F32, I64
from backends.numpy.tests.models import node_model, parsed
from backends.numpy.tests.numpy_road import compile_model
from subgraphkit.backend import LoadLimits, Unsupported
from subgraphkit.errors import ExecutionError, UnsupportedModelError
from subgraphkit_numpy.kernels.limits import check_size

Array = np.ndarray[Any, Any]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def ints(*values):
    return np.array(values, np.int64)


def scalar(value):
    return np.array(value, np.int64)


# -- indices, sizes and shapes ---------------------------------------------------------------------

CASES: dict[str, tuple[str, list[Any], list[Any], dict[str, Any]]] = {
    "Gather beyond the end": ("Gather", [X, ints(0)], [X, ints(5)], {}),
    "Gather before the start": ("Gather", [X, ints(-2)], [X, ints(-3)], {}),
    "Gather one slice": ("Gather", [X, scalar(-1)], [X, scalar(2)], {"axis": 0}),
    "GatherElements": ("GatherElements", [X, ints(0).reshape(1, 1)], [X, ints(2).reshape(1, 1)],
                       {}),
    "GatherND": ("GatherND", [X, ints(1, 2).reshape(1, 2)], [X, ints(1, 3).reshape(1, 2)], {}),
    "ScatterElements": ("ScatterElements", [X, ints(1).reshape(1, 1), X[:1, :1]],
                        [X, ints(2).reshape(1, 1), X[:1, :1]], {}),
    "ScatterND": ("ScatterND", [X, ints(1).reshape(1, 1), X[:1]],
                  [X, ints(2).reshape(1, 1), X[:1]], {}),
    "other updates": ("ScatterElements", [X, ints(1, 0).reshape(1, 2), X[:1, :2]],
                      [X, ints(1, 0).reshape(1, 2), X[:1, :1]], {}),
    "other slices": ("ScatterND", [X, ints(1).reshape(1, 1), X[:1]],
                     [X, ints(1).reshape(1, 1), X[:1, :1]], {}),
    "another batch": ("GatherND", [X, ints(1, 2).reshape(2, 1)], [X, ints(1).reshape(1, 1)],
                      {"batch_dims": 1}),
    "GatherND of too many axes": ("GatherND", [X, ints(1, 2).reshape(1, 2)],
                                  [X, ints(1, 2, 0).reshape(1, 3)], {}),
    "ScatterND of too many axes": ("ScatterND", [X, ints(1, 2).reshape(1, 2), X[0, :1]],
                                   [X, ints(1, 2, 0).reshape(1, 3), X[0, :1]], {}),
    "OneHot": ("OneHot", [ints(1), scalar(3), X[0, :2]], [ints(1), scalar(-1), X[0, :2]], {}),
    "Slice axis": ("Slice", [X, ints(0), ints(1), ints(-1)], [X, ints(0), ints(1), ints(2)], {}),
    "Slice step": ("Slice", [X, ints(0), ints(1), ints(0), ints(1)],
                   [X, ints(0), ints(1), ints(0), ints(0)], {}),
    "Slice bounds": ("Slice", [X, ints(0), ints(1)], [X, ints(0), ints(1, 2)], {}),
    "Split": ("Split", [X, ints(1, 1)], [X, ints(1, 2)], {}),
    "Split by too many": ("Split", [X, ints(1, 1)], [X, ints(1, 1, 0)], {}),
    "Split by a negative size": ("Split", [X, ints(1, 1)], [X, ints(3, -1)], {}),
    "TopK": ("TopK", [X, ints(2)], [X, ints(4)], {}),
    "TopK of a negative number": ("TopK", [X, ints(2)], [X, ints(-1)], {}),
    "Reshape": ("Reshape", [X, ints(3, 2)], [X, ints(4, 2)], {}),
    "Reshape with two unknowns": ("Reshape", [X, ints(3, -1)], [X, ints(-1, -1)], {}),
    "MatMul": ("MatMul", [X, X.T.copy()], [X, X], {}),
    "Concat": ("Concat", [X, X], [X, X[:, :2].copy()], {"axis": 0}),
    "Add": ("Add", [X, X], [X, X[:, :2].copy()], {}),
    "Expand": ("Expand", [X, ints(2, 3)], [X, ints(4, 3)], {}),
    "Squeeze": ("Squeeze", [X[:1], ints(0)], [X[:1], ints(1)], {}),
    "Tile": ("Tile", [X, ints(2, 1)], [X, ints(-2, 1)], {}),
    "ConstantOfShape": ("ConstantOfShape", [ints(2)], [ints(-2)], {}),
    "Range of step 0": ("Range", [scalar(0), scalar(3), scalar(1)],
                        [scalar(0), scalar(3), scalar(0)], {}),
    "Range without end": ("Range", [X[0, 0], X[1, 0], X[0, 1]],
                          [X[0, 0], np.float32(np.inf), X[0, 1]], {}),
    "Range of NaN": ("Range", [X[0, 0], X[1, 0], X[0, 1]], [X[0, 0], X[1, 0], np.float32(np.nan)],
                     {}),
    "division by zero": ("Div", [ints(4), ints(2)], [ints(4), ints(0)], {}),
    "remainder by zero": ("Mod", [ints(4), ints(2)], [ints(4), ints(0)], {}),
    "remainder of fmod by zero": ("Mod", [ints(4), ints(2)], [ints(4), ints(0)], {"fmod": 1}),
    "text that is no number": ("Cast", [np.array(["1"], object)], [np.array(["one"], object)],
                               {"to": 1}),
}  # fmt: skip
"""Operator, good inputs, bad inputs, attributes."""


def outputs_of(operator, inputs):
    if operator == "TopK":
        return [F32, I64]
    if operator == "Split":
        return [F32, F32]
    return [F32] if operator in {"OneHot", "ConstantOfShape", "Cast"} else [inputs[0].dtype]


def compiled_node(name, *, typed=False):
    operator, good, bad, attributes = CASES[name]
    good, bad = [np.asarray(v) for v in good], [np.asarray(v) for v in bad]
    model = node_model(operator, good, outputs_of(operator, good), typed=typed, **attributes)
    model.graph.node[0].name = "the_node"
    return compile_model(model), good, bad


@pytest.mark.parametrize("name", CASES)
def test_a_value_that_cannot_be_is_an_error_that_names_the_node(name):
    compiled, good, bad = compiled_node(name)
    before = compiled(*good)
    with pytest.raises(ExecutionError) as caught:
        compiled(*bad)
    error = caught.value
    assert error.code == "SGK131"
    assert f"node #0 {CASES[name][0]} 'the_node' failed while running: " in error.message
    assert error.__cause__ is not None
    assert str(error.__cause__) in error.message
    assert error.context["nodes"] == (f"#0 {CASES[name][0]} 'the_node'",)
    np.testing.assert_equal(before, compiled(*good))


def test_a_session_is_usable_after_a_failure():
    model = node_model("Gather", [X, ints(0)], [F32], typed=False)
    with sk.InferenceSession(model.SerializeToString(), backend="numpy") as session:
        with pytest.raises(ExecutionError, match=r"\[SGK131\].*Gather.*out of bounds"):
            session.run(None, {"x0": X, "x1": ints(7)})
        (y,) = session.run(None, {"x0": X, "x1": ints(-1)})
    np.testing.assert_array_equal(y, X[-1:])


def test_an_endless_loop_is_stopped_and_the_session_lives_on():
    model = parsed("""
    g (bool go, float[1] x) => (float[1] y) {
      y = Loop (, go, x) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] t)
        { d = Identity(c) t = Identity(s) }>
    }
    """)
    compiled = compile_model(model, max_loop_iterations=10)
    x = np.ones(1, np.float32)
    with pytest.raises(ExecutionError, match=r"Loop.*exceeded 10 iterations.*max_loop_iterations"):
        compiled(np.array(1, bool), x)
    assert compiled(np.array(0, bool), x)[0].tolist() == [1.0]


def test_sequences_and_scanned_arrays_of_different_lengths_are_an_error():
    scan = parsed("""
    g (float[n, 2] a, float[m, 2] b) => (float[k, 2] y) {
      y = Scan <num_scan_inputs = 2, body = r
        (float[2] p, float[2] q) => (float[2] s) { s = Add(p, q) }> (a, b)
    }
    """)
    a = np.ones((3, 2), np.float32)
    with pytest.raises(ExecutionError, match=r"Scan.*lengths \[3, 2\], expected the same"):
        compile_model(scan)(a, a[:2])
    assert compile_model(scan)(a, a)[0].shape == (3, 2)


# -- absurd sizes ----------------------------------------------------------------------------------

HUGE = 10**7
ABSURD: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "ConstantOfShape": ("ConstantOfShape", [ints(HUGE, HUGE)], {}),
    "DFT": ("DFT", [X[..., None], scalar(HUGE**2), scalar(1)], {}),
    "Expand": ("Expand", [X[:1, :1], ints(HUGE, HUGE)], {}),
    "Tile": ("Tile", [X, ints(HUGE, HUGE)], {}),
    "Pad": ("Pad", [X, ints(HUGE, HUGE, 0, 0)], {}),
    "Pad an axis": ("Pad", [X, ints(HUGE**2, 0), np.float32(0), ints(1)], {}),
    "Range": ("Range", [scalar(0), scalar(HUGE**2), scalar(1)], {}),
    "Range of floats": ("Range", [np.float32(0), np.float32(1e30), np.float32(1)], {}),
    "OneHot": ("OneHot", [ints(1), scalar(HUGE**2), X[0, :2]], {}),
    "Resize by scales": ("Resize", [X, None, np.full(2, 1e7, np.float32)], {}),
    "Resize to sizes": ("Resize", [X, None, None, ints(HUGE, HUGE)], {}),
    "CenterCropPad": ("CenterCropPad", [X, ints(HUGE, HUGE)], {}),
    "HannWindow": ("HannWindow", [scalar(HUGE**2)], {}),
    "STFT": ("STFT", [np.zeros((1, 3 * 10**6, 1), F32), scalar(1), None, scalar(10**6)], {}),
    "AffineGrid": ("AffineGrid", [X[None], ints(1, 1, HUGE, HUGE)], {}),
    "Col2Im": ("Col2Im", [X[None], ints(HUGE, HUGE), ints(1, 1)], {}),
}


NOT_INFERRED = frozenset({"Range of floats"})
"""What shape inference gets wrong, so that only running shows it."""


def absurd_model(name, *, constant=False):
    operator, inputs, attributes = ABSURD[name]
    inputs = [None if v is None else np.asarray(v) for v in inputs]
    dtype = inputs[0].dtype if operator not in {"OneHot", "ConstantOfShape", "HannWindow"} else F32
    places = tuple(i for i, v in enumerate(inputs) if v is not None and (i or len(inputs) == 1))
    places = (*places, 0) if operator == "Range" else places
    model = node_model(operator, inputs, [dtype],
                       constants=places if constant else (), **attributes)  # fmt: skip
    given = [value.name for value in model.graph.input]
    return model, {name: inputs[int(name[1:])] for name in given}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_size_is_refused_before_it_is_allocated(name):
    model, feeds = absurd_model(name)
    with pytest.raises(ExecutionError) as caught:
        compile_model(model).run(feeds)
    message = str(caught.value)
    assert "[SGK217]" in message
    assert f"#0 {ABSURD[name][0]}" in message
    assert "the output would be" in message
    assert f"the limit is {LoadLimits().value_bytes:,} bytes" in message
    assert "max_value_bytes" in message
    assert "max_output_bytes" in message


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_size_that_is_known_beforehand_is_refused_at_bind(name):
    model, feeds = absurd_model(name, constant=True)
    if name in NOT_INFERRED:
        with pytest.raises(ExecutionError, match="max_output_bytes"):
            compile_model(model).run(feeds)
        return
    with pytest.raises(UnsupportedModelError, match=r"SGK216.*dimensions|SGK216.*max_value_bytes"):
        compile_model(model)
    with sk.config(limits="unlimited"), pytest.raises(Unsupported, match="max_output_bytes"):
        compile_model(model, max_output_bytes=1 << 40)


def test_a_session_refuses_an_absurd_constant_shape_by_name():
    model = parsed("""
    g () => (float[n, m] y) <int64[2] s = {10000000, 10000000}> { y = ConstantOfShape(s) }
    """)
    with pytest.raises(UnsupportedModelError, match=r"'y' of node #0 ConstantOfShape"):
        sk.InferenceSession(model.SerializeToString(), backend="numpy")


def test_an_image_is_not_decoded_that_is_larger_than_the_limit():
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (30, 20)).save(file := io.BytesIO(), "PNG")
    encoded = np.frombuffer(file.getvalue(), np.uint8)
    model = node_model("ImageDecoder", [encoded], [np.dtype(np.uint8)], typed=False)
    assert compile_model(model, max_output_bytes=1800)(encoded)[0].shape == (20, 30, 3)
    with pytest.raises(ExecutionError, match=r"takes 1,800 bytes; the limit is 1,799 bytes"):
        compile_model(model, max_output_bytes=1799)(encoded)


def test_rows_that_are_picked_are_counted_where_no_shape_is_known():
    model = node_model("GatherND", [X, ints(0).reshape(1, 1)], [F32], typed=False)
    compiled = compile_model(model, max_output_bytes=24)
    assert compiled(X, ints(1, 0).reshape(2, 1))[0].shape == (2, 3)
    with pytest.raises(ExecutionError, match=r"takes 36 bytes; the limit is 24 bytes"):
        compiled(X, ints(1, 0, 1).reshape(3, 1))


def test_the_limit_is_an_option():
    model = node_model("ConstantOfShape", [ints(100)], [F32], typed=False)
    assert compile_model(model, max_output_bytes=400)(ints(100))[0].size == 100
    with pytest.raises(ExecutionError, match=r"takes 404 bytes; the limit is 400 bytes"):
        compile_model(model, max_output_bytes=400)(ints(101))
    assert compile_model(model, max_output_bytes=0)(ints(101))[0].size == 101
    data = model.SerializeToString()
    with sk.InferenceSession(data, backend="numpy:max_output_bytes=1KiB") as session:
        with pytest.raises(ExecutionError, match=r"the limit is 1,024 bytes"):
            session.run(None, {"x0": ints(1000)})
        assert session.run(None, {"x0": ints(10)})[0].size == 10


def test_a_negative_dimension_is_not_a_size():
    check_size((-5, 10**12), F32, 10)
    with pytest.raises(MemoryError, match="4,000,000,000,000 bytes"):
        check_size((10**6, 10**6), F32, 10)


def test_the_limit_holds_in_bodies_too():
    model = parsed("""
    g (bool c, int64[2] s) => (float[n, m] y) {
      y = If (c) <
        then_branch = t () => (float[n, m] a) { a = ConstantOfShape(s) },
        else_branch = e () => (float[n, m] b) { b = ConstantOfShape(s) }
      >
    }
    """)
    compiled = compile_model(model)
    with pytest.raises(ExecutionError, match=r"ConstantOfShape.*max_output_bytes"):
        compiled(np.array(1, bool), ints(HUGE, HUGE))
    assert compiled(np.array(1, bool), ints(2, 3))[0].shape == (2, 3)


# -- output buffers --------------------------------------------------------------------------------


def overlap_same(values):
    return values[:6].reshape(2, 3)


def overlap_shifted(values):
    return values[1:7].reshape(2, 3)


def overlap_backwards(values):
    return values[5::-1].reshape(2, 3)


@pytest.mark.parametrize("place", [overlap_same, overlap_shifted, overlap_backwards])
def test_results_are_right_in_buffers_that_overlap_the_input(place):
    for op_type in ("Neg", "Transpose", "Identity"):
        values = np.arange(8, dtype=np.float32)
        x, buffer = values[:6].reshape(2, 3), place(values)
        attributes = {"perm": [0, 1]} if op_type == "Transpose" else {}
        expected = -x if op_type == "Neg" else x.copy()
        operator = compile_model(node_model(op_type, [x], [F32], **attributes)).operator
        assert operator is not None
        operator.run([x], [buffer])
        np.testing.assert_array_equal(buffer, expected)
