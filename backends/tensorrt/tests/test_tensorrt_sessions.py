"""Whole sessions on the double of TensorRT give what the NumPy backend gives."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import subgraphkit as sk
from backends.tensorrt.tests.double_road import DoubleBackend, parsed
from backends.tensorrt.tests.tensorrt_double import Double
from subgraphkit.errors import ExecutionError, InputError
from subgraphkit.testing.light_models import seeded_feeds, seeded_model
from subgraphkit.testing.official_cases import official_cases
from subgraphkit_tensorrt.running.arrays import DeviceArray

CHAIN = parsed("""agraph (float[n,3] x) => (float[n,3] y, float[n,3] z)
    { a = Relu(x) b = Add(a, x) c = Neg(b) y = Mul(c, b) d = Abs(c) z = Exp(d) }""")

EVERY = 23
"""One official case in so many, so that they take seconds."""


def session(model: Any, double: Double, most: int | None = None, **options: Any) -> Any:
    """Open a session on the double with NumPy behind it."""
    backend = DoubleBackend(double, most=most, **options)
    return sk.InferenceSession(model, backend=[backend, "numpy"])


def on_numpy(model: Any, feeds: Any) -> list[Any]:
    """Return what the NumPy backend computes."""
    with sk.InferenceSession(model, backend="numpy") as opened:
        return opened.run(None, feeds)


def homes(opened: Any) -> list[str]:
    """Return the backends of the subgraphs."""
    return [one.backend for one in opened.partitioning.subgraphs]


def widened(value: Any) -> Any:
    """Return an array of a type that has NaNs NumPy takes for equal."""
    is_odd = str(getattr(value, "dtype", "")).startswith(("float8", "bfloat"))
    return value.astype(np.float32) if is_odd else value


def same(actual: list[Any], expected: list[Any]) -> None:
    """Compare outputs of any kind, to the last bit."""
    for one, other in zip(actual, expected, strict=True):
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_equal(widened(one), widened(other))


# What draws at random differs from run to run.
SAMPLE = [case for case in official_cases("node") if "Random" not in case.name][::EVERY]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_official_cases_agree(double: Double, case: Any) -> None:
    for inputs, _ in case.data_sets():
        feeds = case.feeds(inputs)
        expected = on_numpy(case.model, feeds)
        with session(case.model, double) as opened:
            for found, other in zip(opened.run(None, feeds), expected, strict=True):
                if np.issubdtype(np.asarray(other).dtype, np.floating):
                    # products are added up in another order where arrays lie differently
                    np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)
                else:
                    same([found], [other])


@pytest.mark.parametrize("name", ["squeezenet"])
@pytest.mark.parametrize("most", [None, 9], ids=["whole", "cut"])
def test_a_real_model_agrees(double: Double, name: str, most: int | None) -> None:
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    with session(model, double, most) as opened:
        assert homes(opened).count("tensorrt") >= (1 if most is None else 6)
        found = opened.run(None, feeds)
    np.testing.assert_allclose(found[0], on_numpy(model, feeds)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("double", ["10.0.1", "10.3.0", "11.4.0"], indirect=True)
def test_shapes_that_change_agree(double: Double) -> None:
    with session(CHAIN, double, 2) as opened:
        for n in (2, 5, 1, 0, 3):
            x = np.linspace(-1, 1, n * 3, dtype=np.float32).reshape(n, 3)
            same(opened.run(None, {"x": x}), on_numpy(CHAIN, {"x": x}))


def test_shapes_that_depend_on_data_pass_from_engine_to_engine(double: Double) -> None:
    model = parsed("""agraph (float[8] x) => (float[1,m] y)
        { a = Relu(x) i = NonZero(a) f = Cast<to = 1>(i) g = Neg(f) y = Mul(g, f) }""")
    with session(model, double, 2) as opened:
        assert len(homes(opened)) > 1
        for seed in range(4):
            x = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
            same(opened.run(None, {"x": x}), on_numpy(model, {"x": x}))


def test_neighbours_on_one_device_copy_only_at_the_ends(double: Double) -> None:
    model = parsed("""agraph (float[2,3] x) => (float[2,3] y)
        { a = Relu(x) b = Add(a, x) c = Neg(b) d = Abs(c) e = Exp(d) y = Sqrt(e) }""")
    x = np.ones((2, 3), np.float32)
    with session(model, double, 1) as opened:
        assert len(homes(opened)) == 6
        same(opened.run(None, {"x": x}), on_numpy(model, {"x": x}))
        # x goes up twice, as two engines read it, and y comes down
        assert double.cuda.copies == {1: 2, 2: 1, 3: 0}


def test_what_another_backend_reads_comes_to_the_host(double: Double) -> None:
    model = parsed("""agraph (float[3] x) => (float[3] y)
        { a = Relu(x) d = Cast<to = 11>(a) e = Neg(d) f = Cast<to = 1>(e) y = Add(f, a) }""")
    x = np.float32([-1, 0, 2])
    with session(model, double) as opened:
        assert set(homes(opened)) == {"tensorrt", "numpy"}
        same(opened.run(None, {"x": x}), on_numpy(model, {"x": x}))


def test_checked_sessions_let_arrays_stay_on_the_device(
    double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CHECKED", "1")
    x = np.ones((2, 3), np.float32)
    with session(CHAIN, double, 2) as opened:
        same(opened.run(None, {"x": x}), on_numpy(CHAIN, {"x": x}))


def test_an_input_may_lie_on_the_device(double: Double) -> None:
    x = np.ones((2, 3), np.float32)
    with session(CHAIN, double) as opened:
        (step,) = opened.plan.steps
        device = step.operator._device
        with device.lane() as lane:
            block = device.memory.take(x.nbytes, lane.stream)
            device.cuda.upload(block.address, x.ctypes.data, x.nbytes, lane.stream)
            fed = DeviceArray(device, block, x.shape, x.dtype, lane.stream)
        same(opened.run(None, {"x": fed}), on_numpy(CHAIN, {"x": x}))
        assert double.cuda.copies[1] == 1
        with device.lane() as lane:
            block = device.memory.take(x.nbytes, lane.stream)
            wrong = DeviceArray(device, block, (3, 2), x.dtype, lane.stream)
        with pytest.raises(InputError, match="SGK140"):
            opened.run(None, {"x": wrong})
        with device.lane() as lane:
            block = device.memory.take(x.nbytes, lane.stream)
            wrong = DeviceArray(device, block, x.shape, np.dtype(np.int32), lane.stream)
        with pytest.raises(InputError, match="SGK141"):
            opened.run(None, {"x": wrong})


@pytest.mark.parametrize("most", [1, 4])
def test_threads_agree(double: Double, most: int) -> None:
    inputs = [np.full((n % 4 + 1, 3), n / 7, np.float32) for n in range(32)]
    expected = [on_numpy(CHAIN, {"x": x}) for x in inputs]
    with session(CHAIN, double, 2, max_contexts=most) as opened, ThreadPoolExecutor(8) as pool:
        for found, other in zip(
            pool.map(lambda x: opened.run(None, {"x": x}), inputs), expected, strict=True
        ):
            same(found, other)


@pytest.mark.parametrize("refittable", [True, False])
def test_new_weights_agree(double: Double, *, refittable: bool) -> None:
    model = parsed("agraph (float[n,3] x) => (float[n,3] y) { a = MatMul(x, w) y = Relu(a) }")
    model.graph.initializer.append(numpy_helper.from_array(np.eye(3, dtype=np.float32), "w"))
    weight = np.arange(9, dtype=np.float32).reshape(3, 3)
    x = np.ones((2, 3), np.float32)
    with session(model, double, refittable=refittable) as opened:
        opened.run(None, {"x": x})
        outcome = opened.update_weights({"w": weight})
        assert list(outcome.values()) == ["refitted" if refittable else "recompiled"]
        for rows in (x, np.ones((5, 3), np.float32)):
            np.testing.assert_array_equal(opened.run(None, {"x": rows})[0], rows @ weight)


def test_graphs_agree(double: Double) -> None:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    with session(CHAIN, double, 2, cuda_graphs="auto") as opened:
        for factor in (1, 2, 3):
            fed = {"x": x * factor}
            same(opened.run(None, fed), on_numpy(CHAIN, fed))
    assert double.cuda.launches > 0


def test_a_run_that_fails_names_the_subgraph_and_the_session_goes_on(double: Double) -> None:
    x = np.ones((2, 3), np.float32)
    with session(CHAIN, double) as opened:
        opened.run(None, {"x": x})
        double.refuses_runs = True
        with pytest.raises(ExecutionError, match="could not run an engine"):
            opened.run(None, {"x": x})
        double.refuses_runs = False
        same(opened.run(None, {"x": x}), on_numpy(CHAIN, {"x": x}))


def test_bound_outputs_are_written_into(double: Double) -> None:
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    with session(CHAIN, double, 2) as opened:
        binding = opened.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", y)
        opened.run_with_iobinding(binding)
    np.testing.assert_array_equal(y, on_numpy(CHAIN, {"x": x})[0])


def test_a_session_leaves_nothing_on_the_device(double: Double) -> None:
    with session(CHAIN, double, 2, max_contexts=2) as opened:
        for n in (1, 4, 2):
            opened.run(None, {"x": np.ones((n, 3), np.float32)})
        assert double.cuda.live_bytes > 0
    assert double.cuda.live_bytes == 0


def test_the_model_of_the_tests_is_valid() -> None:
    onnx.checker.check_model(CHAIN)
