"""What commands say, word for word: each transcript in ``tests/golden/transcripts`` is a shell's.

A line that begins with ``$`` is a command, one with ``!`` is from standard error, and the exit code
stands in brackets where it is not 0. Times are written ``0 ms``.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest

from subgraphkit.finding.registry import registered
from tests.fakes import claiming
from tests.golden_support import GoldenCheck
from tests.models import DIAMOND, LINEAR, parsed
from tests.unit.cli.conftest import Cli
from tests.unit.cli.test_bad_input import BAD_MODELS

STRINGS = "g (string[2] s) => (string[2] t) { t = Identity(s) }"
FOREIGN = "g (float[2] x) => (float[2] y) { y = com.acme.Twist(x) }"
HEAD = 'name = "acme"\napi = "1.0"\n'
OPTIONS = f"""{HEAD}[options.count]
type = "int"
default = 3
"""
WORDS = """
pln model.onnx
plan model.onnx --reason

author
author tst
cache
run
run m.onnx --seed x
run m.onnx --shape x
run m.onnx --shape x=1,b
run m.onnx --symbol batch=many
run m.onnx --option threads=2
run m.onnx --input x
doctor --timeout -1
list numpy iree
list nunpy
verify m.onnx --rtol -1
verify m.onnx --atol nan
bench m.onnx --repeat 0
bench m.onnx --warmup -1
bench m.onnx --threads many
convert m.onnx --precision fp16 -o o.onnx --max-reduction 0
deploy cache ls --size 1
deploy cache prune --older-than -1
deploy cache prune --size much
"""
PLANS = """
plan diamond.onnx --backend numpy --explain 1
plan diamond.onnx --backend numpy --explain #1
plan diamond.onnx --backend numpy --explain left
plan diamond.onnx --backend numpy --explain right
plan diamond.onnx --explain rigth
plan diamond.onnx --explain 4
plan diamond.onnx --backend taker --dot
plan diamond.onnx --backend taker --strict
plan diamond.onnx --backend taker --min-coverage taker
plan diamond.onnx --backend taker,numpy --pin nowhere=numpy
plan linear.onnx --shape x=4,5
plan foreign.onnx --backend numpy
plan missing.onnx --html no/plan.html
"""
RUNS = """
run linear.onnx --backend numpy --input x=x.npy
run linear.onnx --backend numpy --input x=column.npy -o y.npz
run linear.onnx -o missing/y.npz
run linear.onnx -o .
run linear.onnx --symbol=N=1 --symbol=N=2
run linear.onnx --backend numpy --input x=double.npy
run linear.onnx --backend numpy --input x=rank.npy
run linear.onnx --backend numpy --input x=wide.npy
run linear.onnx --backend numpy --input X=x.npy
run linear.onnx --backend nunpy
run linear.onnx --option numpy.max_loop_iteration=3
run strings.onnx
run missing.onnx
verify missing.onnx
bench missing.onnx
bench linear.onnx --backends numpy;openvino
"""
MANIFESTS = """
author manifest check acme
author manifest write acme
author manifest check acme
author manifest write plain
author manifest write theirs
author manifest check bad
author manifest write bad
author manifest write nowhere
"""
SESSIONS = {
    "words": WORDS,
    "plans": PLANS,
    "runs": RUNS,
    "models": "\n".join(["", *(f"plan {name}.onnx" for name in BAD_MODELS), ""]).replace("'", ""),
    "manifests": MANIFESTS,
}
VARYING = {
    r"\d+\.\d+ ms": "0 ms",
    "(Installed: +).*": r"\1...",
    r"onnx [\d.]+ has versions .*": "onnx has others",
}
"""What depends on the machine and on what is installed, and what is written instead."""


@pytest.fixture
def taker() -> Iterator[None]:
    """Have a backend that takes two operators of four."""
    with ExitStack() as stack:
        stack.enter_context(registered(claiming(["Neg", "Abs"], "taker")))
        yield


def _prepare() -> None:
    diamond = parsed(DIAMOND)
    for node, name in zip(diamond.graph.node, ("first", "left", "right", "right"), strict=True):
        node.name = name
    onnx.save(diamond, "diamond.onnx")
    onnx.save(parsed(LINEAR), "linear.onnx")
    onnx.save(parsed(STRINGS), "strings.onnx")
    onnx.save(parsed(FOREIGN, header='"" : 18, "com.acme" : 1'), "foreign.onnx")
    for name, (make, _, _) in BAD_MODELS.items():
        Path(f"{name}.onnx".replace("'", "")).write_bytes(make())
    x = np.float32([[1, 0, 0], [0, 1, 0]])
    arrays = {"x": x, "double": x.astype(float), "rank": x[0], "wide": np.ones((2, 4), "f4")}
    for name, array in {**arrays, "column": np.asfortranarray(x)}.items():
        np.save(f"{name}.npy", array)
    Path("bad.npy").write_bytes(b"not an array")
    manifests = {"acme": OPTIONS, "plain": HEAD, "theirs": OPTIONS, "bad": HEAD[:14]}
    for name, text in manifests.items():
        Path(name).mkdir()
        Path(name, "subgraphkit-backend.toml").write_text(text)
    Path("theirs", "backend_options.py").write_text("MINE = 1\n")


@pytest.mark.usefixtures("taker")
@pytest.mark.parametrize("name", SESSIONS)
def test_what_commands_say_is_as_it_was_read(cli: Cli, golden: GoldenCheck, name: str) -> None:
    _prepare()
    lines = []
    for command in SESSIONS[name].split("\n")[1:-1]:
        words = command.split(" ", 1) if name == "models" else command.split()
        ended = cli(*words)
        lines += ["", f"$ subgraphkit {command}".rstrip(), *ended.out.splitlines()]
        lines += [f"! {line}".rstrip() for line in ended.err.splitlines()]
        lines += [f"[{ended.code}]"] if ended.code else []
        assert "Traceback" not in ended.err
    text = "\n".join(lines[1:]).replace(str(Path.cwd()), ".")
    for varying, fixed in VARYING.items():
        text = re.sub(varying, fixed, text)
    golden(f"transcripts/{name}", text)
