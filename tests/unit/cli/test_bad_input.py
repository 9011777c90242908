"""What a new user does wrong, on the command line and in Python: a clear, coded error each."""

import json
import time
from contextlib import nullcontext

import pytest

from tests.interrupting import heard


def test_a_backend_whose_import_raises_is_told_when_it_is_named(new_process, install, linear):
    install("broken", "raise ImportError('libvendor.so.4 is missing')")
    ended = new_process("run", linear, "--backend", "broken,numpy")
    assert (ended.code, ended.out) == (3, "")
    assert "[SGK103]" in ended.err
    assert "ImportError: libvendor.so.4 is missing" in ended.err
    assert "Traceback" not in ended.err
    assert "Traceback" in new_process("run", linear, "--backend", "broken", "--debug").err
    assert new_process("run", linear, "--backend", "broken?,numpy").code == 0
    assert new_process("run", linear).code == 0


def test_a_bug_is_told_as_a_bug(cli, linear, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", fail)
    ended = cli("plan", linear, "--json")
    assert ended.code == 70
    assert json.loads(ended.out)["errors"][0]["code"] == "SGK900"
    assert "[SGK900] ZeroDivisionError: unexpected" in ended.err
    assert "--debug" in ended.err
    assert "Traceback" in cli("plan", linear, "--debug").err


class _Interrupted:
    def __del__(self):
        raise KeyboardInterrupt


def _interrupted(*_, **__):
    raise KeyboardInterrupt


def _dropped_by_python(*_, **__):
    _Interrupted()
    time.sleep(60)


def _taken_for_a_fault_of_a_library(*_, **__):
    error = ImportError("no such library")
    error.__context__ = KeyboardInterrupt()
    raise error


@pytest.mark.parametrize(
    "work", [_interrupted, _dropped_by_python, _taken_for_a_fault_of_a_library]
)
def test_an_interruption_has_its_own_exit_code_however_it_comes(work, cli, linear, monkeypatch):
    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", work)
    with heard() if work is _dropped_by_python else nullcontext():
        ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")
