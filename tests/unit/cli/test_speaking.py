"""The command names its flags, tries what it will write before it works, and says things once."""

import os
from pathlib import Path

import onnx
import pytest

from subgraphkit.cli.reporting import in_flags

WRITERS = (
    "plan m.onnx --html closed/p.html",
    "tune m.onnx -o closed/plan.json",
    "tune m.onnx --html closed/p.html",
    "profile m.onnx --html closed/p.html",
    "profile m.onnx --chrome closed/t.json",
    "bench m.onnx --html closed/p.html",
    "verify m.onnx --html closed/p.html",
    "run m.onnx -o closed/y.npz",
    "run closed/m.onnx --example",
    "build m.onnx --engine closed/e",
    "convert m.onnx --precision fp16 -o closed/half.onnx",
    "deploy spec m.onnx -o closed/spec.json",
)


@pytest.mark.parametrize("line", WRITERS)
def test_what_cannot_be_written_is_refused_before_any_work(cli, line, monkeypatch):
    Path("closed").mkdir()
    monkeypatch.setattr(os, "access", lambda place, mode: str(place) != "closed")
    ended = cli(*line.split())  # there is no m.onnx: the place is looked at first
    assert (ended.code, ended.out) == (2, "")
    assert "[SGK301]" in ended.err
    assert "you have no permission to write there" in ended.err


@pytest.mark.parametrize(("said", "here"), [
    ("named by argument backend='openvno'", "named by --backend openvno"),
    ("argument backends='tvn'", "--backend tvn"),
    ("argument options={'numpy': {'treads': '2'}}", "--option numpy.treads=2"),
    ("shapes names 'y', but", "--shape or --symbol names 'y', but"),
    ("a constraint names 'Foo'", "--pin or --keep-off names 'Foo'"),
    ('on_fallback="ok" accepts it', "SUBGRAPH_ON_FALLBACK=ok accepts it"),
    ("Leave strict=True out", "Leave SUBGRAPH_STRICT=true out"),
    ('Give shapes={"batch": 1} (--symbol batch=1); x', "Give --symbol batch=1; x"),
    ("limits={'max_value_bytes': 9}, and 0", "SUBGRAPH_LIMITS=max_value_bytes=9, and 0"),
    ("pads=[1, 1] and kind='x'", "pads=[1, 1] and kind='x'"),
])  # fmt: skip
def test_arguments_of_python_are_flags_or_variables_here(said, here):
    assert in_flags(said) == here


def test_an_example_is_written_and_run_and_never_written_over(cli):
    ended = cli("run", "m.onnx", "--example", "--backend", "numpy")
    assert ended.code == 0, ended.err
    assert len(onnx.load("m.onnx").graph.node) > 60
    again = cli("run", "m.onnx", "--example")
    assert (again.code, again.out) == (2, "")
    assert "is there already" in again.err
