"""Versions and bounds of the distributions in this tree agree with each other."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import subgraphkit
from subgraphkit.backend import contract, plugin_api
from subgraphkit.backend.plugin_api import PLUGIN_API, api_text, is_compatible, parse_api
from subgraphkit.configuration.names import KNOWN_BACKENDS
from tests.house.tree import PROJECTS, ROOT, shown


def _read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _manifest(project):
    (path,) = project.parent.glob("subgraphkit_*/subgraphkit-backend.toml")
    return _read(path)


def _requirement(entries, name):
    (found,) = [entry for entry in map(Requirement, entries) if entry.name == name]
    return found


CORE = _read(ROOT / "pyproject.toml")["project"]


def test_the_package_and_its_metadata_have_one_version():
    assert subgraphkit.__version__ == CORE["version"]


def test_the_page_on_versions_names_those_of_this_tree():
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    assert f"| the packages, core and backends | `{CORE['version']}`" in page
    assert f"| the [plugin API](backends.md#the-plugin-api) | `{api_text(PLUGIN_API)}`" in page
    assert {_read(project)["project"]["version"] for project in PROJECTS} == {CORE["version"]}


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {CORE['version']}\n" in citation
    assert f"\nrepository-code: {CORE['urls']['Source']}\n" in citation


def test_the_changelog_has_an_entry_for_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{CORE['version']}]" in changelog


def test_there_is_one_number_for_the_plugin_contract():
    assert contract.PLUGIN_API == plugin_api.PLUGIN_API


@pytest.mark.parametrize("project", PROJECTS, ids=shown)
def test_a_backend_accepts_this_core_and_not_the_next_minor(project):
    core = _requirement(_read(project)["project"]["dependencies"], "subgraphkit").specifier
    version = Version(CORE["version"])
    assert version in core
    assert Version(f"{version.major}.{version.minor + 1}.0") not in core


@pytest.mark.parametrize("project", PROJECTS, ids=shown)
def test_the_extra_of_a_backend_accepts_the_backend_of_this_tree(project):
    backend = _read(project)["project"]
    extra = CORE["optional-dependencies"][project.parent.name]
    wanted = _requirement(extra, backend["name"])
    assert Version(backend["version"]) in wanted.specifier
    assert any(clause.operator == "<" for clause in wanted.specifier)


@pytest.mark.parametrize("project", PROJECTS, ids=shown)
def test_a_manifest_agrees_with_its_distribution(project):
    backend, manifest = _read(project)["project"], _manifest(project)
    entries = backend["entry-points"]["subgraphkit.backends"]
    assert manifest["name"] in entries
    assert manifest["name"] in KNOWN_BACKENDS
    assert backend["name"] in KNOWN_BACKENDS[manifest["name"]]
    assert is_compatible(parse_api(manifest["api"]), PLUGIN_API)


@pytest.mark.parametrize("project", [ROOT / "pyproject.toml", *PROJECTS], ids=shown)
def test_every_distribution_is_described_alike(project):
    described = _read(project)["project"]
    assert described["license"] == "Apache-2.0"
    assert described["requires-python"] == ">=3.11"
    assert (project.parent / described["readme"]).is_file()
    assert described["urls"] == CORE["urls"]
    assert _read(project)["build-system"]["build-backend"] == "hatchling.build"


@pytest.mark.parametrize("project", [ROOT / "pyproject.toml", *PROJECTS], ids=shown)
def test_a_distribution_claims_the_systems_and_pythons_that_continuous_integration_runs(project):
    claimed = _read(project)["project"]["classifiers"]
    assert [one for one in claimed if one.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]
    pythons = re.findall(r"(?m)^Programming Language :: Python :: (3\.\d+)$", "\n".join(claimed))
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    (line,) = re.findall(r"(?m)^ *python: (\[.*\])$", workflow)
    assert pythons == json.loads(line)
