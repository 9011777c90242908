"""Packages that nobody asked for: bad metadata, names of ours, and names that are none."""

import os
import sys

import pytest

from subgraphkit.cli import main
from subgraphkit.configuration.names import BACKEND_NAMES
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.finding.registry import get_backend, refresh_backends
from tests.unit.finding.conftest import Install
from tests.unit.finding.test_registry import ENTRY, GOOD


def test_a_second_package_of_one_of_our_names_is_told_and_not_used(install: Install) -> None:
    code = GOOD.replace('"good"', '"numpy"')
    install("acme-numpy", "m_numpy", code, ENTRY.replace("good = m_good", "numpy = m_numpy"))
    told = {one.distribution: one for one in list_backends() if one.name == "numpy"}
    assert told["subgraphkit-numpy"].state in {"registered", "loaded", "ready"}
    assert (error := told["acme-numpy"].error) is not None
    assert error.code == "SGK129"
    assert "numpy@acme-numpy" in error.hint
    assert get_backend("numpy").__module__.startswith("subgraphkit_numpy")
    assert "m_numpy" not in sys.modules
    assert get_backend("numpy@acme-numpy").__module__ == "m_numpy"


def test_metadata_that_cannot_be_read_is_told_and_stops_nobody_else(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    site = install("good-dist", "m_good", GOOD, ENTRY).parent
    damages = {
        "latin": ("entry_points.txt", "[x]\ny = \xe9:z".encode("latin-1")),
        "halved": ("entry_points.txt", b"[subgraphkit.backends]\nno equals sign"),
        "unnamed": ("METADATA", None),
        "garbled": ("METADATA", b"Name: \xff\xfe"),
    }
    for name, (file, content) in damages.items():
        install(f"{name}-dist", f"m_{name}", GOOD, ENTRY.replace("good = m_good", f"{name} = m"))
        damaged = site / f"{name}_dist-1.0.dist-info" / file
        damaged.unlink()
        if content is not None:
            damaged.write_bytes(content)
    endless = site / "endless_dist-1.0.dist-info"
    endless.mkdir()
    os.mkfifo(endless / "entry_points.txt")  # whoever opens it waits for somebody who writes
    extension = site / "extension_dist-1.0.dist-info"
    extension.mkdir()
    (extension / "entry_points.txt").write_text("[subgraphkit.plugins]\nnobody = m_nobody\n")
    refresh_backends()
    errors = BACKEND_NAMES.unreadable()
    assert [error.code for error in errors] == ["SGK128"] * 6
    assert all(any(name in error.message for error in errors) for name in damages)
    assert not {one.name for one in list_backends()} & damages.keys()
    assert get_backend("good") is sys.modules["m_good"].Good
    assert main(["list"]) == 0
    assert capsys.readouterr().err.count("[SGK128]") == 6
