"""Ray Serve answers over handles and HTTP, bounds what waits, and is updated while it is used."""

import asyncio
import json
import os
import queue
import signal
import socket
import time
import urllib.error
import urllib.request
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InputError
from subgraphkit.serving import oip
from tests.scripts import EXAMPLES, load_script
from tests.serving.ray_processes import ray_processes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ray warns of settings of its own
    pytest.importorskip("ray.serve", reason="Ray is not installed: make serving")

from subgraphkit.serving.ray_serve import Replica, deployment

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns of settings of its own

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BURST = 60


def spec(models, name):
    return sk.SessionSpec.of(models / f"{name}.onnx", backend="numpy", threads=1)


def test_a_model_is_found_by_whatever_name_it_has(models):
    async def asked(name):
        from starlette.requests import Request  # noqa: PLC0415 (imported where it is installed)

        replica = Replica()
        await replica.reconfigure({"models": {name: spec(models, "negation").to_json()}})
        scope = {"type": "http", "method": "GET", "path": f"/v2/models/{name}", "headers": []}

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        answer = await replica(Request(scope, receive))
        return int(answer.status_code)

    for name in ("what?", "c#", "a b", "\N{SNOWMAN}", "p%41"):
        assert asyncio.run(asked(name)) == 200


@pytest.fixture(scope="module")
def serve(ray):
    """Serve, listening at a port that is free."""
    from ray import serve as engine  # noqa: PLC0415 (imported where it is installed)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        grpc_port = taken.getsockname()[1]
    service = "subgraphkit.serving.grpc_methods.add_GRPCInferenceServiceServicer_to_server"
    how = {"port": grpc_port, "grpc_servicer_functions": [service]}
    engine.start(http_options={"host": "127.0.0.1", "port": port}, grpc_options=how)
    engine.address = f"http://127.0.0.1:{port}"
    engine.grpc_address = f"127.0.0.1:{grpc_port}"
    yield engine
    engine.shutdown()


@pytest.fixture(scope="module")
def handle(serve, models):
    """Two models in one application, with batches, bounds and a light load."""
    specs = {name: spec(models, name) for name in ("negation", "doubling")}
    made = deployment(specs, max_batch=4, max_queued_requests=1000, max_body_bytes=1 << 20)
    return serve.run(made.bind(), name="two", route_prefix="/")


def ask(serve, path, body=None, **headers):
    asked = urllib.request.Request(f"{serve.address}{path}", body, headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def infer(serve, path, feeds, *, binary):
    sent = oip.encode_request(oip.InferenceRequest(feeds, binary=binary))
    return ask(serve, f"{path}/infer", sent.body, **sent.headers)


def test_a_handle_takes_feeds_and_returns_what_run_does(handle, models):
    expected = spec(models, "negation").open().run(None, {"x": X})
    answers = [handle.remote({"x": X}, model="negation") for _ in range(40)]
    for answer in answers:
        assert all(map(np.array_equal, answer.result(timeout_s=60), expected))
    assert np.array_equal(handle.remote({"x": X}, ["y"], "doubling").result()[0], X + X)


def test_http_speaks_the_protocol_in_json_and_in_binary(serve, handle):
    del handle
    for binary in (False, True):
        status, headers, body = infer(serve, "/v2/models/negation", {"x": X}, binary=binary)
        assert status == 200
        assert (oip.HEADER in headers) is binary
        found = oip.decode_response(body, headers.get(oip.HEADER))
        assert np.array_equal(found["y"], -X)
        assert np.array_equal(found["z"], -X.reshape(2, 2, 2))
    assert json.loads(ask(serve, "/v2/models/doubling")[2])["inputs"][0]["shape"] == [-1, 4]
    assert ask(serve, "/v2/models/doubling/ready")[0] == 200
    assert ask(serve, "/v2/health/live")[0] == ask(serve, "/v2/health/ready")[0] == 200


def test_errors_keep_their_codes_and_the_replica_is_healthy(serve, handle):
    with pytest.raises(InputError, match="SGK141"):
        handle.remote({"x": X.astype(np.int64)}, model="doubling").result(timeout_s=60)
    wrong = {"x": X.astype(np.int64)}
    status, _, body = infer(serve, "/v2/models/doubling", wrong, binary=True)
    assert (status, "[SGK141]" in json.loads(body)["error"]) == (400, True)
    assert ask(serve, "/v2/models/other")[0] == 404
    status, _, body = ask(serve, "/v2/models/doubling/infer", bytes(2 << 20))
    assert (status, "[SGK341]" in json.loads(body)["error"]) == (413, True)
    assert ask(serve, "/v2/health/ready")[0] == 200


def test_grpc_speaks_the_protocol_with_the_messages_of_its_client(serve, handle):
    del handle
    triton = pytest.importorskip("tritonclient.grpc", reason="no tritonclient: make serving")
    client = triton.InferenceServerClient(serve.grpc_address)
    assert client.is_server_live()
    assert client.is_server_ready()
    assert [client.is_model_ready(name) for name in ("negation", "other")] == [True, False]
    assert client.get_model_metadata("doubling").inputs[0].shape == [-1, 4]
    assert client.get_model_config("doubling").config.input[0].dims == [-1, 4]
    x = triton.InferInput("x", [2, 4], "FP32")
    x.set_data_from_numpy(X)
    found = client.infer("negation", [x], request_id="7")
    assert np.array_equal(found.as_numpy("z"), -X.reshape(2, 2, 2))
    assert found.get_response().id == "7"
    plain = triton.service_pb2.ModelInferRequest(
        model_name="doubling",
        inputs=[{"name": "x", "datatype": "FP32", "shape": [1, 4],
                 "contents": {"fp32_contents": [1, 2, 3, 4]}}],
    )  # fmt: skip
    (raw,) = client._client_stub.ModelInfer(plain).raw_output_contents
    assert np.frombuffer(raw, np.float32).tolist() == [2, 4, 6, 8]
    index = client.get_model_repository_index().models
    assert [one.name for one in index] == ["negation", "doubling"]
    assert client.get_inference_statistics("negation").model_stats[0].inference_count > 0
    for says, ask_wrongly in {
        "NOT_FOUND.*SGK341.*no model 'other'": lambda: client.infer("other", [x]),
        "INVALID_ARGUMENT.*priority": lambda: client.infer("negation", [x], priority=1),
        "DEADLINE_EXCEEDED.*SGK138": lambda: client.infer("negation", [x], timeout=1),
        "INVALID_ARGUMENT.*repository": lambda: client.load_model("eight"),
        "INVALID_ARGUMENT.*name alone": lambda: client.load_model("eight", config="{}"),
        "UNIMPLEMENTED.*SystemSharedMemory": client.get_system_shared_memory_status,
    }.items():
        with pytest.raises(triton.InferenceServerException, match=says):
            ask_wrongly()
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put(f"{result} {error}"))
    client.async_stream_infer("negation", [x])
    assert "no streams here" in answers.get(timeout=60)
    client.close()


def test_what_there_is_no_room_for_is_refused_and_the_rest_is_right(serve, models):
    bounds = {"max_ongoing_requests": 2, "max_queued_requests": 4}
    made = deployment(spec(models, "long"), name="long", **bounds).options(
        backpressure_config={"status_code": 429}
    )
    serve.run(made.bind(), name="narrow", route_prefix="/narrow")
    with ThreadPoolExecutor(BURST) as pool:
        answers = list(
            pool.map(
                lambda _: infer(serve, "/narrow/v2/models/long", {"x": X}, binary=True),
                range(BURST),
            )
        )
    serve.delete("narrow")
    counts = Counter(status for status, _, _ in answers)
    assert set(counts) == {200, 429}
    for status, headers, body in answers:
        if status == 200:
            assert np.array_equal(oip.decode_response(body, headers[oip.HEADER])["y"], X)


def test_updates_in_use_refuse_nothing_and_stay_in_their_process(serve, models, request):
    updates = request.config.getoption("--served-updates")
    right = {spec(models, name).digest[:12]: by for name, by in (("negation", -1), ("doubling", 2))}

    def run(name):
        made = deployment(spec(models, name), name="m", max_queued_requests=1000)
        return serve.run(made.bind(), name="updated", route_prefix="/updated")

    run("negation")
    replicas = ray_processes("ray::ServeReplica:updated")
    counts: Counter[Any] = Counter()
    over = False

    def load():
        while not over:
            status, headers, body = infer(serve, "/updated/v2/models/m", {"x": X}, binary=True)
            if status != 200:
                counts[status] += 1
                continue
            head = json.loads(body[: int(headers[oip.HEADER])])
            y = oip.decode_response(body, headers[oip.HEADER])["y"]
            version = head["model_version"]
            counts[version if np.array_equal(y, right[version] * X) else "wrong"] += 1

    with ThreadPoolExecutor(3) as pool:
        loads = [pool.submit(load) for _ in range(3)]
        try:
            for place in range(updates):
                run(("doubling", "negation")[place % 2])
                time.sleep(0.2)
        finally:
            over = True
        for one in loads:
            one.result()
    assert set(counts) == set(right)
    assert ray_processes("ray::ServeReplica:updated") == replicas
    serve.delete("updated")


def test_the_example_updates_a_model_between_requests(serve, models, tmp_path):
    rows = np.random.default_rng(0).random((20, 4), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    example = load_script(EXAMPLES / "serving" / "ray_models.py")
    names = [str(models / f"{name}.onnx") for name in ("doubling", "negation")]
    example.main(*names, str(tmp_path / "rows.npy"), str(tmp_path / "answers.npy"))
    serve.delete("example")
    expected = np.concatenate([2 * rows[:10], -rows[10:]])
    assert np.array_equal(np.load(tmp_path / "answers.npy"), expected)


def test_a_replica_that_is_killed_comes_back(serve, handle):
    del handle
    (replica,) = ray_processes("ray::ServeReplica:two")
    os.kill(replica, signal.SIGKILL)
    end = time.monotonic() + 90
    status = 0
    while status != 200:  # what was under way ends with an error, and may be asked again
        assert time.monotonic() < end
        status, headers, body = infer(serve, "/v2/models/doubling", {"x": X}, binary=True)
        time.sleep(0.2)
    assert np.array_equal(oip.decode_response(body, headers[oip.HEADER])["y"], X + X)
    assert ray_processes("ray::ServeReplica:two") != [replica]
