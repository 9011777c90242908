"""Scripts that belong to no package, packages installed for a test, and forks of it."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLES: Final = ROOT / "examples"
BENCHMARKS: Final = ROOT / "benchmarks"


def load_script(path: Path) -> ModuleType:
    """Import a script without running its main part; a script is imported once."""
    name = f"script_{path.parent.name}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being imported
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def install_projects(folder: Path, *projects: Path) -> None:
    """Let pip build projects and install them into a folder, in one call; nothing is downloaded."""
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    run_child([*command, *map(str, projects)])


def run_child(
    words: Sequence[str], *, status: int | None = 0, timeout: float = 300, **how: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a command and return what it said; it fails where it ends otherwise than expected."""
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=False, **how
    )
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done


def run_python(
    *words: str, site: Path, folder: Path, timeout: float = 60, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python in a folder, with the packages of ``site`` and no setting from a file."""
    path = os.pathsep.join([str(site), str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "SUBGRAPH_CONFIG": "none", **variables}
    return run_child([sys.executable, *words], cwd=folder, env=environment, timeout=timeout)


def in_child(work: Callable[[], object]) -> str:
    """Do something in a forked child, and return what it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(work())
        except BaseException as error:  # noqa: BLE001 (the parent is told)
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text
