"""The benchmark of real models asks each backend what it takes, and compares results."""

import json
from pathlib import Path

from tests.ready import python_command
from tests.scripts import BENCHMARKS, run_child

SCRIPT = BENCHMARKS / "backends" / "bench_real_models.py"
MODEL = "decoder step with cache, open"


def test_figures_are_kept_and_shown_beside_those_of_an_earlier_run(tmp_path: Path) -> None:
    before, after, page = (tmp_path / name for name in ("before.json", "after.json", "figures"))
    earlier = {MODEL: {"numpy": {"nodes": 1, "of": 2, "regions": 1}, "openvino": "refused"}}
    before.write_text(json.dumps(earlier))
    words = ["--models", MODEL, "--backends", "numpy,onnxruntime"]
    words += ["--before", str(before), "--save", str(after), "--write", str(page)]
    run_child(python_command(str(SCRIPT), *words))
    figures = json.loads(after.read_text())[MODEL]
    assert figures["numpy"]["nodes"] == figures["numpy"]["of"] > 20
    assert figures["onnxruntime"]["difference"] < 1e-5
    assert f"1 of 2 in 1 → {figures['numpy']['nodes']} of" in (
        page / "models-of-other-exporters.csv"
    ).read_text("utf-8")
