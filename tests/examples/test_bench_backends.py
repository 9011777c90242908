"""The benchmark of backends writes its tables as CSV."""

import csv
import os
from pathlib import Path

import onnx
import pytest

from tests.models import parsed
from tests.ready import python_command
from tests.scripts import BENCHMARKS, load_script, run_child

SCRIPT = BENCHMARKS / "backends" / "bench_backends.py"
TINY = (
    "g (float[1, 3, 224, 224] pixel_values) => (float[1, 3, 224, 224] y) { y = Relu(pixel_values) }"
)


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """Put something tiny where the export of a network is looked for."""
    architectures = load_script(BENCHMARKS / "numpy_backend" / "architectures.py")
    folder = tmp_path / "exports"
    path = architectures.export_path("mobilenetv2", folder)
    if path is None:  # nothing that exports is installed: any file is found
        path = architectures._home("mobilenetv2", folder) / "tiny.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(parsed(TINY), path)
    return folder


def test_each_table_is_written_to_a_file_named_after_its_title(
    exports: Path, tmp_path: Path
) -> None:
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
