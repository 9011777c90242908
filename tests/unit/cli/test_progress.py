"""The one writer of progress, on a terminal and elsewhere."""

import io
import time

import pytest

from subgraphkit.cli.progress import ProgressWriter


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def _slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 40 seconds pass from one look at the clock to the next."""
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_a_line_elsewhere(*, terminal: bool) -> None:
    stream = Stream(terminal=terminal)
    with ProgressWriter("calibrating", stream) as writer:
        writer.progress("calibrating", 1, 4)
    text = stream.getvalue()
    assert ("[#######......................." in text) is terminal
    assert "1 of 4, 120 s left" in text
    assert text.endswith("\r\x1b[K" if terminal else "\n")


def test_words_stand_in_place_of_a_number_of_which_nobody_knows_the_end() -> None:
    stream = Stream(terminal=False)
    with ProgressWriter("searching", stream) as writer:
        writer.progress("searching", 1, message="trial 1: 0 kept")
        writer.progress("searching", 2)
    assert stream.getvalue().splitlines()[1:] == ["searching: trial 1: 0 kept", "searching: 2 done"]


def test_a_phase_that_begins_is_shown_at_once_on_a_terminal_and_not_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    for terminal in (True, False):
        stream = Stream(terminal=terminal)
        with ProgressWriter("partitioning", stream) as writer:
            writer.progress("compiling", 0, 2, "numpy_0")
            writer.progress("compiling", 1, 2, "numpy_1")
        shown = stream.getvalue()
        assert ("partitioning ..." in shown) is terminal
        assert ("0 of 2, numpy_0" in shown) is terminal
        assert "numpy_1" not in shown


def test_work_that_was_cancelled_is_said_to_stop() -> None:
    stream = Stream(terminal=False)
    with ProgressWriter("compiling", stream) as writer:
        writer.progress.cancel()
        writer.progress("compiling", 1, 3)
    assert stream.getvalue().splitlines()[-1] == "compiling: 1 of 3, stopping"


def test_a_terminal_that_takes_no_control_characters_gets_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Stream(terminal=True)
    with ProgressWriter("calibrating", stream) as writer:
        writer.progress("calibrating", 1, 4)
    assert "\x1b" not in stream.getvalue()
