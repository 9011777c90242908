"""What a type checker sees of the package from outside."""

import importlib
from pathlib import Path

import pytest

from tests.house.stubs import PACKAGES, stub_of, stub_path
from tests.house.tree import shown


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_of_a_package_is_current(package: str) -> None:
    written = stub_path(package)
    stale = f"{shown(written)} is stale: make stubs"
    assert written.read_text(encoding="utf-8") == stub_of(package), stale


@pytest.mark.parametrize("package", PACKAGES)
def test_every_lazy_name_can_be_imported_and_is_exported_by_its_home(package: str) -> None:
    room = importlib.import_module(package)
    for name, home in room._HOMES.items():
        module = importlib.import_module(home)
        assert getattr(room, name) is getattr(module, name, module)
        assert not hasattr(module, name) or name in getattr(module, "__all__", [])


def test_the_stub_is_beside_its_package() -> None:
    assert [stub_path(package).parent for package in PACKAGES] == [
        Path(importlib.import_module(package).__file__ or "").parent for package in PACKAGES
    ]
