"""The cache does not grow forever: the engine least recently used goes first."""

import os
import time
from pathlib import Path

from subgraphkit.compiling.caching.store import EngineStore
from subgraphkit.storing.files import claimed
from tests.storing import storing
from tests.unit.compiling.conftest import LINEAR, run


def numbered(number: int) -> str:
    return LINEAR.replace("{10, -20}", f"{{{number}, 2}}")


def age(engines: Path, seconds: float) -> None:
    for path in engines.glob("*.json"):
        moment = path.stat().st_mtime - seconds
        os.utime(path, (moment, moment))


def test_the_engine_least_recently_used_goes_first(engines: Path) -> None:
    for number in range(3):
        run(storing(), numbered(number))
        age(engines, 10)
    run(storing(), numbered(0))  # used again, so it is younger than the other two
    size = sum(entry.size for entry in EngineStore.open(None).entries())
    run(storing(), numbered(3), cache_size=size + 100)  # they differ by a few bytes
    survivors = []
    for number in range(4):
        backend = storing()
        run(backend, numbered(number))
        survivors += [number] if not backend.compilations else []
    assert survivors == [0, 2, 3]


def test_an_engine_larger_than_the_limit_is_not_kept(engines: Path) -> None:
    run(storing(), cache_size=10)
    assert list(engines.iterdir()) == []


def test_what_killed_writers_left_goes_once_it_is_old(engines: Path) -> None:
    run(storing())
    digest = "0" * 64
    left = [engines / f"{digest}.engine", engines / f"{digest}.lock"]
    left.append(engines / f".{digest}.{'1' * 16}.part")
    strange = engines / "notes.txt"
    for path in (*left, strange):
        path.write_text("x")
    run(storing(), numbered(1))
    assert all(path.exists() for path in left)
    for path in (*left, strange):
        os.utime(path, (time.time() - 7200,) * 2)
    run(storing(), numbered(2))
    assert [path.exists() for path in (*left, strange)] == [False, False, False, True]


def test_what_is_being_written_counts_and_goes_with_its_writer(engines: Path) -> None:
    run(storing())
    store = EngineStore.open(None)
    (one,) = store.entries()
    part = engines / f".subgraphkit-{'1' * 16}.part"
    part.write_bytes(b"x" * 1000)
    with claimed(part):
        assert store.shrink(10_000, keep=one.digest) == 10_000 - one.size - 1000
        assert part.exists()
    assert store.shrink(10_000, keep=one.digest) == 10_000 - one.size
    assert not part.exists()
