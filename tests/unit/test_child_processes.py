"""Child processes: what they print is bounded, however long they go on."""

import time
from pathlib import Path

import pytest

from subgraphkit.processes import AnsweringChild, NoAnswer, run_child
from subgraphkit.processes.child_process import KeptEnd

FLOOD = """import sys
print("begun", flush=True)
while True:
    sys.stderr.write("x" * 65536 + "end\\n")
"""
ANSWERS = """import sys
sys.stderr.write("early " * 100_000 + "late\\n")
print("[1]", flush=True)
sys.stdin.read()
"""
OUTLIVED = """import subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]])
sys.stderr.write("said")
"""
WAIT = """import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    (tmp_path / "a_child_of_tests.py").write_text(request.param)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "a_child_of_tests"


@pytest.mark.parametrize("module", [FLOOD], indirect=True)
def test_of_a_child_that_prints_for_ever_the_end_is_kept(module: str) -> None:
    ended = run_child(module, [], 1.0)
    assert (ended.code, ended.answer) == (None, "begun\n")
    assert len(ended.printed) == 1 << 20
    child = AnsweringChild(module)
    with pytest.raises(ValueError, match="Expecting value"):
        child.answer(30.0)  # it never was JSON
    with pytest.raises(NoAnswer):
        child.answer(0.5)
    assert 0 < len(child.printed(100)) <= 100
    child.stop()


@pytest.mark.parametrize("module", [ANSWERS], indirect=True)
def test_what_a_child_printed_before_it_answered_is_there(module: str) -> None:
    child = AnsweringChild(module)
    assert child.answer(30.0) == [1]
    assert child.printed(11) == "early late"
    child.stop()


@pytest.mark.parametrize("module", ['print("[1]")'], indirect=True)
def test_what_a_child_printed_is_there_however_late_it_is_read(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = KeptEnd._read

    def late(end: KeptEnd) -> None:
        time.sleep(0.5)
        read(end)

    monkeypatch.setattr(KeptEnd, "_read", late)
    assert run_child(module, [], 60.0).answer == "[1]\n"


@pytest.mark.parametrize("module", [OUTLIVED], indirect=True)
def test_a_process_that_outlives_a_child_is_not_waited_for(module: str, tmp_path: Path) -> None:
    over = tmp_path / "over"
    ended = run_child(module, [WAIT, str(over)], 60.0)
    over.touch()
    assert (ended.code, ended.printed) == (0, "said")
