"""``tune`` and plan files, through the command line."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli


def test_a_plan_is_measured_once_written_and_followed(
    cli: Cli, linear: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "plan.json"
    backend = "numpy:max_loop_iterations=9"
    words = ("tune", linear, "--symbol", "N=3", "--backend", backend, "--seconds", "0.1", "--keep")
    first = cli(*words, "--output", path)
    assert first.code == 0, first.err
    assert "numpy " in first.out.splitlines()[0]
    assert "This was measured for N=3 only." in first.out
    assert {"random values, seed 0: x", f"plan: {path}; use it as --backend @{path}"} <= {
        line.removeprefix("note: ") for line in first.err.splitlines()
    }

    plan = json.loads(path.read_text(encoding="utf-8"))
    assert plan["backends"] == {"numpy": {"max_loop_iterations": "9"}}
    assert plan["circumstances"]["shapes"] == {"x": "float32[3,3]"}
    assert plan["figures"]["asked"] == backend

    html = tmp_path / "tune.html"
    second = cli(*words, "--json", "--html", html)
    document = json.loads(second.out)
    assert document["schema"] == "subgraphkit.tune/1"
    assert document["data"]["measured"] is False
    assert "This was measured for N=3 only." in html.read_text(encoding="utf-8")
    assert document["data"]["figures"] == plan["figures"]
    assert "nothing was measured: this was found in the cache" in second.err
    assert json.loads(cli(*words, "--again", "--json").out)["data"]["measured"] is True

    monkeypatch.setenv("SUBGRAPH_BACKEND", f"@{path}")
    followed = cli("run", linear, "-o", tmp_path / "y.npz")  # the plan has the sizes
    assert followed.code == 0, followed.err
    assert not re.search("other circumstances|taken to be", followed.err)
    planned = cli(
        "plan", linear, "--symbol", "N=5", "--json"
    )  # with other shapes than it was measured for
    assert {one["backend"] for one in json.loads(planned.out)["data"]["subgraphs"]} == {"numpy"}
    path.write_text("{}", encoding="utf-8")
    assert "[SGK124]" in cli("plan", linear).err
