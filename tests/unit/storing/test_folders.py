"""A folder where a backend keeps what makes later binds quicker."""

import stat
from pathlib import Path

import pytest

from subgraphkit.storing.folders import kept_folder


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.delenv("SUBGRAPH_CACHE_DIR", raising=False)


def test_it_lies_beside_the_engines_and_is_the_users_alone(tmp_path: Path) -> None:
    folder = kept_folder(tmp_path / "cache", "acme")
    assert folder == tmp_path / "cache" / "backends" / "acme"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    folder = kept_folder(tmp_path / "cache", "acme")
    assert folder is not None
    folder.chmod(0o777)
    assert kept_folder(tmp_path / "cache", "acme") is None
