"""Files that are written whole, kept, locked, and for the user alone."""

import logging
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from subgraphkit.storing import KeptFile
from subgraphkit.storing.files import locked, new_file, write_output, write_whole
from subgraphkit.storing.folders import kept_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links are those of POSIX")


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_for_the_user_alone_and_has_nothing_beside_it(tmp_path):
    write_whole(tmp_path / "a", b"one")
    write_whole(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert _mode(tmp_path / "a") == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_was_there_stays_if_any_step_fails(step, tmp_path, monkeypatch):
    write_whole(tmp_path / "a", b"one")

    def fail(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path if step == "replace" else os, step, fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "a", b"two")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_file_that_is_to_stay_stays(tmp_path):
    write_whole(tmp_path / "a", b"one", replace=False)
    write_whole(tmp_path / "a", b"two", replace=False)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_without_hard_links_a_file_is_put_in_place_all_the_same(tmp_path, monkeypatch):
    def refuse(*given):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "a", b"one", replace=False)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_whoever_reads_while_others_write_sees_one_whole(tmp_path):
    contents = [bytes([number]) * 50_000 for number in range(4)]
    write_whole(tmp_path / "a", contents[0])
    writers = [
        threading.Thread(
            target=lambda data=data: [
                write_whole(tmp_path / "a", data, durable=False) for _ in range(30)
            ]
        )
        for data in contents
    ]
    for writer in writers:
        writer.start()
    seen = {(tmp_path / "a").read_bytes() for _ in range(200)}
    for writer in writers:
        writer.join()
    assert seen <= set(contents)


def test_a_new_file_replaces_nothing(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "far")
    with pytest.raises(FileExistsError), new_file(tmp_path / "a"):
        pass
    assert not (tmp_path / "far").exists()


def test_an_output_has_the_mode_of_new_files_and_keeps_that_of_old_ones(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_output(tmp_path / "new", b"one")
    assert _mode(tmp_path / "new") == _mode(tmp_path / "plain")
    (tmp_path / "shared").write_bytes(b"")
    (tmp_path / "shared").chmod(0o666)
    write_output(tmp_path / "shared", b"one")
    assert _mode(tmp_path / "shared") == 0o666
    assert (tmp_path / "shared").read_bytes() == b"one"


def test_an_output_goes_where_a_link_leads(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_output(tmp_path / "link", b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"one"


def test_a_pipe_takes_an_output_and_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_output(tmp_path / "pipe", b"one")
    reader.join()
    assert got == [b"one"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_file_that_cannot_be_replaced_is_written(tmp_path, monkeypatch):
    (tmp_path / "mounted").write_bytes(b"one")

    def busy(*given):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    write_output(tmp_path / "mounted", b"two")
    assert (tmp_path / "mounted").read_bytes() == b"two"


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")


def test_it_lies_beside_the_engines_and_is_the_users_alone(tmp_path):
    folder = kept_folder(tmp_path / "cache", "acme")
    assert folder == tmp_path / "cache" / "backends" / "acme"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    folder = kept_folder(tmp_path / "cache", "acme")
    assert folder is not None
    folder.chmod(0o777)
    assert kept_folder(tmp_path / "cache", "acme") is None


pytest.importorskip("fcntl", reason="this system has no forks and no links")


def test_who_holds_a_lock_already_waits_for_it_no_longer_than_the_timeout(tmp_path):
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


def test_a_forked_child_that_leaves_the_block_frees_nothing(tmp_path):
    told: list[str] = []
    child = 1
    with locked(tmp_path / "a.lock", 5):
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0
            with locked(tmp_path / "a.lock", 0, lambda: told.append("still held")):
                pass
    if not child:
        os._exit(0)
    assert told == ["still held"]


def test_the_child_of_a_holder_that_died_does_not_hold_the_lock(tmp_path):
    (reader, writer), (begun, tell) = os.pipe(), os.pipe()
    holder = os.fork()
    if not holder:
        with locked(tmp_path / "a.lock", 5):
            if not os.fork():
                os.write(tell, b"x")
                os.read(reader, 1)
            os._exit(0)
    os.waitpid(holder, 0)
    os.read(begun, 1)
    told: list[str] = []
    with locked(tmp_path / "a.lock", 5, lambda: told.append("waiting")):
        pass
    os.write(writer, b"x")
    for one in (reader, writer, begun, tell):
        os.close(one)
    assert told == []


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "a.lock").symlink_to(tmp_path / "far")
    with locked(tmp_path / "a.lock", 5):
        assert not (tmp_path / "far").exists()
    assert (tmp_path / "a.lock").is_symlink()


def test_what_is_written_is_read(tmp_path):
    file = KeptFile(tmp_path / "a", "acme timings")
    assert file.read() == b""
    file.write(b"one")
    file.write(b"two", durable=False)
    assert KeptFile(tmp_path / "a", "acme timings").read() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_what_is_of_something_else_or_damaged_is_not_read(tmp_path, caplog):
    KeptFile(tmp_path / "a", "acme timings").write(b"one")
    with caplog.at_level(logging.WARNING, "subgraphkit.cache"):
        assert KeptFile(tmp_path / "a", "acme kernels").read() == b""
        data = (tmp_path / "a").read_bytes()
        for damaged in (data[:-1], data + b"x", b"", data[:40], data[:-1] + b"x"):
            (tmp_path / "a").write_bytes(damaged)
            assert KeptFile(tmp_path / "a", "acme timings").read() == b""
    assert caplog.text.count("are damaged and not used") == 6


def test_what_came_with_a_project_is_not_read(tmp_path, monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
        KeptFile(tmp_path / "a", "acme timings").write(b"planted")
        assert KeptFile(tmp_path / "a", "acme timings").read() == b"planted"
    assert KeptFile(tmp_path / "a", "acme timings").read() == b""


def test_a_file_is_not_read_under_the_name_of_another(tmp_path):
    KeptFile(tmp_path / "a", "acme timings").write(b"one")
    (tmp_path / "a").rename(tmp_path / "b")
    assert KeptFile(tmp_path / "b", "acme timings").read() == b""


def test_without_a_key_nothing_is_kept(tmp_path, monkeypatch, caplog):
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


def test_what_others_could_have_written_is_not_read(tmp_path):
    file = KeptFile(tmp_path / "a", "acme timings")
    file.write(b"one")
    file.path.chmod(0o666)
    assert file.read() == b""
    file.write(b"two")
    assert file.read() == b"two"


def test_without_room_what_was_there_stays(tmp_path, monkeypatch, caplog):
    file = KeptFile(tmp_path / "a", "acme timings")
    file.write(b"one")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with caplog.at_level(logging.INFO, "subgraphkit.cache"):
        file.write(b"two")
    assert "No space left" in caplog.text
    assert file.read() == b"one"


def test_who_holds_the_lock_loses_nothing_that_others_add(tmp_path):
    file = KeptFile(tmp_path / "a", "acme timings")

    def add(one):
        with file.lock():
            file.write(file.read() + one, durable=False)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add, [b"x"] * 30))
    assert file.read() == b"x" * 30
