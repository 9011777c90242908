"""The files of this project, for tests that read them."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CORE: Final = ROOT / "subgraphkit"
PROJECTS: Final = sorted((ROOT / "backends").glob("*/pyproject.toml"))
REPOSITORY: Final[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["urls"]["Source"]

PACKAGES: Final = tuple(
    ".".join(stub.parent.relative_to(ROOT).parts) for stub in sorted(CORE.rglob("__init__.pyi"))
)
"""Packages whose names are imported when first used: those with a table of them, a stub."""

_NAMED: Final = (
    ".ci/run", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md", "Makefile", "README.md", "RELEASING.md", "RELIABILITY.md", "SECURITY.md",
    "pyproject.toml",
)  # fmt: skip
_FOLDERS: Final = (".github", "backends", "benchmarks", "docs", "examples", "subgraphkit", "tests")
_MADE: Final = {"__pycache__", "_build", "build", "dist"}
_TEXT: Final = {
    ".cfg", ".css", ".html", ".json", ".md", ".py", ".rst", ".sh", ".toml", ".txt", ".yml",
}  # fmt: skip


def text_files() -> Iterator[Path]:
    """Go through every text file that people write."""
    yield from (ROOT / name for name in _NAMED)
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            parts = path.relative_to(ROOT).parts
            made = any(part in _MADE or part.endswith(".egg-info") for part in parts)
            if path.is_file() and not made and path.suffix in _TEXT:
                yield path


def modules() -> Iterator[Path]:
    """Go through every module that is installed on a user's machine."""
    packages = [CORE, *(project.parent / _package(project) for project in PROJECTS)]
    for package in packages:
        yield from sorted(package.rglob("*.py"))


def shown(path: Path) -> str:
    """Write a path the way people name it."""
    return path.relative_to(ROOT).as_posix()


def _package(project: Path) -> str:
    return f"subgraphkit_{project.parent.name}"
