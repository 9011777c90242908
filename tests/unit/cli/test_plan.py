"""``subgraphkit plan``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit import SubgraphOperator
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.finding.registry import registered
from tests.fakes import claiming
from tests.models import DIAMOND, parsed
from tests.unit.cli.conftest import Cli


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    path = tmp_path / "diamond.onnx"
    model = parsed(DIAMOND)
    for node, name in zip(model.graph.node, ("first", "left", "right", "right"), strict=True):
        node.name = name
    onnx.save(model, path)
    return path


def _never(subgraph: sk.Subgraph) -> SubgraphOperator:
    raise AssertionError(f"{subgraph} was compiled")


def _plan(cli: Cli, *words: object) -> dict[str, Any]:
    ended = cli("plan", *words, "--json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    assert document["schema"] == "subgraphkit.plan/1"
    data: dict[str, Any] = document["data"]
    return data


def test_the_document_is_the_partitioning_as_data(cli: Cli, diamond: Path) -> None:
    expected = sk.partition(sk.bind(sk.load(diamond), backend="numpy"))
    data = _plan(cli, diamond, "--backend", "numpy")
    assert data == json.loads(json.dumps(expected.to_dict()))
    keys = ["model", "node_count", "left_out", "backends", "evidence", "cannot_run", "subgraphs"]
    assert list(data) == [*keys, "refusals", "quality"]
    assert data["subgraphs"] == [
        {
            "id": "numpy_0",
            "backend": "numpy",
            "property": "all",
            "nodes": [0, 1, 2, 3],
            "inputs": ["x"],
            "outputs": ["y"],
        }
    ]


def test_flops_of_dimensions_that_are_not_known_are_marked(cli: Cli, linear: Path) -> None:
    document = json.loads(cli("plan", linear, "--backend", "numpy", "--json").out)
    assert document["data"]["quality"]["has_open_flops"]
    assert "%)+" in cli("plan", linear, "--backend", "numpy").out
    fixed = cli("plan", linear, "--backend", "numpy", "--symbol", "N=2", "--json").out
    assert not json.loads(fixed)["data"]["quality"]["has_open_flops"]


def test_nothing_is_compiled(cli: Cli, diamond: Path) -> None:
    with registered(claiming(["Neg", "Abs"], "taker", make=_never)):
        data = _plan(cli, diamond, "--backend", "taker,numpy")
    assert {subgraph["backend"] for subgraph in data["subgraphs"]} == {"taker", "numpy"}


def test_refusals_have_their_reasons(cli: Cli, diamond: Path) -> None:
    with registered(claiming(["Neg", "Abs"], "taker", make=_never)):
        data = _plan(cli, diamond, "--backend", "taker")
        text = cli("plan", diamond, "--backend", "taker", "--reasons").out
    assert data["refusals"][0] == {
        "node": 0,
        "backend": "taker",
        "property": "Property",
        "code": "op_unsupported",
        "text": "operator Relu is not in the list",
    }
    lines = [line for line in text.splitlines() if line.startswith("#3 Add 'right'")]
    assert lines == ["#3 Add 'right'   taker    op_unsupported  operator Add is not in the list"]


class Absent(sk.Backend):
    name = "absent"

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        return claiming(["Neg", "Abs"], make=_never)().properties()

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        return sk.ProbeResult(available=False, problems=("no such chip",), hint="Plug one in.")


class Planning(Absent):
    @classmethod
    def planner(cls, options: Any) -> "Planning":
        return cls(options)


def test_a_backend_that_cannot_run_here_is_planned_if_it_can_and_never_run(
    cli: Cli, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = "dry run, nothing can run here: absent: no such chip\n"
    with registered(Planning):
        text = cli("plan", diamond, "--backend", "absent")
        assert (text.code, text.err.count(lacking), text.out.count(lacking)) == (0, 0, 1)
        assert "backends absent (declared), numpy (declared)\n" in text.out
        data = _plan(cli, diamond, "--backend", "absent")
        assert [one["backend"] for one in data["subgraphs"]] == [
            "numpy",
            "absent",
            "absent",
            "numpy",
        ]
        assert data["evidence"] == {"absent": "declared", "numpy": "declared"}
        assert data["cannot_run"]["absent"]["code"] == "SGK104"
        assert "Plug one in." in data["cannot_run"]["absent"]["hint"]
        drawn = cli("plan", diamond, "--backend", "absent", "--dot")
        assert (drawn.err.count(lacking), drawn.out[:7]) == (1, "digraph")
        dry = sk.partition(sk.bind(sk.load(diamond)), Planning, dry_run=True)
        with pytest.raises(BackendUnavailableError, match="no such chip") as caught:
            sk.compile_subgraphs(dry)
        assert caught.value.code == "SGK104"
        ran = cli("run", diamond, "--backend", "absent", "--json")
        assert (ran.code, json.loads(ran.out)["errors"][0]["code"]) == (3, "SGK104")
        # What a session would leave out is left out.
        data = _plan(cli, diamond, "--backend", "absent?")
        assert (data["backends"], data["cannot_run"]) == (["numpy"], {})
        monkeypatch.setenv("SUBGRAPH_ON_MISSING", "warn")
        assert _plan(cli, diamond, "--backend", "absent")["backends"] == ["numpy"]


def test_a_backend_that_cannot_plan_without_what_it_lacks_is_an_error(
    cli: Cli, diamond: Path
) -> None:
    with registered(Absent):
        ended = cli("plan", diamond, "--backend", "absent", "--json")
    (error,) = json.loads(ended.out)["errors"]
    assert (ended.code, error["code"]) == (3, "SGK104")


def test_a_backend_with_too_little_is_a_warning_or_by_its_demand_an_error(
    cli: Cli, diamond: Path
) -> None:
    words = ("plan", diamond, "--backend", "taker,numpy", "--json")
    with registered(claiming(["Neg", "Abs"], "taker", make=_never)):
        quiet = cli(*words)
        alone = cli("plan", diamond, "--backend", "taker", "--json")
        failed = cli(*words, "--min-coverage", "taker=0.6")
        assert cli(*words, "--min-coverage", "taker=0.5").code == 0
        assert cli(*words, "--min-coverage", "taker").code == 2
    assert (quiet.code, json.loads(quiet.out)["warnings"]) == (0, [])
    (warning,) = json.loads(alone.out)["warnings"]
    said = "taker has 2 of 4 nodes (50.0% of FLOPs), numpy 2 (50.0%). Main reason: operator"
    assert warning["message"].startswith(said)
    assert f"warning: {said}" in alone.err
    assert failed.code == 5
    document = json.loads(failed.out)
    assert document["errors"][0]["code"] == "SGK125"
    assert document["data"]["node_count"] == 4


def test_strict_is_fine_where_everything_is_claimed(cli: Cli, diamond: Path) -> None:
    assert cli("plan", diamond, "--backend", "numpy", "--strict").code == 0


def test_the_origin_of_the_choice_is_said_beside_the_data(
    cli: Cli, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAPH_BACKEND", "numpy")
    ended = cli("plan", diamond)
    assert "numpy (from environment variable SUBGRAPH_BACKEND='numpy')" in ended.err
    assert "environment" not in ended.out


def test_shapes_and_symbols_are_bound(cli: Cli, linear: Path) -> None:
    assert "float32[N,3]" in cli("plan", linear).out
    assert "float32[8,3]" in cli("plan", linear, "--symbol", "N=8").out
    assert "float32[4,3]" in cli("plan", linear, "--shape", "x=4,?").out
    ended = cli("plan", linear, "--shape", "x=4,5")
    assert ended.code == 2
    assert "[SGK221]" in ended.err


def test_an_option_for_a_backend_that_is_not_chosen_is_a_warning(cli: Cli, linear: Path) -> None:
    ended = cli("plan", linear, "--option", "other.key=1", "--json")
    assert ended.code == 0
    (warning,) = json.loads(ended.out)["warnings"]
    assert warning["type"] == "SubgraphkitWarning"
    assert "[SGK113]" in warning["message"]
    assert "warning: [SGK113]" in ended.err


def test_nodes_are_pinned_and_kept_off_by_words(cli: Cli, diamond: Path) -> None:
    with registered(claiming(["Relu", "Neg", "Abs", "Add"])):
        words = (diamond, "--backend", "fake,numpy")
        assert {one["backend"] for one in _plan(cli, *words)["subgraphs"]} == {"fake"}
        data = _plan(cli, *words, "--pin", "left=numpy", "--keep-off", "#0=fake")
        homes = {node: one["backend"] for one in data["subgraphs"] for node in one["nodes"]}
        assert [node for node, home in sorted(homes.items()) if home == "numpy"] == [0, 1]
        ended = cli("plan", *words, "--pin", "nowhere=numpy")
    assert ended.code == 2
    assert "[SGK123]" in ended.err


def test_a_folder_with_the_models_data_is_trusted_on_the_command_line(
    cli: Cli, tmp_path: Path
) -> None:
    proto = parsed("g (float[1500] x) => (float[1500] y) { y = Add(x, w) }")
    weight = np.zeros(1500, np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin")
    (tmp_path / "store").mkdir()
    (tmp_path / "model" / "w.bin").rename(tmp_path / "store" / "w.bin")
    (tmp_path / "model" / "w.bin").symlink_to("../store/w.bin")
    refused = cli("plan", str(path), "--backend", "numpy")
    assert "--data-root" in refused.err
    assert cli("plan", str(path), "--backend", "numpy", "--data-root", "store").code == 0


def test_a_page_is_written_and_says_what_moved(cli: Cli, diamond: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    words = ("--backend", "numpy", "--html", page, "--against", "none")
    data = _plan(cli, diamond, *words)
    assert data["moves"] == []
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    ended = cli("plan", diamond, *words)
    assert "nothing moved" in ended.out
    assert f"page: {page}" in ended.err


def test_what_moved_is_a_table_in_the_terminal(cli: Cli, diamond: Path) -> None:
    with registered(claiming(["Add"], "chosen")):
        ended = cli("plan", diamond, "--backend", "chosen,numpy", "--against", "numpy")
    assert ended.code == 0, ended.err
    line = next(one for one in ended.out.splitlines() if one.split()[:2] == ["numpy", "chosen"])
    assert line.split()[2] == "1"


def test_a_plan_file_is_compared_with_and_pins_are_not_its(
    cli: Cli, diamond: Path, tmp_path: Path
) -> None:
    plan = {"format": 1, "backends": {"numpy": {}}, "nodes": {}, "circumstances": {}, "figures": {}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    page = tmp_path / "plan.html"
    with registered(claiming(["Neg"], "taker")):
        words = ("--backend", "taker,numpy", "--pin", "Neg=taker", "--html", page)
        data = _plan(cli, diamond, *words, "--against", f"@{tmp_path / 'plan.json'}")
    (move,) = data["moves"]
    assert (move["source"], move["target"], len(move["nodes"])) == ("numpy", "taker", 1)
    assert "What moved" in page.read_text(encoding="utf-8")


def test_model_explorer_gets_the_backend_of_every_node(
    cli: Cli, diamond: Path, tmp_path: Path
) -> None:
    file = tmp_path / "nodes.json"
    cli("plan", diamond, "--backend", "numpy", "--model-explorer", file)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert set(found) == {"name", "results"}
    # two nodes are called 'right', so both go by what they make
    assert {"first", "left", "right"} & set(found["results"]) == {"first", "left"}
    assert len(found["results"]) == 4
    assert {one["value"] for one in found["results"].values()} == {"numpy"}


def test_model_explorer_reads_what_is_written_for_it(
    cli: Cli, diamond: Path, tmp_path: Path
) -> None:
    builder = pytest.importorskip("model_explorer.node_data_builder")
    file = tmp_path / "nodes.json"
    cli("plan", diamond, "--backend", "numpy", "--model-explorer", file)
    found = json.loads(file.read_text(encoding="utf-8"))
    results = {key: builder.NodeDataResult(**one) for key, one in found["results"].items()}
    graph = builder.GraphNodeData(results=results, name=found["name"])
    assert json.loads(graph.to_json_string())["results"] == found["results"]


def test_memory_is_told_by_part_and_too_little_of_it_is_an_error(
    cli: Cli, diamond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = sk.partition(sk.bind(sk.load(diamond), backend="numpy")).memory()
    data = _plan(cli, diamond, "--backend", "numpy", "--memory")
    assert data["memory"] == json.loads(json.dumps(told.to_dict()))
    shown = cli("plan", diamond, "--backend", "numpy", "--memory")
    assert shown.code == 0
    assert str(told) in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[-3:]] == [
        "graph,",
        "library",
        "numpy_0",
    ]
    monkeypatch.setenv("SUBGRAPH_MAX_MEMORY", "1KiB")
    refused = cli("plan", diamond, "--backend", "numpy", "--memory")
    assert refused.code == 2
    assert str(told) in shown.out
    assert "SGK134" in refused.err
