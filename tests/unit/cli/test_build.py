"""``subgraphkit build``: what the next bind finds, and bundles that other commands open."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from tests.models import LINEAR, parsed
from tests.storing import Storing, storing
from tests.unit.cli.conftest import Cli

WORDS = ("linear.onnx", "--symbol", "N=3")


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a model into the folder of the test, and the cache beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    Path("linear.onnx").write_bytes(parsed(LINEAR).SerializeToString())


class Bare(sk.SubgraphOperator):
    """An operator with an engine of its own kind."""

    def run(self, inputs: Any, outputs: Any = None) -> Any:
        raise NotImplementedError

    def bare_engine(self) -> bytes:
        return b"engine"


@pytest.fixture
def backend() -> Iterator[type[Storing]]:
    """Register a backend that stores engines."""
    made = storing(name="stores")
    sk.register_backend(made)
    yield made
    sk.unregister_backend("stores")


def data_of(cli: Cli, *words: object) -> Any:
    ended = cli(*words, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["data"]


def test_what_is_built_is_found_by_the_next_bind(cli: Cli, backend: type[Storing]) -> None:
    (row,) = data_of(cli, "build", *WORDS, "--backend", "stores")["subgraphs"]
    assert (row["backend"], row["nodes"], row["engine"]) == ("stores", 2, "built")
    assert backend.compilations == 1
    graph = sk.bind(sk.load("linear.onnx"), {"N": 3}, backend="stores")
    assert sk.compile_subgraphs(sk.partition(graph)).restored == {row["subgraph"]}
    assert backend.compilations == 1


def test_the_engine_itself_can_be_written(
    cli: Cli, backend: type[Storing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CACHE", "off")
    monkeypatch.setattr("tests.storing.compiled", lambda subgraph: Bare())
    data = data_of(cli, "build", *WORDS, "--backend", "stores", "--engine", "model.engine")
    assert data["engine_file"] == "model.engine"
    assert Path("model.engine").read_bytes() == b"engine"


BUNDLED = (*WORDS, "--backend", "numpy")


def test_what_build_writes_is_opened_by_run_and_in_python(cli: Cli) -> None:
    assert data_of(cli, "build", *BUNDLED, "--bundle", "out")["bundle"] == "out"
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


def test_a_name_that_is_a_backend_is_one_even_beside_a_folder_called_like_it(cli: Cli) -> None:
    cli("build", *BUNDLED, "--bundle", "numpy")
    assert "backends" in data_of(cli, "list", "numpy")
