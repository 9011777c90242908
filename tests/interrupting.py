"""Ctrl-C in the middle of something."""

import _thread
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from subgraphkit.cli import interrupts


def interrupt(step: Callable[[], object], after: float) -> None:
    """Take a step again and again until Ctrl-C comes."""
    started = threading.Event()

    def strike() -> None:
        started.wait()
        time.sleep(after)
        _thread.interrupt_main()

    def go_on_for_ever() -> None:
        started.set()
        while True:
            step()

    thread = threading.Thread(target=strike)
    with heard():
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            go_on_for_ever()
        thread.join()


@contextmanager
def heard() -> Iterator[None]:
    """Let Ctrl-C through as in a command; what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupts.hear_interrupts():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
