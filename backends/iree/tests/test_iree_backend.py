"""Sessions on the iree backend: what is taken, how it is kept, and how its compiler is stopped."""

import os
import signal
import sys
import threading
import time

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import BackendUnavailableError, CompileTimeoutError
from subgraphkit.testing import Subject
from subgraphkit.testing.execution import carry_out
from subgraphkit.testing.levels import cases_of_level
from subgraphkit_iree import IreeBackend, claims
from subgraphkit_iree.compiler import Compiler, CompilerEndedError, the_compiler
from tests.models import parsed
from tests.scripts import run_child

found = IreeBackend.probe()
pytestmark = pytest.mark.skipif(not found.available, reason="; ".join(found.problems))

TEXT = """
layers (float[N, 8] x, int32[N] add) => (float[N, 64] y, int32[N] z)
{
    p = MatMul(x, w)
    q = Relu(p)
    y = Add(q, b)
    z = Mul(add, add)
}
"""
WEIGHTS = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)
BIAS = np.linspace(0, 1, 64, dtype=np.float32)


def model(weights=WEIGHTS):
    return parsed(TEXT, 21, w=weights, b=BIAS)


def feeds(rows):
    numbers = np.arange(rows * 8, dtype=np.float32)
    return {"x": np.sin(numbers).reshape(rows, 8), "add": np.arange(rows, dtype=np.int32)}


def expected(fed, weights=WEIGHTS):
    return [np.maximum(fed["x"] @ weights, 0) + BIAS, fed["add"] ** 2]


def test_a_command_ends_without_a_complaint_of_what_it_left(tmp_path):
    onnx.save(model(), tmp_path / "layers.onnx")
    words = [sys.executable, "-m", "subgraphkit", "run", "layers.onnx", "--symbol", "N=2"]
    assert "leaked" not in run_child([*words, "--backend", "iree"], cwd=tmp_path).stderr


def test_open_dimensions_and_new_weights_need_one_compilation(tmp_path):
    with sk.config(cache_dir=tmp_path), sk.InferenceSession(model(), "iree", threads=1) as session:
        (subgraph,) = session.partitioning.subgraphs
        assert (subgraph.backend, len(subgraph.members)) == ("iree", 4)
        for rows in (1, 3, 17, 0):
            fed = feeds(rows)
            for got, right in zip(session.run(None, fed), expected(fed), strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
        session.update_weights({"w": -WEIGHTS})
        fed = feeds(5)
        np.testing.assert_allclose(
            session.run(["y"], fed)[0], expected(fed, -WEIGHTS)[0], rtol=1e-5, atol=1e-6
        )


def test_an_engine_is_restored_without_the_compiler_and_serves_other_weights(tmp_path, monkeypatch):
    with sk.config(cache_dir=tmp_path):
        sk.InferenceSession(model(), "iree", threads=1).close()
        monkeypatch.setattr(Compiler, "_reply", None)
        monkeypatch.setattr(claims, "_ANSWERS", claims.Answers("answers"))  # those in memory
        with sk.InferenceSession(model(WEIGHTS * 2), "iree", threads=1) as session:
            fed = feeds(3)
            np.testing.assert_allclose(
                session.run(["y"], fed)[0], expected(fed, WEIGHTS * 2)[0], rtol=1e-5, atol=1e-6
            )


def test_what_the_compiler_or_a_table_refuses_has_a_reason():
    text = """
    g (float[4, 4] x, bool[4] c, string[4] s, bfloat16[4] b)
      => (float[N, 4] y, string[4] t, float[4] d, bfloat16[4] m)
    { y = Compress<axis = 0>(x, c) t = Identity(s) d, e = Dropout(x)
      m = MeanVarianceNormalization<axes = [0]>(b) }
    """
    bound = sk.bind(sk.load(parsed(text.replace("d, e = Dropout(x)", "d = Det(x)"), 21)))
    refusals = sk.partition(bound, ["iree", "numpy"]).refusals
    reasons = {node: said[0].refusal for node, said in refusals.items()}
    assert reasons[0].code == "op_unsupported"
    assert "IREE says" in reasons[0].text
    assert reasons[1].code == "dtype"
    assert "ShapeInferenceError" in reasons[3].text  # onnx writes it with numbers of another type


def test_uses_that_iree_computes_otherwise_are_refused_with_the_reason():
    text = """
    g (int32[4] x, uint8[4] u, float[1,1,4,4] p, int64[1] axes, float16[4] h, float[3,N,5] r,
       float[2,16,1] g, float[W] w, uint8[1,1,4] c, uint8[2,1,1] d, float e, uint8 j, int32[2] m,
       float[P,Q] aa, float[R,2,S,3] ab)
        => (int32[4] y, uint8[1] v, int64[1] i, float[N,M,A,B] q, float[1,4,4] s, float16[1] t,
            float[C,D,E,F] o, float[2,G,H,2] f, uint8[1,2,4] n, float[3,5] z, float[T,6] ac)
    <int64[1] k = {1}, int64[2] as = {3,5}, int64[2] ad = {-1,6}, int64 step = {4}, int64 l = {8},
     float[1,3,5] a = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0},
     float[1,3,3] b = {0,0,0,0,0,0,0,0,0}>
    {
        y = Neg(x)
        v, i = TopK(u, k)
        q = AveragePool<kernel_shape = [3, 3], ceil_mode = 1, count_include_pad = 1>(p)
        s = Squeeze(p, axes)
        t = ReduceSum(h)
        o = RNN<hidden_size = 3>(r, a, b)
        f = STFT(g, step, w, l)
        n = QLinearConv(c, e, j, d, e, j, e, j, m)
        z = Reshape(aa, as)
        ac = Reshape(ab, ad)
    }
    """
    bound = sk.bind(sk.load(parsed(text, 21)))
    refusals = sk.partition(bound, ["iree", "numpy"]).refusals
    said = [refusals[node][0].refusal.text for node in sorted(refusals)]
    words = [
        *("negated", "orders", "beyond the padding", "fed", "16 bits", "that are open"),
        *("window", "bias", "mixed", "mixed"),
    ]
    for one, word in zip(said, words, strict=True):
        assert word in one


def test_shapes_are_taken_if_they_follow_from_shapes_within_the_region():
    text = """
    g (float[N,4,8] x, int64[2] s) => (float[A,B] y, float[C,D] z, float[E,F] w)
    <int64[1] place = {0}, int64[1] rest = {-1}>
    {
        of_x = Shape(x)
        n = Gather<axis = 0>(of_x, place)
        rows = Concat<axis = 0>(n, rest)
        y = Reshape(x, rows)
        z = Reshape(x, s)
        one = Div(n, n)
        less = Neg(one)
        others = Concat<axis = 0>(n, less)
        w = Reshape(x, others)
    }
    """
    x = np.arange(96, dtype=np.float32).reshape(3, 4, 8)
    with sk.InferenceSession(parsed(text, 21), ["iree", "numpy"]) as session:
        parts = [(one.backend, one.members) for one in session.partitioning.subgraphs]
        took = {node.outputs[0]: backend for backend, nodes in parts for node in nodes}
        assert [took[name] for name in "yzw"] == ["iree", "numpy", "numpy"]
        for shape in ([3, 32], [-1, 32], [0, 32]):
            for got in session.run(None, {"x": x, "s": np.array(shape)}):
                np.testing.assert_array_equal(got, x.reshape(3, 32))


@pytest.mark.parametrize(
    ("node", "read"),
    [
        ("Pad(x, i)", "below 0"),
        ('Pad<mode = "reflect">(x, wide)', "wider"),
        ("Tile(x, i)", "sizes that are fed"),
        ("Split(x, i)", "sizes that are fed"),
        ("Resize(x, none, f)", "fed"),
        ('Resize<coordinate_transformation_mode = "align_corners">(x, none, scales)', "rounded"),
        (
            (
                'Resize<coordinate_transformation_mode = "half_pixel_symmetric", mode = "linear">'
                "(x, none, scales)"
            ),
            "rounded",
        ),
        ("ScatterElements(x, nowhere, nothing)", "compiler ends"),
        ('NegativeLogLikelihoodLoss<reduction = "none">(x, i)', "labels"),
    ],
)
def test_what_iree_would_read_or_write_out_of_bounds_is_left_to_others(node, read):
    text = f"""
    g (float[4, N] x, int64[4] i, float[2] f) => (float[A, B] y)
    <int64[4] wide = {{1, 1, 1, 1}}, float[2] scales = {{0.6, 1.0}}, float[0] none = {{}},
     int64[0,0] nowhere = {{}}, float[0,0] nothing = {{}}>
    {{ y = {node} }}
    """
    # with a limit, the core keeps nodes of fed sizes away itself
    bound = sk.bind(sk.load(parsed(text, 21)), limits="max_value_bytes=0")
    refused = sk.partition(bound, ["iree", "numpy"]).refusals[0][0].refusal
    assert refused.code == "deviation"
    assert read in refused.text


def test_open_sizes_that_meet_others_are_left_to_others():
    text = """
    g (float[S,2] a, float[T,2] b, float[S,1] c) => (float[U,2] y, float[S,2] z)
    { y = Add(a, b) z = Mul(a, c) }
    """
    with sk.InferenceSession(parsed(text, 21), ["iree", "numpy"]) as session:
        took = {one.backend: len(one.members) for one in session.partitioning.subgraphs}
        assert took == {"iree": 1, "numpy": 1}
        a, b = np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)
        assert session.run(None, {"a": a, "b": b, "c": a[:, :1]})[0].tolist() == [[2, 2]] * 3


def test_shifts_are_taken_if_they_are_known_to_be_within_the_width():
    text = """
    g (uint8[2] x) => (uint8[2] y, uint8[2] z, uint8[2] w)
    <uint8[2] near = {1, 7}, uint8[2] far = {1, 8}>
    {
        y = BitShift<direction = "LEFT">(x, near)
        z = BitShift<direction = "LEFT">(x, far)
        w = BitShift<direction = "LEFT">(x, x)
    }
    """
    fed = {"x": np.array([3, 5], np.uint8)}
    with sk.InferenceSession(parsed(text, 21), ["iree", "numpy"]) as session:
        took = {one.backend: len(one.members) for one in session.partitioning.subgraphs}
        assert took == {"iree": 1, "numpy": 2}
        found = [one.tolist() for one in session.run(None, fed)]
        assert found == [[6, 128], [6, 0], [24, 160]]


def test_bytes_without_a_sign_are_multiplied_by_whoever_reads_them_so():
    text = """
    g (uint8[3, 17] x, uint8[17, 4] w, int8[17, 4] v, uint8 z)
        => (int32[3, 4] a, int32[3, 4] b, int32[3, 4] c)
    { a = MatMulInteger(x, w) b = MatMulInteger(x, w, z) c = MatMulInteger(x, v) }
    """
    numbers = np.arange(119).astype(np.uint8) * 2 + 17
    x, w = numbers[:51].reshape(3, 17), numbers[51:].reshape(17, 4)
    fed = {"x": x, "w": w, "v": w.view(np.int8), "z": np.array(3, np.uint8)}
    with sk.InferenceSession(parsed(text, 21), ["iree", "numpy"]) as session:
        took = {one.backend: len(one.members) for one in session.partitioning.subgraphs}
        assert took == {"iree": 2, "numpy": 1}
        wide = {name: array.astype(np.int32) for name, array in fed.items()}
        right = [wide["x"] @ wide["w"], (wide["x"] - 3) @ wide["w"], wide["x"] @ wide["v"]]
        np.testing.assert_equal(session.run(None, fed), right)


def test_a_compiler_at_work_is_stopped_when_time_is_up():
    steps = " ".join(f"v{i + 1} = MatMul(v{i}, x)" for i in range(3000))
    text = f"g (float[9, 9] x) => (float[9, 9] y) {{ v0 = Sin(x) {steps} y = Cos(v3000) }}"
    proto = parsed(text, 21)
    with pytest.raises(CompileTimeoutError):
        sk.InferenceSession(proto, "iree", timeout_s=2.0)
    end = time.monotonic() + 30
    while the_compiler._child is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert the_compiler._child is None


def test_a_compiler_that_was_killed_is_an_error_once():
    bound = sk.bind(sk.load(model()))
    proto = sk.partition(bound, ["iree", "numpy"]).subgraphs[0].to_model(weights="outside")
    compiler, context = Compiler(), sk.backend.BindContext()
    assert compiler.takes(proto, context) == ""
    os.kill(compiler._child.number, signal.SIGKILL)
    with pytest.raises(CompilerEndedError, match="SIGKILL"):
        compiler.takes(proto, context)
    assert compiler.takes(proto, context) == ""
    compiler.rest()
    assert compiler._child is None


def test_a_device_that_is_not_here_is_named_with_a_remedy_and_can_be_planned_for():
    bound = sk.bind(sk.load(model()))
    with pytest.raises(BackendUnavailableError, match=r"(?s)SGK104.*hip") as raised:
        sk.partition(bound, ["iree:device=hip"])
    assert "ROCm" in str(raised.value)
    dry = sk.partition(bound, ["iree:device=hip", "numpy"], dry_run=True)
    assert dry.evidence["iree"] == "asked"
    assert [one.backend for one in dry.subgraphs] == ["iree"]


def test_threads_are_those_of_the_session_and_may_all_be_inside():
    partitioning = sk.partition(sk.bind(sk.load(model()), backend="iree", threads=2))
    operators = sk.compile_subgraphs(partitioning)
    assert operators[0].info()["device"] == "local-task"
    assert operators[0].info()["threads"] == 2
    with sk.Session(sk.plan(partitioning, operators)) as session:
        fed = feeds(2)
        results: list[np.ndarray] = []
        workers = [
            threading.Thread(target=lambda: results.append(session.run(["y"], fed)[0]))
            for _ in range(3)
        ]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        assert len(results) == len(workers)
        for got in results:
            np.testing.assert_allclose(got, expected(fed)[0], rtol=1e-5, atol=1e-6)


def test_the_kit_finds_nothing_wrong_with_what_an_operator_returns():
    subject = Subject("iree")
    cases = [one for name, one in cases_of_level(1, subject).items() if "/operator/re" in name]
    findings = [carry_out(case, subject) for case in cases]  # here, where the compiler is already
    assert [(one.case, one.detail) for one in findings if one.is_wrong] == []
    assert findings
