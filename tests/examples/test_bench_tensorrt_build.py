"""The benchmark of claiming and building with TensorRT, on its smallest network."""

import os
import subprocess
from importlib.util import find_spec

import pytest

from tests.ready import python_command
from tests.scripts import BENCHMARKS

SCRIPT = BENCHMARKS / "backends" / "bench_tensorrt_build.py"


@pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
)
def test_a_network_is_claimed_and_built_once() -> None:
    done = subprocess.run(
        python_command(str(SCRIPT), "--models", "light_squeezenet", "--markdown"),
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
