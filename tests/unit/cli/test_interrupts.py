"""Ctrl-C in a command."""

import time
from importlib import import_module

import pytest

from subgraphkit.cli import interrupts
from tests.interrupting import heard

_STRUCK = "import _thread, time\n_thread.interrupt_main()\ntime.sleep(0)\n"


def _import_struck(name, folder, rest):
    """Import a module that is struck; say when it is imported, and wait for what is to come."""
    (folder / f"{name}.py").write_text(f"{_STRUCK}{rest}\n")
    with heard():
        import_module(name)
        (folder / "imported").touch()
        time.sleep(5)


def test_ctrl_c_waits_for_the_end_of_an_import(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        _import_struck("struck_once", tmp_path, "time.sleep(0.1)")
    assert (tmp_path / "imported").exists()


def test_ctrl_c_ends_an_import_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(interrupts, "_IMPORT_SECONDS", 0.1)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        _import_struck("endless", tmp_path, "while True:\n    time.sleep(0.01)")
    assert not (tmp_path / "imported").exists()
