"""Ctrl-C in a command."""

import time
from importlib import import_module

import pytest

from subgraphkit.cli import interrupts
from tests.interrupting import heard


@pytest.mark.parametrize("seconds", [0.1, 60])
def test_ctrl_c_waits_for_the_end_of_an_import_for_a_while(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(interrupts, "_IMPORT_SECONDS", 1.0)
    monkeypatch.syspath_prepend(tmp_path)
    module, imported = tmp_path / f"struck_{seconds:.0f}.py", []
    module.write_text(f"import _thread, time\n_thread.interrupt_main()\ntime.sleep({seconds})\n")

    def import_and_wait():
        with heard():
            imported.append(import_module(module.stem))
            time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        import_and_wait()
    assert bool(imported) == (seconds < 1)
