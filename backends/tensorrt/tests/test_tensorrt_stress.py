"""Threads on few contexts, with engines that come and go and new weights: no wrong answer."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import subgraphkit as sk
from backends.tensorrt.tests.double_road import DoubleBackend, parsed
from backends.tensorrt.tests.tensorrt_double import Double

THREADS = 8
RUNS = 24
UPDATES = 6
MODEL = """agraph (float[n,3] x) => (float[n,3] y, float[n,3] z)
    { a = MatMul(x, w) b = Relu(a) y = Add(b, x) c = Neg(y) z = Mul(c, y) }"""


def opened(double: Double, **options: Any) -> Any:
    model = parsed(MODEL)
    model.graph.initializer.append(numpy_helper.from_array(weight(0), "w"))
    backend = DoubleBackend(double, most=2, refittable=True, **options)
    return sk.InferenceSession(model, backend=[backend, "numpy"])


def weight(version: int) -> Any:
    return np.float32(np.eye(3) * (version + 1))


def right(x: Any, version: int) -> tuple[Any, Any]:
    y = np.maximum(x @ weight(version), 0) + x
    return y, -y * y


class Caller:
    """Runs sessions from one thread, each time another way."""

    def __init__(self, sessions: Any, seed: int) -> None:
        self._sessions = sessions
        self._draw = np.random.default_rng(seed)

    def run(self, version: list[int]) -> list[str]:
        """Return what came out wrong."""
        wrong = []
        for place in range(RUNS):
            session = self._sessions[place % len(self._sessions)]
            x = self._draw.standard_normal((int(self._draw.integers(1, 6)), 3)).astype(np.float32)
            earliest = version[0]
            y, z = self._results(session, x, bound=place % 3)
            known = range(earliest, version[0] + 2)  # an update may be under way
            if not any(
                np.array_equal(y, one) and np.array_equal(z, other)
                for one, other in (right(x, at) for at in known)
            ):
                wrong.append(f"run {place} of {x.shape} between {earliest} and {version[0]}")
        return wrong

    @staticmethod
    def _results(session: Any, x: Any, bound: int) -> tuple[Any, Any]:
        if not bound:
            y, z = session.run(None, {"x": x})
            return y, z
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cuda" if bound == 1 else "cpu")
        binding.bind_output("z", np.empty_like(x))
        session.run_with_iobinding(binding)
        y, z = binding.copy_outputs_to_cpu()
        return y, z


@pytest.mark.parametrize(
    "options",
    [{"dynamic": "exact", "max_engines": 2}, {"dims": {"n": [1, (2, 3, 3), (1, 4, 5)]}}],
    ids=["evictions", "buckets"],
)
def test_threads_sessions_evictions_and_new_weights_give_no_wrong_answer(
    double: Double, options: Any
) -> None:
    version = [0]
    with (
        opened(double, max_contexts=2, **options) as first,
        opened(double, max_contexts=2, **options) as second,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        callers = [Caller((first, second), seed) for seed in range(THREADS)]
        running = [pool.submit(caller.run, version) for caller in callers]
        pause = threading.Event()
        for update in range(1, UPDATES + 1):
            pause.wait(0.02)
            for session in (first, second):
                session.update_weights({"w": weight(update)})
            version[0] = update
        assert [found for one in running for found in one.result(120)] == []
        engines = [step.operator.info()["engines"] for step in first.plan.steps]
        assert all(len(some) <= 4 for some in engines)
        # As many as runs may be under way, for each range of an engine.
        assert all(one["contexts"] <= 2 * len(one["ranges"]) for some in engines for one in some)
    assert double.cuda.live_bytes == 0
