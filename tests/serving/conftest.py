"""Fixtures of the tests of engines: models as files, and one Ray for all of them."""

import os

import onnx
import pytest

from tests.models import parsed

# Before Ray is imported: on a slow machine its processes take longer than it waits.
os.environ.setdefault("RAY_agent_register_timeout_ms", "400000")
os.environ.setdefault("RAY_worker_register_timeout_seconds", "240")
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

STORE = 300 << 20


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder of models: negation by rows, the same for 8 rows, and one that takes its time."""
    folder = tmp_path_factory.mktemp("models")
    for name, text in MODELS.items():
        onnx.save(parsed(text), folder / f"{name}.onnx")
    return folder


MODELS = {
    "negation": """g (float[N,4] x) => (float[N,4] y, float[N,2,2] z) {
        y = Neg (x)
        shape = Constant <value_ints: ints = [-1, 2, 2]> ()
        z = Reshape (y, shape)
    }""",
    "doubling": "g (float[N,4] x) => (float[N,4] y) { y = Add (x, x) }",
    "eight": "g (float[8,4] x) => (float[8,4] y) { y = Neg (x) }",
    "long": """g (float[N,4] x) => (float[N,4] y) {
        times = Constant <value_int: int = 20000> ()
        true = Constant <value: tensor = bool {1}> ()
        y = Loop (times, true, x) <
            body = turn (int64 i, bool go, float[N,4] a) => (bool on, float[N,4] b) {
                on = Identity (go)
                b = Neg (a)
            }
        >
    }""",
    "whole": """g (float[N,4] x) => (float[1,4] y, float s) {
        first = Constant <value_ints: ints = [0]> ()
        y = ReduceMax <keepdims: int = 1> (x, first)
        s = ReduceMax <keepdims: int = 0> (x)
    }""",
    "brain": "g (float[N,4] x) => (bfloat16[N,4] y) { y = Cast <to: int = 16> (x) }",
    "sized": """g (float[N,4] x) => (float[N,K] y) {
        found = NonZero (x)
        size = Shape <start: int = 1> (found)
        rows = Shape <start: int = 0, end: int = 1> (x)
        shape = Concat <axis: int = 0> (rows, size)
        zero = Constant <value_float: float = 0.0> ()
        y = Expand (zero, shape)
    }""",
    "words": "g (string[N,2] x) => (string[N,2] y) { y = Identity (x) }",
    "text": "g (string[N] s) => (string[N] t) { t = Identity (s) }",
}


@pytest.fixture(scope="session")
def ray():
    """Ray on this machine, with two processors."""
    engine = pytest.importorskip("ray", reason="Ray is not installed: make serving")
    engine.init(num_cpus=2, include_dashboard=False, object_store_memory=STORE, log_to_driver=False)
    try:
        yield engine
    finally:
        engine.shutdown()
