"""Recipes of docs/scaling.md, run as they are written there; ``make serving`` has the engines."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import subgraphkit as sk
from tests.scripts import load_script
from tests.serving.recipes import RECIPES, SECONDS, expected_of, prepare, run_script


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("recipes"))


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_of_a_data_loader_answer_what_they_load(folder, method):
    pytest.importorskip("torch", reason="PyTorch is not installed; see make torch")
    answers = run_script("data_loader", folder, method)
    np.testing.assert_allclose(answers, expected_of(folder), rtol=1e-5, atol=1e-6)


def test_dask_answers_blocks_in_processes(folder):
    pytest.importorskip("dask.array", reason="Dask is not installed; see make serving")
    answers = run_script("dask_array", folder)
    np.testing.assert_allclose(answers, expected_of(folder), rtol=1e-5, atol=1e-6)


# -- web services --------------------------------------------------------------------------------


@pytest.fixture
def web(folder, monkeypatch):
    """Serve the FastAPI application, as a test client does, from start-up to shut-down."""
    pytest.importorskip("fastapi", reason="FastAPI is not installed; see make serving")
    client = pytest.importorskip("fastapi.testclient", reason="httpx is not installed")
    monkeypatch.setenv("MODEL_SPEC", str(folder / "spec.json"))
    with client.TestClient(load_script(RECIPES / "fastapi_app.py").app) as web:
        yield web


def test_fastapi_answers_rows(web, folder):
    answer = web.post("/answers", json=np.load(folder / "rows.npy").tolist())
    assert answer.status_code == 200
    np.testing.assert_allclose(answer.json(), expected_of(folder), rtol=1e-5, atol=1e-6)
    assert web.get("/health").status_code == 200


def test_fastapi_answers_bad_rows_with_400_and_stays_healthy(web):
    answer = web.post("/answers", json=np.zeros((1, 3, 8, 7)).tolist())
    assert (answer.status_code, answer.json()["code"]) == (400, "SGK140")
    assert web.get("/health").status_code == 200


@pytest.mark.parametrize(("error", "status"), [
    (sk.errors.ExecutionError("SGK131", "it fails", backend="numpy", subgraph="numpy_0"), 500),
    (sk.errors.ModelError("SGK222", "it fails"), 500),
    (sk.errors.RunTimeoutError("SGK138", "it fails"), 503),
], ids=lambda value: value.code if isinstance(value, Exception) else str(value))  # fmt: skip
def test_fastapi_says_whose_fault_an_error_is(web, monkeypatch, error, status):
    class Failing:
        async def arun(self, feeds, **how):
            raise error

        def ping(self):
            raise error

    monkeypatch.setattr(web.app.state, "session", Failing())
    for answer in (web.post("/answers", json=[[1.0]]), web.get("/health")):
        assert (answer.status_code, answer.json()["code"]) == (status, error.code)


def test_litserve_answers_requests_in_batches(folder):
    pytest.importorskip("litserve", reason="LitServe is not installed; see make serving")
    expected = expected_of(folder)
    with _served([str(RECIPES / "litserve_app.py")], folder, "/health") as url:
        for row, want in zip(np.load(folder / "rows.npy")[:4], expected[:4], strict=True):
            status, answer = _post(f"{url}/predict", {"x": row.tolist()})
            assert status == 200
            np.testing.assert_allclose(answer["y"], want, rtol=1e-5, atol=1e-6)


def test_bentoml_answers_rows(folder):
    pytest.importorskip("bentoml", reason="BentoML is not installed; see make serving")
    command = ["-m", "bentoml", "serve", "bentoml_app:Answers", "--host", "127.0.0.1"]
    with _served([*command, "--working-dir", str(RECIPES)], folder, "/readyz") as url:
        rows = np.load(folder / "rows.npy")
        status, answer = _post(f"{url}/answers", {"x": rows.tolist()})
        assert status == 200
        np.testing.assert_allclose(answer, expected_of(folder), rtol=1e-5, atol=1e-6)


@contextmanager
def _served(command, folder, ready):
    """Start a server in a group of its own, wait until it answers, and end it and its group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"MODEL_SPEC": str(folder / "spec.json"), "PORT": port, "BENTOML_PORT": port}
    log = folder / "server.log"
    with log.open("w") as printed:
        server = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, **variables, "BENTOML_DO_NOT_TRACK": "1"},
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    try:
        last = time.monotonic() + SECONDS
        while not _answers(f"http://127.0.0.1:{port}{ready}"):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < last, log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()  # so that it ends its workers, which may be in groups of their own
        with suppress(subprocess.TimeoutExpired):
            server.wait(SECONDS / 2)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(url):
    try:
        with urlopen(url, timeout=SECONDS):
            return True
    except OSError:
        return False


def _post(url, document):
    headers = {"Content-Type": "application/json"}
    try:
        with urlopen(Request(url, json.dumps(document).encode(), headers), timeout=SECONDS) as got:
            return got.status, json.load(got)
    except HTTPError as error:
        return error.code, error.read()
