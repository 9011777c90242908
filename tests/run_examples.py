"""Collect the examples in README, docs and docstrings as tests.

Python blocks and ``>>>`` lines run in one namespace per file. Blocks marked ``console`` run as
well: each line that starts with ``$`` is a command, and what it prints is compared with the lines
below it, where ``...`` stands for anything. Blocks marked ``sh`` are shown to people only.

Every file starts in an empty folder of its own that holds ``model.onnx``, a small convolutional
network with the input ``x`` and the output ``y``, and without any ``SUBGRAPH_*`` variable.
"""

import contextlib
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection

from tests.ready import run_command

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TIMEOUT_SECONDS = 120

SMALL_MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
small (float[batch, 3, 8, 8] x, float[4, 3, 3, 3] w, float[4] b) => (float[batch, 4, 8, 8] y)
{
    convolved = Conv <pads = [1, 1, 1, 1]> (x, w, b)
    positive = Relu (convolved)
    y = Softmax <axis = 1> (positive)
}
"""


def write_small_model(path: Path) -> None:
    """Write the network that the examples of README and docs load."""
    import onnx  # noqa: PLC0415 (only where a file has examples)

    model = onnx.parser.parse_model(SMALL_MODEL)
    rng = np.random.default_rng(0)
    for value in list(model.graph.input)[1:]:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        array = rng.standard_normal(dims).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)
    onnx.save(model, path)


@contextlib.contextmanager
def _example_folder() -> Iterator[None]:
    """Work in an empty folder that holds ``model.onnx``, and leave the environment as it was."""
    before, variables = Path.cwd(), dict(os.environ)
    folder = Path(tempfile.mkdtemp(prefix="examples-"))
    try:
        write_small_model(folder / "model.onnx")
        os.chdir(folder)
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
        shutil.rmtree(folder, ignore_errors=True)


def enter(namespace: dict[str, Any]) -> None:
    """Prepare the folder before the first example of a file."""
    stack = contextlib.ExitStack()
    stack.enter_context(_example_folder())
    namespace["_folder"] = stack


def leave(namespace: dict[str, Any]) -> None:
    """Remove the folder after the last example of a file."""
    namespace.pop("_folder").close()


def run_console(example: Example) -> str | None:
    """Run the commands of a ``console`` block and compare what they print."""
    for command, expected in _commands(str(example.parsed)):
        # what a command says after ten seconds depends on how slow the machine is
        quiet = {"COLUMNS": "100", "NO_COLOR": "1", "SUBGRAPH_PROGRESS": "none"}
        environment = {**os.environ, **quiet}
        done = _run(command, environment)
        got = done.stdout + done.stderr
        if expected and not doctest.OutputChecker().check_output(expected, got, OPTIONS):
            return f"$ {command}\nexpected:\n{expected}\ngot:\n{got}"
        if not expected and done.returncode:
            return f"$ {command}\nexit status {done.returncode}:\n{got}"
    return None


def _run(command: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command line, in a shell if it asks for anything of one."""
    name, *words = shlex.split(command)
    if name == "subgraphkit" and not re.search(r"[>|<&;$*~=]", re.sub(r"[\w.]=[\w.]", "", command)):
        return run_command(words, Path.cwd(), environment, TIMEOUT_SECONDS)
    return subprocess.run(
        re.sub(r"^subgraphkit\b", f'"{sys.executable}" -m subgraphkit', command),
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def _commands(block: str) -> list[tuple[str, str]]:
    """Split a block into commands and what each is said to print."""
    commands: list[tuple[str, str]] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:].strip(), ""))
        elif commands:
            command, expected = commands[-1]
            commands[-1] = (command, expected + line)
        else:
            raise ValueError(f"a console block starts with '$ ', got {line!r}")
    return commands


PAGES = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=OPTIONS),
        CodeBlockParser(language="console", evaluator=run_console),
        SkipParser(),
    ],
    path=str(ROOT),
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    excludes=["backends/*/README.md", "examples/*/README.md"],
    setup=enter,
    teardown=leave,
)
DOCSTRINGS = Sybil(
    parsers=[DocTestParser(optionflags=OPTIONS)],
    path=str(ROOT),
    patterns=["subgraphkit/*.py", "subgraphkit/*/*.py"],
    setup=enter,
    teardown=leave,
)

pytest_collect_file = SybilCollection((PAGES, DOCSTRINGS)).pytest()
