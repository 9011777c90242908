"""The benchmarks can be started; what they measure is nobody's business here."""

import pytest

from tests.ready import python_command
from tests.scripts import BENCHMARKS, run_child


@pytest.mark.parametrize(
    ("script", "words", "expected"),
    [
        ("bench_overhead.py", [], "subgraphkit, checked=False"),
        ("bench_road.py", ["--nodes", "50"], "50 nodes"),
        ("bench_models.py", ["--models", "squeezenet", "--reference-runs", "0"], "squeezenet"),
        ("bench_precision.py", ["--models", "squeezenet"], "fp16 weights"),
        ("run.py", ["import", "--markdown"], "| import subgraphkit "),
    ],
)
def test_a_benchmark_prints_its_table(script: str, words: list[str], expected: str) -> None:
    done = run_child(python_command(str(BENCHMARKS / script), *words, "--repeat", "1"))
    assert expected in done.stdout
