"""The benchmark of backends writes its tables into a page and leaves the rest of it alone."""

import os
import subprocess
from pathlib import Path

import onnx
import pytest

from tests.models import parsed
from tests.ready import python_command
from tests.scripts import BENCHMARKS, load_script

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


def test_the_tables_are_written_between_two_comments(exports: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = ["--models", "mobilenetv2", "--repeat", "1", "--backends", "numpy", "--markdown"]
    words += ["--also", "numpy,no_such", "--write", str(page)]
    text = ""
    for _ in range(2):
        done = subprocess.run(
            python_command(str(SCRIPT), *words),
            env={**os.environ, "SUBGRAPHKIT_BENCH_MODELS": str(exports)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        # one of the two contenders cannot run, which is a cell of the table and the exit status
        assert done.returncode == 1, done.stderr
        text = page.read_text()
        assert text.count("## Latency") == 1
        page.write_text(f"{text}\nWords of ours.\n")
    assert "| model" in text
    assert "| mobilenetv2" in text
    assert "SGK102" in text
    assert text.endswith("\nWords of ours.\n")
    assert "### Latency" in done.stdout


def test_a_page_without_a_place_for_the_tables_is_left_alone(exports: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Mine\n")
    words = ["--models", "mobilenetv2", "--repeat", "1", "--backends", "numpy"]
    done = subprocess.run(
        python_command(str(SCRIPT), *words, "--write", str(page)),
        env={**os.environ, "SUBGRAPHKIT_BENCH_MODELS": str(exports)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "has no place for the tables" in done.stderr
    assert page.read_text() == "# Mine\n"
