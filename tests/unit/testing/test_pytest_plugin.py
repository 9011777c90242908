"""The kit under pytest, each time in a pytest of its own."""

import os
import sys

from tests.house.tree import ROOT
from tests.scripts import run_child

FAULTY = "tests.faulty"
HEAVY = ("numpy", "onnx", "subgraphkit.backend.contract", "ml_dtypes")


ENTRY_POINTS = "[pytest11]\nsubgraphkit = subgraphkit.testing.pytest_plugin\n"


def run_pytest(*given, folder):
    """Run a stranger's pytest, which has nothing of this project but what is installed."""
    # An installed distribution, to pytest, is a folder with metadata.
    metadata = folder / "installed" / "subgraphkit-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: subgraphkit\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    words = ("--pyargs", "subgraphkit.testing", *given)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return run_child(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rsxX", *words],
        cwd=folder,
        env={**environment, "PYTHONPATH": f"{metadata.parent}{os.pathsep}{ROOT}", "PATH": ""},
        status=None,
    )


def test_one_test_runs_per_case_and_the_headline_is_told(tmp_path):
    words = ("--subgraph-backend=loopback", "--subgraph-level=0", "-v")
    done = run_pytest(*words, folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "L0/import PASSED" in done.stdout
    assert "L0/manifest SKIPPED" in done.stdout
    assert "skip: the backend is tested without being installed" in done.stdout
    assert "loopback: level 0 passed; no nodes were offered" in done.stdout


def test_a_case_that_goes_wrong_fails_with_what_was_found(tmp_path):
    words = (f"--subgraph-backend={FAULTY}:WrongDtype", "--subgraph-level=2")
    cases = "L2/two_roots or L2/no_nodes or L2/int64"
    done = run_pytest(*words, "-k", cases, folder=tmp_path)
    assert done.returncode == 1
    assert "3 failed" not in done.stdout
    assert "fail_dtype: [SGK132] subgraph 'faulty_0'" in done.stdout
    assert "not passed; claimed and right: 0 of 2 offered" in done.stdout


def test_loading_the_plugin_imports_nothing_heavy():
    program = (
        "import sys, subgraphkit.testing.pytest_plugin; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = run_child([sys.executable, "-W", "error", "-c", program])
    assert done.stdout.strip() == "[]"
