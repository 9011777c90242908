"""A folder where a backend keeps what makes later binds quicker."""

import stat
from pathlib import Path

import pytest

from subgraphkit.configuration.config import resolve
from subgraphkit.storing.folders import kept_folder


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.delenv("SUBGRAPH_CACHE_DIR", raising=False)


def test_it_lies_beside_the_engines_and_is_the_users_alone(tmp_path: Path) -> None:
    folder = kept_folder(resolve(cache_dir=str(tmp_path / "cache")), "acme")
    assert folder == tmp_path / "cache" / "backends" / "acme"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_a_cache_there_is_none(tmp_path: Path) -> None:
    assert kept_folder(resolve(cache="off", cache_dir=str(tmp_path / "cache")), "acme") is None
    assert kept_folder(None, "acme") is None
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    settings = resolve(cache_dir=str(tmp_path / "cache"))
    folder = kept_folder(settings, "acme")
    assert folder is not None
    folder.chmod(0o777)
    assert kept_folder(settings, "acme") is None
