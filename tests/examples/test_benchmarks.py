"""The benchmarks run, and say what they measure."""

import csv
import json
import os
import subprocess
from importlib.util import find_spec

import onnx
import pytest

from tests.models import parsed
from tests.ready import python_command
from tests.scripts import BENCHMARKS, load_script, run_child


@pytest.mark.parametrize(("script", "words", "expected"), [
    ("bench_overhead.py", [], "subgraphkit, checked=False"),
    ("bench_road.py", ["--nodes", "50"], "50 nodes"),
    ("bench_models.py", ["--models", "squeezenet", "--reference-runs", "0"], "squeezenet"),
    ("bench_precision.py", ["--models", "squeezenet"], "fp16 weights"),
    ("run.py", ["import", "--markdown"], "| import subgraphkit "),
])  # fmt: skip
def test_a_benchmark_prints_its_table(script, words, expected):
    done = run_child(python_command(str(BENCHMARKS / script), *words, "--repeat", "1"))
    assert expected in done.stdout


SCRIPT = BENCHMARKS / "backends" / "bench_backends.py"
TINY = (
    "g (float[1, 3, 224, 224] pixel_values) => (float[1, 3, 224, 224] y) { y = Relu(pixel_values) }"
)


@pytest.fixture
def exports(tmp_path):
    """Put something tiny where the export of a network is looked for."""
    architectures = load_script(BENCHMARKS / "numpy_backend" / "architectures.py")
    folder = tmp_path / "exports"
    path = architectures.export_path("mobilenetv2", folder)
    if path is None:  # nothing that exports is installed: any file is found
        path = architectures._home("mobilenetv2", folder) / "tiny.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(parsed(TINY), path)
    return folder


def test_each_table_is_written_to_a_file_named_after_its_title(exports, tmp_path):
    folder = tmp_path / "figures"
    words = ["--models", "mobilenetv2", "--repeat", "1", "--backends", "numpy", "--markdown"]
    words += ["--also", "numpy,no_such", "--write", str(folder)]
    done = run_child(
        python_command(str(SCRIPT), *words),
        env={**os.environ, "SUBGRAPHKIT_BENCH_MODELS": str(exports)},
        status=1,
    )
    # one of the two candidates cannot run, which is a cell of the table and the exit status
    assert "### Latency" in done.stdout
    with (folder / "latency.csv").open(newline="") as file:
        (head, row, *_) = csv.reader(file)
    assert head[:2] == ["model", "numpy"]
    assert row[0] == "mobilenetv2"
    assert "SGK102" in row[2]


REAL = BENCHMARKS / "backends" / "bench_real_models.py"
MODEL = "decoder step with cache, open"


def test_figures_are_kept_and_shown_beside_those_of_an_earlier_run(tmp_path):
    before, after, page = (tmp_path / name for name in ("before.json", "after.json", "figures"))
    earlier = {MODEL: {"numpy": {"nodes": 1, "of": 2, "regions": 1}, "openvino": "refused"}}
    before.write_text(json.dumps(earlier))
    words = ["--models", MODEL, "--backends", "numpy,onnxruntime"]
    words += ["--before", str(before), "--save", str(after), "--write", str(page)]
    run_child(python_command(str(REAL), *words))
    figures = json.loads(after.read_text())[MODEL]
    assert figures["numpy"]["nodes"] == figures["numpy"]["of"] > 20
    assert figures["onnxruntime"]["difference"] < 1e-5
    assert f"1 of 2 in 1 → {figures['numpy']['nodes']} of" in (
        page / "models-of-other-exporters.csv"
    ).read_text("utf-8")


BUILDS = BENCHMARKS / "backends" / "bench_tensorrt_build.py"


@pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
)
def test_a_network_is_claimed_and_built_once():
    done = subprocess.run(
        python_command(str(BUILDS), "--models", "light_squeezenet", "--markdown"),
        env={**os.environ, "SUBGRAPHKIT_BENCH_MODELS": os.devnull},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("| light_squeezenet"))
    name, nodes, taken, subgraphs, *_, builds = (cell.strip() for cell in row.strip("|").split("|"))
    assert (name, nodes, taken, subgraphs, builds) == ("light_squeezenet", "66", "100.0%", "1", "0")
    assert "Not taken" not in done.stdout
