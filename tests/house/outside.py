"""Programs of people outside the project, for type checkers to read.

Every page with Python becomes a module, in an empty folder beside the package that
``subgraphkit author new-backend acme`` makes; the examples stand where they are.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.house.tree import PACKAGES, ROOT

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SESSION = (">>> ", "... ")
# a module that a page writes when it runs
_WRITTEN = re.compile(
    r'^Path\("(\w+\.py)"\)\.write_text\("""\n(.*?)^"""\)', re.MULTILINE | re.DOTALL
)

MISUSE = """\
from dataclasses import dataclass
from typing import Literal

import numpy as np
import subgraphkit as sk
from subgraphkit.backend import BindContext

sk.partitoin  # unknown name
session = sk.InferenceSession("m.onnx", "numpy")
session.runn(None, {})  # misspelt method
session.get_providers()  # a method of another library's class
sk.InferenceSession("m.onnx", backnd="numpy")  # bad keyword
sk.bind(sk.load("m.onnx"), strct=True)  # bad keyword
sk.partition(3)  # no model
sk.Session(None)  # no model
sk.Refusal("shape")  # an argument left out
sk.SubgraphSelector()  # abstract
sk.register_backend(name="mine")  # an argument left out
(y,) = session.run(None, {"x": np.zeros(3)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    precision: Literal["fp32", "fp16"] = "fp32"


class Typed(sk.Backend[Options]):
    def precision(self, context: BindContext[Options]) -> str:
        self.option_values.precison  # misspelt option
        context.options.precison  # misspelt option
        context.options["precision"]  # options are no mapping
        Options(precison="fp16")  # bad keyword
        Options(precision="fp61")  # no such choice
        return self.option_values.precision


def untyped(context: BindContext) -> str:
    return str(context.options.anything)
"""
"""Mistakes, each on a line that says which."""


def python_of(page: Path) -> str:
    """Return the Python of a page, prompts removed; empty if it has none."""
    return "\n".join(map(_without_prompts, _BLOCK.findall(page.read_text(encoding="utf-8"))))


def _without_prompts(block: str) -> str:
    if not block.startswith(_SESSION[0]):
        return block
    lines = block.splitlines(keepends=True)
    return "".join(line[4:] for line in lines if line.startswith(_SESSION))


def write_programs(folder: Path) -> list[Path]:
    """Write what people write into a folder; return all files to check, examples included."""
    made = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if code := python_of(page):
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
            made.append(folder / f"page_{name}.py")
            made[-1].write_text(code, encoding="utf-8")
            for name, module in _WRITTEN.findall(code):
                (folder / name).write_text(module, encoding="utf-8")
    command = [sys.executable, "-m", "subgraphkit", "author", "new-backend", "acme"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    made += sorted((folder / "subgraphkit-acme" / "subgraphkit_acme").glob("*.py"))
    (folder / "names.py").write_text(_revealing(), encoding="utf-8")
    examples = sorted((ROOT / "examples").rglob("*.py"))
    return [*made, folder / "names.py", *filter(_has_its_imports, examples)]


def _has_its_imports(path: Path) -> bool:
    """Say whether what a program imports is there: the recipes for engines need those."""
    names = re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return all(find_spec(name) or (path.parent / f"{name}.py").exists() for name in names)


def _revealing() -> str:
    """Return a program that has the checker print the type of every public name."""
    lines = []
    for package in PACKAGES:
        names = sys.modules[package].__all__
        lines += [f"import {package}", *(f"reveal_type({package}.{name})" for name in names)]
    return "\n".join(lines) + "\n"
