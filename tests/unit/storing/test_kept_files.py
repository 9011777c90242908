"""Files of a backend's own: read as written or not at all."""

import logging
import os
import threading
from pathlib import Path

import pytest

from subgraphkit.storing import KeptFile


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "a", "acme timings")
    assert file.read() == b""
    file.write(b"one")
    file.write(b"two", durable=False)
    assert KeptFile(tmp_path / "a", "acme timings").read() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_what_is_of_something_else_or_damaged_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    KeptFile(tmp_path / "a", "acme timings").write(b"one")
    with caplog.at_level(logging.WARNING, "subgraphkit.cache"):
        assert KeptFile(tmp_path / "a", "acme kernels").read() == b""
        data = (tmp_path / "a").read_bytes()
        for damaged in (data[:-1], data + b"x", b"", data[:40], data[:-1] + b"x"):
            (tmp_path / "a").write_bytes(damaged)
            assert KeptFile(tmp_path / "a", "acme timings").read() == b""
    assert caplog.text.count("are damaged and not used") == 6


def test_what_came_with_a_project_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        KeptFile(tmp_path / "a", "acme timings").write(b"planted")
        assert KeptFile(tmp_path / "a", "acme timings").read() == b"planted"
    assert KeptFile(tmp_path / "a", "acme timings").read() == b""


def test_a_file_is_not_read_under_the_name_of_another(tmp_path: Path) -> None:
    KeptFile(tmp_path / "a", "acme timings").write(b"one")
    (tmp_path / "a").rename(tmp_path / "b")
    assert KeptFile(tmp_path / "b", "acme timings").read() == b""


def test_without_a_key_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = KeptFile(tmp_path / "a", "acme timings")
    file.write(b"one")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "subgraphkit").symlink_to(tmp_path / "open")
    with caplog.at_level(logging.INFO, "subgraphkit.cache"):
        assert file.read() == b""
        file.write(b"two")
    assert caplog.text.count("is a symbolic link") == 2


def test_what_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "a", "acme timings")
    file.write(b"one")
    file.path.chmod(0o666)
    assert file.read() == b""
    file.write(b"two")
    assert file.read() == b"two"


def test_without_room_what_was_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = KeptFile(tmp_path / "a", "acme timings")
    file.write(b"one")

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with caplog.at_level(logging.INFO, "subgraphkit.cache"):
        file.write(b"two")
    assert "No space left" in caplog.text
    assert file.read() == b"one"


def test_who_holds_the_lock_loses_nothing_that_others_add(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "a", "acme timings")

    def work() -> None:
        for _ in range(10):
            with file.lock():
                file.write(file.read() + b"x", durable=False)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read() == b"x" * 30
