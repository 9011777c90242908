"""The distributions of this tree, as their ``pyproject.toml`` describe them."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.version import Version

from tests.jobs import ROOT


@dataclass(frozen=True)
class Project:
    """A distribution of this tree."""

    folder: Path
    described: Mapping[str, Any]

    @property
    def backend(self) -> str:
        """The name of the backend; of the core, ``core``."""
        return "core" if self.folder == ROOT else self.folder.name

    def with_library(self) -> str:
        """Return what pip installs: the folder, with the extra that brings a library, if any."""
        return f"{self.folder}[{LIBRARY}]" if LIBRARY in self._extras() else str(self.folder)

    def bounds(self) -> list[Requirement]:
        """Return what that requires."""
        taken = self._extras().get(LIBRARY, [])
        return [Requirement(entry) for entry in [*self.described["dependencies"], *taken]]

    def _extras(self) -> Mapping[str, list[str]]:
        extras: Mapping[str, list[str]] = self.described.get("optional-dependencies", {})
        return extras


LIBRARY: Final = "cpu"
"""The extra with a library for any machine, where several libraries exclude each other."""


def _project(path: Path) -> Project:
    return Project(path.parent, tomllib.loads(path.read_text(encoding="utf-8"))["project"])


CORE: Final = _project(ROOT / "pyproject.toml")
PROJECTS: Final = (CORE, *map(_project, sorted(ROOT.glob("backends/*/pyproject.toml"))))


def claimed_pythons() -> list[str]:
    """Return the versions of Python that the classifiers of the core name, such as ``3.12``."""
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [found[1] for one in CORE.described["classifiers"] if (found := pattern.fullmatch(one))]


def lowest(projects: Iterable[Project]) -> list[str]:
    """Return constraints that take each dependency in the oldest version that is allowed.

    A bound has to be a version that was released, or pip finds none.
    """
    ours = {project.described["name"] for project in PROJECTS}
    bounds: dict[str, str] = {}
    for project in projects:
        for wanted in project.bounds():
            for clause in wanted.specifier:
                if wanted.name not in ours and clause.operator == ">=":
                    known = bounds.get(wanted.name, clause.version)
                    bounds[wanted.name] = max(known, clause.version, key=Version)
    return [f"{name}=={version}" for name, version in sorted(bounds.items())]
