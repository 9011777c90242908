"""The benchmarks can be started; what they measure is nobody's business here."""

import subprocess
import sys

import pytest

from tests.scripts import BENCHMARKS


@pytest.mark.parametrize(
    ("script", "words", "expected"),
    [
        ("bench_import.py", [], "import subgraphkit"),
        ("bench_overhead.py", [], "subgraphkit, checked=False"),
        ("bench_road.py", ["--nodes", "50"], "50 nodes"),
        ("bench_models.py", ["--models", "squeezenet", "--reference-runs", "0"], "squeezenet"),
        ("bench_precision.py", ["--models", "squeezenet"], "fp16 weights"),
        ("run.py", ["import", "--markdown"], "### Import"),
    ],
)
def test_a_benchmark_prints_its_table(script: str, words: list[str], expected: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *words, "--repeat", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
