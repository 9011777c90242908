"""What a user gets: the wheel and the source archive, built from this tree and looked into."""

import sys
import tarfile
import zipfile
from email import message_from_bytes

import pytest

from tests.house.tree import PROJECTS, ROOT, shown
from tests.scripts import run_child

FOLDERS = [ROOT, *(project.parent for project in PROJECTS)]


def _build(project, into, kind):
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    run_child(command, cwd=project)
    (made,) = into.iterdir()
    return made


def _package(project):
    return "subgraphkit" if project == ROOT else f"subgraphkit_{project.name}"


@pytest.mark.parametrize("project", FOLDERS, ids=_package)
def test_a_wheel_holds_its_package_and_nothing_else(project, tmp_path):
    package = _package(project)
    with zipfile.ZipFile(_build(project, tmp_path, "wheel")) as wheel:
        names = set(wheel.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields = message_from_bytes(wheel.read(metadata))
    assert {name.partition("/")[0] for name in names} == {package, metadata.partition("/")[0]}
    sources = project.joinpath(package).rglob("*")
    kept = {
        path.relative_to(project).as_posix()
        for path in sources
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert kept == {name for name in names if name.startswith(f"{package}/")}
    assert f"{package}/py.typed" in names
    assert fields["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize("project", FOLDERS, ids=_package)
def test_a_source_archive_holds_no_tests_and_no_other_distribution(project, tmp_path):
    package = _package(project)
    with tarfile.open(_build(project, tmp_path, "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tops = {name.partition("/")[0] for name in names}
    metadata = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert tops <= {package, *metadata}
    assert {package, "LICENSE", "README.md", "pyproject.toml"} <= tops
    assert f"{package}/py.typed" in names


def test_both_distributions_carry_the_same_licence():
    licence = (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in licence
    for project in PROJECTS:
        assert (project.parent / "LICENSE").read_bytes() == licence, shown(project)
