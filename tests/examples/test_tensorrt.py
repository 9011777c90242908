"""The TensorRT example: the script falls back with a reason, the image names what there is."""

import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.scripts import EXAMPLES, ROOT, load_script

FOLDER = EXAMPLES / "tensorrt"
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SOURCES = "/src"


def _run(backend, folder):
    # A library that does not load, so that the test needs no GPU to be absent.
    (folder / "tensorrt.py").write_text("raise ImportError('libnvinfer.so: cannot open')")
    chosen = {} if backend is None else {"SUBGRAPH_BACKEND": backend}
    variables = {"SUBGRAPH_CONFIG": "none", "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, str(FOLDER / "run.py")],
        env={**os.environ, **variables, **chosen},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _project(path):
    return tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _commands():
    """Return the instructions of the image, without comments and continued lines as one."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", " ")


def test_without_a_gpu_the_script_runs_on_numpy_and_says_why(tmp_path):
    done = _run(None, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "backend 'tensorrt' is left out: " in done.stdout
    assert "TensorRT is installed (tensorrt) but does not load: libnvinfer.so" in done.stdout
    assert done.stdout.splitlines()[-1] == "ran on: numpy"
    assert done.stderr == ""


def test_a_backend_that_was_named_and_cannot_run_is_an_error(tmp_path):
    done = _run("tensorrt,numpy", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: [SGK104] backend 'tensorrt' is installed but cannot run")


def test_another_backend_is_compared_with_numpy(monkeypatch, capsys):
    pytest.importorskip("onnxruntime", reason="the other backend is ONNX Runtime")
    monkeypatch.setenv("SUBGRAPH_BACKEND", "onnxruntime,numpy")
    script = load_script(FOLDER / "run.py")
    assert script._run("squeezenet") == 0
    assert "error against numpy: " in capsys.readouterr().out
    monkeypatch.setattr(script, "TOLERANCE", -1.0)
    assert script._run("squeezenet") == 1


def test_the_image_installs_projects_of_this_tree():
    copied = {}
    for sources, target in re.findall(r"^COPY (.+) (\S+)$", _commands(), re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            copied[source] = target
    (words,) = re.findall(r"^RUN pip install --no-cache-dir (.*?) &&", _commands(), re.MULTILINE)
    for word in words.replace('"', "").split():
        project = word.partition("[")[0].removeprefix(SOURCES).strip("/")
        assert (project or "subgraphkit") in copied
        assert _project(project)["name"].startswith("subgraphkit")
    needed = [_project("")["readme"], *_project("")["license-files"], "pyproject.toml"]
    assert set(needed) <= set(copied)


def test_extras_with_the_library_are_all_named_and_the_image_takes_one_of_them():
    brought = _project("backends/tensorrt")["optional-dependencies"]
    extras = {name for name in brought if any("tensorrt" in one for one in brought[name])}
    (default,) = re.findall(r"^ARG EXTRA=(\w+)$", DOCKERFILE, re.MULTILINE)
    named = {default, *re.findall(r"EXTRA=(\w+)", DOCKERFILE + README)}
    named |= set(re.findall(r"backends/tensorrt\[(\w+)\]", README))
    assert named == extras


def test_the_image_selects_what_the_script_selects():
    (image,) = re.findall(r"^ENV SUBGRAPH_BACKEND=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert f'"{image}"' in (FOLDER / "run.py").read_text(encoding="utf-8")
    assert f"SUBGRAPH_BACKEND={image}" in README
