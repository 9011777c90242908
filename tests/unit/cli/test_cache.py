"""``subgraphkit deploy cache``: what is kept, whether it is sound, and how it goes."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.storing import storing
from tests.unit.cli.conftest import Cli
from tests.unit.compiling.conftest import LINEAR, run


@pytest.fixture(autouse=True)
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep three engines of two backends, the oldest first; return their folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "engines"
    for number, name in enumerate(("old", "old", "new")):
        for path in folder.glob("*.json"):
            os.utime(path, (path.stat().st_mtime - 86_400,) * 2)
        run(storing(name=name), LINEAR.replace("{10, -20}", f"{{{number}, 0}}"))
    return folder


def data_of(cli: Cli, *words: object, code: int = 0) -> Any:
    ended = cli("deploy", "cache", *words, "--json")
    assert ended.code == code, ended.err
    document = json.loads(ended.out)
    assert document["schema"] == "subgraphkit.cache/1"
    return document["data"]


def test_ls_shows_the_most_recently_used_first(cli: Cli) -> None:
    ended = cli("deploy", "cache", "ls")
    head, *rows = ended.out.splitlines()
    assert head.split() == ["KEY", "BACKEND", "NODES", "SIZE", "LAST-USED", "MODEL"]
    assert [row.split()[1] for row in rows] == ["new", "old", "old"]
    assert all(row.split()[2] == "3" and row.endswith("linear") for row in rows)
    assert ended.err.startswith("3 engines, ")
    assert "of 16.0 GiB at most" in ended.err


def test_ls_as_json_tells_everything(cli: Cli, engines: Path) -> None:
    data = data_of(cli, "ls")
    assert data["folder"] == str(engines)
    assert data["limit"] == 16 << 30
    assert [one["backend"] for one in data["engines"]] == ["old", "old", "new"]
    oldest = data["engines"][0]
    assert len(oldest["key"]) == 64
    assert (oldest["model"], oldest["nodes"], oldest["problem"]) == ("linear", 3, "")
    assert oldest["last_used"] < oldest["created"]  # the test set it back
    on_disk = sum(path.stat().st_size for path in engines.iterdir())
    assert sum(one["size"] for one in data["engines"]) == on_disk


def test_an_empty_cache_is_no_error(cli: Cli) -> None:
    assert cli("deploy", "cache", "clear").err.startswith("removed 3 engines")
    assert cli("deploy", "cache", "ls").err.startswith("0 engines")
    assert data_of(cli, "verify") | {"folder": "", "limit": 0} == {
        "checked": 0,
        "damaged": [],
        "folder": "",
        "limit": 0,
    }


def test_verify_is_content_with_sound_engines(cli: Cli) -> None:
    assert data_of(cli, "verify")["checked"] == 3
    assert "0 damaged engines of 3" in cli("deploy", "cache", "verify").err


def test_verify_names_each_damaged_engine_and_ends_with_a_failed_check(
    cli: Cli, engines: Path
) -> None:
    first, second, _ = sorted(engines.glob("*.engine"))
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    second.unlink()
    damaged = data_of(cli, "verify", code=1)["damaged"]
    found = {one["key"]: one["problem"] for one in damaged}
    assert found.keys() == {first.stem, second.stem}
    assert "SHA-256" in found[first.stem]
    assert "missing" in found[second.stem]
    ended = cli("deploy", "cache", "verify")
    assert ended.code == 1
    assert first.stem in ended.out
    assert "2 damaged engines of 3" in ended.err


def test_ls_marks_a_damaged_description_and_believes_nothing_in_it(cli: Cli, engines: Path) -> None:
    path = min(engines.glob("*.json"))
    path.write_text(path.read_text().replace('"linear"', '"forged"'))
    ended = cli("deploy", "cache", "ls")
    assert "damaged" in ended.out
    assert "forged" not in ended.out


def backends_left(cli: Cli) -> list[str]:
    return [one["backend"] for one in data_of(cli, "ls")["engines"]]


def test_prune_without_words_keeps_to_the_configured_size(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_of(cli, "prune")["removed"] == []
    sizes = [one["size"] for one in data_of(cli, "ls")["engines"]]
    monkeypatch.setenv("SUBGRAPH_CACHE_SIZE", str(sum(sizes[1:])))
    assert [one["backend"] for one in data_of(cli, "prune")["removed"]] == ["old"]
    assert backends_left(cli) == ["old", "new"]


def test_prune_to_a_size(cli: Cli) -> None:
    data_of(cli, "prune", "--size", "0")
    assert backends_left(cli) == []


def test_prune_by_age(cli: Cli) -> None:
    data_of(cli, "prune", "--older-than", "1.5")
    assert backends_left(cli) == ["old", "new"]
    data_of(cli, "prune", "--older-than", "0.5")
    assert backends_left(cli) == ["new"]


def test_prune_one_backend(cli: Cli) -> None:
    data_of(cli, "prune", "--backend", "old")
    assert backends_left(cli) == ["new"]


def test_prune_one_backend_by_age_leaves_the_others(cli: Cli) -> None:
    data_of(cli, "prune", "--backend", "new", "--older-than", "0.5")
    assert backends_left(cli) == ["old", "old", "new"]
    data_of(cli, "prune", "--backend", "old", "--size", "0")
    assert backends_left(cli) == ["new"]


def test_clear_removes_what_killed_writers_left_and_nothing_that_is_not_ours(
    cli: Cli, engines: Path
) -> None:
    left, written = (engines / f"{digit * 64}.engine" for digit in "01")
    for path in (left, written, engines / "notes.txt"):
        path.write_text("")
    minutes_ago = time.time() - 120
    os.utime(left, (minutes_ago, minutes_ago))
    data_of(cli, "clear")
    assert sorted(path.name for path in engines.iterdir()) == [written.name, "notes.txt"]


@pytest.mark.parametrize(
    "words",
    [
        ("deploy", "cache"),
        ("deploy", "cache", "list"),
        ("deploy", "cache", "clear", "--backend", "old"),
    ],
)
def test_words_that_mean_nothing_are_usage_errors(cli: Cli, words: tuple[str, ...]) -> None:
    ended = cli(*words)
    assert ended.code == 2
    assert "SGK301" in ended.err


def test_a_cache_that_cannot_be_trusted_is_an_error_here(cli: Cli, engines: Path) -> None:
    engines.chmod(0o777)
    ended = cli("deploy", "cache", "ls")
    assert ended.code == 2
    assert "SGK150" in ended.err
    assert "chmod go-w" in ended.err


def test_the_times_are_those_of_this_place(cli: Cli) -> None:
    row = cli("deploy", "cache", "ls").out.splitlines()[1]
    assert time.strftime("%Y-%m-%d") in row


def test_clear_makes_backends_forget_what_they_learned_of_models(cli: Cli, engines: Path) -> None:
    fact = engines.parent / "backends" / "old" / "learned" / f"{'0' * 64}.json"
    fact.parent.mkdir(parents=True)
    fact.write_text("{}")
    ended = cli("deploy", "cache", "clear")
    assert "removed 1 fact that backends had found out" in ended.err
    assert not fact.exists()
    assert data_of(cli, "clear")["facts_removed"] == 0
