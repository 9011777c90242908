"""Locks beyond those of the engine cache: forks, links, and who holds one already."""

import os
import time
from pathlib import Path

import pytest

from subgraphkit.storing.files import locked

pytest.importorskip("fcntl", reason="this system has no forks and no links")


def test_who_holds_a_lock_already_waits_for_it_no_longer_than_the_timeout(tmp_path: Path) -> None:
    told: list[str] = []
    with locked(tmp_path / "a.lock", 5):
        started = time.monotonic()
        with locked(tmp_path / "a.lock", 0.2, lambda: told.append("waiting")):
            assert 0.2 <= time.monotonic() - started < 4
        assert (tmp_path / "a.lock").exists()
        with locked(tmp_path / "a.lock", 0, lambda: told.append("still held")):
            pass
    assert told == ["waiting", "still held"]
    assert not (tmp_path / "a.lock").exists()


def test_a_forked_child_that_leaves_the_block_frees_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    child = 1
    with locked(tmp_path / "a.lock", 5):
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            with locked(tmp_path / "a.lock", 0, lambda: told.append("still held")):
                pass
    if not child:
        os._exit(0)
    assert told == ["still held"]


def test_the_child_of_a_holder_that_died_does_not_hold_the_lock(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    holder = os.fork()
    if not holder:
        with locked(tmp_path / "a.lock", 5):
            if not os.fork():
                os.read(reader, 1)
            os._exit(0)
    os.waitpid(holder, 0)
    told: list[str] = []
    with locked(tmp_path / "a.lock", 5, lambda: told.append("waiting")):
        assert told == []
    os.write(writer, b"x")
    os.close(writer)
    os.close(reader)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "far")
    with locked(tmp_path / "a.lock", 5):
        assert not (tmp_path / "far").exists()
    assert (tmp_path / "a.lock").is_symlink()
