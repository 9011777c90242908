"""Nothing that was changed, cut or swapped on disk is ever used."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.storing import storing
from tests.unit.compiling.cache_checks import EXPECTED, OTHER, assert_compiled_again, the_entry
from tests.unit.compiling.conftest import run


def test_no_bit_of_an_entry_can_be_flipped_unnoticed(engines: Path) -> None:
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
def test_a_file_cut_short_is_compiled_again(engines: Path, which: str, left: float) -> None:
    run(storing())
    (path,) = engines.glob(f"*.{which}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * left) if 0 < left < 1 else int(left)])
    if which == "json" and left == -1:  # the line's end alone
        path.write_bytes(whole[:-2])
    assert_compiled_again(engines)


@pytest.mark.parametrize("which", ["engine", "json"])
def test_a_file_that_is_missing_or_longer_is_compiled_again(engines: Path, which: str) -> None:
    run(storing())
    (path,) = engines.glob(f"*.{which}")
    path.write_bytes(path.read_bytes() + b"x")
    assert_compiled_again(engines)
    path.unlink()
    assert_compiled_again(engines)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"schema": 1}', "[" * 100_000, "\0" * 9])
def test_what_is_no_description_is_compiled_again(engines: Path, text: str) -> None:
    run(storing())
    the_entry(engines)[1].write_text(text)
    assert_compiled_again(engines)


def test_entries_that_were_swapped_or_copied_are_not_used(engines: Path) -> None:
    run(storing())
    first = the_entry(engines)
    run(storing(), OTHER)
    second = [path for path in engines.iterdir() if path not in first]
    for ours, theirs in zip(sorted(first), sorted(second), strict=True):
        kept = ours.read_bytes()
        shutil.copyfile(theirs, ours)
        theirs.write_bytes(kept)
    assert_compiled_again(engines)
