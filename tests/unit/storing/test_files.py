"""Files that are written whole, and outputs that users ask for."""

import os
import stat
import threading
from pathlib import Path

import pytest

from subgraphkit.storing.files import new_file, write_output, write_whole

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links are those of POSIX")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_for_the_user_alone_and_has_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"one")
    write_whole(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert _mode(tmp_path / "a") == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_what_was_there_stays_if_any_step_fails(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "a", b"one")

    def fail(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path if step == "replace" else os, step, fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "a", b"two")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_file_that_is_to_stay_stays(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"one", replace=False)
    write_whole(tmp_path / "a", b"two", replace=False)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_without_hard_links_a_file_is_put_in_place_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "a", b"one", replace=False)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_whoever_reads_while_others_write_sees_one_whole(tmp_path: Path) -> None:
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


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "far")
    with pytest.raises(FileExistsError), new_file(tmp_path / "a"):
        pass
    assert not (tmp_path / "far").exists()


def test_an_output_has_the_mode_of_new_files_and_keeps_that_of_old_ones(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_output(tmp_path / "new", b"one")
    assert _mode(tmp_path / "new") == _mode(tmp_path / "plain")
    (tmp_path / "shared").write_bytes(b"")
    (tmp_path / "shared").chmod(0o666)
    write_output(tmp_path / "shared", b"one")
    assert _mode(tmp_path / "shared") == 0o666
    assert (tmp_path / "shared").read_bytes() == b"one"


def test_an_output_goes_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_output(tmp_path / "link", b"one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"one"


def test_a_pipe_takes_an_output_and_stays_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_output(tmp_path / "pipe", b"one")
    reader.join()
    assert got == [b"one"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_file_that_cannot_be_replaced_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounted").write_bytes(b"one")

    def busy(*given: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    write_output(tmp_path / "mounted", b"two")
    assert (tmp_path / "mounted").read_bytes() == b"two"
