"""The stubs of packages whose names are lazy, written from their tables.

``python -m tests.house.stubs`` writes every ``__init__.pyi``; a test holds them to be current.
"""

from importlib import import_module
from pathlib import Path
from typing import Final

from tests.house.tree import ROOT

PACKAGES: Final = (
    "subgraphkit",
    "subgraphkit.backend",
    "subgraphkit.bundling",
    "subgraphkit.comparing",
    "subgraphkit.configuration",
    "subgraphkit.ir",
    "subgraphkit.onnx_io",
    "subgraphkit.partitioning",
    "subgraphkit.partitioning.reports",
    "subgraphkit.placing",
    "subgraphkit.precision",
    "subgraphkit.processes",
    "subgraphkit.running",
    "subgraphkit.storing",
    "subgraphkit.testing",
    "subgraphkit.viewing",
)


def stub_path(package: str) -> Path:
    return ROOT.joinpath(*package.split("."), "__init__.pyi")


def stub_of(package: str) -> str:
    """Return what a type checker is to know of a package."""
    homes: dict[str, str] = import_module(package)._HOMES
    by_home: dict[str, list[str]] = {}
    for name, home in homes.items():
        is_module = home == f"{package}.{name}" and not hasattr(import_module(home), name)
        by_home.setdefault(package if is_module else home, []).append(name)
    lines = ["# Written by python -m tests.house.stubs from the table in __init__.py.", ""]
    for home in sorted(by_home):
        names = sorted(by_home[home], key=_order)
        # a trailing comma keeps one name a line, so that a change is a line of the difference
        lines += [f"from {home} import (", *(f"    {name}," for name in names), ")"]
    lines += ["", "__all__ = [", *(f'    "{name}",' for name in sorted(homes, key=_order)), "]"]
    if hasattr(import_module(package), "__version__"):
        lines += ["", "__version__: str"]
    return "\n".join(lines) + "\n"


def _order(name: str) -> tuple[int, str]:
    """Order names as the linter does: constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def main() -> None:
    """Write every stub."""
    for package in PACKAGES:
        stub_path(package).write_text(stub_of(package), encoding="utf-8")


if __name__ == "__main__":
    main()
