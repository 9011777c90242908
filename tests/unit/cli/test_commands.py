"""Commands of the road, one by one."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.finding.registry import registered
from tests.models import DIAMOND, LINEAR, parsed
from tests.storing import storing

WORDS = ("linear.onnx", "--symbol", "N=3")


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    """Put a model into the folder of the test, and the cache beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    Path("linear.onnx").write_bytes(parsed(LINEAR).SerializeToString())


class Bare(sk.SubgraphOperator):
    """An operator with an engine of its own kind."""

    def run(self, inputs, outputs=None):
        raise NotImplementedError

    def bare_engine(self):
        return b"engine"


@pytest.fixture
def backend():
    """Register a backend that stores engines."""
    with registered(storing(name="stores")) as made:
        yield made


def data_of(cli, *words):
    ended = cli(*words, "--json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["schema"] == f"subgraphkit.{words[0]}/1"
    return document["data"]


def test_what_is_built_is_found_by_the_next_bind(cli, backend):
    (row,) = data_of(cli, "build", *WORDS, "--backend", "stores")["subgraphs"]
    assert (row["backend"], row["nodes"], row["engine"]) == ("stores", 2, "built")
    assert backend.compilations == 1
    graph = sk.bind(sk.load("linear.onnx"), {"N": 3}, backend="stores")
    assert sk.compile_subgraphs(sk.partition(graph)).restored == {row["subgraph"]}
    assert backend.compilations == 1


def test_the_engine_itself_can_be_written(cli, backend, monkeypatch):
    monkeypatch.setenv("SUBGRAPH_CACHE", "off")
    monkeypatch.setattr("tests.storing.compiled", lambda *_: Bare())
    data = data_of(cli, "build", *WORDS, "--backend", "stores", "--engine", "model.engine")
    assert data["engine_file"] == "model.engine"
    assert Path("model.engine").read_bytes() == b"engine"


BUNDLED = (*WORDS, "--backend", "numpy")


def test_what_build_writes_is_opened_by_run_and_in_python(cli):
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


def test_a_name_that_is_a_backend_is_one_even_beside_a_folder_called_like_it(cli):
    cli("build", *BUNDLED, "--bundle", "numpy")
    assert "backends" in data_of(cli, "list", "numpy")


@pytest.fixture
def diamond(tmp_path):
    path = tmp_path / "diamond.onnx"
    model = parsed(DIAMOND)
    for node, name in zip(model.graph.node, ("first", "left", "right", "right"), strict=True):
        node.name = name
    onnx.save(model, path)
    return path


def test_a_folder_with_the_models_data_is_trusted_on_the_command_line(cli, tmp_path):
    weight = np.zeros(1500, np.float32)
    proto = parsed("g (float[1500] x) => (float[1500] y) { y = Add(x, w) }", w=weight)
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin")
    (tmp_path / "store").mkdir()
    (tmp_path / "model" / "w.bin").rename(tmp_path / "store" / "w.bin")
    (tmp_path / "model" / "w.bin").symlink_to("../store/w.bin")
    refused = cli("plan", str(path), "--backend", "numpy")
    assert "--data-root" in refused.err
    assert cli("plan", str(path), "--backend", "numpy", "--data-root", "store").code == 0


def test_memory_is_told_by_part_and_too_little_of_it_is_an_error(cli, diamond, monkeypatch):
    told = sk.partition(sk.bind(sk.load(diamond), backend="numpy")).memory()
    data = data_of(cli, "plan", diamond, "--backend", "numpy", "--memory")
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


WINDOWS = """
g (float[?, 1, ?, ?] x) => (y) {
    w = ConstantOfShape <value = float[1] {1}> (shape)
    a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
    b = MaxPool <kernel_shape = [2, 2], strides = [4, 4]> (a)
    y = GlobalAveragePool(b)
}
"""


def test_sizes_that_nobody_gave_leave_windows_something_to_slide_over(cli):
    proto = parsed(WINDOWS.replace("[?", "[A").replace("?", "A"), shape=[1, 1, 3, 3])
    for dim in (proto.graph.input[0].type.tensor_type.shape.dim[at] for at in (0, 2, 3)):
        dim.ClearField("dim_param")
    onnx.save(proto, "windows.onnx")
    ended = cli("run", "windows.onnx", "--backend", "numpy")
    assert ended.code == 0
    assert "taken to be 1: x[0]; taken to be 8: x[2], x[3]" in ended.err
    assert "taken to be 1: x[0] (" in cli("run", "windows.onnx", "--shape", "x=?,1,9,8").err
    given = ("--symbol", "x[0]=2", "--symbol", "x[2]=9", "--symbol", "x[3]=8")
    assert "taken" not in cli("run", "windows.onnx", *given).err


PRINTS = """
import os
import subgraphkit as sk

print("printed at import")

class Property(sk.SubgraphProperty):
    def create_selector(self, graph):
        os.write(1, b"written to the descriptor")
        return sk.OpSelector(graph, ["MatMul"])

    def create_operator(self, subgraph, context):
        if os.environ.get("FAIL"):
            raise RuntimeError("out of luck")
        return context.compile(subgraph)

class Plugin(sk.Backend):
    name = "loud"
    def properties(self):
        return [Property()]
"""


def test_a_backend_that_fails_to_compile_is_a_failure(new_process, install, linear):
    install("loud", PRINTS)
    ended = new_process("run", linear, "--backend", "loud", FAIL="1")
    assert (ended.code, ended.out) == (6, "")
    assert "[SGK130]" in ended.err
    assert "Traceback" not in ended.err
    shown = new_process("run", linear, "--backend", "loud", "--debug", FAIL="1")
    assert "RuntimeError: out of luck" in shown.err
    assert "Traceback" in shown.err


def test_a_spec_is_written_that_opens_the_session_that_the_words_describe(cli):
    Path("models").mkdir()
    onnx.save(parsed(LINEAR), "models/m.onnx")
    words = ("--backend", "numpy", "--symbol", "N=3", "--set", "threads=2", "--warm-up")
    ended = cli("deploy", "spec", "models/m.onnx", *words, "--root", "models", "-o", "spec.json")
    assert ended.code == 0, ended.err
    spec = sk.SessionSpec.from_json(Path("spec.json").read_text())
    expected = sk.SessionSpec.of(
        "models/m.onnx", "numpy", {"N": 3}, threads=2, warm_up=True, root="models"
    )
    assert (spec, spec.source) == (expected, "m.onnx")
    checked = cli("deploy", "spec", "spec.json", "--check", "--root", "models")
    assert (checked.code, checked.out.splitlines()[0]) == (
        0,
        "InferenceSession('m.onnx', 2 nodes in 1 subgraph: numpy 1)",
    )
    assert spec.digest[:12] in checked.err
    shown = cli("deploy", "spec", "models/m.onnx", *words, "--root", "models")
    assert sk.SessionSpec.from_json(shown.out) == expected
    told = json.loads(cli("deploy", "spec", "models/m.onnx", "--json").out)
    assert told["data"]["spec"]["source"] == "models/m.onnx"


def test_a_plan_is_measured_once_written_and_followed(cli, linear, tmp_path, monkeypatch):
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


MANIFEST = """
name = "acme"
api = "1.0"
[options.names]
type = "list"
default = ["n"]
"""


@pytest.fixture
def package(cli):
    """Return a package with the options written."""
    folder = Path("acme")
    folder.mkdir()
    (folder / "subgraphkit-backend.toml").write_text(MANIFEST, encoding="utf-8")
    assert cli("author", "manifest", "write", folder).code == 0
    return folder


def test_what_is_written_is_current_until_the_manifest_changes(cli, package):
    assert cli("author", "manifest", "check", package).out.endswith("current\n")
    changed = MANIFEST.replace('["n"]', '["m"]')
    for manifest in (changed, MANIFEST[: MANIFEST.index("[options")]):
        (package / "subgraphkit-backend.toml").write_text(manifest, encoding="utf-8")
        ended = cli("author", "manifest", "check", package)
        assert (ended.code, ended.out.split()[-1]) == (1, "outdated")
        assert cli("author", "manifest", "write", package).code == 0
        assert cli("author", "manifest", "check", package).code == 0


def test_another_formatting_is_no_other_meaning(cli, package):
    path = package / "backend_options.py"
    text = path.read_text(encoding="utf-8")
    other = text.replace('names: tuple[str, ...] = ("n",)', "names: tuple[str, ...] = (\n'n',)")
    assert other != text
    path.write_text(other, encoding="utf-8")
    assert cli("author", "manifest", "check", package).code == 0
    path.write_text(f"{text}(", encoding="utf-8")
    assert cli("author", "manifest", "check", package).code == 1
