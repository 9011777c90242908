"""Every command, with hostile names and in narrow terminals."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from subgraphkit import texts
from subgraphkit.cli import main
from subgraphkit.cli.commands import PURPOSES, command_of
from subgraphkit.cli.reporting import ExitCode
from subgraphkit.finding.registry import refresh_backends
from tests.models import parsed
from tests.unit.cli.conftest import ROOT

pytestmark = pytest.mark.usefixtures("ready_children")

EVIL = "\x1b]0;PWNED\x07\x1b[2J\x08\r\nFORGED\u202eesrever\u2066\x9b2J\x85\u2028\x7f"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069]")

BACKEND = f"""
from subgraphkit.backend import (
    Backend, ProbeResult, Refusal, SubgraphProperty, SubgraphSelector
)
EVIL = {EVIL!r}

class Selector(SubgraphSelector):
    def select(self, node):
        return True if node.op_type == "Abs" else Refusal("op_unsupported", EVIL)

class Property(SubgraphProperty):
    name = "main"
    def create_selector(self, graph):
        return Selector()
    def create_operator(self, subgraph, context):
        print(EVIL.replace("\\n", ""))
        logger_of("evil").warning("%s", EVIL)
        raise RuntimeError(EVIL)

class Plugin(Backend):
    name = "evil"
    def properties(self):
        return [Property()]
    @classmethod
    def probe(cls, deep=False):
        print(EVIL.replace("\\n", ""))
        return ProbeResult(True, devices=[EVIL], versions={{EVIL: EVIL}})
"""
RAISING = f"raise RuntimeError({EVIL!r})"
EXTENSION = f"""
import warnings
import subgraphkit as sk
from subgraphkit.backend import Check
EVIL = {EVIL!r}

@sk.hookimpl
def subgraphkit_cli(subparsers):
    line = EVIL.replace("\\n", "")  # the lines of its help are its own
    parser = subparsers.add_parser("greet", help=EVIL, description=line)
    parser.add_argument("name", help=EVIL, metavar=line)
    parser.set_defaults(handler=fail)

def fail(arguments):
    warnings.warn(sk.errors.SubgraphkitWarning(EVIL))
    raise ValueError(EVIL)

@sk.hookimpl
def subgraphkit_doctor():
    return [Check(EVIL, "failure", EVIL, EVIL)]
"""


def _model(*nodes, data=""):
    """Return a model with hostile names all over: values, nodes, dimensions, the graph."""
    value = helper.make_tensor_value_info
    made = nodes or (
        helper.make_node("Relu", [f"x{EVIL}"], [f"a{EVIL}"], name=f"relu{EVIL}"),
        helper.make_node("Abs", [f"a{EVIL}"], [f"b{EVIL}"], name=f"abs{EVIL}"),
        helper.make_node("Add", [f"b{EVIL}", f"w{EVIL}"], [f"y{EVIL}"], name=f"add{EVIL}"),
    )
    weight = helper.make_tensor(f"w{EVIL}", 1, [1], [1.0])
    if data:
        weight.ClearField("float_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=data)
    graph = helper.make_graph(
        made,
        f"graph{EVIL}",
        [value(f"x{EVIL}", 1, [f"N{EVIL}", 2])],
        [value(f"y{EVIL}", 1, [f"N{EVIL}", 2])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    model.producer_name = model.doc_string = EVIL
    return model


@pytest.fixture
def surroundings(tmp_path, install, monkeypatch):
    """Fill the folder with models, and the path of Python with plugins."""
    install("evil", BACKEND)
    install("raising", RAISING)
    install("greeter", EXTENSION, group="subgraphkit.plugins")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), str(ROOT)]))
    refresh_backends()
    onnx.save(_model(), "m.onnx")
    onnx.save(_model(), f"file{EVIL}.onnx".replace("/", ""))
    onnx.save(_model(helper.make_node(f"Op{EVIL}", [f"x{EVIL}"], [f"y{EVIL}"])), "operator.onnx")
    onnx.save(_model(helper.make_node("Relu", [f"q{EVIL}"], [f"y{EVIL}"])), "nobody.onnx")
    onnx.save(_model(data=f"../{EVIL}"), "outside.onnx")
    onnx.save(_model(data=EVIL), "missing.onnx")
    batch: dict[str, Any] = {f"x{EVIL}": np.ones((2, 2), np.float32)}
    np.savez("batch.npz", **batch)
    Path("subgraphkit.toml").write_text("backend = " + json.dumps(EVIL).replace("\\u007f", "?"))
    Path("bad.toml").write_text(EVIL.replace("\x85", "")[:-1], encoding="utf-8", newline="")
    yield
    refresh_backends()


FILE = f"file{EVIL}.onnx"
LONG = "a" * 300
INT8 = ("convert", "m.onnx", "--precision", "int8", "-o", "small.onnx")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("greet", "--help"),
    ("greet", "a"),
    ("run", "m.onnx"),
    ("run", FILE, "--debug"),
    ("run", "m.onnx", "--backend", "evil,numpy"),
    ("run", "m.onnx", "--backend", EVIL),
    ("run", "m.onnx", "--backend", "raising"),
    ("run", "m.onnx", "--input", f"{EVIL}={EVIL}"),
    ("run", "m.onnx", "--pin", f"{EVIL}=numpy"),
    ("run", "m.onnx", "-o", f"{EVIL}/x"),
    ("run", EVIL),
    ("run", "m.onnx", "--backend", "numpy", "--json", "--output", LONG),
    ("plan",),
    ("run", "bundle"),
    ("plan", "m.onnx", "--backend", "evil,numpy", "--details"),
    ("plan", "m.onnx", "--backend", "evil,numpy", "--min-coverage", "evil=0.9"),
    ("plan", "m.onnx", "--explain", EVIL),
    ("plan", "m.onnx", "--backend", "numpy", "--memory"),
    ("plan", "m.onnx", "--backend", "evil,numpy", "--against", "numpy", "--html", "plan.html"),
    ("profile", "m.onnx", "--backend", "numpy", "--runs", "2"),
    ("verify", "m.onnx", "--backend", "numpy", "--bisect"),
    ("verify", "m.onnx", "--backend", "numpy", "--nan"),
    ("build", "m.onnx", "--backend", "numpy", "--bundle", "bundle"),
    ("build", "m.onnx", "--backend", "evil,numpy"),
    ("verify", "m.onnx", "--backend", "numpy", "--per-subgraph"),
    ("profile", "m.onnx", "--backend", "numpy", "--runs", "1", "--chrome", EVIL, "--html", EVIL),
    ("tune", "m.onnx", "--backend", "numpy", "--seconds", "0.1"),
    (*INT8, "--calibrate", "batch.npz"),
    ("convert", "m.onnx", "--precision", "fp16", "-o", "half.onnx", "--report", "--values"),
    ("convert", "m.onnx", "--precision", "fp16", "--keep", f"no{EVIL}", "-o", "half.onnx"),
    ("deploy", "serve", f"{EVIL}=m.onnx", "--host", EVIL),
    ("deploy", "spec", "m.onnx", "--backend", "evil,numpy"),
    ("deploy", "spec", EVIL, "--check"),
    ("deploy", "export-triton", "m.onnx", "models", "--backend", "evil,numpy", "--name", "m"),
    ("deploy", "probe", "http://127.0.0.1:9", EVIL),
    ("list",),
    ("list", "bundle"),
    ("list", EVIL),
    ("doctor", "--settings"),
    ("deploy", "cache", "ls"),
    ("deploy", "cache", EVIL),
    ("author", "new-backend", EVIL),
    ("author", "manifest", "check", EVIL),
    ("author", "test", "numpy", "--only", EVIL),
    (EVIL,),
)


SLOW = {"bench", "author test"}
"""Commands that start processes: what they print is what others print, too."""


def test_every_command_is_tried():
    assert {command_of([*words]) for words in COMMANDS} >= set(PURPOSES) - SLOW


def _check(text, words):
    assert OBEYED.findall(text) == [], words
    assert not [line for line in text.splitlines() if line.startswith("FORGED")], (words, text)


@pytest.mark.usefixtures("surroundings")
@pytest.mark.filterwarnings("ignore")
def test_nothing_that_is_written_is_obeyed(capfd, monkeypatch):
    for words in sorted(COMMANDS, key=lambda words: words[0] != "build"):
        code = main(words)
        told = capfd.readouterr()
        _check(told.out + told.err, words)
        assert (code == ExitCode.BUG) == (words == ("greet", "a")), words
    monkeypatch.setenv("SUBGRAPH_BACKEND", EVIL)
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", f"/{EVIL}")
    monkeypatch.setenv(f"SUBGRAPH_{EVIL}", EVIL)
    for words in (("doctor", "--settings"), ("run", "m.onnx"), ("deploy", "cache", "ls")):
        for config in ("none", "subgraphkit.toml", "bad.toml", EVIL, LONG, 40 * LONG):
            monkeypatch.setenv("SUBGRAPH_CONFIG", config)
            assert main(words) != ExitCode.BUG
            told = capfd.readouterr()
            _check(told.out + told.err, words)


PLAIN = {"author manifest", "author new-backend", "profile"}
PLAIN |= {"deploy serve", "deploy spec", "deploy export-triton", "deploy probe"}
"""Commands that print no table."""

BACKENDS = ("iree", "numpy", "onednn", "onnxruntime", "openvino", "tensorrt", "tvm")
TABLES = (
    "run m.onnx --backend numpy",
    "plan m.onnx --backend onednn?,numpy --details",
    "plan m.onnx --backend numpy --memory",
    "plan m.onnx --backend numpy --against onednn,numpy",
    "build m.onnx --backend numpy",
    "build m.onnx --backend numpy --bundle bundle",
    "verify m.onnx --backend numpy --per-subgraph",
    "tune m.onnx --backend numpy --seconds 0.1",
    "convert m.onnx --precision fp16 --report --values -o half.onnx",
    "list --all",
    "list bundle",
    *(f"list {name}" for name in BACKENDS),
    "doctor --settings",
    "deploy cache ls",
    "deploy cache verify",
)
NAMES = (
    "/model/encoder/layer.0/attention/self/query",
    "図形/畳み込み層/出力値/正規化層の出力",
    "e\u0301" * 40,
)


def _model_of_long_names():
    first, second, third = NAMES
    model = parsed(
        "g (float[N, 4] x) => (float[N, 4] y) { a = Relu(x)\n b = Abs(a)\n y = Mul(a, b) }"
    )
    for node, name in zip(model.graph.node, NAMES, strict=True):
        node.name = name
    renamed = {"a": first, "b": second, "y": third, "x": f"input/{first}"}
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed[name] for name in names]
    model.graph.input[0].name, model.graph.output[0].name = renamed["x"], third
    return model


@pytest.fixture
def narrow(monkeypatch, tmp_path):
    """Have a terminal of 80 columns, and a model with long names."""
    monkeypatch.setattr(texts.Screen, "width", 80)
    onnx.save(_model_of_long_names(), "m.onnx")
    np.savez("batch.npz", x=np.ones(3))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))


def _check_lines(text, command):
    """What does not fit is one word, or a command to be copied."""
    for line in text.splitlines():
        is_whole = len(line.split()) == 1 or line.lstrip().startswith(("pip ", "subgraphkit "))
        assert texts.width_of(line) <= 80 or is_whole, (command, line)


def test_every_command_that_prints_a_table_is_tried():
    assert {command_of(words.split()) for words in TABLES} == set(PURPOSES) - PLAIN - SLOW


@pytest.mark.usefixtures("narrow")
def test_no_command_writes_beyond_the_terminal(cli):
    for command in TABLES:
        ended = cli(*command.split())
        assert ended.code in {0, 1}, ended.err
        _check_lines(ended.out + ended.err, command)
