"""What claims keep from bind to bind, in memory and in files."""

from pathlib import Path

import pytest

from subgraphkit.storing.folders import kept_folder
from subgraphkit_tensorrt.claiming.kept import Kept


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process remembers, at once and afterwards."""
    monkeypatch.setattr(Kept, "_known", {})


def _kept(folder: Path, *, cache: bool = True) -> Kept:
    return Kept("answers", kept_folder(folder / "cache", "tensorrt") if cache else None)


@pytest.mark.usefixtures("fresh")
def test_a_fact_outlives_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kept(tmp_path).put("a" * 64, [[1, "dtype", "no"]])
    monkeypatch.setattr(Kept, "_known", {})
    assert _kept(tmp_path).get("a" * 64) == [[1, "dtype", "no"]]
    assert _kept(tmp_path).get("b" * 64) is None


@pytest.mark.usefixtures("fresh")
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kept(tmp_path).put("a" * 64, [1])
    monkeypatch.setattr(Kept, "_known", {})
    (path,) = (tmp_path / "cache").rglob("*.json")
    path.write_bytes(b"[1")
    assert _kept(tmp_path).get("a" * 64) is None


@pytest.mark.usefixtures("fresh")
def test_nothing_is_written_if_nothing_is_to_be_kept(tmp_path: Path) -> None:
    kept = _kept(tmp_path, cache=False)
    kept.put("a" * 64, [1])
    assert kept.get("a" * 64) == [1]
    assert not (tmp_path / "cache").exists()
