"""The compiled operator: memory, threads, shapes, storing and restoring."""

import gc
import subprocess
import sys
import weakref
from contextlib import nullcontext
from itertools import product
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import subgraphkit as sk
from backends.openvino.tests.openvino_road import OpenedModel, compiled, parsed
from subgraphkit.backend import BindContext
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit_openvino import OpenVINOBackend, library
from subgraphkit_openvino.backend_options import Options
from tests.house.tree import ROOT

SMALL = "g (float[2,8] x) => (float[2,8] y, float[2,8] z) { y = Exp(x) z = Neg(y) }"
LARGE = "g (float[64,1024] x) => (float[64,1024] y, float[64,1024] z) { y = Exp(x) z = Neg(y) }"
DYNAMIC = "g (float[N,M] x) => (float[N,M] y, float[N,M] z) { y = Exp(x) z = Neg(y) }"
GRAPHS = {"small": SMALL, "large": LARGE, "dynamic": DYNAMIC}


@pytest.fixture(params=GRAPHS)
def model(request):
    return compiled(GRAPHS[request.param])


def _input(model, seed=0):
    shape = [dim if isinstance(dim, int) else 5 for dim in model.subgraph.input_types[0].shape]
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _check(x, results):
    np.testing.assert_allclose(results[0], np.exp(x), rtol=1e-5)
    np.testing.assert_allclose(results[1], -np.exp(x), rtol=1e-5)


def test_a_buffer_that_does_not_fit_is_named(model):
    x = _input(model)
    for buffer in (np.empty(3, np.float32), np.empty(x.shape, np.float64), "text"):
        with pytest.raises(ValueError, match=r"the buffer for output 'z' is .*, expected"):
            model(x, outputs=[None, buffer])


def test_a_shape_known_to_onnx_alone_is_right():
    model = compiled("g (float[1,64] x, int64[2] n) => (float[128,64] y) { y = Expand(x, n) }")
    x = np.random.default_rng(0).standard_normal((1, 64)).astype(np.float32)
    buffer = np.empty((128, 64), np.float32)
    for outputs in (None, [buffer]):
        (y,) = model(x, np.array([128, 64]), outputs=outputs)
        np.testing.assert_array_equal(y, np.repeat(x, 128, axis=0))


@pytest.mark.parametrize("shape", [(), (3,), (128, 256)])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.uint8, np.bool_]
)
def test_element_types_and_ranks_cross_the_border(shape, dtype):
    name = {"float32": "float", "bool": "bool"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    x = np.asarray(np.random.default_rng(0).standard_normal(shape) * 3, dtype)
    fed = (x.copy(), np.zeros_like(x), x)
    for axes, op in product((shape, "AB"[: len(shape)]), ("Identity(x)", "CastLike(x, x)")):
        dims = f"[{','.join(map(str, axes))}]" if shape else ""
        model = compiled(f"g ({name}{dims} x) => ({name}{dims} y) {{ y = {op} }}")
        for one, (y,) in zip(fed, [model(one) for one in fed], strict=True):
            assert (y.dtype, y.shape) == (one.dtype, one.shape)
            assert not np.may_share_memory(y, one)
            np.testing.assert_array_equal(y, one)
        np.testing.assert_array_equal(fed[0], x)


def test_integers_that_c_calls_long_long_are_taken_like_any_of_64_bits():
    model = compiled("g (float[3] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }")
    x, places = np.arange(3, dtype=np.float32), np.array([2, 0], np.int64)
    (y,) = model(x, places.view(np.longlong))
    assert y.tolist() == [2.0, 0.0]


def test_large_weights_are_not_copied_and_stay_alive():
    weights = np.random.default_rng(0).standard_normal((700, 700)).astype(np.float32)
    proto = parsed("g (float[1,700] x) => (float[1,700] y) { y = MatMul(x, w) }", w=weights)
    model = OpenedModel(proto)
    (held,) = model.operator._held  # type: ignore[attr-defined]
    alive = weakref.ref(held)
    del held, proto
    gc.collect()
    x = np.ones((1, 700), np.float32)
    np.testing.assert_allclose(model(x)[0], x @ weights, rtol=1e-4, atol=1e-4)
    assert alive() is not None
    model.operator.close()
    model.operator.close()


def test_a_restored_operator_can_be_stored_again():
    # Two products with an activation between them are fused into what OpenVINO cannot read.
    model = compiled(
        "g (float[4,16] x) => (float[4,8] y) <float[16,32] w = {"
        + ", ".join(["0.25"] * 512)
        + "}, float[32,8] v = {"
        + ", ".join(["0.5"] * 256)
        + "}> { h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) }"
    )
    x = _input(model)
    operator = model.operator
    for _ in range(3):
        operator = model.backend.deserialize(
            operator.serialize() or b"", model.subgraph, model.context
        )
        np.testing.assert_allclose(operator.run([x])[0], model(x)[0], rtol=1e-5)


def test_a_stored_operator_is_restored_for_another_number_of_threads():
    model = compiled(LARGE, threads=2)
    backend = OpenVINOBackend(Options(threads=1))
    restored = backend.deserialize(model.operator.serialize() or b"", model.subgraph, model.context)
    assert restored.info()["threads"] == 1
    x = _input(model)
    _check(x, restored.run([x]))


def test_a_blob_of_another_subgraph_is_refused():
    blob = compiled("g (float[4] x) => (int32[4] y) { y = Cast<to=6>(x) }").operator.serialize()
    other = compiled(SMALL)
    with pytest.raises(CompileError, match="its outputs are"):
        other.backend.deserialize(blob, other.subgraph, other.context)


def test_an_index_out_of_range_harms_no_run_after_it_where_there_is_one_thread():
    program = """if True:
        import numpy as np, subgraphkit as sk
        from tests.models import parsed
        x, u, i = np.ones((4, 4), np.float32), np.ones((2, 4), np.float32), np.array([[9], [9]])
        scatter = parsed("g (float[4,4] x, int64[2,1] i, float[2,4] u) => (float[4,4] y) {"
            "y = ScatterND(x, i, u) }")
        align = parsed("g (float[4,4] x) => (float[1,1,4,4] y) <int64[1] i = {9}, float[1,4] r ="
            "{0,0,3,3}, int64[2] a = {0,1}> { z = Unsqueeze(x, a)"
            "y = RoiAlign<output_height=4, output_width=4, sampling_ratio=2>(z, r, i) }")
        multiply = parsed("g (float[4,4] x) => (float[4,4] y) { y = MatMul(x, x) }")
        for model in [scatter, multiply, align, multiply] * 8:
            with sk.InferenceSession(model, "openvino", threads=1, cache="off") as session:
                feeds = {"x": x, "i": i, "u": u}
                try:
                    session.run(None, {name: feeds[name] for name in session.graph.inputs})
                except sk.errors.ExecutionError:
                    assert model is not multiply
    """
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=120, check=True)


def test_a_run_that_is_interrupted_while_it_is_waited_for_has_ended(monkeypatch):
    runtime = library.runtime()
    bare = runtime.InferRequest.__base__

    class Struck:
        wait = bare.wait

        @staticmethod
        def start_async(*arguments):
            bare.start_async(*arguments)
            raise KeyboardInterrupt

    names = {**vars(runtime), "InferRequest": type("InferRequest", (Struck,), {})}
    model = parsed("g (float[N,M] x) => (float[N,K] y) { t = Transpose(x) y = MatMul(x, t) }")
    x = np.ones((1500, 1500), np.float32)
    with sk.InferenceSession(model, "openvino", threads=1, cache="off") as session:
        with monkeypatch.context() as patch:
            patch.setattr(library, "runtime", lambda: SimpleNamespace(**names))
            with pytest.raises(KeyboardInterrupt):
                session.run(None, {"x": x})
        assert (session.run(None, {"x": x})[0] == len(x)).all()


def test_a_subgraph_that_cannot_be_compiled_is_an_error_with_a_code():
    with pytest.raises(CompileError, match=r"\[SGK130\].*could not be compiled: .*Det-21"):
        compiled("g (float[2,2] x) => (float y) { a = Exp(x) y = Det(a) }")


def test_the_setting_threads_holds_unless_the_option_is_given():
    model = parsed(LARGE)
    for given, expected in (({}, 1), ({"threads": 2}, 2)):
        with sk.InferenceSession(
            model, backend="openvino", options={"openvino": given}, threads=1
        ) as session:
            info = session.plan.steps[0].operator.info()
        assert (info["threads"], info["pinned"]) == (expected, False)


def test_a_stored_operator_is_restored_for_the_setting_threads_and_its_neighbours():
    model = compiled(LARGE)
    blob = model.operator.serialize() or b""
    for context, expected in (
        (BindContext(threads=1), False),
        (BindContext(shares_processors=True), False),
        (BindContext(), model.operator.info()["pinned"]),
    ):
        restored = OpenVINOBackend().deserialize(blob, model.subgraph, context)
        info = restored.info()
        assert info["threads"] == (context.threads or model.operator.info()["threads"])
        assert info["pinned"] == expected
        restored.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_sizes_that_do_not_fit_are_an_error_however_many_threads_there_are(threads):
    pads = '<int64[4] p = {0, 2, 0, 2}> { y = Pad<mode="reflect">(x, p) }'
    model = compiled(f"g (float[B,N] x) => (float[B,M] y) {pads}", threads=threads)
    (y,) = model(np.arange(3, dtype=np.float32)[None])
    assert y.tolist() == [[2, 1, 0, 1, 2, 1, 0]]
    for _ in range(2):
        with pytest.raises(ExecutionError, match="SGK131"):
            model(np.ones((1, 2), np.float32))
    (again,) = model(np.arange(4, dtype=np.float32)[None])
    assert (again.shape, y[0, 0]) == ((1, 8), 2)
    halved = "g (float[B,4] x) => (float[2,2] y) <int64[2] s = {2, 2}> { y = Reshape(x, s) }"
    model = compiled(halved, threads=threads)
    for rows in (1, 2, 1):
        with pytest.raises(ExecutionError) if rows == 2 else nullcontext():
            assert model(np.ones((rows, 4), np.float32))[0].shape == (2, 2)


def test_an_engine_that_would_come_back_with_other_angles_is_not_stored():
    text = """g (float[N,2,S,8] x, float[1,1,S,4] c, float[1,1,S,4] s) => (float[A,B,C,D] y)
    <int64[1] none = {0}, int64[1] half = {4}, int64[1] all = {8}, int64[1] last = {3}> {
        a = Slice(x, none, half, last) b = Slice(x, half, all, last)
        ac = Mul(a, c) bs = Mul(b, s) bc = Mul(b, c) as = Mul(a, s)
        first = Sub(ac, bs) second = Add(bc, as) y = Concat <axis = -1> (first, second) }"""
    assert OpenedModel(parsed(text)).operator.serialize() is None


def test_an_engine_of_recurrent_steps_comes_back_as_it_was():
    stored = "<float[1,3,2] w = {1,2,3,4,5,6}, float[1,3,1] r = {1,2,3}>"
    text = (
        f"g (float[S,B,2] x) => (float[S,1,B,1] y) {stored} {{ y = GRU<hidden_size=1>(x, w, r) }}"
    )
    model, x = OpenedModel(parsed(text)), np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 9
    blob = model.operator.serialize()
    restored = OpenVINOBackend().deserialize(blob, model.subgraph, model.context)
    np.testing.assert_array_equal(restored.run([x])[0], model(x)[0])
