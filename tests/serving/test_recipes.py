"""Recipes of docs/scaling.md, run as they are written there; ``make serving`` has the engines."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import subgraphkit as sk
from tests.run_examples import write_small_model
from tests.scripts import EXAMPLES, load_script

RECIPES = EXAMPLES / "serving"
METHODS = ("spawn", "forkserver", "fork")
SECONDS = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a model, a spec of it, rows, and what the model makes of them."""
    folder = tmp_path_factory.mktemp("recipes")
    write_small_model(folder / "model.onnx")
    spec = sk.SessionSpec.of(folder / "model.onnx", "numpy", threads=1)
    (folder / "spec.json").write_text(spec.to_json(), encoding="utf-8")
    rows = np.random.default_rng(0).standard_normal((32, 3, 8, 8)).astype(np.float32)
    np.save(folder / "rows.npy", rows)
    with spec.open() as session:
        np.save(folder / "expected.npy", session.run(None, {"x": rows})[0])
    return folder


def _spec(folder: Path) -> sk.SessionSpec:
    return sk.SessionSpec.from_json((folder / "spec.json").read_text(encoding="utf-8"))


def _expected(folder: Path) -> Any:
    return np.load(folder / "expected.npy")


def _run_script(name: str, folder: Path, *words: str) -> Any:
    """Run a recipe that reads rows and writes answers, and return the answers."""
    answers = folder / f"{name}-{'-'.join(words)}.npy"
    command = [sys.executable, str(RECIPES / f"{name}.py")]
    command += [str(folder / "model.onnx"), str(folder / "rows.npy"), str(answers), *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return np.load(answers)


# -- processes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_of_processes_answers_as_one_process_does(folder: Path, method: str) -> None:
    answers = _run_script("process_pool", folder, method)
    np.testing.assert_allclose(answers, _expected(folder), rtol=1e-5, atol=1e-6)


def _answer(spec: sk.SessionSpec, feeds: dict[str, Any]) -> Any:
    return spec.get().run(None, feeds)[0]


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_answers_bad_feeds_with_the_coded_error_and_goes_on(
    folder: Path, method: str
) -> None:
    spec, rows = _spec(folder), np.load(folder / "rows.npy")
    with multiprocessing.get_context(method).Pool(1) as pool:
        good = pool.apply_async(_answer, (spec, {"x": rows})).get(SECONDS)
        with pytest.raises(sk.errors.InputError, match="SGK142") as caught:
            pool.apply_async(_answer, (spec, {})).get(5.0)
        again = pool.apply_async(_answer, (spec, {"x": rows})).get(SECONDS)
    assert (caught.value.code, caught.value.fault) == ("SGK142", "caller")
    np.testing.assert_array_equal(good, again)
    np.testing.assert_allclose(good, _expected(folder), rtol=1e-5, atol=1e-6)


def test_an_executor_is_not_broken_by_bad_feeds(folder: Path) -> None:
    spec, rows = _spec(folder), np.load(folder / "rows.npy")
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        bad = [pool.submit(_answer, spec, {"x": rows[..., :count]}) for count in (1, 2)]
        assert [future.exception(SECONDS).code for future in bad] == ["SGK140"] * 2
        good = pool.submit(_answer, spec, {"x": rows}).result(SECONDS)
    np.testing.assert_allclose(good, _expected(folder), rtol=1e-5, atol=1e-6)


def test_a_session_in_a_closure_is_sent_as_its_spec(folder: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    rows = np.load(folder / "rows.npy")
    with _spec(folder).open() as session:
        sent = cloudpickle.dumps(lambda fed: session.run(None, {"x": fed})[0])
    program = "import pickle, sys, numpy; call = pickle.load(sys.stdin.buffer); "
    program += f"numpy.save('closure.npy', call(numpy.load({str(folder / 'rows.npy')!r})))"
    assert len(sent) < 4096
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, input=sent, check=False)
    assert done.returncode == 0
    np.testing.assert_array_equal(np.load(folder / "closure.npy"), _expected(folder))
    del rows


def test_joblib_runs_a_function_that_has_a_spec(folder: Path) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    spec, batches = _spec(folder), np.split(np.load(folder / "rows.npy"), 4)
    jobs = (joblib.delayed(partial(_answer, spec))({"x": rows}) for rows in batches)
    answers = joblib.Parallel(n_jobs=2, backend="loky")(jobs)
    np.testing.assert_allclose(np.concatenate(answers), _expected(folder), rtol=1e-5, atol=1e-6)


# -- engines for rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_data_loader_answer_what_they_load(folder: Path, method: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed; see make torch")
    answers = _run_script("data_loader", folder, method)
    np.testing.assert_allclose(answers, _expected(folder), rtol=1e-5, atol=1e-6)


def test_dask_answers_blocks_in_processes(folder: Path) -> None:
    pytest.importorskip("dask.array", reason="Dask is not installed; see make serving")
    answers = _run_script("dask_array", folder)
    np.testing.assert_allclose(answers, _expected(folder), rtol=1e-5, atol=1e-6)


# -- web services --------------------------------------------------------------------------------


@pytest.fixture
def web(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Serve the FastAPI application, as a test client does, from start-up to shut-down."""
    pytest.importorskip("fastapi", reason="FastAPI is not installed; see make serving")
    client = pytest.importorskip("fastapi.testclient", reason="httpx is not installed")
    monkeypatch.setenv("MODEL_SPEC", str(folder / "spec.json"))
    with client.TestClient(load_script(RECIPES / "fastapi_app.py").app) as web:
        yield web


def test_fastapi_answers_rows(web: Any, folder: Path) -> None:
    answer = web.post("/answers", json=np.load(folder / "rows.npy").tolist())
    assert answer.status_code == 200
    np.testing.assert_allclose(answer.json(), _expected(folder), rtol=1e-5, atol=1e-6)
    assert web.get("/health").status_code == 200


def test_fastapi_answers_bad_rows_with_400_and_stays_healthy(web: Any) -> None:
    answer = web.post("/answers", json=np.zeros((1, 3, 8, 7)).tolist())
    assert (answer.status_code, answer.json()["code"]) == (400, "SGK140")
    assert web.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("SGK131", sk.errors.BackendError, 500),
        ("SGK222", sk.errors.ModelError, 500),
        ("SGK138", sk.errors.RunTimeoutError, 503),
    ],
)
def test_fastapi_says_whose_fault_an_error_is(
    web: Any, monkeypatch: pytest.MonkeyPatch, code: str, kind: Callable[..., Any], status: int
) -> None:
    class Failing:
        async def arun(self, feeds: Any, **how: Any) -> Any:
            raise kind(code, "it was asked to fail")

        def ping(self) -> None:
            raise kind(code, "it was asked to fail")

    monkeypatch.setattr(web.app.state, "session", Failing())
    for answer in (web.post("/answers", json=[[1.0]]), web.get("/health")):
        assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_litserve_answers_requests_in_batches(folder: Path) -> None:
    pytest.importorskip("litserve", reason="LitServe is not installed; see make serving")
    expected = _expected(folder)
    with _served([str(RECIPES / "litserve_app.py")], folder, "/health") as url:
        for row, want in zip(np.load(folder / "rows.npy")[:4], expected[:4], strict=True):
            status, answer = _post(f"{url}/predict", {"x": row.tolist()})
            assert status == 200
            np.testing.assert_allclose(answer["y"], want, rtol=1e-5, atol=1e-6)


def test_bentoml_answers_rows(folder: Path) -> None:
    pytest.importorskip("bentoml", reason="BentoML is not installed; see make serving")
    command = ["-m", "bentoml", "serve", "bentoml_app:Answers", "--host", "127.0.0.1"]
    with _served([*command, "--working-dir", str(RECIPES)], folder, "/readyz") as url:
        rows = np.load(folder / "rows.npy")
        status, answer = _post(f"{url}/answers", {"x": rows.tolist()})
        assert status == 200
        np.testing.assert_allclose(answer, _expected(folder), rtol=1e-5, atol=1e-6)


@contextmanager
def _served(command: list[str], folder: Path, ready: str) -> Iterator[str]:
    """Start a server in a group of its own, wait until it answers, and end the group."""
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
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=SECONDS):
            return True
    except OSError:
        return False


def _post(url: str, document: Any) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    try:
        with urlopen(Request(url, json.dumps(document).encode(), headers), timeout=SECONDS) as got:
            return got.status, json.load(got)
    except HTTPError as error:
        return error.code, error.read()
