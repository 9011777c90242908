"""The core without any backend installed."""

import subprocess
import sys
from pathlib import Path

import onnx

from tests.models import CHAIN, parsed
from tests.scripts import ROOT

SCRIPT = """
import sys
import importlib.metadata as metadata
metadata.distributions = lambda: ()
import subgraphkit as sk
sk.InferenceSession(sys.argv[1])
"""


def test_the_nodes_nobody_can_run_are_named_and_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(parsed(CHAIN), path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 1
    assert "[SGK120] 3 nodes are claimed by no backend" in done.stderr
    assert "#0 Relu" in done.stderr
    assert 'pip install "subgraphkit[numpy]"' in done.stderr
