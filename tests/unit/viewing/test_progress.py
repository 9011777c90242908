"""The displays of progress: on a terminal and elsewhere, and in a log."""

import io
import logging
import sys
import threading
import time

import pytest

from subgraphkit.backend import Progress, ProgressEvent
from subgraphkit.viewing.progress import show_progress


class Stream(io.StringIO):
    def __init__(self, *, terminal=False):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def passing(monkeypatch):
    """Return what lets time pass, which stands still otherwise."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")

    def let_pass(seconds):
        now[0] += seconds

    return let_pass


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_a_line_elsewhere(passing, *, terminal):
    stream = Stream(terminal=terminal)
    with show_progress("auto", stream) as progress:
        progress("calibrating", 0)
        passing(40)
        progress("calibrating", 1, 4)
    text = stream.getvalue()
    assert ("[#######......................." in text) is terminal
    assert "1 of 4, 40 s, 120 s left" in text
    assert text.endswith("\r\x1b[K" if terminal else "\n")
    progress("calibrating", 2, 4)  # an operator may keep on reporting
    assert stream.getvalue() == text


def test_what_others_print_takes_the_place_of_the_bar(monkeypatch, passing):
    stream = Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress("auto") as progress:
        progress("compiling", 0)
        passing(40)
        progress("compiling", 1, 4)
        sys.stderr.write("a warning\n")
    assert "\r\x1b[Ka warning\n" in stream.getvalue()
    assert sys.stderr is stream


@pytest.mark.parametrize(("columns", "bar"), [(120, 30), (60, 25), (38, 0)])
def test_a_bar_is_as_wide_as_its_line_has_room_for(monkeypatch, passing, columns, bar):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Stream(terminal=True)
    with show_progress("auto", stream) as progress:
        passing(1)
        progress("compiling", 0, 1, message="tvm_0 on tvm")
    drawn = f"[{'.' * bar}] " if bar else ""
    assert f"compiling: {drawn}0 of 1, tvm_0 on tvm\r" in stream.getvalue()


def test_a_phase_that_begins_is_shown_at_once_on_a_terminal_and_not_elsewhere(passing):
    del passing
    for terminal in (True, False):
        stream = Stream(terminal=terminal)
        with show_progress("auto", stream) as progress:
            progress("partitioning", 0)
            part = Progress(None, progress, subgraph="numpy_0", backend="numpy")
            part("compiling", 0, 2, "numpy_0")
            part("compiling", 1, 2, "numpy_1")
        text = stream.getvalue()
        assert ("partitioning ..." in text) is terminal
        assert ("0 of 2, numpy_0 on numpy" in text) is terminal
        assert "numpy_1" not in text


def test_work_that_was_cancelled_is_said_to_stop(passing):
    stream = Stream()
    with show_progress("auto", stream) as progress:
        progress.cancel()
        passing(10)
        progress("compiling", 1, 3)
    assert stream.getvalue().splitlines()[-1] == "compiling: 1 of 3, stopping"


def test_the_log_gets_a_line_every_ten_seconds(passing, caplog):
    with caplog.at_level(logging.INFO, "subgraphkit.progress"), show_progress("log") as progress:
        for done in range(5):
            progress("calibrating", done, 8)
            passing(6)
    assert caplog.messages == [
        "calibrating: 2 of 8, 12 s, 36 s left",
        "calibrating: 4 of 8, 24 s, 24 s left",
    ]


@pytest.fixture
def quick_heart(monkeypatch):
    monkeypatch.setattr("subgraphkit.backend.progress._BEAT_SECONDS", 0.01)
    yield
    assert not [one for one in threading.enumerate() if "heartbeat" in one.name]


@pytest.mark.usefixtures("quick_heart")
def test_the_last_event_is_told_again_while_a_library_tells_nothing():
    told: list[ProgressEvent] = []
    enough = threading.Event()

    def listen(event):
        told.append(event)
        if len(told) > 3:
            enough.set()

    with show_progress(listen) as progress:
        progress("compiling", 0, 1, "tvm_0")
        assert enough.wait(30)
    assert set(map(repr, told)) > {repr(told[0])}  # the time passes
    assert all(one == told[0] for one in told)
    seconds = [one.seconds for one in told]
    assert seconds == sorted(seconds)


@pytest.mark.usefixtures("quick_heart")
def test_a_listener_that_fails_between_two_steps_stops_the_work():
    def listen(event):
        if event.seconds:
            raise RuntimeError("full")

    with show_progress(listen) as progress:
        progress("compiling", 0, 1)
        while not progress.cancelled:
            time.sleep(0.01)
        with pytest.raises(RuntimeError, match="full"):
            progress.check()
