"""Every Python that the distributions claim, with the versions of dependencies that pip takes.

What is not on the machine, and every backend whose library has no wheel for a Python, is left out,
which the table says.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.jobs import ROOT, failure, install, outcome_of
from tests.publishing.projects import CORE, PROJECTS, claimed_pythons, lowest

ENVIRONMENTS: Final = ROOT / "build" / "pythons"
FOR_TESTS: Final = ("pytest>=9.0", "hypothesis>=6.130")
CHOICE: Final = (
    *(f"tests/unit/{room}" for room in ("ir", "onnx_io", "storing", "finding", "binding")),
    "tests/unit/partitioning/test_pass_promises.py",
    *(f"tests/unit/{room}" for room in ("planning", "bundling", "running")),
    "tests/unit/test_errors.py",
    *(f"backends/numpy/tests/test_{name}.py" for name in ("control_flow", "numpy_backend")),
    *(f"backends/numpy/tests/test_{name}.py" for name in ("window_kernels", "parallel")),
)
"""What is run of the tests: the rooms from the file to the run, and some of NumPy's."""

SECONDS: Final = 900.0
LEVEL: Final = "2"
"""The level of the conformance kit that tries every other backend."""

NUMPY: Final = next(one for one in PROJECTS if one.backend == "numpy")


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Attributes:
        outcome: What became of them; begins with FAILED or "left out" where that is so.
    """

    first: str
    what: str
    outcome: str


def try_pythons(only: Sequence[str], named: Iterable[str]) -> Iterator[Line]:
    """Run the choice on every Python that is claimed, or on some of them."""
    there = interpreters(named)
    for version in only or claimed_pythons():
        if version not in there:
            yield Line(version, "all", "left out: there is no such Python on this machine")
            continue
        yield from _tried(version, there[version], ENVIRONMENTS / version, [])


def try_lowest(named: Iterable[str]) -> Iterator[Line]:
    """Run the choice on the oldest Python, with the oldest dependencies that are allowed."""
    version = claimed_pythons()[0]
    if (python := interpreters(named).get(version)) is None:
        yield Line(version, "all", "left out: there is no such Python on this machine")
        return
    folder = ENVIRONMENTS / "lowest"
    folder.mkdir(parents=True, exist_ok=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{one}\n" for one in lowest(PROJECTS)))
    yield from _tried(version, python, folder, ["--constraint", str(constraints)])


def interpreters(named: Iterable[str]) -> dict[str, str]:
    """Find Pythons: those named first, then commands, then what pyenv keeps; the first of each."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    commands = filter(None, (shutil.which(f"python{version}") for version in claimed_pythons()))
    candidates = [*named, *commands, *map(str, sorted(kept.glob("3.*/bin/python")))]
    found: dict[str, str] = {}
    for candidate in candidates:
        asked = [candidate, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
            found.setdefault(done.stdout.strip(), candidate)
    return found


def _tried(version: str, python: str, folder: Path, words: Sequence[str]) -> Iterator[Line]:
    """Make an environment, run the choice in it, then add one backend after the other."""
    own = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", own]
    pip += ["install", "--only-binary", ":all:", *words]
    problem = install(
        folder,
        [
            [python, "-m", "venv", "--without-pip", str(folder)],
            [*pip, "-e", CORE.with_library(), "-e", NUMPY.with_library(), *FOR_TESTS],
        ],
    )
    if problem:
        yield Line(version, "core, numpy", f"FAILED, cannot be installed: {problem}")
        return
    there = []
    for project in PROJECTS:
        if project not in (CORE, NUMPY):
            log = folder / f"{project.backend}.log"
            problem = failure([*pip, "-e", project.with_library()], log, SECONDS)
            if problem:
                yield Line(version, project.backend, f"left out: cannot be installed: {problem}")
            else:
                there.append(project.backend)
    with (folder / "tests.log").open("w") as printed:
        yield Line(version, "core, numpy", outcome_of(folder, CHOICE, SECONDS, printed.fileno()))
    for backend in there:
        yield Line(version, backend, _kit(backend, folder))


def _kit(backend: str, folder: Path) -> str:
    """Let the conformance kit try a backend; return what it says in the end."""
    log = folder / f"{backend}.log"
    command = [str(folder / "bin" / "subgraphkit"), "author", "test", backend, "--level", LEVEL]
    problem = failure(command, log, SECONDS)
    printed = log.read_text().strip()
    _, said, why = printed.partition("cannot run here: ")
    if problem and said:  # its library or its device is not here
        return f"left out: {why.splitlines()[0]}"
    return f"FAILED: {problem}" if problem else printed.splitlines()[-1]
