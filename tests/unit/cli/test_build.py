"""``subgraphkit build``: what is compiled ahead, and what the next bind makes of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def data_of(cli: Cli, *words: object, code: int = 0) -> Any:
    ended = cli("build", *words, "--json")
    assert ended.code == code, ended.err
    return json.loads(ended.out)["data"]


def test_what_is_built_is_found_by_the_next_bind(cli: Cli, backend: type[Storing]) -> None:
    (row,) = data_of(cli, *WORDS, "--backend", "stores")["subgraphs"]
    assert (row["backend"], row["nodes"], row["engine"]) == ("stores", 2, "built")
    assert backend.compilations == 1
    graph = sk.bind(sk.load("linear.onnx"), {"N": 3}, backend="stores")
    assert sk.compile_subgraphs(sk.partition(graph)).restored == {row["subgraph"]}
    assert backend.compilations == 1


def test_what_was_built_before_is_found(cli: Cli, backend: type[Storing]) -> None:
    cli("build", *WORDS, "--backend", "stores")
    ended = cli("build", *WORDS, "--backend", "stores")
    head, row = ended.out.splitlines()
    assert head.split() == ["SUBGRAPH", "BACKEND", "NODES", "ENGINE", "SECONDS", "PROOF"]
    assert row.split()[:4] == ["stores_0", "stores", "2", "found"]
    assert backend.compilations == 1


def test_a_backend_without_engines_needs_none(cli: Cli) -> None:
    (row,) = data_of(cli, *WORDS, "--backend", "numpy")["subgraphs"]
    assert row["engine"] == "needs none"


def test_an_engine_that_is_not_kept_is_a_failed_check(
    cli: Cli, backend: type[Storing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CACHE_SIZE", "1")
    ended = cli("build", *WORDS, "--backend", "stores")
    assert ended.code == 1
    assert "1 engine will be compiled again at the next bind: stores_0" in ended.err


def test_without_a_cache_there_is_nothing_to_build(
    cli: Cli, backend: type[Storing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CACHE", "off")
    ended = cli("build", *WORDS, "--backend", "stores")
    assert ended.code == 2
    assert "[SGK301] nothing would stay of what is built" in ended.err
    assert backend.compilations == 0


def test_the_engine_itself_can_be_written(
    cli: Cli, backend: type[Storing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_CACHE", "off")
    monkeypatch.setattr("tests.storing.compiled", lambda subgraph: Bare())
    data = data_of(cli, *WORDS, "--backend", "stores", "--engine", "model.engine")
    assert data["engine_file"] == "model.engine"
    assert Path("model.engine").read_bytes() == b"engine"


def test_a_backend_without_an_engine_of_its_own_writes_none(
    cli: Cli, backend: type[Storing]
) -> None:
    ended = cli("build", *WORDS, "--backend", "stores", "--engine", "model.engine")
    assert ended.code == 2
    assert "backend 'stores' has no single engine" in ended.err
    assert not Path("model.engine").exists()


def test_one_engine_is_not_written_for_several_subgraphs(cli: Cli) -> None:
    made = storing(name="stores", operators=("Add",))
    sk.register_backend(made)
    try:
        ended = cli("build", *WORDS, "--backend", "stores,numpy", "--engine", "model.engine")
    finally:
        sk.unregister_backend("stores")
    assert ended.code == 2
    assert "the model becomes 2 subgraphs" in ended.err


def test_a_file_that_cannot_be_written_is_refused_first(cli: Cli, backend: type[Storing]) -> None:
    ended = cli("build", *WORDS, "--backend", "stores", "--engine", "nowhere/model.engine")
    assert ended.code == 2
    assert "its folder is missing" in ended.err
    assert backend.compilations == 0


def test_a_backend_that_was_named_first_and_got_nothing_is_named(cli: Cli) -> None:
    made = storing(name="stores", operators=("Abs",))
    sk.register_backend(made)
    try:
        built = cli("build", *WORDS, "--backend", "stores,numpy")
        written = cli("build", *WORDS, "--backend", "stores,numpy", "--engine", "model.engine")
    finally:
        sk.unregister_backend("stores")
    assert built.code == 0
    assert "warning: stores has 0 of 2 nodes (0% of FLOPs), numpy 2 (100%)" in built.err
    assert "'subgraphkit plan' says more" in built.err
    assert written.code == 2
    assert "[SGK301] no subgraph is on backend 'stores'" in written.err
    assert "plan MODEL --reasons" in written.err


def test_nothing_is_said_of_backends_that_have_something_to_do(
    cli: Cli, backend: type[Storing]
) -> None:
    assert "warning" not in cli("build", *WORDS, "--backend", "stores,numpy").err
