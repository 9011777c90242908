"""Values in and out: dtypes, layouts, buffers, threads, weights."""

import tempfile
from contextlib import nullcontext
from pathlib import Path

import ml_dtypes
import numpy as np
import onnxruntime
import pytest

import subgraphkit as sk
from backends.onnxruntime.tests.ort_models import homes, open_ort, operators, parsed
from subgraphkit.running.in_place import find_outputs_in_place
from subgraphkit_onnxruntime import weights
from subgraphkit_onnxruntime.backend_options import Options
from subgraphkit_onnxruntime.settings import read_settings


def dense(width=64):
    weight = np.random.default_rng(0).standard_normal((width, width)).astype(np.float32)
    text = f"g (float[N, {width}] x) => (float[N, {width}] y) {{ y = MatMul(x, w) }}"
    return parsed(text, w=weight), weight


def test_a_buffer_beside_an_output_without_one():
    model = parsed("g (float[N] x) => (float[N] y, float[N] z) { y = Relu(x) z = Neg(x) }")
    x = np.arange(4, dtype=np.float32)
    with open_ort(model) as session:
        (operator,) = operators(session)
        buffer = np.empty(4, np.float32)
        np.testing.assert_array_equal(operator.run([x], [None, None]), [x, -x])
        assert not operator._bound  # a run costs less than a binding of every value
        y, z = operator.run([x], [None, buffer])
        assert z is buffer
        del x, operator
        np.testing.assert_array_equal(y, [0, 1, 2, 3])
        np.testing.assert_array_equal(z, [0, -1, -2, -3])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_types_that_numpy_lacks_go_in_and_out(dtype):
    name = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8e4m3fn"}[np.dtype(dtype).name]
    kind = {"bfloat16": 16, "float8_e4m3fn": 17}[np.dtype(dtype).name]
    model = parsed(
        f"g ({name}[N] x) => ({name}[N] y) "
        f"{{ a = Cast<to=1>(x) b = Neg(a) y = Cast<to={kind}>(b) }}",
        opset=21,
    )
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1, 2))]
        for values in ([1, -2, 0.5, 8], []):
            x = np.array(values, dtype)
            (y,) = session.run(None, {"x": x})
            assert y.dtype == x.dtype
            np.testing.assert_array_equal(y, -x)
        y[...] = 0
        (again,) = session.run(None, {"x": np.array([[3, 4], [5, 6]], dtype)[:, 0]})
        np.testing.assert_array_equal(again.astype(np.float32), [-3, -5])


def test_strings_go_in_and_out_as_text():
    model = parsed("g (string[N] x) => (string[N] y) { y = Identity(x) }")
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0,))]
        (y,) = session.run(None, {"x": np.array(["a", "grün", ""], object)})
        assert y.tolist() == ["a", "grün", ""]
        (operator,) = operators(session)
        (y,) = operator.run([np.array([b"bytes", "text"], object)])
        assert y.tolist() == ["bytes", "text"]


def test_weights_are_those_of_the_model_in_every_bind_unless_sessions_copy_them(monkeypatch):
    monkeypatch.setattr(weights, "are_copied", lambda: False)
    model, _ = dense(128)
    loaded = sk.load(model)
    held = [sk.bind(loaded, backend="onnxruntime") for _ in range(2)]
    compiled = [sk.compile_subgraphs(sk.partition(bound)) for bound in held]
    arrays = [operator._weights.arrays["w"] for (operator,) in compiled]
    assert np.shares_memory(*arrays)
    for one in compiled:
        one.close()


def test_nothing_is_held_where_sessions_copy_weights(monkeypatch):
    monkeypatch.setattr(weights, "are_copied", lambda: True)
    with open_ort(dense()[0]) as session:
        (operator,) = operators(session)
        assert not operator._weights.arrays


def test_a_failure_while_running_names_the_subgraph_and_has_onnxruntimes_words():
    model = parsed(
        "g (float[4] x, int64[1] i) => (float[1] y) { a = Neg(x) y = Gather<axis=0>(a, i) }"
    )
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1))]
        with pytest.raises(sk.SubgraphkitError, match=r"SGK131.*onnxruntime_0.*indices element"):
            session.run(None, {"x": np.zeros(4, np.float32), "i": np.array([9])})


def test_info_tells_providers_and_nodes():
    with open_ort(dense()[0], optimization="basic") as session:
        (operator,) = operators(session)
        info = operator.info()
    assert info["providers"] == ["CPUExecutionProvider"]
    assert info["optimization"] == "basic"
    assert info["nodes"] == 1
    assert info["weight_bytes"] == 64 * 64 * 4
    assert info["nodes_by_provider"] == {"CPUExecutionProvider": 1}


def test_kernels_are_times_of_the_runs_that_they_ran_in_and_no_file_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = parsed("g (float[3] x, int64[1] i) => (float[1] y) { a = Relu(x)  y = Gather(a, i) }")
    x = np.ones(3, np.float32)
    with open_ort(model) as session:
        for fed, taken in (([0, 9, 1, 9, 2], 3), ([9], 0)):
            with session.profile() as profile:
                for place in fed:
                    fails = pytest.raises(sk.errors.ExecutionError) if place > 2 else nullcontext()
                    with fails:
                        session.run(None, {"x": x, "i": np.array([place])})
                assert list(tmp_path.iterdir())
            inside = {row.numbers: row.calls for row in profile.rows if row.kind == "inside"}
            assert (len(profile.walls), inside) == (taken, {(0,): 1, (1,): 1} if taken else {})
            assert not list(tmp_path.iterdir())


def test_a_profile_is_written_when_the_session_is_closed(tmp_path):
    with open_ort(dense()[0], profile=tmp_path / "prof") as session:
        (operator,) = operators(session)
        session.run(None, {"x": np.ones((1, 64), np.float32)})
    path = Path(operator.info()["profile"])
    assert path.name.startswith("prof_onnxruntime_0")
    assert "#0" in path.read_text()
    operator.close()


@pytest.mark.parametrize(("threads", "shares", "given", "expected"), [
    (None, False, {}, (0, 0, None)),
    (3, False, {}, (3, 3, None)),
    (3, True, {"threads": 2}, (2, 3, "1")),
    (None, True, {"session_config": ["session.force_spinning_stop=0"]}, (0, 0, "0")),
])  # fmt: skip
def test_threads_come_from_the_option_or_the_setting_and_sleep_if_processors_are_shared(
    threads, *, shares, given, expected
):
    wanted = read_settings(Options(**given)).for_pool(threads, shares_processors=shares)
    stops = wanted.config.get("session.force_spinning_stop")
    assert (wanted.options.threads, wanted.options.inter_op_threads, stops) == expected


def test_the_setting_reaches_the_session_and_the_option_wins():
    model, _ = dense()
    for given, expected in (({}, 3), ({"threads": 2}, 2)):
        options = {"onnxruntime": given}
        with sk.InferenceSession(
            model, backend="onnxruntime", options=options, threads=3
        ) as session:
            (operator,) = operators(session)
            assert operator.info()["threads"] == expected


_ROWS = "(float[4,2] past, int64[1,1] at, float[1,2] new) => (float[4,2] present"
_OPEN = "(float[N,2] past, int64[1,1] at, float[1,2] new) => (float[N,2] present"
_CACHE = "(float[1,4,2] past, int64[1] at, float[1,1,2] new) => (float[1,4,2] present"
_WRITTEN = "present = ScatterND(past, at, new)"


@pytest.mark.parametrize(("body", "in_place", "ends_later"), [
    (f"{_ROWS}) {{ {_WRITTEN} }}", True, 0),
    (f"{_ROWS}, float[4,2] b) {{ {_WRITTEN} b = Neg(past) }}", False, 0),
    (f"{_ROWS}, int64[2] sizes) {{ {_WRITTEN} sizes = Shape(past) }}", True, 0),
    (f"{_OPEN}) {{ {_WRITTEN} }}", True, 0),
    (f"{_OPEN}) {{ both = Concat<axis=1>(at,at) present = ScatterElements(past,both,new) }}",
     True, 0),
    (f"{_CACHE}) {{ present = TensorScatter<axis = 1>(past, new, at) }}", True, 0),
    (f"{_ROWS}) {{ {_WRITTEN} }}", True, 2),
], ids=["rows", "read once more", "shape", "open", "elements", "cache", "part of it"])  # fmt: skip
def test_a_cache_in_one_buffer_is_what_two_buffers_are(body, in_place, ends_later):
    model = parsed(f"g {body}", opset=24)
    with open_ort(model) as session:
        inputs = {one.name: one for one in session.get_inputs()}
        sizes = [size if isinstance(size, int) else 4 for size in inputs["past"].shape]
        count = int(np.prod(sizes))
        whole = np.arange(count + ends_later, dtype=np.float32)
        past, buffer = whole[:count].reshape(sizes), whole[ends_later:].reshape(sizes)
        new = np.full([int(size) for size in inputs["new"].shape], 9, np.float32)
        at = np.full([int(size) for size in inputs["at"].shape], 2, np.int64)
        expected = session.run(None, {"past": past, "new": new, "at": at})
        binding = session.io_binding()
        for name, array in (("past", past), ("new", new), ("at", at)):
            binding.bind_cpu_input(name, array)
        for name in session.graph.outputs:
            binding.bind_output(name, buffer if name == "present" else "cpu")
        session.run_with_iobinding(binding)
        assert ("present" in find_outputs_in_place(session.plan)) is in_place
        for found, wanted in zip(binding.get_outputs(), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_attention_goes_on_in_the_memory_of_its_cache():
    wide, cache = (1, 1, 16), (1, 2, 6, 8)
    shapes = {"q": wide, "k": wide, "v": wide, "past_k": cache, "past_v": cache}
    text = """g (float[1,1,16] q, float[1,1,16] k, float[1,1,16] v, float[1,2,6,8] past_k,
        float[1,2,6,8] past_v, int32[1] last, int32 total)
        => (float[1,1,16] y, float[1,2,6,8] present_k, float[1,2,6,8] present_v)
        { y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=2>
            (q, k, v, past_k, past_v, last, total) }"""
    model = parsed(text, 20, '"com.microsoft" : 1')
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    feeds |= {"last": np.array([3], np.int32), "total": np.array(4, np.int32)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    with open_ort(model) as session:
        assert dict(find_outputs_in_place(session.plan)) == {
            "present_k": "past_k",
            "present_v": "past_v",
        }
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("y")
        binding.bind_output("present_k", feeds["past_k"])
        binding.bind_output("present_v", feeds["past_v"])
        session.run_with_iobinding(binding)
        y, key, value = binding.get_outputs()
        state = sk.State(session, {"past_*": "present_*"})
        state.run(["y"], {name: feeds[name] for name in ("q", "k", "v", "last", "total")})
        assert state.values.keys() == {*state._written}
    assert key is feeds["past_k"]
    np.testing.assert_allclose(y, expected[0], atol=1e-6)
    np.testing.assert_array_equal(key[:, :, :4], expected[1][:, :, :4])
    np.testing.assert_array_equal(value[:, :, :4], expected[2][:, :, :4])
