"""Models on the real server of Triton: what it answers, and what it says when a process is gone."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.serving import oip
from subgraphkit.serving.triton import export_triton
from subgraphkit.testing.small_models import model_of
from tests.serving.triton_server import require_triton, started

CALLS = 300

# Whole numbers, so that every way to sum gives the same; row by row, so that batches mix nothing.
SMALL = """
g (float[N,4] x, int64[N] i) => (float[N,3] y, int64[N] odd)
<float[4,3] w = {1, 2, -1, 0, 3, 2, -2, 1, 1, 0, -1, 2}, float[5,3] t = {10, 20, 30, 40, 50, 60,
 70, 80, 90, 100, 110, 120, 130, 140, 150}> {
  p = MatMul(x, w)
  q = Gather <axis = 0> (t, i)
  y = Add(p, q)
  odd = Add(i, i)
}
"""
ODD = 'an/odd "name"\\:0 \N{SNOWMAN}'


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    require_triton()
    model = model_of(SMALL)
    model.graph.output[1].name = model.graph.node[-1].output[0] = ODD
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(model, path)
    return sk.SessionSpec.of(path, "numpy")


@pytest.fixture(scope="module")
def server(spec, tmp_path_factory):
    work = tmp_path_factory.mktemp("triton")
    export_triton(spec, work / "models", name="small", instances=2, delay_s=0.02, max_batch=16)
    with started(work / "models", require_triton(), work) as running:
        loaded = running.load("small")
        assert loaded == (200, b""), (loaded, running.log.read_text(errors="replace")[-3000:])
        yield running


def _feeds(draw):
    rows = int(draw.integers(1, 4))
    x = draw.integers(-9, 10, (rows, 4)).astype(np.float32)
    return {"x": x, "i": draw.integers(0, 5, (rows, 1))}


def _asked(server, feeds, *outputs):
    request = oip.InferenceRequest(feeds, dict.fromkeys(outputs, True), binary=True)
    sent = oip.encode_request(request)
    status, body, headers = server.ask("models/small/infer", sent.body, sent.headers)
    return status, oip.decode_response(body, headers.get(oip.HEADER)) if status == 200 else body


def test_the_server_says_of_the_model_what_the_session_says(server, spec):
    said = server.read("models/small")
    ours = oip.model_metadata(spec.get(), "small", ["1"])
    assert {key: said[key] for key in ("name", "versions")} == {"name": "small", "versions": ["1"]}
    for key, place in (("inputs", 1), ("outputs", 1)):  # those of one axis have a second one here
        ours[key][place]["shape"] += [1]
        assert said[key] == ours[key]


def test_concurrent_calls_are_gathered_and_each_is_answered_as_alone_bit_for_bit(server, spec):
    draw = np.random.default_rng(5)
    calls = [_feeds(draw) for _ in range(CALLS)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda feeds: _asked(server, feeds), calls))
    session = spec.get()
    for feeds, (status, results) in zip(calls, answers, strict=True):
        assert status == 200, results
        alone = session.run(None, feeds | {"i": feeds["i"][:, 0]})
        for name, wanted in zip(["y", ODD], alone, strict=True):
            assert results[name].dtype == wanted.dtype
            np.testing.assert_array_equal(results[name], wanted.reshape(results[name].shape))
    seen = server.read("models/small/stats")["model_stats"][0]
    assert seen["execution_count"] < CALLS
    assert max(batch["batch_size"] for batch in seen["batch_stats"]) > 3
    assert _asked(server, calls[0], ODD)[1].keys() == {ODD}
    assert "PyCapsule" not in server.log.read_text(errors="replace")


def test_a_request_that_is_wrong_fails_alone(server, spec):
    draw = np.random.default_rng(6)
    calls = [_feeds(draw) for _ in range(60)]
    for feeds in calls[::6]:
        feeds["i"] = feeds["i"] + 100
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda feeds: _asked(server, feeds, "y"), calls))
    with pytest.raises(sk.SubgraphkitError) as caught:
        spec.get().run(None, calls[0] | {"i": calls[0]["i"][:, 0]})
    failed = oip.encode_error(caught.value)[0]
    assert [status for status, _ in answers] == [failed, 200, 200, 200, 200, 200] * 10
    assert caught.value.code.encode() in answers[0][1]
    assert oip.probe(server.url, "small") == ""


def test_a_model_with_strings_does_not_load_where_the_bridge_to_numpy_does_not_work(server):
    folder = server.log.parent
    onnx.save(model_of("g (string[N,1] x) => (string[N,1] y) {y = Identity(x)}"), folder / "s.onnx")
    export_triton(sk.SessionSpec.of(folder / "s.onnx", "numpy"), folder / "models", name="strings")
    status, body = server.load("strings")
    assert (status, b"SGK345" in body, b"'x' has strings" in body) == (400, True, True)


def test_a_model_whose_processes_are_gone_is_ready_but_not_healthy_until_it_is_loaded(server, spec):
    assert oip.probe(server.url, "small") == ""
    before = server.stubs()
    assert len(before) == 2
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    assert server.ask("models/small/ready")[0] == 200
    assert "is not healthy" in oip.probe(server.url, "small", timeout_s=20)
    assert server.load("small")[0] == 200
    assert oip.probe(server.url, "small") == ""
    assert not before & server.stubs()
    repository = server.log.parent / "models"
    export_triton(spec, repository, name="small", version=2, max_batch=16)
    assert server.load("small")[0] == 200
    assert oip.probe(server.url, "small", "2") == ""
    assert _asked(server, _feeds(np.random.default_rng(7)))[0] == 200
