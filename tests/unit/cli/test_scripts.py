"""The Python that a command line stands for, run, and held against what the command did."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from subgraphkit.cli.scripts import SCRIPTS
from subgraphkit.errors import SubgraphkitError
from tests.unit.cli.conftest import Cli

# what the command writes, and the script too
RUNS = {
    "run": "run linear.onnx --symbol N=4 --seed 3 --backend numpy --no-fold -o {}.npz",
    "run fed": "run linear.onnx --input x=array.npy --option numpy.threads=1 --pin MatMul=numpy "
    "-o {}.npz",
    "run of a bundle": "run bundle --trust -o {}.npz",
    "build": "build linear.onnx --backend numpy --shape x=2,3 --bundle {} --overwrite",
    "tune": "tune linear.onnx --symbol N=2 --backend numpy --seconds 0.1 --html {0}.html "
    "-o {0}.json",
    "plan": "plan linear.onnx --backend numpy --reasons --keep-off Add=onednn",
    "explain": "plan linear.onnx --backend numpy --explain #1",
    "verify": "verify linear.onnx --backend numpy --rtol 0.5 --per-subgraph --html {0}.html",
    "bench": "bench linear.onnx --backends numpy --repeat 1 --warmup 0 --threads 1",
    "page": "plan linear.onnx --backend numpy --against none --html {0}.html",
    "bisect": "verify linear.onnx --backend numpy --symbol N=2 --atol 1e-3 --bisect -o {}",
    "nan": "verify linear.onnx --backend numpy --nan",
    "profile": "profile linear.onnx --backend numpy --symbol N=2 --runs 2 --chrome {}.trace",
    "failure": "plan linear.onnx --backend onednn? --min-coverage onednn=1",
}


def test_every_script_is_run() -> None:
    assert {words.split()[0] for words in RUNS.values()} == set(SCRIPTS)


def _failure(script: str, *, apart: bool) -> str:
    """Run a script, one of them as a user would; return what it ends with unless all went well."""
    if apart:
        words = [sys.executable, "-W", "error", "-c", script]
        return subprocess.run(words, capture_output=True, text=True, check=False).stderr
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    except SystemExit as stop:
        return "it failed" if stop.code else ""
    except SubgraphkitError as error:
        return str(error)
    return ""


def _written(name: str) -> object:
    if (file := Path(f"{name}.npz")).exists():
        return {key: value.tolist() for key, value in np.load(file).items()}
    if (file := Path(f"{name}.json")).exists():
        return file.read_text(encoding="utf-8")
    return sorted(path.name for path in Path(name).rglob("*"))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("linear")
def test_a_script_does_what_the_command_did(
    cli: Cli, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("array.npy", np.ones((2, 3), np.float32))
    cli("build", "linear.onnx", "--backend", "numpy", "--bundle", "bundle")
    words = RUNS[name]
    told = cli(*words.format("told").split())
    script = cli(*words.format("done").split(), "--gen-script")
    assert (script.code, script.err) == (0, "")
    assert not Path("done").exists()
    froms = [one for one in ast.parse(script.out).body if isinstance(one, ast.ImportFrom)]
    assert all(script.out.count(each.name) > 1 for one in froms for each in one.names)
    failure = _failure(script.out, apart=name == "run")
    assert bool(failure) == bool(told.code), failure
    assert _written("done") == _written("told")
    assert Path("done.html").exists() == Path("told.html").exists() == ("--html" in words)
    if name in {"explain", "plan"}:
        assert told.out.startswith(capsys.readouterr().out.rstrip("\n"))
    assert ("[SGK125]" in told.err) == ("[SGK125]" in failure) == (name == "failure")


def test_a_script_holds_names_as_python_writes_them(cli: Cli) -> None:
    evil = "{model}'\x1b\n*[shapes]("
    script = cli("run", evil, "--backend", evil, "--gen-script").out
    assert script.count(repr(evil)) == 2
    compile(script, "script", "exec")


@pytest.mark.usefixtures("linear")
def test_a_script_is_part_of_a_document_too(cli: Cli) -> None:
    assert (
        '"script": "import subgraphkit as sk\\n'
        in cli("plan", "linear.onnx", "--gen-script", "--json").out
    )
