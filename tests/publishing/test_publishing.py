"""The oldest versions that projects allow, and the Pythons that tests run on."""

import sys

from packaging.requirements import Requirement

from tests.jobs import ROOT
from tests.publishing.projects import CORE, PROJECTS, Project, claimed_pythons, lowest
from tests.publishing.pythons import interpreters, try_pythons


def test_the_lowest_versions_are_those_that_the_projects_name():
    found = {Requirement(one).name: str(Requirement(one).specifier) for one in lowest(PROJECTS)}
    for entry in map(Requirement, CORE.described["dependencies"]):
        bound = found[entry.name].removeprefix("==")
        assert bound in entry.specifier
        assert not any(clause.operator == ">" for clause in entry.specifier)
    assert not any(name.startswith("subgraphkit") for name in found)


def test_of_two_bounds_the_higher_is_taken():
    folder = ROOT / "backends" / "acme"
    projects = [
        Project(folder, {"name": "a", "dependencies": ["numpy>=2.9", "onnx>=1.20,<2"]}),
        Project(folder, {"name": "b", "dependencies": ["numpy>=2.10", "subgraphkit>=0.1"]}),
        Project(
            folder,
            {"name": "c", "dependencies": [], "optional-dependencies": {"cpu": ["library>=3"]}},
        ),
    ]
    assert lowest(projects) == ["library==3", "numpy==2.10", "onnx==1.20"]


def test_a_named_interpreter_is_preferred_and_what_cannot_run_is_none(tmp_path):
    here = "{}.{}".format(*sys.version_info)
    assert interpreters([str(tmp_path / "absent"), sys.executable])[here] == sys.executable


def test_a_python_that_is_not_here_is_left_out_and_said():
    (line,) = try_pythons(["3.999"], [])
    assert line.outcome == "left out: there is no such Python on this machine"
    assert claimed_pythons()[0] == "3.11"
