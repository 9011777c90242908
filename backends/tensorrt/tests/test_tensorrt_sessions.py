"""Whole sessions on the double of TensorRT give what the NumPy backend gives, from any thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from backends.tensorrt.tests.double_road import Tensor, X, on_numpy, parsed, run_bound, session
from subgraphkit.errors import InputError
from subgraphkit.testing.light_models import seeded_feeds, seeded_model
from subgraphkit.testing.official_cases import official_cases

CHAIN = parsed("""agraph (float[n,3] x) => (float[n,3] y, float[n,3] z)
    { a = Relu(x) b = Add(a, x) c = Neg(b) y = Mul(c, b) d = Abs(c) z = Exp(d) }""")

EVERY = 23
"""One official case in so many, so that they take seconds."""


def homes(opened):
    """Return the backends of the subgraphs."""
    return [one.backend for one in opened.partitioning.subgraphs]


def widened(value):
    """Return an array of a type that has NaNs NumPy takes for equal."""
    is_odd = str(getattr(value, "dtype", "")).startswith(("float8", "bfloat"))
    return value.astype(np.float32) if is_odd else value


def same(actual, expected):
    """Compare outputs of any kind, to the last bit."""
    for one, other in zip(actual, expected, strict=True):
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_equal(widened(one), widened(other))


# What draws at random differs from run to run.
SAMPLE = [case for case in official_cases("node") if "Random" not in case.name][::EVERY]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_official_cases_agree(double, case):
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
def test_a_real_model_agrees(double, name, most):
    model = seeded_model(name)
    feeds = seeded_feeds(model, seed=1)
    with session(model, double, most) as opened:
        assert homes(opened).count("tensorrt") >= (1 if most is None else 6)
        found = opened.run(None, feeds)
    np.testing.assert_allclose(found[0], on_numpy(model, feeds)[0], rtol=1e-4, atol=1e-6)


def test_checked_sessions_let_arrays_stay_on_the_device(double, monkeypatch):
    monkeypatch.setenv("SUBGRAPH_CHECKED", "1")
    x = np.ones((2, 3), np.float32)
    with session(CHAIN, double, 2) as opened:
        same(opened.run(None, {"x": x}), on_numpy(CHAIN, {"x": x}))


def test_an_input_may_lie_on_the_device(double):
    with session(CHAIN, double) as opened:
        same(opened.run(None, {"x": Tensor(double, X)}), on_numpy(CHAIN, {"x": X}))
        for wrong, code in ((np.zeros((3, 2), np.float32), 140), (X.astype(np.int32), 141)):
            with pytest.raises(InputError, match=f"SGK{code}"):
                opened.run(None, {"x": Tensor(double, wrong)})


# -- threads on few contexts, with engines that come and go and new weights ----------------------


THREADS = 8
RUNS = 24
UPDATES = 6
MODEL = """agraph (float[n,3] x) => (float[n,3] y, float[n,3] z)
    { a = MatMul(x, w) b = Relu(a) y = Add(b, x) c = Neg(y) z = Mul(c, y) }"""


def updatable(double, **options):
    return session(parsed(MODEL, w=weight(0)), double, 2, refittable=True, **options)


def weight(version):
    return np.float32(np.eye(3) * (version + 1))


def right(x, version):
    y = np.maximum(x @ weight(version), 0) + x
    return y, -y * y


class Caller:
    """Runs sessions from one thread, each time another way."""

    def __init__(self, sessions, seed):
        self._sessions = sessions
        self._draw = np.random.default_rng(seed)

    def run(self, version):
        """Return what came out wrong."""
        wrong = []
        for place in range(RUNS):
            opened = self._sessions[place % len(self._sessions)]
            x = self._draw.standard_normal((int(self._draw.integers(1, 6)), 3)).astype(np.float32)
            earliest = version[0]
            y, z = self._results(opened, x, bound=place % 3)
            known = range(earliest, version[0] + 2)  # an update may be under way
            if not any(
                np.array_equal(y, one) and np.array_equal(z, other)
                for one, other in (right(x, at) for at in known)
            ):
                wrong.append(f"run {place} of {x.shape} between {earliest} and {version[0]}")
        return wrong

    @staticmethod
    def _results(opened, x, bound):
        if not bound:
            y, z = opened.run(None, {"x": x})
        else:
            place = "cuda" if bound == 1 else "cpu"
            y, z = run_bound(opened, {"x": x}, {"y": place, "z": np.empty_like(x)})
        return np.asarray(y), z


@pytest.mark.parametrize(
    "options",
    [{"dynamic": "exact", "max_engines": 2}, {"dims": {"n": [1, (2, 3, 3), (1, 4, 5)]}}],
    ids=["evictions", "buckets"],
)
def test_threads_sessions_evictions_and_new_weights_give_no_wrong_answer(double, options):
    version = [0]
    with (
        updatable(double, max_contexts=2, **options) as first,
        updatable(double, max_contexts=2, **options) as second,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        callers = [Caller((first, second), seed) for seed in range(THREADS)]
        running = [pool.submit(caller.run, version) for caller in callers]
        pause = threading.Event()
        for update in range(1, UPDATES + 1):
            pause.wait(0.02)
            for one in (first, second):
                one.update_weights({"w": weight(update)})
            version[0] = update
        assert [found for one in running for found in one.result(120)] == []
        engines = [step.operator.info()["engines"] for step in first.plan.steps]
        assert all(len(some) <= 4 for some in engines)
        # As many as runs may be under way, for each range of an engine.
        assert all(one["contexts"] <= 2 * len(one["ranges"]) for some in engines for one in some)
    assert double.cuda.live_bytes == 0
