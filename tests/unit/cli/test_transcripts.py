"""What commands say, word for word: each transcript in ``tests/golden/transcripts`` is a shell's.

A line that begins with ``$`` is a command, one with ``!`` is from standard error, and the exit code
stands in brackets where it is not 0. The commands are read out of the files: to try another, write
its line and have the answer written by ``--update-golden``.
"""

import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.errors import BackendUnavailableError
from subgraphkit.finding.registry import registered
from tests.fakes import claiming
from tests.golden_support import GOLDEN
from tests.models import DIAMOND, LINEAR, bound, parsed
from tests.scripts import run_child
from tests.storing import storing

GRAPHS = {
    "strings": "g (string[2] s) => (string[2] t) { t = Identity(s) }",
    "mixed": """g (float[2] x) => (seq(float[2]) s, string[1] t) {
        s = SequenceConstruct(x, x)  t = Constant <value_strings = ["word"]> () }""",
    "identity": "g (float[3] x) => (float[3] y) { y = Identity(x) }",
    "exp": "g (float[3] x) => (float[3] y) { y = Exp(x) }",
    "root": "g (float[3] x) => (float[3] y) { y = Sqrt(x) }",
    "small": """g (float[32, 32] x) => (float[32, 32] y) {
        c = Constant<value_float=1e-9>()  y = Mul(x, c) }""",
    "zero": "g (float[3] x) => (float[3] y) { y = Sub(x, x) }",
    "two": "g (float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }",
    "open": "g (float[N, 3] x) => (y) { y = Relu(x) }",
    "odd": "g (float[N] x) => (y) <int64[2] s = {3, 5}> { y = Reshape(x, s) }",
    "other": LINEAR.replace("{10, 20}", "{1, 2}"),
    "linear": LINEAR,
}
CHANGES: dict[str, Callable[[onnx.GraphProto], object]] = {
    "cyclic": lambda graph: graph.node[0].input.__setitem__(0, "y"),
    "unknown domain": lambda graph: setattr(graph.node[0], "domain", "com.acme"),
    "unknown operator": lambda graph: setattr(graph.node[0], "op_type", "MatMull"),
    "two names": lambda graph: graph.node[1].output.__setitem__(0, "product"),
    "nobodys value": lambda graph: graph.node[1].input.__setitem__(0, "prodcut"),
}
HEAD = 'name = "acme"\napi = "1.0"\n'
OPTIONS = f"""{HEAD}[options.count]
type = "int"
default = 3
"""
VARYING = {
    r"(?m)^! [^:\n]*: \d+ s\n": "",  # how far it is, where the machine is busy
    r"\d+\.\d+ ms": "0 ms",
    r"(?m)(?<=  )\d\.\d{3}(?=  |$)": "0.000",
    r'(?<=seconds": )\d[\d.e-]*|(?<=": )\d[\d.e-]{12,}': "0",
    r'(?<="size": )\d+': "0",
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\+00:00)?": "at this hour    ",
    r"(?m)\b[0-9a-f]{64}\b|\b[0-9a-f]{12}\b|^[0-9a-f]{8}(?=  )": "(digits)",
    r"[\d.]+ (bytes|KiB)(?=  at this|, in|, from)": r"0 \1",
    r"(cannot be read|choose from|limit is|Installed): *[^)\n]*": r"\1 ...",
    r"limit is [\d,]+(?= \(max_value)": "limit is ...",
    r"onnx [\d.]+ has versions .*": "onnx has others",
    r'((onnx|numpy)( version +|": "))[\d.]+': r"\1...",
    re.escape(sk.__version__): "(version)",
}
"""What depends on the machine and on what is installed, and what is written instead."""


def never(subgraph):
    raise AssertionError(f"{subgraph} was compiled")


class Absent(sk.Backend):
    name = "absent"

    def properties(self):
        return claiming(["Neg", "Abs"], make=never)().properties()

    @classmethod
    def probe(cls, *, deep=False):
        return sk.ProbeResult(available=False, problems=("no such chip",), hint="Plug one in.")


class Planning(Absent):
    name = "planning"

    @classmethod
    def planner(cls, options):
        return cls(options)


@pytest.fixture(autouse=True)
def backends(tmp_path, monkeypatch):
    """Have backends that take two operators of four, that are not here, and that store engines."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # plans name the threads
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    never_runs = claiming(["Neg", "Abs"], "taker", make=never)
    stores = (storing(name="stores"), storing(name="adds", operators=("Add",)))
    with ExitStack() as stack:
        for one in (never_runs, Absent, Planning, *stores):
            stack.enter_context(registered(one))
        yield


def prepare():
    diamond = parsed(DIAMOND)
    for node, name in zip(diamond.graph.node, ("first", "left", "right", "right"), strict=True):
        node.name = name
    onnx.save(diamond, "diamond.onnx")
    for name, text in GRAPHS.items():
        onnx.save(parsed(text), f"{name}.onnx")
    wide = "g (float[N, 32] x) => (float[N, 32] y) { a = MatMul(x, w)  y = Relu(a) }"
    weight = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    onnx.save(parsed(wide, 17, w=weight), "wide.onnx")
    np.savez("wide.npz", x=weight)
    np.save("wide.npy", weight)
    scoped = parsed(GRAPHS["exp"])
    scoped.graph.output[0].name = scoped.graph.node[0].output[0] = "scope/file"
    onnx.save(scoped, "scoped.onnx")
    foreign = "g (float[2] x) => (float[2] y) { y = com.acme.Twist(x) }"
    onnx.save(parsed(foreign, imports='"com.acme" : 1'), "foreign.onnx")
    for name, change in CHANGES.items():
        changed = parsed(LINEAR)
        change(changed.graph)
        onnx.save(changed, f"{name}.onnx")
    onnx.save(parsed(LINEAR, 9999), "new opset.onnx")
    whole = parsed(LINEAR).SerializeToString()
    Path("truncated.onnx").write_bytes(whole[: len(whole) * 2 // 3])
    Path("empty.onnx").touch()
    Path("text.onnx").write_text("# Read me\n\nThis is no model.\n")


def prepare_files():
    x = np.float32([[1, 0, 0], [0, 1, 0]])
    arrays = {"x": x, "double": x.astype(float), "rank": x[0]}
    arrays |= {"column": np.asfortranarray(x), "few": np.float32([np.nan, np.inf, 2])}
    arrays |= {"three": np.ones((3, 3), "f4"), "four": np.ones((2, 4), "f4")}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.savez("few.npz", z=x)
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    every = (GOLDEN / "every_option.toml").read_text(encoding="utf-8")
    manifests = {"acme": OPTIONS, "every": every, "plain": HEAD, "theirs": OPTIONS}
    manifests["bad"] = HEAD[:14]
    for name, text in manifests.items():
        Path(name).mkdir()
        Path(name, "subgraphkit-backend.toml").write_text(text)
    Path("theirs", "backend_options.py").write_text("MINE = 1\n")


def carry_out(line, cli):
    """Return what a line of a shell says; our own command is carried out in this process."""
    settings, is_ours, words = line.partition("subgraphkit")
    if is_ours and all("=" in one for one in settings.split()):
        with pytest.MonkeyPatch.context() as patch:
            for one in settings.split():
                patch.setenv(*one.split("=", 1))
            ended = cli(*shlex.split(words))
        code, out, err = ended.code, ended.out, ended.err
    else:
        done = run_child(["sh", "-c", line], status=None)
        code, out, err = done.returncode, done.stdout, done.stderr
    assert "Traceback" not in err
    said = [*out.splitlines(), *(f"! {one}".rstrip() for one in err.splitlines())]
    return [*said, f"[{code}]"] if code else said


@pytest.mark.parametrize("name", sorted(one.stem for one in (GOLDEN / "transcripts").iterdir()))
def test_what_commands_say_is_as_it_was_read(cli, golden, name):
    prepare()
    prepare_files()
    text = (GOLDEN / "transcripts" / f"{name}.txt").read_text(encoding="utf-8")
    lines = []
    for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        lines += ["", f"$ {line}", *carry_out(line, cli)]
    told = "\n".join(lines[1:]).replace(str(Path.cwd()), ".")
    for varying, fixed in VARYING.items():
        told = re.sub(varying, fixed, told)
    golden(f"transcripts/{name}", told)


def test_what_is_planned_for_a_device_that_is_not_here_is_not_compiled():
    dry = sk.partition(bound(DIAMOND), Planning, dry_run=True)
    with pytest.raises(BackendUnavailableError, match=r"SGK104.*no such chip"):
        sk.compile_subgraphs(dry)
