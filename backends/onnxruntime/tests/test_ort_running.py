"""Values in and out: dtypes, layouts, buffers, threads, weights."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

import subgraphkit as sk
from backends.onnxruntime.tests.ort_models import homes, open_ort, operators, parsed
from subgraphkit_onnxruntime import weights
from subgraphkit_onnxruntime.backend_options import Options
from subgraphkit_onnxruntime.settings import read_settings


def dense(width: int = 64) -> tuple[object, np.ndarray]:
    model = parsed(f"g (float[N, {width}] x) => (float[N, {width}] y) {{ y = MatMul(x, w) }}")
    weight = np.random.default_rng(0).standard_normal((width, width)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model, weight


def test_inputs_that_are_not_contiguous_or_read_only_are_read_right() -> None:
    model, weight = dense()
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)[::2] / 1000
    turned = np.asfortranarray(x)
    x.setflags(write=False)
    with open_ort(model) as session:
        for given in (x, turned):
            (y,) = session.run(None, {"x": given})
            np.testing.assert_allclose(y, x @ weight, rtol=1e-4, atol=1e-4)


def test_outputs_belong_to_the_caller_and_share_memory_with_nothing() -> None:
    model = parsed(
        "g (float[600] x) => (float[600] y, float[600] z, float[600] v) <float[600] w> "
        "{ y = Identity(x) z = Identity(y) v = Identity(w) }"
    )
    stored = np.arange(600, dtype=np.float32)
    model.graph.ClearField("initializer")
    model.graph.initializer.append(numpy_helper.from_array(stored, "w"))
    x = np.ones(600, np.float32)
    with open_ort(model) as session:
        (operator,) = operators(session)
        first, second = operator.run([x]), operator.run([x])
        held = [x, *operator._weights.arrays.values()]
        for array in first:
            assert array.flags.writeable
            others = [other for other in (*first, *second, *held) if other is not array]
            assert not any(np.shares_memory(array, other) for other in others)
            array[...] = 7
        np.testing.assert_array_equal(operator.run([x])[2], stored)


def test_buffers_are_written_to_where_they_are() -> None:
    model, weight = dense()
    x = np.ones((3, 64), np.float32)
    with open_ort(model) as session:
        (operator,) = operators(session)
        buffer = np.empty((3, 64), np.float32)
        (y,) = operator.run([x], [buffer])
        assert y is buffer
        np.testing.assert_allclose(buffer, x @ weight, rtol=1e-5)
        spread = np.empty((3, 128), np.float32)[:, ::2]
        (y,) = operator.run([x], [spread])
        assert y is spread
        np.testing.assert_allclose(spread, x @ weight, rtol=1e-5)


def test_a_buffer_beside_an_output_without_one() -> None:
    model = parsed("g (float[N] x) => (float[N] y, float[N] z) { y = Relu(x) z = Neg(x) }")
    x = np.arange(4, dtype=np.float32)
    with open_ort(model) as session:
        (operator,) = operators(session)
        buffer = np.empty(4, np.float32)
        y, z = operator.run([x], [None, buffer])
        assert z is buffer
        del x, operator
        np.testing.assert_array_equal(y, [0, 1, 2, 3])
        np.testing.assert_array_equal(z, [0, -1, -2, -3])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_types_that_numpy_lacks_go_in_and_out(dtype: type) -> None:
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


def test_strings_go_in_and_out_as_text() -> None:
    model = parsed("g (string[N] x) => (string[N] y) { y = Identity(x) }")
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0,))]
        (y,) = session.run(None, {"x": np.array(["a", "grün", ""], object)})
        assert y.tolist() == ["a", "grün", ""]
        (operator,) = operators(session)
        (y,) = operator.run([np.array([b"bytes", "text"], object)])
        assert y.tolist() == ["bytes", "text"]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_tensors_without_axes_or_elements(shape: tuple[int, ...]) -> None:
    dims = ",".join(f"D{axis}" for axis in range(len(shape)))
    model = parsed(f"g (float[{dims}] x) => (float[{dims}] y) {{ y = Neg(x) }}")
    x = np.ones(shape, np.float32)
    with open_ort(model) as session:
        (y,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, -x)
        (operator,) = operators(session)
        (y,) = operator.run([x], [np.empty(shape, np.float32)])
        np.testing.assert_array_equal(y, -x)


def test_threads_share_one_session() -> None:
    model, weight = dense()
    xs = [np.full((2, 64), k, np.float32) for k in range(40)]
    with open_ort(model, threads=1) as session, ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: session.run(None, {"x": x})[0], xs))
    for x, y in zip(xs, results, strict=True):
        np.testing.assert_allclose(y, x @ weight, rtol=1e-4, atol=1e-3)


def test_new_weights_are_computed_with() -> None:
    model, _ = dense()
    x = np.ones((1, 64), np.float32)
    with open_ort(model) as session:
        outcome = session.update_weights({"w": np.full((64, 64), 2, np.float32)})
        assert outcome == {"onnxruntime_0": "recompiled"}
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.full((1, 64), 128))


def test_weights_are_those_of_the_model_in_every_bind_unless_sessions_copy_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "are_copied", lambda: False)
    model, _ = dense(128)
    loaded = sk.load(model)
    held = [sk.bind(loaded, backend="onnxruntime") for _ in range(2)]
    compiled = [sk.compile_subgraphs(sk.partition(bound)) for bound in held]
    arrays = [operator._weights.arrays["w"] for (operator,) in compiled]
    assert np.shares_memory(*arrays)
    for one in compiled:
        one.close()


def test_nothing_is_held_where_sessions_copy_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "are_copied", lambda: True)
    with open_ort(dense()[0]) as session:
        (operator,) = operators(session)
        assert not operator._weights.arrays


def test_a_failure_while_running_names_the_subgraph_and_has_onnxruntimes_words() -> None:
    model = parsed(
        "g (float[4] x, int64[1] i) => (float[1] y) { a = Neg(x) y = Gather<axis=0>(a, i) }"
    )
    with open_ort(model) as session:
        assert homes(session) == [("onnxruntime", (0, 1))]
        with pytest.raises(sk.SubgraphkitError, match=r"SGK131.*onnxruntime_0.*indices element"):
            session.run(None, {"x": np.zeros(4, np.float32), "i": np.array([9])})


def test_info_tells_providers_and_nodes() -> None:
    with open_ort(dense()[0], optimization="basic") as session:
        (operator,) = operators(session)
        info = operator.info()
    assert info["providers"] == ["CPUExecutionProvider"]
    assert info["optimization"] == "basic"
    assert info["nodes"] == 1
    assert info["weight_bytes"] == 64 * 64 * 4
    assert info["nodes_by_provider"] == {"CPUExecutionProvider": 1}


def test_kernels_are_times_of_the_runs_that_they_ran_in_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_profile_is_written_when_the_session_is_closed(tmp_path: Path) -> None:
    with open_ort(dense()[0], profile=tmp_path / "prof") as session:
        (operator,) = operators(session)
        session.run(None, {"x": np.ones((1, 64), np.float32)})
    path = Path(operator.info()["profile"])
    assert path.name.startswith("prof_onnxruntime_0")
    assert "#0" in path.read_text()
    operator.close()


@pytest.mark.parametrize(
    ("threads", "shares", "given", "expected"),
    [
        (None, False, {}, (0, 0, None)),
        (3, False, {}, (3, 3, None)),
        (3, True, {"threads": 2}, (2, 3, "1")),
        (None, True, {"session_config": ["session.force_spinning_stop=0"]}, (0, 0, "0")),
    ],
)
def test_threads_come_from_the_option_or_the_setting_and_sleep_if_processors_are_shared(
    threads: int | None,
    *,
    shares: bool,
    given: dict[str, Any],
    expected: tuple[int, int, str | None],
) -> None:
    wanted = read_settings(Options(**given)).for_pool(threads, shares_processors=shares)
    stops = wanted.config.get("session.force_spinning_stop")
    assert (wanted.options.threads, wanted.options.inter_op_threads, stops) == expected


def test_the_setting_reaches_the_session_and_the_option_wins() -> None:
    model, _ = dense()
    for given, expected in (({}, 3), ({"threads": 2}, 2)):
        options = {"onnxruntime": given}
        with sk.InferenceSession(
            model, backend="onnxruntime", options=options, threads=3
        ) as session:
            (operator,) = operators(session)
            assert operator.info()["threads"] == expected
