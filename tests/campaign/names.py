"""Hostile names of values, dimensions, files and settings, on every command."""

import io
import os
import random
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import helper

from subgraphkit.cli import main
from subgraphkit.cli.reporting import ExitCode
from tests.campaign.children import in_fork
from tests.campaign.trials import Attack, Case, Outcome, require

HOSTILE: Final = (
    *("", " ", "\x00", "a\nb", "a\rb", "\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\u202egnp.txt"),
    *("\u2066a\u2069", "\ud800", "\U0001f600", "N" * 10_000, "-", "--", "--help", "-h", "=", ","),
    *("../../x", "/etc/passwd", "~", "$(id)", "`id`", "%s%n", "{0}", "{x.__class__}", "\\", "'\""),
    *(
        "NaN",
        "1e999",
        "None",
        "nan=1",
        "\x7f",
        "\u2028",
        "\ufeff",
        "[red]x[/red]",
        "<b>",
        "a" * 300,
    ),
)
_COMMANDS: Final = (
    *("run {m} --backend numpy", "run {m} --backend numpy --json"),
    *("plan {m} --backend numpy --details", "plan {m} --memory"),
    *("plan {m} --backend numpy --json", "plan {m} --explain {h}", "plan {m} --html p.html"),
    *("build {m} --backend numpy", "verify {m} --backend numpy --per-subgraph", "list --all"),
    *("bench {m} --backend numpy --repeat 1", "profile {m} --backend numpy --runs 1"),
    *(
        "convert {m} --precision int8 --calibrate . -o c.onnx",
        "convert {m} --precision fp16 -o c.onnx",
    ),
    *(
        "list {h}",
        "list numpy",
        "deploy cache ls",
        "author manifest check {h}",
        "author new-backend {h} made",
        "doctor --settings",
        "--version",
    ),
    *(
        "--completion bash",
        "--completion {h}",
        "doctor {h}",
        "author test {h}",
        "tune {m} --backend numpy",
    ),
)
_OPTIONS: Final = (
    *("--backend", "--symbol", "--shape", "--option", "--input", "--pin", "--keep-off", "--seed"),
    *("--data-root", "--strict", "--no-fold", "--output", "--limits", "--html"),
)
_VARIABLES: Final = ("BACKEND", "CACHE_DIR", "CONFIG", "PLUGINS", "THREADS", "PIN", "VERBOSE")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Names(Attack):
    """Run a command on a model, with arguments and with an environment of hostile names."""

    name = "names"
    about = "hostile names in models, arguments and the environment, on every command"

    def prepare(self, scratch: Path, backend: str) -> None:
        self._folder = scratch / f"names-{os.getpid()}"
        self._folder.mkdir()

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        some = [rng.choice(HOSTILE) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        return {
            "command": rng.choice(_COMMANDS),
            "words": [word for one in some for word in (rng.choice(_OPTIONS), one)],
            "model": [
                rng.choice(HOSTILE) if rng.random() < share else name
                for name, share in (("x", 0.6), ("y", 0.6), ("N", 0.6), ("Relu", 0.1))
            ],
            "file": rng.choice(HOSTILE) if rng.random() < 0.2 else "model.onnx",
            "variables": [[rng.choice(_VARIABLES), rng.choice(HOSTILE)]]
            if rng.random() < 0.3
            else [],
        }

    def attempt(self, case: Case, backend: str) -> Outcome:
        return in_fork(lambda: self._run(case, backend), 60.0)

    def _run(self, case: Case, backend: str) -> Outcome | None:
        os.chdir(self._folder)
        os.environ["SUBGRAPH_BLOCK"] = "onednn,onnxruntime,openvino,tensorrt,tvm"  # slow to look at
        for name, value in case["variables"]:
            if "\x00" not in value:
                os.environb[b"SUBGRAPH_" + name.encode()] = value.encode(errors="surrogatepass")
        path = _written(case)
        held = {"{m}": path, "{h}": case["model"][0].replace("\x00", "")}
        words = [held.get(word, word) for word in case["command"].split()]
        words += [word for word in case["words"] if "\x00" not in word]
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape")
        with redirect_stdout(out), redirect_stderr(out):
            try:
                code: Any = main(words)
            except SystemExit as left:
                code = left.code
        out.flush()
        said = out.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined]
        found = _CONTROL.search(said)
        if found:
            place = said[max(0, found.start() - 40) : found.start() + 20]
            return Outcome("wrong", f"{words[0]}: control character", repr(place))
        require(code in set(map(int, ExitCode)), f"exit code {code}")
        if code == ExitCode.BUG or "Traceback (most recent" in said or "SGK900" in said:
            return Outcome("uncoded", f"{words[0]}: bug", said[-250:])
        return None if code == 0 else Outcome("coded", f"exit {int(code)}")


def _written(case: Case) -> str:
    """Write the model of a case; return its path, which may be impossible."""
    x, y, size, operator = (text.encode(errors="replace").decode() for text in case["model"])
    value = helper.make_tensor_value_info
    node = helper.make_node(operator, [x], [y])
    graph = helper.make_graph([node], x, [value(x, 1, [size])], [value(y, 1, [size])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.producer_name = y
    path: str = case["file"].replace("\x00", "")
    try:
        if not Path(path).is_absolute():
            onnx.save(model, path)
    except (OSError, ValueError):
        return path
    return path
