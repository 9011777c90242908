"""Bundles from the command line: written by build, opened by run, described by info."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from tests.models import LINEAR, parsed
from tests.unit.bundling.conftest import edited
from tests.unit.cli.conftest import Cli

WORDS = ("linear.onnx", "--symbol", "N=3", "--backend", "numpy")


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a model into the folder of the test, and the cache beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    Path("linear.onnx").write_bytes(parsed(LINEAR).SerializeToString())


def data_of(cli: Cli, *words: object) -> Any:
    ended = cli(*words, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["data"]


def test_what_build_writes_is_opened_by_run_and_in_python(cli: Cli) -> None:
    assert data_of(cli, "build", *WORDS, "--bundle", "out")["bundle"] == "out"
    x = np.ones((3, 3), np.float32)
    np.save("x.npy", x)
    data = data_of(cli, "run", "out", "--input", "x=x.npy", "-o", "y.npz")
    assert (data["model"], data["backends"]) == ("linear.onnx", ["numpy"])
    assert set(data["seconds"]) == {"open", "run"}
    with sk.InferenceSession("linear.onnx", "numpy") as session:
        (want,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(np.load("y.npz")["y"], want)
    with sk.InferenceSession("out") as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": x})[0], want)


def test_what_a_terminal_would_obey_is_shown_as_what_it_is(cli: Cli) -> None:
    cli("build", *WORDS, "--bundle", "out")
    edited(Path("out"), lambda members: members.update(name="\x1b[2Jm\u202ef\n"))
    shown = cli("list", "out").out
    assert "\\x1b[2Jm\\u202ef\\n" in shown
    assert "\x1b" not in shown


def test_a_name_that_is_a_backend_is_one_even_beside_a_folder_called_like_it(cli: Cli) -> None:
    cli("build", *WORDS, "--bundle", "numpy")
    assert "backends" in data_of(cli, "list", "numpy")
