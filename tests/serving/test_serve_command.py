"""``deploy serve`` starts an engine for this machine alone, and ends it whatever happens."""

from types import SimpleNamespace
from typing import Any

import pytest

import subgraphkit as sk
from subgraphkit.cli import main
from subgraphkit.cli.commands import serve as command

WORDS = ["--backend", "numpy", "--port", "18439"]


class Engine:
    """Stands for Ray and Ray Serve, and notes what it is asked to do."""

    SERVICE = "service"

    def __init__(self, problem=""):
        self.done: list[str] = []
        self.draining: list[bool] = []
        self.http: dict[str, Any] = {}
        self.grpc: Any = None
        self.specs: dict[str, Any] = {}
        self._problem = problem

    def init(self, **_):
        self.done.append("init")
        if self._problem == "init":
            raise Exception("The current node timed out\nduring startup")  # noqa: TRY002 (Ray's)

    def is_initialized(self):
        return True

    def start(self, http_options, grpc_options):
        self.http, self.grpc = http_options, grpc_options

    def deployment(self, specs, draining, **_):
        self.specs = specs
        self.draining.append(draining)
        return SimpleNamespace(options=lambda **_: SimpleNamespace(bind=lambda: None))

    def run(self, _, name):
        self.done.append(name)
        if self._problem:
            raise RuntimeError("deploying failed")

    def status(self):
        one = SimpleNamespace(deployments={"models": SimpleNamespace(message=self._problem)})
        return SimpleNamespace(applications={"subgraphkit": one})

    def shutdown(self):
        self.done.append("shutdown")


@pytest.fixture
def served(monkeypatch, models):
    """Carry out the command; Ctrl-C comes as soon as it waits."""

    def interrupt():
        raise KeyboardInterrupt

    def call(engine, *words):
        monkeypatch.setattr(command, "import_module", lambda _: engine)
        monkeypatch.setattr(command, "find_spec", lambda _: engine)
        monkeypatch.setattr(command.signal, "signal", lambda *_: None)
        monkeypatch.setattr(command, "_wait", interrupt)
        model = f"one={models / 'negation.onnx'}"
        return main(["deploy", "serve", model, *WORDS, *words]), engine

    return call


def test_it_listens_to_this_machine_unless_told_and_ends_with_ctrl_c(served, capsys):
    code, engine = served(Engine())
    assert code == 0
    assert engine.http == {"host": "127.0.0.1", "port": 18439}
    assert list(engine.specs) == ["one"]
    assert engine.done == ["init", "subgraphkit", "subgraphkit", "shutdown", "shutdown"]
    assert engine.draining == [False, True]
    assert "POST to http://127.0.0.1:18439/v2/models/one/infer" in capsys.readouterr().err
    assert engine.grpc is None
    assert served(Engine(), "--host", "0.0.0.0")[1].http["host"] == "0.0.0.0"
    wide = served(Engine(), "--host", "0.0.0.0", "--grpc-port", "9")[1]
    assert wide.grpc == {"port": 9, "grpc_servicer_functions": ["service"]}


def test_what_the_engine_cannot_start_has_a_code_and_is_ended(served, capsys):
    problem = "subgraphkit.errors.BundleError: [SGK194] another model"
    code, engine = served(Engine(f"Error:\n  Traceback:\n  RuntimeError: \n    {problem}\n"))
    assert code == 2
    assert engine.done[-2:] == ["shutdown", "shutdown"]
    said = capsys.readouterr().err
    assert "[SGK341] Ray Serve could not start the models: [SGK194] another model\n" in said


def test_an_engine_that_does_not_start_has_a_code_as_well(served, capsys):
    code, engine = served(Engine("init"))
    assert (code, engine.done[0], engine.done[-1]) == (2, "init", "shutdown")
    said = capsys.readouterr().err
    assert "[SGK341] Ray could not start: The current node timed out\n" in said
    assert "logs are in the temporary folder" in " ".join(said.split())


def test_what_this_machine_cannot_do_is_said_before_anything_starts(served, capsys):
    for words, problem in (
        (["--replicas", "10000"], "10000 processors"),
        (["--host", "256.0.0.1"], "cannot be listened at"),
        (["--grpc-port", "9000"], "listens for gRPC at every address"),
        (["--repository", ".", "--replicas", "2"], "in one replica, not in 2"),
        (["--port", "70000"], "expected a whole number, 1 to 65535, got '70000'"),
    ):
        code, engine = served(Engine(), *words)
        assert (code, engine.done) == (2, [])
        assert problem in " ".join(capsys.readouterr().err.split())


def test_backends_are_those_of_models_that_are_no_specs(served, models, tmp_path, capsys):
    (tmp_path / "two.json").write_text(
        sk.SessionSpec.of(models / "doubling.onnx", "numpy,onnxruntime?").to_json()
    )
    engine = served(Engine())[1]
    assert (
        main(["deploy", "serve", str(tmp_path / "two.json"), str(models / "eight.onnx"), *WORDS])
        == 0
    )
    assert engine.specs["eight"].backend == "numpy"
    assert engine.specs["two"].backend == "numpy,onnxruntime?"
    assert main(["deploy", "serve", str(tmp_path / "two.json"), *WORDS]) == 2
    assert "says backends already" in capsys.readouterr().err


def test_models_have_names_that_fit_into_a_path_and_one_each(served, capsys):
    served(Engine())
    for words, problem in (
        (["a/b=model.onnx"], "without '/' in the name, got 'a/b=model.onnx'"),
        (["=model.onnx"], "expected SPEC or NAME=SPEC"),
        (["one.onnx", "one=other.onnx"], "[NAME=]SPEC gives 'one' twice"),
        (["nothing.onnx"], "[SGK201]"),
    ):
        assert main(["deploy", "serve", *words, "--port", "18439"]) in {2, 4}
        assert problem in " ".join(capsys.readouterr().err.split())
