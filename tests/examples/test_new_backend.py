"""The package that ``new-backend`` writes, really installed by pip, and its own test run."""

import re
import sys

import pytest

from subgraphkit.cli import main
from tests.scripts import install_projects, run_child, run_python

FILES = {
    ".github/workflows/test.yml", "LICENSE", "README.md", "pyproject.toml",
    "subgraphkit_acme_npu/__init__.py", "subgraphkit_acme_npu/backend.py",
    "subgraphkit_acme_npu/backend_options.py", "subgraphkit_acme_npu/kernels.py",
    "subgraphkit_acme_npu/operator.py", "subgraphkit_acme_npu/py.typed",
    "subgraphkit_acme_npu/selector.py", "subgraphkit_acme_npu/subgraphkit-backend.toml",
    "tests/test_backend.py",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Write a package."""
    folder = tmp_path_factory.mktemp("new") / "acme"
    assert main(["author", "new-backend", "acme_npu", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def site(project, tmp_path_factory):
    """Install it into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    install_projects(folder, project)
    return folder


def test_a_new_backend_is_a_whole_package_without_gaps(project):
    files = {path.relative_to(project).as_posix(): path for path in project.rglob("*")}
    files = {name: path for name, path in files.items() if path.is_file()}
    assert files.keys() == FILES
    gaps = re.compile(r"\$(?!\{\{ matrix)")
    assert not [name for name, path in files.items() if gaps.search(path.read_text("utf-8"))]


def test_a_new_backend_follows_the_style_of_the_project(project):
    ignored = "ANN401,ARG,COM812,CPY,D103,D107,D203,D213,D413,I001,INP001,S101"
    words = ["--isolated", "--line-length=100", str(project)]
    for command in (["check", "--select=ALL", f"--ignore={ignored}"], ["format", "--check"]):
        run_child([sys.executable, "-m", "ruff", *command, *words])


def test_a_new_backend_is_found_healthy_by_the_doctor(site, tmp_path):
    done = run_python("-m", "subgraphkit", "doctor", "acme_npu", site=site, folder=tmp_path)
    assert "ready on cpu" in done.stdout
    run_python(
        "-m", "subgraphkit", "author", "manifest", "check", "acme_npu", site=site, folder=tmp_path
    )


def test_pytest_alone_holds_a_new_backend_against_the_kit_as_well(project, site, pytestconfig):
    level = 5 if pytestconfig.getoption("--foreign-operators") else 0
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = run_python(*words, f"--subgraph-level={level}", site=site, folder=project, timeout=900)
    assert "acme_npu: level" in done.stdout
    assert "not passed" not in done.stdout
    passed = int(re.findall(r"(\d+) passed", done.stdout)[-1])
    assert passed == 4 + 10 if level == 0 else passed > 4 + 10 + 26
