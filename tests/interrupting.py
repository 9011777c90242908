"""Ctrl-C in the middle of something."""

import _thread
import signal
import threading
import time
from collections.abc import Callable

import pytest


def interrupt(step: Callable[[], object], after: float) -> None:
    """Take a step again and again until Ctrl-C comes.

    Args:
        step: The step.
        after: Seconds from the first step to Ctrl-C.
    """
    started = threading.Event()

    def strike() -> None:
        started.wait()
        time.sleep(after)
        _thread.interrupt_main()

    def go_on_for_ever() -> None:
        started.set()
        while True:
            step()

    # Ctrl-C is ignored in what a shell starts in the background, and so in all tests.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            go_on_for_ever()
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
