"""A folder where a backend keeps what makes later binds quicker."""

import stat
from pathlib import Path

import pytest

from subgraphkit.configuration.config import resolve
from subgraphkit.storing.folders import forget_facts, kept_folder


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


def test_facts_are_forgotten_and_nothing_else_is_touched(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert forget_facts(cache) == 0
    folder = kept_folder(resolve(cache_dir=str(cache)), "acme")
    assert folder is not None
    fact = f"{'0a' * 32}.json"
    stays = [folder / "gpu.timings", folder / "learned" / "mine.json", tmp_path / "far" / fact]
    for path in (*stays, folder / "learned" / fact):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (folder / "linked").symlink_to(tmp_path / "far", target_is_directory=True)
    assert forget_facts(cache) == 1
    assert not (folder / "learned" / fact).exists()
    assert all(path.exists() for path in stays)
