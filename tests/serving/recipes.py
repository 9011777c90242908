"""What the recipes of docs/scaling.md work on in tests, and how those that are scripts are run."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import subgraphkit as sk
from tests.run_examples import write_small_model
from tests.scripts import EXAMPLES

RECIPES = EXAMPLES / "serving"
SECONDS = 60.0


def prepare(folder: Path) -> Path:
    """Write a model, a spec of it, rows, and what the model makes of them."""
    write_small_model(folder / "model.onnx")
    spec = sk.SessionSpec.of(folder / "model.onnx", "numpy", threads=1)
    (folder / "spec.json").write_text(spec.to_json(), encoding="utf-8")
    rows = np.random.default_rng(0).standard_normal((32, 3, 8, 8)).astype(np.float32)
    np.save(folder / "rows.npy", rows)
    with spec.open() as session:
        np.save(folder / "expected.npy", session.run(None, {"x": rows})[0])
    return folder


def spec_of(folder: Path) -> sk.SessionSpec:
    return sk.SessionSpec.from_json((folder / "spec.json").read_text(encoding="utf-8"))


def expected_of(folder: Path) -> Any:
    return np.load(folder / "expected.npy")


def run_script(name: str, folder: Path, *words: str) -> Any:
    """Run a recipe that reads rows and writes answers, and return the answers."""
    answers = folder / f"{name}-{'-'.join(words)}.npy"
    command = [sys.executable, str(RECIPES / f"{name}.py")]
    command += [str(folder / "model.onnx"), str(folder / "rows.npy"), str(answers), *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return np.load(answers)
