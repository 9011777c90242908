"""What a new user does wrong, on the command line and in Python: a clear, coded error each."""

import json
import time

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


def test_an_interruption_has_its_own_exit_code(cli, linear, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", interrupt)
    ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")


def test_an_interruption_that_python_drops_strikes_again(cli, linear, monkeypatch):
    class Interrupted:
        def __del__(self):
            raise KeyboardInterrupt

    def drop(*_, **__):
        Interrupted()
        time.sleep(60)

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", drop)
    with heard():
        ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")


def test_an_interruption_that_a_library_takes_for_its_own_fault_is_one(cli, linear, monkeypatch):
    def load(*_, **__):
        error = ImportError("no such library")
        error.__context__ = KeyboardInterrupt()
        raise error

    monkeypatch.setattr("subgraphkit.cli.commands.plan.partition", load)
    ended = cli("plan", linear)
    assert (ended.code, ended.out, ended.err) == (130, "", "error: interrupted\n")
