"""An environment without settings, and distributions that look installed."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from subgraphkit.finding.registry import refresh_backends

Install = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return ``install(distribution, module, code, entry_points, manifest)``.

    The distribution is found by ``importlib.metadata`` like any other; pip is not involved.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    modules: list[str] = []

    def put(distribution, module, code, entry_points, manifest=None):
        info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        (info / "entry_points.txt").write_text(dedent(entry_points), encoding="utf-8")
        package = site / module
        package.mkdir()
        (package / "__init__.py").write_text(dedent(code), encoding="utf-8")
        if manifest is not None:
            (package / "subgraphkit-backend.toml").write_text(dedent(manifest), encoding="utf-8")
        modules.append(module)
        refresh_backends()
        return package

    yield put
    for name in [name for name in sys.modules if name.partition(".")[0] in modules]:
        del sys.modules[name]
    sys.path.remove(str(site))
    importlib.invalidate_caches()
    refresh_backends()
