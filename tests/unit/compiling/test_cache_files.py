"""What lies in the folder of the cache: damaged, too large, or written by others."""

import errno
import os
import random
import shutil
import stat
import time

import numpy as np
import pytest

from subgraphkit.compiling.caching.store import EngineStore
from subgraphkit.errors import SubgraphkitWarning
from subgraphkit.storing.files import claim_path
from tests.storing import failing_once, storing
from tests.unit.compiling.cache_checks import (
    EXPECTED,
    OTHER,
    assert_compiled_again,
    refused,
    the_entry,
)
from tests.unit.compiling.conftest import LINEAR, run


def test_no_bit_of_an_entry_can_be_flipped_unnoticed(engines):
    run(storing())
    chance = random.Random(0)
    for path in the_entry(engines):
        sound = path.read_bytes()
        for place in chance.sample(range(len(sound)), min(40, len(sound))):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << chance.randrange(8)
            path.write_bytes(damaged)
            backend = storing()
            _, results = run(backend)
            np.testing.assert_array_equal(results[0], EXPECTED)
            # A changed blank is the one thing that leaves a description what it was.
            assert backend.compilations == 1 or sound[place : place + 1].isspace(), place


@pytest.mark.parametrize("which", ["engine", "json"])
@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
def test_a_file_cut_short_is_compiled_again(engines, which, left):
    run(storing())
    (path,) = engines.glob(f"*.{which}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * left) if 0 < left < 1 else int(left)])
    if which == "json" and left == -1:  # the line's end alone
        path.write_bytes(whole[:-2])
    assert_compiled_again(engines)


@pytest.mark.parametrize("which", ["engine", "json"])
def test_a_file_that_is_missing_or_longer_is_compiled_again(engines, which):
    run(storing())
    (path,) = engines.glob(f"*.{which}")
    path.write_bytes(path.read_bytes() + b"x")
    assert_compiled_again(engines)
    path.unlink()
    assert_compiled_again(engines)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": 1}', "[" * 100_000, "\0" * 9])
def test_what_is_no_description_is_compiled_again(engines, text):
    run(storing())
    the_entry(engines)[1].write_text(text)
    assert_compiled_again(engines)


def test_entries_that_were_swapped_or_copied_are_not_used(engines):
    run(storing())
    first = the_entry(engines)
    run(storing(), OTHER)
    second = [path for path in engines.iterdir() if path not in first]
    for ours, theirs in zip(sorted(first), sorted(second), strict=True):
        kept = ours.read_bytes()
        shutil.copyfile(theirs, ours)
        theirs.write_bytes(kept)
    assert_compiled_again(engines)


def numbered(number):
    return LINEAR.replace("{10, -20}", f"{{{number}, 2}}")


def age(engines, seconds):
    for path in engines.glob("*.json"):
        moment = path.stat().st_mtime - seconds
        os.utime(path, (moment, moment))


def test_the_engine_least_recently_used_goes_first(engines):
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


def test_an_engine_larger_than_the_limit_is_not_kept(engines):
    run(storing(), cache_size=10)
    assert list(engines.iterdir()) == []


def test_what_killed_writers_left_goes_once_it_is_old(engines):
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


def test_what_is_being_written_counts_and_goes_with_its_writer(engines):
    run(storing())
    store = EngineStore.open(None)
    (one,) = store.entries()
    part = engines / f".subgraphkit-{'1' * 16}.part"
    part.write_bytes(b"x" * 1000)
    with claim_path(part):
        assert store.shrink(10_000, keep=one.digest) == 10_000 - one.size - 1000
        assert part.exists()
    assert store.shrink(10_000, keep=one.digest) == 10_000 - one.size
    assert not part.exists()


# -- trust ---------------------------------------------------------------------------------------


def test_folder_and_key_are_for_the_user_alone(engines, home):
    run(storing())
    key = home / "state" / "subgraphkit" / "engine-cache.key"
    assert stat.S_IMODE(engines.stat().st_mode) == 0o700
    assert stat.S_IMODE(engines.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in engines.iterdir()} == {0o600}


def test_engines_signed_with_another_key_are_compiled_again(home, engines):
    run(storing())
    (home / "state" / "subgraphkit" / "engine-cache.key").unlink()
    assert_compiled_again(engines)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(engines, mode):
    run(storing())
    for folder in (engines, engines.parent):
        folder.chmod(mode)
        refused(r"SGK150.*can be written by others[\s\S]*chmod go-w")
        folder.chmod(0o700)


def test_a_folder_of_another_user_is_not_used(engines, monkeypatch):
    run(storing())
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    refused(rf"SGK150.*belongs to user {uid} and you are user {uid + 1}[\s\S]*chown -R")


def test_links_are_not_followed(engines, home):
    run(storing())
    for path in (engines, engines.parent):
        path.rename(home / "elsewhere")
        path.symlink_to(home / "elsewhere")
        refused(r"SGK150.*is a symbolic link")
        path.unlink()
        (home / "elsewhere").rename(path)
    for path in the_entry(engines):
        path.rename(home / "elsewhere")
        path.symlink_to(home / "elsewhere")
        assert_compiled_again(engines)
        (home / "elsewhere").unlink()


@pytest.mark.parametrize("problem", ["mode", "short", "long", "empty", "link"])
def test_a_key_that_others_could_know_or_have_made_is_not_used(home, problem):
    run(storing())
    key = home / "state" / "subgraphkit" / "engine-cache.key"
    if problem == "mode":
        key.chmod(0o644)
    elif problem == "link":
        key.rename(home / "key")
        key.symlink_to(home / "key")
    else:
        key.write_bytes({"short": b"1" * 31, "long": b"1" * 33, "empty": b""}[problem])
    refused("SGK15[01]")


# -- a disk that does not do as it is told -------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("call", range(4))
def test_a_disk_that_fails_costs_one_warning_and_nothing_else(engines, monkeypatch, code, call):
    run(storing(), OTHER)  # folder and key are there
    before = sorted(engines.iterdir())
    monkeypatch.setattr(os, "fsync", failing_once(os.fsync, code, call))
    backend = storing()
    if call in {0, 2}:  # the flushes of engine and description; those of the folder may fail
        with pytest.warns(SubgraphkitWarning, match=r"SGK151.*cannot write to") as heard:
            _, results = run(backend)
        assert len(heard) == 1
        assert not list(engines.glob(".*.part"))
        assert len(EngineStore.open(None).entries()) == len(before) // 2
    else:
        _, results = run(backend)
    np.testing.assert_array_equal(results[0], EXPECTED)


def test_a_folder_that_can_only_be_read_still_gives_its_engines(monkeypatch):
    run(storing())
    real = os.open

    def read_only(path, flags, mode=0o777, **others):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, mode, **others)

    monkeypatch.setattr(os, "open", read_only)
    backend = storing()
    run(backend)
    assert (backend.compilations, backend.restorations) == (0, 1)
    with pytest.warns(SubgraphkitWarning, match="SGK151") as heard:
        run(backend, OTHER)
    assert len(heard) == 1


def test_a_cache_dir_that_is_a_file_is_told_once(home):
    (home / "file").write_text("")
    for cache_dir in (home / "file", home / "file" / "below"):
        with pytest.warns(SubgraphkitWarning, match="SGK151") as heard:
            _, results = run(storing(), cache_dir=cache_dir)
        assert len(heard) == 1
        np.testing.assert_array_equal(results[0], EXPECTED)


# -- where it lies -------------------------------------------------------------------------------


def test_without_a_home_there_is_no_cache(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "")

    def homeless(user):
        raise KeyError(user)

    monkeypatch.setattr("pwd.getpwuid", homeless)
    with pytest.warns(SubgraphkitWarning, match=r"SGK151.*home directory"):
        run(storing())
