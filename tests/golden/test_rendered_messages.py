"""Error messages, each rendered and compared with the text that was agreed."""

from collections.abc import Mapping
from typing import Any

import pytest

from subgraphkit.errors import CODES, SubgraphkitError
from tests.golden import (
    backend_messages,
    bundle_messages,
    cache_messages,
    comparing_messages,
    partitioning_messages,
    precision_messages,
    running_messages,
    serving_messages,
    spec_messages,
    tensorrt_messages,
)
from tests.golden_support import GOLDEN

TABLES: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    ("SGK10", "SGK11", "SGK190", "SGK191", "SGK223", "SGK224"): backend_messages.MESSAGES,
    ("SGK125", "SGK134", "SGK216"): partitioning_messages.MESSAGES,
    ("SGK138", "SGK139", "SGK149", "SGK196", "SGK197", "SGK198"): running_messages.MESSAGES,
    ("SGK150", "SGK151", "SGK152", "SGK155"): cache_messages.MESSAGES,
    ("SGK156", "SGK157"): tensorrt_messages.MESSAGES,
    ("SGK18",): bundle_messages.MESSAGES,
    ("SGK192", "SGK193", "SGK194", "SGK195"): spec_messages.MESSAGES,
    ("SGK23",): precision_messages.MESSAGES,
    ("SGK32",): comparing_messages.MESSAGES,
    ("SGK34",): serving_messages.MESSAGES,
}
MESSAGES = {name: made for table in TABLES.values() for name, made in table.items()}


def _error_of(made):
    """Return an error that is given, or that what is given raises."""
    if isinstance(made, SubgraphkitError):
        return made
    with pytest.raises(SubgraphkitError) as caught:
        made()
    return caught.value


def _codes(names):
    return {name.partition("_")[0] for name in names}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_reads_as_it_was_agreed(name, golden, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = _error_of(MESSAGES[name])
    assert name.startswith(f"{error.code}_")
    golden(f"messages/{name}", str(error))


@pytest.mark.parametrize("beginnings", TABLES, ids="-".join)
def test_every_code_is_rendered(beginnings):
    codes = {code for code in CODES if code.startswith(beginnings)}
    assert codes <= _codes(TABLES[beginnings])
    assert {code for code in _codes(MESSAGES) if code.startswith(beginnings)} == codes


def test_every_message_has_a_name_and_a_file_of_its_own():
    assert len(MESSAGES) == sum(map(len, TABLES.values()))
    assert {path.stem for path in (GOLDEN / "messages").iterdir()} == set(MESSAGES)
